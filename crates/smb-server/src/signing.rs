//! What is known about a frame's protection (MS-SMB2 3.3.5.2.1, 3.3.5.2.4).

use std::sync::Arc;

use smb_wire::smb2::{Command, Flags, HEADER_BYTES, Header};

use crate::connection::Inner;
use crate::session::Session;

/// How a frame arrived.
#[derive(Clone, Default)]
pub struct Arrival {
    /// The session whose key opened it, if it was encrypted.
    pub sealed_by: Option<Arc<Session>>,
    /// When it was whole, in nanoseconds.
    pub at_ns: u64,
}

impl Arrival {
    /// In the clear, at `at_ns`.
    pub fn at(at_ns: u64) -> Self {
        Self { sealed_by: None, at_ns }
    }

    /// Whether it was encrypted.
    pub fn is_sealed(&self) -> bool {
        self.sealed_by.is_some()
    }
}

/// What a request's signature is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature {
    /// It has none, or its session has no key here.
    Absent,
    /// It is the session's.
    Good,
    /// It is not.
    Bad,
}

/// The headers of a frame's messages, each with where it begins and ends. Stops where the compound does not add up; the
/// dispatcher finds that out again and says so.
pub fn elements(frame: &[u8]) -> impl Iterator<Item = (Header, std::ops::Range<usize>)> {
    let mut at = Some(0);
    std::iter::from_fn(move || {
        let start = at?;
        let rest = frame.get(start..)?;
        let header = Header::decode(rest).ok()?;
        let next = header.next_command as usize;
        let end = if next < HEADER_BYTES { frame.len() } else { start + next };
        at = (next >= HEADER_BYTES && end < frame.len()).then_some(end);
        Some((header, start..end.min(frame.len())))
    })
}

/// Whether any message of `frame` says it is signed.
pub fn any_signed(frame: &[u8]) -> bool {
    elements(frame).any(|(header, _)| header.flags.contains(Flags::SIGNED))
}

/// Checks every signature of `frame`, in place and restoring it. One result for each message.
pub fn check_signatures(conn: &Inner, frame: &mut [u8]) -> Vec<Signature> {
    let found: Vec<_> = elements(frame).collect();
    let mut session_id = 0;
    let mut check = |(header, range): (Header, std::ops::Range<usize>)| {
        // A CANCEL is no link of a related chain: the dispatcher passes over it, and what follows belongs to what was before.
        if !header.flags.contains(Flags::RELATED) && header.command != Command::Cancel as u16 {
            session_id = header.session_id;
        }
        if !header.flags.contains(Flags::SIGNED) {
            return Signature::Absent;
        }
        match (conn.verifier(session_id), frame.get_mut(range)) {
            (Some(key), Some(message)) => {
                if key.verify(message) {
                    Signature::Good
                } else {
                    Signature::Bad
                }
            }
            (Some(_), None) => Signature::Bad,
            (None, _) => Signature::Absent,
        }
    };
    found.into_iter().map(&mut check).collect()
}
