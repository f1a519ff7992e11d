//! Pooled buffers: memory that is page-aligned where it holds a page, written before it is read, and used again.
//!
//! A buffer comes in one of a few sizes (see [`BufPool::CLASSES_BYTES`]), is filled once with zeros when it is first
//! made and goes back to its pool when dropped, on whatever thread that is. The bytes between `start` and `end` are its
//! content; room before them lets a header be put in front without moving a body.

use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

const PAGE_BYTES: usize = 4096;

/// A buffer of fixed capacity with its content somewhere in the middle.
pub struct Buf {
    store: Vec<u8>,
    /// Where the usable, page-aligned part of `store` begins.
    base: usize,
    capacity: usize,
    start: usize,
    end: usize,
    pool: Option<Arc<Shared>>,
}

impl Buf {
    /// A buffer outside any pool, for tests and rare cases.
    pub fn unpooled(capacity_bytes: usize) -> Self {
        Self::with_store(new_store(capacity_bytes), capacity_bytes, None)
    }

    fn with_store(store: Vec<u8>, capacity: usize, pool: Option<Arc<Shared>>) -> Self {
        let base = store.as_ptr().align_offset(PAGE_BYTES).min(store.len() - capacity);
        Self { store, base, capacity, start: 0, end: 0, pool }
    }

    /// Bytes it can hold, room in front included.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Empties it and leaves `headroom_bytes` free in front of the content to come.
    ///
    /// # Panics
    /// When the headroom exceeds the capacity.
    pub fn reset(&mut self, headroom_bytes: usize) {
        assert!(headroom_bytes <= self.capacity, "headroom beyond the buffer");
        self.start = headroom_bytes;
        self.end = headroom_bytes;
    }

    /// Bytes free in front of the content.
    pub fn headroom(&self) -> usize {
        self.start
    }

    /// Bytes free behind the content.
    pub fn room(&self) -> usize {
        self.capacity - self.end
    }

    /// The free bytes behind the content, to be filled and then taken in with [`Buf::grow`].
    pub fn spare(&mut self) -> &mut [u8] {
        &mut self.store[self.base + self.end..self.base + self.capacity]
    }

    /// Takes the next `len_bytes` of the spare bytes into the content.
    ///
    /// # Panics
    /// When there is not that much room.
    pub fn grow(&mut self, len_bytes: usize) {
        assert!(len_bytes <= self.room(), "content beyond the buffer");
        self.end += len_bytes;
    }

    /// Moves the content's start forward by `len_bytes` (dropping them) or, with [`Buf::grow_front`], back.
    ///
    /// # Panics
    /// When the content is shorter than that.
    pub fn trim_front(&mut self, len_bytes: usize) {
        assert!(len_bytes <= self.len(), "trim beyond the content");
        self.start += len_bytes;
    }

    /// Takes `len_bytes` of the headroom into the content; what they hold is whatever was there.
    ///
    /// # Panics
    /// When the headroom is smaller than that.
    pub fn grow_front(&mut self, len_bytes: usize) {
        assert!(len_bytes <= self.start, "grow beyond the headroom");
        self.start -= len_bytes;
    }

    /// Cuts the content to its first `len_bytes`; no effect when it is shorter.
    pub fn truncate(&mut self, len_bytes: usize) {
        self.end = self.end.min(self.start + len_bytes);
    }

    /// Appends a copy of `bytes`.
    ///
    /// # Panics
    /// When there is not that much room; [`BufPool::ensure_room`] makes some.
    pub fn push(&mut self, bytes: &[u8]) {
        self.spare()[..bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.store[self.base + self.start..self.base + self.end]
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.store[self.base + self.start..self.base + self.end]
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.put_back(std::mem::take(&mut self.store), self.capacity);
        }
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} of {} bytes)", self.len(), self.capacity)
    }
}

/// Memory with a page-aligned part of `capacity_bytes`. What holds no page is not aligned: the page it would cost is
/// many times what it holds.
fn new_store(capacity_bytes: usize) -> Vec<u8> {
    vec![0; if capacity_bytes < PAGE_BYTES { capacity_bytes } else { capacity_bytes + PAGE_BYTES }]
}

struct Shared {
    classes: [Mutex<Vec<Vec<u8>>>; BufPool::CLASSES_BYTES.len()],
    keep_bytes: usize,
    idle_bytes: AtomicUsize,
    used_bytes: AtomicUsize,
}

impl Shared {
    fn put_back(&self, store: Vec<u8>, capacity: usize) {
        self.used_bytes.fetch_sub(capacity, Relaxed);
        let Some(class) = BufPool::CLASSES_BYTES.iter().position(|&c| c == capacity) else { return };
        if self.idle_bytes.fetch_add(capacity, Relaxed) + capacity <= self.keep_bytes {
            self.classes[class].lock().push(store);
        } else {
            self.idle_bytes.fetch_sub(capacity, Relaxed);
        }
    }
}

/// Where buffers come from and go back to. Cheap to clone; one for each shard keeps its lock uncontended.
#[derive(Clone)]
pub struct BufPool(Arc<Shared>);

/// What a pool holds, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolStats {
    /// Handed out and not yet dropped.
    pub used_bytes: usize,
    /// Kept for the next caller.
    pub idle_bytes: usize,
}

impl BufPool {
    /// The capacities buffers come in: a small reply; a 4 KiB READ with its header; one 64 KiB transfer with room for
    /// headers; a receive buffer; 1 MiB and 8 MiB transfers with headers.
    pub const CLASSES_BYTES: [usize; 6] =
        [1 << 10, 8 << 10, 72 << 10, 256 << 10, (1 << 20) + (16 << 10), (8 << 20) + (64 << 10)];

    /// A pool that keeps at most `keep_bytes` of idle memory.
    pub fn new(keep_bytes: usize) -> Self {
        Self(Arc::new(Shared {
            classes: Default::default(),
            keep_bytes,
            idle_bytes: AtomicUsize::new(0),
            used_bytes: AtomicUsize::new(0),
        }))
    }

    /// An empty buffer of at least `capacity_bytes`.
    pub fn get(&self, capacity_bytes: usize) -> Buf {
        let class = Self::CLASSES_BYTES.iter().position(|&c| c >= capacity_bytes);
        let capacity = class.map_or(capacity_bytes, |c| Self::CLASSES_BYTES[c]);
        self.0.used_bytes.fetch_add(capacity, Relaxed);
        let kept = class.and_then(|c| self.0.classes[c].lock().pop());
        let store = match kept {
            Some(store) => {
                self.0.idle_bytes.fetch_sub(capacity, Relaxed);
                store
            }
            None => new_store(capacity),
        };
        Buf::with_store(store, capacity, Some(Arc::clone(&self.0)))
    }

    /// Makes room for `more_bytes` behind `buf`'s content, moving it to a larger buffer where it must.
    pub fn ensure_room(&self, buf: &mut Buf, more_bytes: usize) {
        if buf.room() < more_bytes {
            let mut larger = self.get(buf.end + more_bytes.max(buf.len()));
            larger.reset(buf.headroom());
            larger.push(buf);
            *buf = larger;
        }
    }

    /// What the pool holds now.
    pub fn stats(&self) -> PoolStats {
        PoolStats { used_bytes: self.0.used_bytes.load(Relaxed), idle_bytes: self.0.idle_bytes.load(Relaxed) }
    }
}

/// One received frame: a part of a receive buffer, which lives as long as any of its frames.
#[derive(Debug, Clone)]
pub struct Frame {
    buf: Arc<Buf>,
    range: Range<usize>,
}

impl Frame {
    /// The bytes `range` of `buf`'s content.
    ///
    /// # Panics
    /// When the range lies outside.
    pub fn new(buf: Arc<Buf>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= buf.len(), "frame outside its buffer");
        Self { buf, range }
    }

    /// A part of this frame, sharing its buffer; `None` when the range lies outside.
    pub fn part(&self, range: Range<usize>) -> Option<Self> {
        let start = self.range.start.checked_add(range.start)?;
        let end = self.range.start.checked_add(range.end)?;
        (start <= end && end <= self.range.end).then(|| Self { buf: Arc::clone(&self.buf), range: start..end })
    }

    /// The frame in a buffer of its own, to be changed in place: without copying when nobody else holds the buffer.
    pub fn into_buf(self, pool: &BufPool) -> Buf {
        match Arc::try_unwrap(self.buf) {
            Ok(mut buf) => {
                buf.truncate(self.range.end);
                buf.trim_front(self.range.start);
                buf
            }
            Err(shared) => {
                let bytes = &shared[self.range];
                let mut buf = pool.get(bytes.len());
                buf.push(bytes);
                buf
            }
        }
    }
}

impl From<Buf> for Frame {
    fn from(buf: Buf) -> Self {
        let range = 0..buf.len();
        Self { buf: Arc::new(buf), range }
    }
}

impl Deref for Frame {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buf[self.range.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_counted() {
        let pool = BufPool::new(1 << 20);
        let first = pool.get(5000);
        assert_eq!(first.capacity(), 8 << 10);
        assert_eq!(pool.stats(), PoolStats { used_bytes: 8 << 10, idle_bytes: 0 });
        drop(first);
        assert_eq!(pool.stats(), PoolStats { used_bytes: 0, idle_bytes: 8 << 10 });
        let again = pool.get(4000);
        assert_eq!(pool.stats(), PoolStats { used_bytes: 8 << 10, idle_bytes: 0 });
        assert_eq!(again.len(), 0);
    }

    #[test]
    fn idle_memory_is_bounded() {
        let pool = BufPool::new(10 << 10);
        let all: Vec<_> = (0..4).map(|_| pool.get(8 << 10)).collect();
        drop(all);
        assert_eq!(pool.stats().idle_bytes, 8 << 10);
    }

    #[test]
    fn content_keeps_its_place_when_room_is_made() {
        let pool = BufPool::new(1 << 20);
        let mut buf = pool.get(1 << 10);
        buf.reset(100);
        buf.push(b"body");
        pool.ensure_room(&mut buf, 60_000);
        assert!(buf.room() >= 60_000);
        buf.grow_front(4);
        buf[..4].copy_from_slice(b"head");
        assert_eq!(&buf[..], b"headbody");
        assert_eq!(buf.headroom(), 96);
    }

    #[test]
    fn what_holds_no_page_costs_no_page() {
        let buf = BufPool::new(0).get(100);
        assert_eq!((buf.capacity(), buf.store.len()), (1 << 10, 1 << 10));
    }

    #[test]
    fn usable_memory_is_page_aligned() {
        for capacity in [4096, 5000, 1 << 20, 9 << 20] {
            let mut buf = BufPool::new(0).get(capacity);
            assert_eq!(buf.spare().as_ptr() as usize % PAGE_BYTES, 0);
            assert!(buf.room() >= capacity);
        }
    }

    #[test]
    fn a_frame_owns_its_buffer_when_alone_and_copies_when_not() {
        let pool = BufPool::new(1 << 20);
        let mut buf = pool.get(100);
        buf.push(b"onetwo");
        let shared = Arc::new(buf);
        let one = Frame::new(Arc::clone(&shared), 0..3);
        let two = Frame::new(shared, 3..6);
        assert_eq!(two.part(1..3).as_deref(), Some(&b"wo"[..]));
        assert!(two.part(1..4).is_none());
        assert_eq!(&one.into_buf(&pool)[..], b"one");
        let used = pool.stats().used_bytes;
        assert_eq!(&two.into_buf(&pool)[..], b"two");
        assert_eq!(pool.stats().used_bytes, used - (1 << 10));
    }
}
