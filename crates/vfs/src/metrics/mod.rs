//! What a shard counts about itself: plain counters ([`counters!`](crate::counters)), distributions ([`Histogram`]) and
//! operations with how long they took ([`Operations`]). One thread writes a set, so that counting is an uncontended add;
//! anybody may read it at any time and add up those of all shards. It holds no clock: times are passed in.

mod histogram;
mod leaving;
mod operations;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use histogram::{Distribution, Histogram, RELATIVE_ERROR};
pub use leaving::{Leaving, Mark};
pub use operations::{OperationTotals, Operations};

/// False in the builds that show what counting costs; nowhere else.
pub const COUNTING: bool = !cfg!(feature = "uncounted");

/// Adds to a counter that only this thread writes: a plain load and store, which cost less than a locked add.
#[inline]
pub fn bump(counter: &AtomicU64, by: u64) {
    if !COUNTING {
        return;
    }
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

/// Declares one shard's counters and their sum over shards.
///
/// `$set` has an [`AtomicU64`] for each name, and the fields after `with`, which must have a `Default`; `$totals` a number
/// for each name. `$prefix` stands before the names that `entries` tells.
#[macro_export]
macro_rules! counters {
    (
        $set:ident, $totals:ident, $prefix:literal,
        { $($(#[$doc:meta])* $name:ident,)* }
        with { $($(#[$also_doc:meta])* $also:ident: $type:ty,)* }
    ) => {
        /// One shard's counts since it started.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct $set {
            $($(#[$doc])* pub $name: ::std::sync::atomic::AtomicU64,)*
            $($(#[$also_doc])* pub $also: $type,)*
        }

        impl $set {
            /// Adds to one of this shard's counters. Only the shard's own thread writes them.
            pub fn bump(counter: &::std::sync::atomic::AtomicU64, by: u64) {
                $crate::metrics::bump(counter, by);
            }
        }

        /// The sum over shards at one moment.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct $totals { $($(#[$doc])* pub $name: u64,)* }

        impl $totals {
            /// Adds what `counters` holds now.
            pub fn add(&mut self, counters: &$set) {
                $(self.$name += counters.$name.load(::std::sync::atomic::Ordering::Relaxed);)*
            }

            /// Each name with its value, in declaration order.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((concat!($prefix, stringify!($name)), self.$name)),*].into_iter()
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    counters! {
        Set, Sum, "of_",
        {
            /// A.
            a,
            /// B.
            b,
        }
        with {
            /// C.
            c: Histogram,
        }
    }

    #[test]
    fn sums_are_over_all_sets_and_in_order() {
        let sets = [Set::default(), Set::default()];
        Set::bump(&sets[0].a, 3);
        Set::bump(&sets[1].a, 4);
        Set::bump(&sets[1].b, 1);
        sets[0].c.record(1);
        let mut sum = Sum::default();
        sets.iter().for_each(|set| sum.add(set));
        assert_eq!(sum, Sum { a: 7, b: 1 });
        assert_eq!(sum.entries().collect::<Vec<_>>(), [("of_a", 7), ("of_b", 1)]);
    }
}
