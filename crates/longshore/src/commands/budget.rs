//! How much may be remembered of a tree on its way: directories that wait to be looked into, and what is in those being
//! copied. Names and depth are the server's to choose, so bytes are counted and not names.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What all that is remembered may take: some two million directories of usual names.
const MOST_BYTES: usize = 512 << 20;
/// What one of them takes beside its names.
const EACH_BYTES: usize = 256;

/// What is said when there is no more room.
pub const TOO_MUCH: &str = "the tree has more in it than can be remembered; the rest is left out";

/// The room there is.
#[derive(Debug, Clone)]
pub struct Budget(Arc<AtomicUsize>);

/// A part of it, given back when it is dropped.
#[derive(Debug)]
pub struct Claim {
    budget: Budget,
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(MOST_BYTES)
    }
}

impl Budget {
    fn of(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Room for something with these names and paths; `None` when there is not as much.
    pub fn claim(&self, names: &[&Path]) -> Option<Claim> {
        let bytes = EACH_BYTES + names.iter().map(|name| name.as_os_str().len()).sum::<usize>();
        let less = |left: usize| left.checked_sub(bytes);
        self.0.fetch_update(Relaxed, Relaxed, less).ok()?;
        Some(Claim { budget: self.clone(), bytes })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_and_given_back() {
        let budget = Budget::of(2 * EACH_BYTES + 10);
        let long = "x".repeat(11);
        assert!(budget.claim(&[long.as_ref(), "x".repeat(EACH_BYTES).as_ref()]).is_none());
        let one = budget.claim(&["12345".as_ref(), "6789".as_ref()]).unwrap();
        assert!(budget.claim(&["12".as_ref()]).is_none());
        let other = budget.claim(&["1".as_ref()]).unwrap();
        assert!(budget.claim(&[]).is_none());
        drop((one, other));
        assert!(budget.claim(&[long.as_ref()]).is_some());
    }
}
