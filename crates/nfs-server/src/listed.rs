//! Whether a directory's entries are in memory, as far as the last part of its listing tells: then the next part is made in
//! place, for a hop to a worker and back costs as much as a dozen entries. `nfs3` and `nfs4` ask and tell.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A larger part goes to a worker, however quick the directory is: others wait meanwhile.
const MOST_BYTES: usize = 64 << 10;
/// What a part takes at most whose entries are in memory, and for each of them.
const QUICK_US: u64 = 200;
const QUICK_US_PER_ENTRY: u64 = 10;

/// How the last part of a listing went.
#[derive(Debug, Default)]
pub struct Listed {
    quick: AtomicBool,
}

impl Listed {
    /// Whether a further part of at most `len_bytes` may be made in place.
    pub fn is_quick(&self, len_bytes: usize) -> bool {
        len_bytes <= MOST_BYTES && self.quick.load(Relaxed)
    }

    /// Notes that a part with so many entries took so long.
    pub fn note(&self, took_us: u64, entries: usize) {
        let quick = took_us <= QUICK_US.saturating_add(QUICK_US_PER_ENTRY.saturating_mul(entries as u64));
        if self.quick.load(Relaxed) != quick {
            self.quick.store(quick, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_quick_as_long_as_it_was() {
        let listed = Listed::default();
        assert!(!listed.is_quick(8192), "nothing is known of it");
        listed.note(400, 30);
        assert!(listed.is_quick(8192) && listed.is_quick(MOST_BYTES) && !listed.is_quick(MOST_BYTES + 1));
        listed.note(5_000, 30);
        assert!(!listed.is_quick(8192), "it had to be read");
        listed.note(400, 30);
        assert!(listed.is_quick(8192));
    }
}
