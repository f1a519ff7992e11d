//! A context: messages signed and sealed under the key both ends have (RFC 4121 4.2). Used from many threads at once.
//! Whether a message was here before its caller must know: RPCSEC_GSS numbers its calls itself (RFC 2203 5.2.2).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::etype::Key;
use super::seal::{Confounder, Sealing, Signing};

/// The header of a token.
const HEADER: usize = 16;

const MIC: [u8; 2] = [4, 4];
const WRAP: [u8; 2] = [5, 4];

const SENT_BY_ACCEPTOR: u8 = 1;
const SEALED: u8 = 2;
const ACCEPTOR_SUBKEY: u8 = 4;

/// Key usages (RFC 4121 2).
const ACCEPTOR_SEAL: u32 = 22;
const ACCEPTOR_SIGN: u32 = 23;
const INITIATOR_SEAL: u32 = 24;
const INITIATOR_SIGN: u32 = 25;

/// A token that is not the peer's, or was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token is not the peer's, or was changed")]
pub struct BadToken;

/// Which end this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Acceptor,
    Initiator,
}

/// One end of a context.
pub struct Context {
    flags: u8,
    own: Keys,
    peer: Keys,
    next: AtomicU64,
}

/// The keys of one direction.
struct Keys {
    sign: Signing,
    seal: Sealing,
    /// For what is wrapped and not sealed.
    sign_wrapped: Signing,
}

/// What was wrapped.
pub struct Unwrapped {
    bytes: Vec<u8>,
    range: std::ops::Range<usize>,
    /// It was encrypted too.
    pub sealed: bool,
}

impl std::ops::Deref for Unwrapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }
}

impl Keys {
    fn new(key: &Key, side: Side) -> Self {
        let (sign, seal) = match side {
            Side::Acceptor => (ACCEPTOR_SIGN, ACCEPTOR_SEAL),
            Side::Initiator => (INITIATOR_SIGN, INITIATOR_SEAL),
        };
        Self { sign: Signing::new(key, sign), seal: Sealing::new(key, seal), sign_wrapped: Signing::new(key, seal) }
    }
}

impl Context {
    /// The end of `side` of a context under `key`, which is the acceptor's subkey or not. Its tokens are numbered from
    /// `sequence` on.
    pub(super) fn new(side: Side, key: &Key, acceptor_subkey: bool, sequence: u32) -> Self {
        let other = if side == Side::Acceptor { Side::Initiator } else { Side::Acceptor };
        let subkey = if acceptor_subkey { ACCEPTOR_SUBKEY } else { 0 };
        let sender = if side == Side::Acceptor { SENT_BY_ACCEPTOR } else { 0 };
        Self {
            flags: sender | subkey,
            own: Keys::new(key, side),
            peer: Keys::new(key, other),
            next: AtomicU64::new(sequence.into()),
        }
    }

    /// A signature over the parts, one after the other (RFC 4121 4.2.6.1).
    pub fn sign(&self, parts: &[&[u8]]) -> Vec<u8> {
        let mut header = [0xff; HEADER];
        self.begin(&mut header, MIC, 0);
        let tag = with_header(parts, &header, |parts| self.own.sign.sign(parts));
        [&header[..], &tag].concat()
    }

    /// Looks whether `token` is the peer's signature over the parts.
    pub fn verify(&self, parts: &[&[u8]], token: &[u8]) -> Result<(), BadToken> {
        let (header, tag) = token.split_first_chunk::<HEADER>().ok_or(BadToken)?;
        self.check(header, MIC)?;
        if header.get(3..8) != Some(&[0xff; 5]) {
            return Err(BadToken);
        }
        let good = with_header(parts, header, |parts| self.peer.sign.verify(parts, tag));
        if good { Ok(()) } else { Err(BadToken) }
    }

    /// How much longer what is sealed becomes.
    pub fn sealing_overhead(&self) -> usize {
        2 * HEADER + self.own.seal.overhead()
    }

    /// Appends the parts, sealed (RFC 4121 4.2.4). `confounder` is of chance.
    pub fn seal(&self, parts: &[&[u8]], confounder: Confounder, out: &mut Vec<u8>) {
        let mut header = [0; HEADER];
        self.begin(&mut header, WRAP, SEALED);
        out.extend_from_slice(&header);
        with_header(parts, &header, |parts| self.own.seal.seal(confounder, parts, out));
    }

    /// Takes what the peer wrapped out again, sealed or only signed.
    pub fn unwrap(&self, token: &[u8]) -> Result<Unwrapped, BadToken> {
        let (header, body) = token.split_first_chunk::<HEADER>().ok_or(BadToken)?;
        self.check(header, WRAP)?;
        let [_, _, flags, filler, e0, e1, r0, r1, number @ ..] = *header;
        if filler != 0xff || body.is_empty() {
            return Err(BadToken);
        }
        let (extra, turned) = (u16::from_be_bytes([e0, e1]), u16::from_be_bytes([r0, r1]));
        let mut bytes = body.to_vec();
        bytes.rotate_left(usize::from(turned) % body.len());
        let sealed = flags & SEALED != 0;
        let range =
            if sealed { self.unseal(&mut bytes, header, extra) } else { self.unsign(&bytes, flags, extra, number) };
        Ok(Unwrapped { range: range?, bytes, sealed })
    }

    fn unseal(&self, bytes: &mut [u8], header: &[u8; HEADER], extra: u16) -> Result<std::ops::Range<usize>, BadToken> {
        let range = self.peer.seal.open(bytes).map_err(|_| BadToken)?;
        let plain = bytes.get(range.clone()).ok_or(BadToken)?;
        // Behind the message and its filling is the header once more, as it was before it was turned.
        let end = plain.len().checked_sub(HEADER).ok_or(BadToken)?;
        let inner = plain.get(end..).and_then(|inner| inner.first_chunk::<HEADER>()).ok_or(BadToken)?;
        let mut straight = *header;
        [straight[6], straight[7]] = [0, 0];
        let end = end.checked_sub(extra.into()).ok_or(BadToken)?;
        if *inner != straight {
            return Err(BadToken);
        }
        Ok(range.start..range.start + end)
    }

    fn unsign(&self, bytes: &[u8], flags: u8, extra: u16, number: [u8; 8]) -> Result<std::ops::Range<usize>, BadToken> {
        let end = bytes.len().checked_sub(extra.into()).ok_or(BadToken)?;
        let (plain, tag) = bytes.split_at_checked(end).ok_or(BadToken)?;
        let mut header = [0; HEADER];
        put_header(&mut header, WRAP, flags, number);
        if !self.peer.sign_wrapped.verify(&[plain, &header], tag) {
            return Err(BadToken);
        }
        Ok(0..end)
    }

    fn begin(&self, header: &mut [u8; HEADER], kind: [u8; 2], flags: u8) {
        put_header(header, kind, self.flags | flags, self.next.fetch_add(1, Relaxed).to_be_bytes());
    }

    /// Whether it is a token of that kind, of the other end and under the key agreed on.
    fn check(&self, header: &[u8; HEADER], kind: [u8; 2]) -> Result<(), BadToken> {
        let [first, second, flags, ..] = *header;
        let wanted = (self.flags ^ SENT_BY_ACCEPTOR) & (SENT_BY_ACCEPTOR | ACCEPTOR_SUBKEY);
        let fits = [first, second] == kind && flags & (SENT_BY_ACCEPTOR | ACCEPTOR_SUBKEY) == wanted;
        if fits { Ok(()) } else { Err(BadToken) }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("flags", &self.flags).finish_non_exhaustive()
    }
}

fn put_header(header: &mut [u8; HEADER], kind: [u8; 2], flags: u8, number: [u8; 8]) {
    let [k0, k1, f, filler, .., n0, n1, n2, n3, n4, n5, n6, n7] = header;
    (*k0, *k1, *f, *filler) = (kind[0], kind[1], flags, 0xff);
    for (to, from) in [n0, n1, n2, n3, n4, n5, n6, n7].into_iter().zip(number) {
        *to = from;
    }
}

/// The parts with the header behind them: there are few.
fn with_header<T>(parts: &[&[u8]], header: &[u8; HEADER], run: impl FnOnce(&[&[u8]]) -> T) -> T {
    let mut all = Vec::with_capacity(parts.len() + 1);
    all.extend_from_slice(parts);
    all.push(header);
    run(&all)
}
