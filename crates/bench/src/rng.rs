//! The one source of chance: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
//! 2014), written out here because a seed in a report must give the same order and the same intervals in ten years, which
//! no crate promises across its versions. It shuffles, resamples and draws offsets; it must
//! never make a secret.

/// What the numbers are for. Each use of a seed has its own stream, so that more blocks or more resamples in one do not
/// move another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The order of cells in the block of this number.
    Order(u32),
    /// Which blocks a bootstrap resample is made of.
    Bootstrap,
    /// Which signs a Monte Carlo permutation has.
    Signs,
    /// Which requests the job of this number sends.
    Requests(u32),
}

/// A sequence of 64-bit numbers that depends on its seed and stream alone.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// The sequence of a stream of a seed.
    pub fn new(seed: u64, stream: Stream) -> Self {
        let (kind, index) = match stream {
            Stream::Order(block) => (1, u64::from(block)),
            Stream::Bootstrap => (2, 0),
            Stream::Signs => (3, 0),
            Stream::Requests(job) => (4, u64::from(job)),
        };
        Self { state: mix(seed ^ mix((kind << 32) | index)) }
    }

    /// The next number, each equally likely.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        mix(self.state)
    }

    /// A number below `bound`, each equally likely (Lemire, "Fast random integer generation in an interval", 2019: the
    /// few products that would favour some numbers are drawn again). A bound of 0 gives 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        let unfair = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        loop {
            let product = (self.next_u64() >> 32) * u64::from(bound);
            if product as u32 >= unfair {
                return (product >> 32) as u32;
            }
        }
    }

    /// Puts the items into an order of which each is equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let bound = u32::try_from(last + 1).unwrap_or(u32::MAX);
            items.swap(last, self.below(bound) as usize);
        }
    }
}

/// SplitMix64's finalizer: Stafford's variant 13 of MurmurHash3's.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_splitmix64() {
        // The published first outputs for the state 1234567 (the reference C code's, also Rosetta Code's "SplitMix64").
        let mut rng = Rng { state: 1_234_567 };
        let seen: Vec<u64> = (0..5).map(|_| rng.next_u64()).collect();
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(seen, published);
    }

    #[test]
    fn below_stays_below_and_favours_nobody() {
        let mut rng = Rng::new(1, Stream::Bootstrap);
        let mut seen = [0u32; 6];
        for _ in 0..60_000 {
            seen[rng.below(6) as usize] += 1;
        }
        // 10,000 expected of each, standard deviation 91.
        assert!(seen.iter().all(|&n| (9_500..10_500).contains(&n)), "{seen:?}");
        assert_eq!(rng.below(1), 0);
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn a_shuffle_reaches_every_order_equally_often() {
        let mut rng = Rng::new(2, Stream::Order(0));
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            rng.shuffle(&mut items);
            *seen.entry(items).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 24);
        // 1,000 expected of each, standard deviation 31.
        assert!(seen.values().all(|n| (850..1_150).contains(n)), "{seen:?}");
    }

    #[test]
    fn streams_of_a_seed_differ() {
        let first = |stream| Rng::new(7, stream).next_u64();
        let all =
            [Stream::Order(0), Stream::Order(1), Stream::Bootstrap, Stream::Signs, Stream::Requests(0)].map(first);
        for (i, a) in all.iter().enumerate() {
            assert!(!all[i + 1..].contains(a));
        }
    }
}
