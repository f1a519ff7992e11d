//! Which path served a request: one set for each shard, so that a test can prove what happened and a log can show it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One shard's counts since it started.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct PathCounters { $($(#[$doc])* pub $name: AtomicU64,)* }

        /// The sum over shards at one moment.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct PathTotals { $($(#[$doc])* pub $name: u64,)* }

        impl PathTotals {
            /// Adds what `counters` holds now.
            pub fn add(&mut self, counters: &PathCounters) {
                $(self.$name += counters.$name.load(Relaxed);)*
            }

            /// Each name with its value, in declaration order.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((concat!("nfs_", stringify!($name)), self.$name)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Calls taken.
    calls,
    /// READs whose data were file pages that nobody copied.
    read_pages,
    /// READs whose data were copied into the reply.
    read_copy,
    /// READs that had to wait on a worker.
    read_waited,
    /// Bytes read.
    read_bytes,
    /// WRITEs done in place.
    write_inline,
    /// WRITEs done on a worker.
    write_worker,
    /// Bytes written.
    write_bytes,
    /// Files opened for READ or WRITE, because no open one was kept.
    file_opens,
    /// Calls parked before they were answered.
    parked,
}

impl PathCounters {
    /// Adds to one of this shard's counters. Only the shard's own thread writes them.
    pub(crate) fn bump(counter: &AtomicU64, by: u64) {
        counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
    }
}
