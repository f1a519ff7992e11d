//! How long operations took: a histogram whose buckets are as wide as their values allow, so that a nanosecond and a minute
//! fit in bounded memory with the same relative error. [`Recorder`] is what a connection counts into while it runs;
//! [`Histogram`] is what an observation keeps, merges and writes. Ours rather than a crate's, since the form in a report
//! file is ours to keep and all that is needed of one is below.
//!
//! Buckets are log-linear, as in HdrHistogram: each power of two is divided into 128. Values below 256 are exact. A value
//! read back from a bucket is its middle, so it is off by at most [`RELATIVE_ERROR`] = 1/256, that is 0.4 %. Counts, the
//! least, the greatest and the mean are exact.

use crate::Error;
use serde::{Deserialize, Serialize};

const SUB_BITS: u32 = 7;
const SUBS: usize = 1 << SUB_BITS;
/// Values below 128 one each, then 128 for each of the 57 powers of two that are left of 64 bits.
const BUCKETS: usize = SUBS + (64 - SUB_BITS as usize) * SUBS;

/// How far a quantile may be off, as a part of itself.
pub const RELATIVE_ERROR: f64 = 1.0 / 256.0;

/// What a running connection counts into: 58 KiB, whatever comes. Recording is a shift and an addition.
#[derive(Debug, Clone)]
pub struct Recorder {
    counts: Vec<u64>,
    min: u64,
    max: u64,
    sum: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], min: u64::MAX, max: 0, sum: 0 }
    }
}

impl Recorder {
    /// Counts one operation that took this many nanoseconds.
    pub fn record(&mut self, nanoseconds: u64) {
        if let Some(count) = self.counts.get_mut(bucket_of(nanoseconds)) {
            *count = count.saturating_add(1);
        }
        self.min = self.min.min(nanoseconds);
        self.max = self.max.max(nanoseconds);
        self.sum = self.sum.saturating_add(nanoseconds);
    }

    /// What was counted.
    pub fn finish(&self) -> Histogram {
        let taken = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let buckets: Vec<_> = taken.map(|(index, count)| (index as u16, *count)).collect();
        let min = if buckets.is_empty() { 0 } else { self.min };
        Histogram { min_ns: min, max_ns: self.max, sum_ns: self.sum, buckets }
    }
}

/// A finished distribution of latencies in nanoseconds: only the buckets that were hit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Histogram {
    min_ns: u64,
    max_ns: u64,
    /// All latencies added up; it stops at 584 years.
    sum_ns: u64,
    /// Bucket number and count, ascending.
    buckets: Vec<(u16, u64)>,
}

impl Histogram {
    /// How many operations were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The least latency in nanoseconds, exactly; 0 when nothing was counted.
    pub fn min_ns(&self) -> u64 {
        self.min_ns
    }

    /// The greatest latency in nanoseconds, exactly.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The mean in nanoseconds, exactly; none when nothing was counted.
    pub fn mean_ns(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_ns as f64 / count as f64)
    }

    /// The least latency that at least this part of the operations did not exceed, within [`RELATIVE_ERROR`]; none when
    /// nothing was counted. `part` is between 0 and 1.
    pub fn quantile_ns(&self, part: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((part.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0u64;
        self.buckets.iter().find_map(|&(index, in_bucket)| {
            seen = seen.saturating_add(in_bucket);
            (seen >= rank).then(|| middle_of(index as usize).clamp(self.min_ns, self.max_ns))
        })
    }

    /// Adds what another histogram counted. The result is what one histogram of both would have been.
    pub fn merge(&mut self, other: &Self) {
        if other.buckets.is_empty() {
            return;
        }
        self.min_ns = if self.buckets.is_empty() { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.buckets = merged(&self.buckets, &other.buckets);
    }

    /// The points of the distribution function: a latency in nanoseconds, and what part of the operations took no longer.
    pub fn distribution(&self) -> Vec<(u64, f64)> {
        let count = self.count() as f64;
        let mut seen = 0u64;
        let point = |&(index, in_bucket): &(u16, u64)| {
            seen = seen.saturating_add(in_bucket);
            (middle_of(index as usize).clamp(self.min_ns, self.max_ns), seen as f64 / count)
        };
        self.buckets.iter().map(point).collect()
    }
}

fn merged(a: &[(u16, u64)], b: &[(u16, u64)]) -> Vec<(u16, u64)> {
    let mut all: Vec<(u16, u64)> = a.iter().chain(b).copied().collect();
    all.sort_by_key(|(index, _)| *index);
    all.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 = kept.1.saturating_add(later.1);
        }
        same
    });
    all
}

fn bucket_of(value: u64) -> usize {
    if value < SUBS as u64 {
        return value as usize;
    }
    let power = value.ilog2();
    let sub = (value >> (power - SUB_BITS)) as usize & (SUBS - 1);
    SUBS + (power - SUB_BITS) as usize * SUBS + sub
}

/// The middle of a bucket, rounded down.
fn middle_of(index: usize) -> u64 {
    if index < SUBS {
        return index as u64;
    }
    let shift = ((index - SUBS) / SUBS).min(63 - SUB_BITS as usize);
    let least = ((SUBS + (index - SUBS) % SUBS) as u64) << shift;
    least + ((1u64 << shift) - 1) / 2
}

/// The form in a file, before it is believed.
#[derive(Deserialize)]
struct Written {
    min_ns: u64,
    max_ns: u64,
    sum_ns: u64,
    buckets: Vec<(u16, u64)>,
}

impl TryFrom<Written> for Histogram {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self, Error> {
        let Written { min_ns, max_ns, sum_ns, buckets } = written;
        let Some((first, last)) = buckets.first().zip(buckets.last()) else {
            let empty = min_ns == 0 && max_ns == 0 && sum_ns == 0;
            return if empty { Ok(Self::default()) } else { Err(Error::Histogram("values without buckets")) };
        };
        if !buckets.is_sorted_by(|a, b| a.0 < b.0) || usize::from(last.0) >= BUCKETS {
            return Err(Error::Histogram("buckets out of order or out of range"));
        }
        if bucket_of(min_ns) != usize::from(first.0) || bucket_of(max_ns) != usize::from(last.0) || min_ns > max_ns {
            return Err(Error::Histogram("the least or the greatest is not in its bucket"));
        }
        let count = buckets.iter().try_fold(0u64, |sum, b| sum.checked_add(b.1).filter(|_| b.1 > 0));
        let count = count.ok_or(Error::Histogram("a count is zero, or the counts are too large"))?;
        if sum_ns < count.saturating_mul(min_ns) || sum_ns > count.saturating_mul(max_ns) {
            return Err(Error::Histogram("the sum does not fit the counts"));
        }
        Ok(Self { min_ns, max_ns, sum_ns, buckets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Rng, Stream};

    fn of(values: &[u64]) -> Histogram {
        let mut recorder = Recorder::default();
        values.iter().for_each(|v| recorder.record(*v));
        recorder.finish()
    }

    /// Values of every magnitude: a random number of random bits.
    fn some_values(rng: &mut Rng, how_many: usize) -> Vec<u64> {
        (0..how_many).map(|_| rng.next_u64() >> rng.below(64)).collect()
    }

    fn exact_quantile(values: &[u64], part: f64) -> u64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        sorted[((part * sorted.len() as f64).ceil() as usize).max(1) - 1]
    }

    #[test]
    fn every_bucket_follows_the_one_before() {
        for index in 0..BUCKETS {
            assert_eq!(bucket_of(middle_of(index)), index);
        }
        for power in 7..64 {
            let edge = 1u64 << power;
            assert_eq!(bucket_of(edge), bucket_of(edge - 1) + 1, "2^{power}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_within_the_stated_error() {
        let mut rng = Rng::new(3, Stream::Bootstrap);
        for round in 0..300 {
            let how_many = 1 + rng.below(400) as usize;
            let values = some_values(&mut rng, how_many);
            let histogram = of(&values);
            for part in [0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let (exact, got) = (exact_quantile(&values, part), histogram.quantile_ns(part).unwrap());
                let off = exact.abs_diff(got) as f64;
                assert!(off <= exact as f64 * RELATIVE_ERROR, "round {round}, {part}: {exact} read back as {got}");
            }
        }
    }

    #[test]
    fn small_values_and_the_mean_are_exact() {
        let histogram = of(&[1, 2, 3, 4, 90, 255]);
        assert_eq!(histogram.mean_ns(), Some(355.0 / 6.0));
        assert_eq!(histogram.quantile_ns(0.5), Some(3));
        assert_eq!(histogram.quantile_ns(0.51), Some(4));
        assert_eq!((histogram.min_ns(), histogram.max_ns(), histogram.count()), (1, 255, 6));
    }

    #[test]
    fn nothing_has_no_quantile() {
        let nothing = of(&[]);
        assert_eq!((nothing.quantile_ns(0.5), nothing.mean_ns(), nothing.count()), (None, None, 0));
        assert_eq!(nothing, Histogram::default());
    }

    #[test]
    fn merging_is_counting_together() {
        let mut rng = Rng::new(4, Stream::Bootstrap);
        for _ in 0..100 {
            let (a, b) = (rng.below(50) as usize, rng.below(50) as usize);
            let (a, b) = (some_values(&mut rng, a), some_values(&mut rng, b));
            let mut merged = of(&a);
            merged.merge(&of(&b));
            assert_eq!(merged, of(&[a, b].concat()));
        }
    }

    #[test]
    fn the_distribution_rises_to_one() {
        let points = of(&[10, 10, 20, 1_000_000]).distribution();
        assert_eq!(points[0], (10, 0.5));
        assert_eq!(points[1], (20, 0.75));
        assert_eq!(points[2], (1_000_000, 1.0));
    }

    #[test]
    fn a_file_round_trips_and_lies_are_refused() {
        let histogram = of(&[5, 5, 70_000, u64::MAX / 4]);
        let json = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&json).unwrap(), histogram);
        let lies = [
            r#"{"min_ns":1,"max_ns":0,"sum_ns":0,"buckets":[]}"#,
            r#"{"min_ns":5,"max_ns":4,"sum_ns":9,"buckets":[[5,1],[4,1]]}"#,
            r#"{"min_ns":5,"max_ns":5,"sum_ns":10,"buckets":[[5,1],[5,1]]}"#,
            r#"{"min_ns":5,"max_ns":9,"sum_ns":14,"buckets":[[5,1],[60000,1]]}"#,
            r#"{"min_ns":6,"max_ns":6,"sum_ns":6,"buckets":[[5,1]]}"#,
            r#"{"min_ns":5,"max_ns":5,"sum_ns":0,"buckets":[[5,0]]}"#,
            r#"{"min_ns":5,"max_ns":6,"sum_ns":11,"buckets":[[5,18446744073709551615],[6,1]]}"#,
            r#"{"min_ns":5,"max_ns":5,"sum_ns":11,"buckets":[[5,1]]}"#,
        ];
        for lie in lies {
            assert!(serde_json::from_str::<Histogram>(lie).is_err(), "{lie}");
        }
    }
}
