//! Buffers for large answers, used again and again: memory that was just written is still in the processor's cache, and
//! the system need not clear it again. Drivers take them, chunks of a stream bring them back.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What a connection keeps of memory nobody uses.
const MOST_KEPT_BYTES: usize = 32 << 20;
/// Sizes are rounded up to this, so that a buffer of one request fits the next.
const GRAIN_BYTES: usize = 16 << 10;

/// The buffers of one connection that are not in use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool(Arc<Mutex<Vec<Vec<u8>>>>);

impl Pool {
    /// An empty buffer with room for `len_bytes`, of those that are large enough the one last brought back.
    pub fn take(&self, len_bytes: usize) -> Buffer {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().rposition(|bytes| bytes.capacity() >= len_bytes);
        let mut bytes = found.map(|at| kept.remove(at)).unwrap_or_default();
        drop(kept);
        bytes.clear();
        bytes.reserve_exact(len_bytes.next_multiple_of(GRAIN_BYTES));
        Buffer { bytes, home: Arc::downgrade(&self.0) }
    }
}

/// A buffer that goes back to where it came from.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    home: Weak<Mutex<Vec<Vec<u8>>>>,
}

impl Buffer {
    /// The bytes, which are the caller's from now on.
    pub(crate) fn into_vec(mut self) -> Vec<u8> {
        self.home = Weak::new();
        std::mem::take(&mut self.bytes)
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, home: Weak::new() }
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        self.bytes.clone().into()
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let mut kept = home.lock().unwrap_or_else(PoisonError::into_inner);
        let kept_bytes: usize = kept.iter().map(Vec::capacity).sum();
        if kept_bytes + self.bytes.capacity() <= MOST_KEPT_BYTES {
            kept.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_last_used_comes_first_and_not_too_much_is_kept() {
        let pool = Pool::default();
        let mut first = pool.take(1 << 20);
        first.push(1);
        let at = first.as_ptr();
        drop(pool.take(1 << 20));
        drop(first);
        let again = pool.take(1000);
        assert_eq!((again.as_ptr(), again.len()), (at, 0));
        let many: Vec<_> = (0..40).map(|_| pool.take(1 << 20)).collect();
        drop(many);
        let kept: usize = pool.0.lock().unwrap().iter().map(Vec::capacity).sum();
        assert!(kept <= MOST_KEPT_BYTES && kept > MOST_KEPT_BYTES / 2, "{kept}");
        drop(pool);
        drop(again);
    }
}
