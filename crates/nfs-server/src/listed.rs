//! Whether a directory's entries are in memory, as far as the last part of its listing tells: then the next part is made in
//! place, for a hop to a worker and back costs as much as a dozen entries. `nfs3` and `nfs4` ask and tell.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use vfs::Wait;

use crate::env::Clock;

/// A larger part goes to a worker, however quick the directory is: others wait meanwhile.
pub const MOST_BYTES: usize = 64 << 10;
/// What a part takes at most whose entries are in memory, and for each of them.
const QUICK_US: u64 = 200;
const QUICK_US_PER_ENTRY: u64 = 10;
/// A part that is made in place and turns out to take longer ends where it is: the next one goes to a worker.
const MOST_US: u64 = 2_000;

/// How the last part of a listing went.
#[derive(Debug, Default)]
pub struct Listed {
    quick: AtomicBool,
}

/// One part that is being made.
pub struct Part<'a> {
    listed: &'a Listed,
    clock: &'a dyn Clock,
    in_place: bool,
    begun_us: u64,
}

impl Listed {
    /// Whether a further part of at most `len_bytes` may be made in place.
    pub fn is_quick(&self, len_bytes: usize) -> bool {
        len_bytes <= MOST_BYTES && self.quick.load(Relaxed)
    }

    /// Begins a part.
    pub fn begin<'a>(&'a self, clock: &'a dyn Clock, wait: Wait) -> Part<'a> {
        Part { listed: self, clock, in_place: wait == Wait::Never, begun_us: clock.monotonic_us() }
    }
}

impl Part<'_> {
    /// Whether it is to end with the `entries` it has.
    pub fn is_long(&self, entries: usize) -> bool {
        self.in_place && entries > 0 && self.took_us() > MOST_US
    }

    /// It has ended.
    pub fn end(self, entries: usize) {
        let quick = self.took_us() <= QUICK_US.saturating_add(QUICK_US_PER_ENTRY.saturating_mul(entries as u64));
        if self.listed.quick.load(Relaxed) != quick {
            self.listed.quick.store(quick, Relaxed);
        }
    }

    fn took_us(&self) -> u64 {
        self.clock.monotonic_us().saturating_sub(self.begun_us)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[derive(Default)]
    struct Manual(AtomicU64);

    impl Clock for Manual {
        fn unix_secs(&self) -> u32 {
            0
        }

        fn monotonic_ms(&self) -> u64 {
            self.monotonic_us() / 1000
        }

        fn monotonic_us(&self) -> u64 {
            self.0.load(Relaxed)
        }
    }

    #[test]
    fn a_directory_is_quick_as_long_as_it_was() {
        let (listed, clock) = (Listed::default(), Manual::default());
        let part = |took_us| {
            let part = listed.begin(&clock, Wait::Allowed);
            clock.0.fetch_add(took_us, Relaxed);
            part.end(30);
        };
        assert!(!listed.is_quick(8192), "nothing is known of it");
        part(400);
        assert!(listed.is_quick(8192) && listed.is_quick(MOST_BYTES) && !listed.is_quick(MOST_BYTES + 1));
        part(5_000);
        assert!(!listed.is_quick(8192), "it had to be read");
        part(400);
        assert!(listed.is_quick(8192));
    }

    #[test]
    fn a_part_in_place_that_has_to_wait_ends_early() {
        let (listed, clock) = (Listed::default(), Manual::default());
        let (in_place, beside) = (listed.begin(&clock, Wait::Never), listed.begin(&clock, Wait::Allowed));
        assert!(!in_place.is_long(10));
        clock.0.fetch_add(10_000, Relaxed);
        assert!(in_place.is_long(1) && !beside.is_long(1));
        assert!(!in_place.is_long(0), "a part has one entry at least");
    }
}
