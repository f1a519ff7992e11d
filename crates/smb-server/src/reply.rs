//! The reply to one frame, built in place: a pooled buffer with room in front for encryption and framing, and one
//! response after the other behind it.

use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::crypto::SigningKey;
use smb_wire::smb2::{
    Flags, HEADER_BYTES, Header, put_error, put_error_data, put_error_symlink_like, set_next_command,
};
use vfs::{Buf, BufPool, PagePipe, Reply};

use crate::failure::Failure;
use crate::session::Session;

/// The direct-TCP prefix: a zero and 24 bits of length (MS-SMB2 2.1).
const PREFIX_BYTES: usize = 4;
const TRANSFORM_BYTES: usize = 52;
const HEADROOM_BYTES: usize = PREFIX_BYTES + TRANSFORM_BYTES;

/// What is to be done with a response's bytes once they are final.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// Nothing.
    Send,
    /// They enter the connection's preauthentication hash.
    HashConnection,
    /// They enter the hash of this session under way.
    HashSession(u64),
}

/// One response of the frame.
pub struct Element {
    start: usize,
    /// With which key it is signed.
    pub sign: Option<Arc<SigningKey>>,
    /// What follows.
    pub then: Then,
}

/// The responses of a frame. The first, which mostly is the only one, takes no memory of its own.
#[derive(Default)]
struct Elements {
    first: Option<Element>,
    more: Vec<Element>,
}

impl Elements {
    fn push(&mut self, element: Element) {
        match &self.first {
            None => self.first = Some(element),
            Some(_) => self.more.push(element),
        }
    }

    fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn last(&self) -> Option<&Element> {
        self.more.last().or(self.first.as_ref())
    }

    fn last_mut(&mut self) -> Option<&mut Element> {
        self.more.last_mut().or(self.first.as_mut())
    }

    /// Each with where the one behind it begins, if one is.
    fn with_next(&self) -> impl Iterator<Item = (&Element, Option<usize>)> {
        let nexts = self.more.iter().map(|element| Some(element.start)).chain([None]);
        self.first.iter().chain(&self.more).zip(nexts)
    }
}

/// A frame of one or more responses.
pub struct ReplyWriter {
    pool: BufPool,
    buf: Buf,
    elements: Elements,
    pages: Option<Box<dyn PagePipe>>,
}

impl ReplyWriter {
    /// An empty frame with room for about `room_bytes`.
    pub fn new(pool: &BufPool, room_bytes: usize) -> Self {
        let mut buf = pool.get(HEADROOM_BYTES + room_bytes);
        buf.reset(HEADROOM_BYTES);
        Self { pool: pool.clone(), buf, elements: Elements::default(), pages: None }
    }

    /// Whether no response was begun.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Begins a response.
    pub fn begin(&mut self, header: &Header) {
        if let Some(start) = self.elements.last().map(|e| e.start) {
            self.pad(start);
            let next = (self.buf.len() - start) as u32;
            if let Some(message) = self.buf.get_mut(start..) {
                set_next_command(message, next);
            }
        }
        self.elements.push(Element { start: self.buf.len(), sign: None, then: Then::Send });
        header.put(self);
    }

    /// Pads the response that begins at `start` to eight bytes.
    fn pad(&mut self, start: usize) {
        let len = self.buf.len() - start;
        self.put_zeros(len.next_multiple_of(8) - len);
    }

    /// Where the response under way has its header.
    pub fn start(&self) -> usize {
        self.elements.last().map_or(0, |e| e.start)
    }

    /// The response under way.
    pub fn current(&mut self) -> Option<&mut Element> {
        self.elements.last_mut()
    }

    /// Replaces the body of the response under way by that of an error.
    pub fn fail(&mut self, failure: &Failure) {
        self.pages = None;
        self.buf.truncate(self.start() + HEADER_BYTES);
        match (failure.data.as_slice(), failure.context) {
            ([], _) => put_error(self),
            (data, None) => put_error_data(data, self),
            (data, Some(id)) => put_error_symlink_like(id, data, self),
        }
    }

    /// Writes status and credits into the header of the response under way.
    pub fn settle(&mut self, status: NtStatus, credits: u16) {
        let start = self.start();
        self.patch_u32(start + 8, status.0);
        self.patch_u16(start + 14, credits);
    }

    /// Makes the response under way an asynchronous one.
    pub fn set_async(&mut self, async_id: u64) {
        self.set_flags(Flags::ASYNC.bits());
        let start = self.start();
        self.patch_bytes(start + 32, &async_id.to_le_bytes());
    }

    /// Sets bits in the flags of the response under way.
    pub fn set_flags(&mut self, flags: u32) {
        let at = self.start() + 16;
        if let Some(field) = self.buf.get_mut(at..at + 4)
            && let Ok(old) = <[u8; 4]>::try_from(&*field)
        {
            field.copy_from_slice(&(u32::from_le_bytes(old) | flags).to_le_bytes());
        }
    }

    /// At least `len_bytes` of room behind what is written, to be filled directly and taken in with
    /// [`ReplyWriter::advance`].
    pub fn room(&mut self, len_bytes: usize) -> &mut [u8] {
        self.pool.ensure_room(&mut self.buf, len_bytes);
        self.buf.spare().get_mut(..len_bytes).unwrap_or_default()
    }

    /// Takes in `len_bytes` that were written to the room.
    pub fn advance(&mut self, len_bytes: usize) {
        self.buf.grow(len_bytes);
    }

    /// Lends the buffer to a worker that fills its room; [`ReplyWriter::give_back`] must follow.
    pub fn lend(&mut self) -> Buf {
        std::mem::replace(&mut self.buf, Buf::unpooled(0))
    }

    /// Whether the buffer was lent and did not come back: its worker panicked, and there is nothing to answer with.
    pub fn is_lost(&self) -> bool {
        self.buf.headroom() < HEADROOM_BYTES
    }

    /// Takes the buffer back.
    pub fn give_back(&mut self, buf: Buf) {
        self.buf = buf;
    }

    /// The body's data follow as pages.
    pub fn set_pages(&mut self, pages: Box<dyn PagePipe>) {
        self.pages = Some(pages);
    }

    /// Signs, encrypts and frames. `done` is shown each response that asked for it, final but for encryption.
    pub fn finish(mut self, seal: Option<&Session>, mut done: impl FnMut(Then, &[u8])) -> Reply {
        if let Some(last) = self.elements.more.last() {
            // The last of several too, as Windows does (3.3.4.1.3).
            self.pad(last.start);
        }
        for (element, next) in self.elements.with_next() {
            let end = next.unwrap_or(self.buf.len());
            let Some(message) = self.buf.get_mut(element.start..end) else { continue };
            if let Some(key) = &element.sign
                && seal.is_none()
            {
                key.sign(message);
            }
            if element.then != Then::Send {
                done(element.then, message);
            }
        }
        if let Some(session) = seal
            && let Some(seals) = &session.seals
        {
            self.buf.grow_front(TRANSFORM_BYTES);
            seals.to_client.seal(&mut self.buf, session.id, session.next_nonce());
        }
        let len = self.buf.len() + self.pages.as_ref().map_or(0, |p| p.len_bytes());
        self.buf.grow_front(PREFIX_BYTES);
        if let Some(prefix) = self.buf.first_chunk_mut::<PREFIX_BYTES>() {
            *prefix = (len as u32).to_be_bytes();
        }
        Reply { head: self.buf, pages: self.pages }
    }
}

impl Put for ReplyWriter {
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.pool.ensure_room(&mut self.buf, bytes.len());
        self.buf.push(bytes);
    }

    fn put_zeros(&mut self, n: usize) {
        self.room(n).fill(0);
        self.advance(n);
    }

    fn len(&self) -> usize {
        self.buf.len()
    }

    fn patch_bytes(&mut self, at: usize, bytes: &[u8]) {
        if let Some(field) = at.checked_add(bytes.len()).and_then(|end| self.buf.get_mut(at..end)) {
            field.copy_from_slice(bytes);
        }
    }
}
