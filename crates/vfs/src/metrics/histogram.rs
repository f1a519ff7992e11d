//! Distributions of numbers (nanoseconds, requests to a call) in fixed memory. A shard records into its [`Histogram`];
//! whoever shows it takes a [`Distribution`], which can be merged with others and compared with an earlier one. Recording
//! never waits and never allocates.
//!
//! Buckets are log-linear, as in HdrHistogram: each power of two is divided into 16, so that a number read back is off by
//! at most [`RELATIVE_ERROR`]. Numbers below 16 are exact; those from 2^40 on (18 minutes) count as just below.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{COUNTING, bump};

const SUB_BITS: u32 = 4;
const SUBS: usize = 1 << SUB_BITS;
const TOP_BITS: u32 = 40;
const BUCKETS: usize = SUBS + (TOP_BITS - SUB_BITS) as usize * SUBS;
const LARGEST: u64 = (1 << TOP_BITS) - 1;

/// How far a number read back may be off, as a part of itself.
pub const RELATIVE_ERROR: f64 = 1.0 / 32.0;

/// What one thread records into: less than 5 KiB, whatever comes.
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts one number. Only one thread may.
    #[inline]
    pub fn record(&self, value: u64) {
        if !COUNTING {
            return;
        }
        if let Some(bucket) = self.buckets.get(bucket_of(value)) {
            bump(bucket, 1);
            bump(&self.sum, value);
        }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram").field("count", &Distribution::of(self).count()).finish_non_exhaustive()
    }
}

/// What was recorded up to some moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Empty while nothing was recorded.
    buckets: Vec<u64>,
    sum: u64,
}

impl Distribution {
    /// What a histogram holds now.
    pub fn of(histogram: &Histogram) -> Self {
        let mut taken = Self::default();
        taken.add(histogram);
        taken
    }

    /// One of buckets and their counts, as [`Distribution::filled`] tells them; those out of range do not count.
    pub fn from_filled(filled: impl IntoIterator<Item = (usize, u64)>, sum: u64) -> Self {
        let mut buckets = vec![0; BUCKETS];
        for (index, count) in filled {
            if let Some(bucket) = buckets.get_mut(index) {
                *bucket = count;
            }
        }
        Self { buckets, sum }
    }

    /// Adds what another histogram holds now.
    pub fn add(&mut self, histogram: &Histogram) {
        self.buckets.resize(BUCKETS, 0);
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum = sum.saturating_add(bucket.load(Relaxed));
        }
        self.sum = self.sum.wrapping_add(histogram.sum.load(Relaxed));
    }

    /// What was recorded since `earlier`, an earlier one of the same.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.buckets.iter().copied().chain(std::iter::repeat(0));
        let buckets = self.buckets.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect();
        Self { buckets, sum: self.sum.saturating_sub(earlier.sum) }
    }

    /// How many numbers were recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// All of them added up, exactly.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Their mean; none when there are none.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    /// The least number that at least this part of all did not exceed, within [`RELATIVE_ERROR`]; none when there are
    /// none. `part` is between 0 and 1.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((part.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0u64;
        let found = self.buckets.iter().position(|in_bucket| {
            seen = seen.saturating_add(*in_bucket);
            seen >= rank
        });
        found.map(middle_of)
    }

    /// How many were below 2^`power`. Exact from 16 on.
    pub fn below_power(&self, power: u32) -> u64 {
        let end = if power >= TOP_BITS { BUCKETS } else { bucket_of(1 << power) };
        self.buckets.iter().take(end).fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The buckets that are not empty, by number.
    pub fn filled(&self) -> impl Iterator<Item = (usize, u64)> {
        self.buckets.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }
}

#[inline]
fn bucket_of(value: u64) -> usize {
    let value = value.min(LARGEST);
    if value < SUBS as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    shift as usize * SUBS + (value >> shift) as usize
}

/// The middle of a bucket, rounded down.
fn middle_of(index: usize) -> u64 {
    if index < 2 * SUBS {
        return index as u64;
    }
    let shift = (index / SUBS - 1).min(TOP_BITS as usize);
    let least = ((SUBS + index % SUBS) as u64) << shift;
    least + ((1u64 << shift) - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Distribution {
        let histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(*value));
        Distribution::of(&histogram)
    }

    /// Numbers of every magnitude, the same each time.
    fn some_values(count: usize) -> Vec<u64> {
        let mut state = 88_172_645_463_325_252u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..count).map(|_| (next() >> 24) >> (next() % 40)).collect()
    }

    #[test]
    fn every_bucket_follows_the_one_before() {
        for index in 0..BUCKETS {
            assert_eq!(bucket_of(middle_of(index)), index);
        }
        for power in 1..TOP_BITS {
            let edge = 1u64 << power;
            assert_eq!(bucket_of(edge), bucket_of(edge - 1) + 1, "2^{power}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_within_the_stated_error() {
        let values = some_values(20_000);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let taken = of(&values);
        for part in [0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = sorted[((part * sorted.len() as f64).ceil() as usize).max(1) - 1];
            let off = exact.abs_diff(taken.quantile(part).unwrap()) as f64;
            assert!(off <= exact as f64 * RELATIVE_ERROR, "{part}: {exact} is off by {off}");
        }
    }

    #[test]
    fn the_mean_and_the_counts_at_powers_of_two_are_exact() {
        let values = some_values(5000);
        let taken = of(&values);
        assert_eq!(taken.count(), 5000);
        assert_eq!(taken.sum(), values.iter().sum::<u64>());
        for power in SUB_BITS..TOP_BITS {
            let below = values.iter().filter(|value| **value < 1 << power).count() as u64;
            assert_eq!(taken.below_power(power), below, "2^{power}");
        }
        assert_eq!(taken.below_power(TOP_BITS), 5000);
    }

    #[test]
    fn nothing_has_no_quantile() {
        let nothing = Distribution::default();
        assert_eq!((nothing.quantile(0.5), nothing.mean(), nothing.count()), (None, None, 0));
    }

    #[test]
    fn merging_is_recording_together_and_the_difference_is_what_came_after() {
        let (a, b) = (some_values(300), some_values(700));
        let (first, second) = (Histogram::default(), Histogram::default());
        a.iter().for_each(|value| first.record(*value));
        b.iter().for_each(|value| second.record(*value));
        let before = Distribution::of(&first);
        let mut both = before.clone();
        both.add(&second);
        assert_eq!(both, of(&[a, b.clone()].concat()));
        assert_eq!(both.since(&before), of(&b));
        assert_eq!(both.since(&Distribution::default()), both);
    }

    #[test]
    fn what_is_told_of_the_buckets_makes_the_same_again() {
        let taken = of(&some_values(100));
        assert_eq!(Distribution::from_filled(taken.filled(), taken.sum()), taken);
        let hostile = Distribution::from_filled([(BUCKETS, 1), (usize::MAX, 1)], 0);
        assert_eq!(hostile.count(), 0);
    }
}
