//! How often each operation of a protocol was asked for, how often it failed, and how long it took. Operations are numbers
//! from 0; what they are called is the protocol's business.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{COUNTING, Distribution, Histogram, bump};

/// One shard's record of `N` operations.
pub struct Operations<const N: usize>([Operation; N]);

#[derive(Default)]
struct Operation {
    count: AtomicU64,
    errors: AtomicU64,
    /// Made when the first is timed: most operations are never asked for.
    latency: OnceLock<Box<Histogram>>,
}

impl<const N: usize> Default for Operations<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Operation::default()))
    }
}

impl<const N: usize> Operations<N> {
    /// Counts one that was answered. Only one thread may.
    #[inline]
    pub fn count(&self, operation: usize, failed: bool) {
        if !COUNTING {
            return;
        }
        let Some(operation) = self.0.get(operation) else { return };
        bump(&operation.count, 1);
        if failed {
            bump(&operation.errors, 1);
        }
    }

    /// One of those that were counted has failed. Only one thread may.
    pub fn failed(&self, operation: usize) {
        if let Some(operation) = self.0.get(operation) {
            bump(&operation.errors, 1);
        }
    }

    /// Notes how long one took that was counted, in nanoseconds. Only one thread may.
    #[inline]
    pub fn took(&self, operation: usize, nanoseconds: u64) {
        if COUNTING && let Some(operation) = self.0.get(operation) {
            operation.latency.get_or_init(Box::default).record(nanoseconds);
        }
    }
}

impl<const N: usize> std::fmt::Debug for Operations<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|operation| operation.count.load(Relaxed))).finish()
    }
}

/// One operation's sum over shards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationTotals {
    /// Answered, failures included.
    pub count: u64,
    /// Failed.
    pub errors: u64,
    /// Nanoseconds from the whole request to the reply at the socket.
    pub latency: Distribution,
}

impl OperationTotals {
    /// The sums of `N` operations over `shards`.
    pub fn sum<'a, const N: usize>(shards: impl IntoIterator<Item = &'a Operations<N>>) -> Vec<Self> {
        let mut sums = vec![Self::default(); N];
        for shard in shards {
            for (sum, operation) in sums.iter_mut().zip(&shard.0) {
                sum.count += operation.count.load(Relaxed);
                sum.errors += operation.errors.load(Relaxed);
                if let Some(latency) = operation.latency.get() {
                    sum.latency.add(latency);
                }
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_add_up_and_an_unknown_operation_is_none() {
        let shards = [Operations::<2>::default(), Operations::default()];
        shards[0].count(1, true);
        shards[1].count(1, false);
        shards[1].count(7, true);
        shards[0].took(1, 1000);
        shards[1].took(1, 3000);
        shards[1].took(7, 9);
        let sums = OperationTotals::sum(&shards);
        assert_eq!((sums[0].count, sums[0].latency.count()), (0, 0));
        assert_eq!((sums[1].count, sums[1].errors), (2, 1));
        assert_eq!((sums[1].latency.count(), sums[1].latency.mean()), (2, Some(2000.0)));
    }
}
