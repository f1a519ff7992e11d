//! What the data path counts: one set for each shard, so that counting is an uncontended add.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One shard's counts since it started.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters { $($(#[$doc])* pub $name: AtomicU64,)* }

        /// The sum over all shards at one moment.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct Totals { $($(#[$doc])* pub $name: u64,)* }

        impl Totals {
            /// Adds what `counters` holds now.
            pub fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.load(Relaxed);)*
            }

            /// Each name with its value, in declaration order.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Connections accepted.
    accepted,
    /// Connections ended.
    ended,
    /// Calls that received bytes.
    recv_calls,
    /// Bytes received.
    recv_bytes,
    /// Complete frames taken in.
    frames,
    /// Calls that sent bytes.
    send_calls,
    /// Bytes sent.
    sent_bytes,
    /// Replies that left whole.
    replies,
    /// Replies whose body was file pages moved by `splice`.
    page_replies,
}

impl Counters {
    pub(crate) fn bump(counter: &AtomicU64, by: u64) {
        // One writer for each shard: a plain load and store is enough and cheaper than a locked add.
        counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
    }
}
