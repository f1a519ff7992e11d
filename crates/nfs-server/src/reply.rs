//! The reply to one call, built in place: record mark, RPC header and body in one pooled buffer, so that they leave in
//! one piece; file pages and their padding may follow.

use nfs_wire::rpc::{RecordMark, begin_record, end_record};
use nfs_wire::xdr::{Put, pad_bytes};
use vfs::{Buf, BufPool, PagePipe, Reply};

/// A reply that is being written.
pub struct ReplyWriter {
    pool: BufPool,
    buf: Buf,
    mark: Option<RecordMark>,
    pages: Option<Box<dyn PagePipe>>,
}

impl ReplyWriter {
    /// A reply with room for about `room_bytes`.
    pub fn new(pool: &BufPool, room_bytes: usize) -> Self {
        let mut out = Self { pool: pool.clone(), buf: pool.get(room_bytes), mark: None, pages: None };
        out.mark = Some(begin_record(&mut out));
        out
    }

    /// At least `len_bytes` of room behind what is written, to be filled directly and taken in with
    /// [`ReplyWriter::advance`].
    pub fn room(&mut self, len_bytes: usize) -> &mut [u8] {
        self.pool.ensure_room(&mut self.buf, len_bytes);
        self.buf.spare().get_mut(..len_bytes).unwrap_or_default()
    }

    /// What was written from `at` on.
    pub fn since(&self, at: usize) -> &[u8] {
        self.buf.get(at..).unwrap_or_default()
    }

    /// Takes in `len_bytes` that were written to the room.
    pub fn advance(&mut self, len_bytes: usize) {
        self.buf.grow(len_bytes);
    }

    /// Hands itself to a worker that goes on writing; what is left here is nothing until it is given back.
    pub fn lend(&mut self) -> Self {
        let empty = Self { pool: self.pool.clone(), buf: Buf::unpooled(0), mark: None, pages: None };
        std::mem::replace(self, empty)
    }

    /// The data follow as pages; their padding is seen to.
    pub fn set_pages(&mut self, pages: Box<dyn PagePipe>) {
        self.pages = Some(pages);
    }

    /// Marks the record; a second part is only the padding of pages that do not end on a word.
    pub fn finish(mut self) -> (Reply, Option<Reply>) {
        let paged = self.pages.as_ref().map_or(0, |pages| pages.len_bytes());
        let padding = pad_bytes(paged);
        if let Some(mark) = self.mark.take() {
            end_record(mark, paged + padding, &mut self);
        }
        let tail = (padding > 0).then(|| {
            let mut head = self.pool.get(padding);
            head.push([0; 3].get(..padding).unwrap_or_default());
            Reply { head, pages: None }
        });
        (Reply { head: self.buf, pages: self.pages }, tail)
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

    fn truncate(&mut self, len: usize) {
        self.buf.truncate(len);
    }
}
