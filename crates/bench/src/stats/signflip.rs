//! The p-value of "no difference": if target and baseline did not differ, a block's log gain could as well have had the
//! other sign, so the observed mean is compared with the means under all signs (Fisher's randomization test for pairs).
//! Two-sided. Exact while all signs can be tried; beyond that seeded Monte Carlo, in which the observation counts as one of
//! the drawn (Phipson and Smyth, "Permutation p-values should never be zero", 2010). Called by the analysis.

use crate::rng::{Rng, Stream};
use serde::Serialize;

/// Up to this many blocks all signs are tried: 2^16 of them, half of which the symmetry saves.
pub const EXACT_UP_TO: usize = 16;
/// How many signs are drawn beyond that.
pub const DRAWS: u32 = 99_999;

/// A p-value and how it was come by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PValue {
    /// The probability of a mean at least as far from "no difference", if there is none.
    pub p: f64,
    /// Whether all signs were tried.
    pub exact: bool,
}

/// The two-sided sign-flip p-value of log gains. Of none it is 1.
pub fn p_value(log_gains: &[f64], seed: u64) -> PValue {
    if log_gains.len() <= EXACT_UP_TO {
        PValue { p: exact(log_gains), exact: true }
    } else {
        PValue { p: drawn(log_gains, seed, DRAWS), exact: false }
    }
}

/// The least p-value that so many blocks can give, however clear they are.
pub fn least_p(blocks: u32) -> f64 {
    if blocks as usize <= EXACT_UP_TO {
        (2.0 / f64::from(1u32 << blocks)).min(1.0)
    } else {
        1.0 / (f64::from(DRAWS) + 1.0)
    }
}

/// How many blocks it takes for a corrected p-value below `alpha` to be possible at all in a family of this size; none when no
/// number of blocks is enough.
pub fn blocks_needed(family_size: usize, alpha: f64) -> Option<u32> {
    (1..=EXACT_UP_TO as u32 + 1).find(|blocks| least_p(*blocks) * family_size as f64 <= alpha)
}

fn exact(log_gains: &[f64]) -> f64 {
    let Some((_, flipped)) = log_gains.split_last() else { return 1.0 };
    let least = threshold(log_gains);
    // The last sign stays: flipping all signs gives the same size.
    let all = 1u32 << flipped.len();
    let as_far = (0..all).filter(|signs| signed_sum(log_gains, u64::from(*signs)).abs() >= least).count();
    as_far as f64 / f64::from(all)
}

fn drawn(log_gains: &[f64], seed: u64, draws: u32) -> f64 {
    let mut rng = Rng::new(seed, Stream::Signs);
    let least = threshold(log_gains);
    let mut sum = || log_gains.chunks(64).map(|chunk| signed_sum(chunk, rng.next_u64())).sum::<f64>();
    let as_far = (0..draws).filter(|_| sum().abs() >= least).count();
    (as_far as f64 + 1.0) / (f64::from(draws) + 1.0)
}

/// From what size on a sum is as far out as the observed one. The rounding of sums in another order is allowed for, or an
/// equal sum would now and then count as smaller.
fn threshold(log_gains: &[f64]) -> f64 {
    let sizes: f64 = log_gains.iter().map(|x| x.abs()).sum();
    log_gains.iter().sum::<f64>().abs() - sizes * 1e-12
}

/// The sum with the sign of each value flipped where its bit is set. At most 64 values.
fn signed_sum(values: &[f64], signs: u64) -> f64 {
    let signed = |(place, value): (usize, &f64)| if signs >> place & 1 == 1 { -value } else { *value };
    values.iter().enumerate().map(signed).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // One block: both signs are as far. Two of a sign: ++ and -- of four.
        assert_eq!(exact(&[0.3]), 1.0);
        assert_eq!(exact(&[0.3, 0.1]), 0.5);
        // 1, 2, 3: the sums are 6, 4, 2, 0 and their negatives (0 twice): 6 is reached by 2 of 8.
        assert_eq!(exact(&[1.0, 2.0, 3.0]), 0.25);
        // -1, 2, 3 sums to 4: reached by 6, 4 and their negatives.
        assert_eq!(exact(&[-1.0, 2.0, 3.0]), 0.5);
        // 1, 1, 1, -1 sums to 2: of 16 the two of size 4 and the eight of size 2.
        assert_eq!(exact(&[1.0, 1.0, 1.0, -1.0]), 0.625);
        // Six blocks of one sign: 2 of 64, the least there is.
        assert_eq!(exact(&[0.1, 0.2, 0.15, 0.05, 0.3, 0.12]), 0.031_25);
        assert_eq!(exact(&[0.0, 0.0, 0.0]), 1.0);
        assert_eq!(exact(&[]), 1.0);
    }

    #[test]
    fn fisher_s_maize() {
        // Darwin's fifteen pairs of maize, differences in eighths of an inch. Fisher, "The Design of Experiments", section
        // 21: 863 of the 32,768 sums are as large as the observed 314 or larger, on one side; he gives 5.267 % for both.
        let differences = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48].map(f64::from);
        assert_eq!(differences.iter().sum::<f64>(), 314.0);
        assert_eq!(exact(&differences), 863.0 * 2.0 / 32_768.0);
    }

    #[test]
    fn what_a_family_needs() {
        assert_eq!([0, 1, 2, 6, 16].map(least_p), [1.0, 1.0, 0.5, 0.031_25, 2.0 / 65_536.0]);
        assert_eq!(least_p(6), exact(&[1.0; 6]));
        assert_eq!(least_p(17), drawn(&[1.0; 40], 1, DRAWS));
        // 32 comparisons: 2^n must be at least 2 x 32 / 0.05 = 1,280.
        assert_eq!(blocks_needed(32, 0.05), Some(11));
        assert_eq!(blocks_needed(1, 0.05), Some(6));
        assert_eq!(blocks_needed(5_000, 0.05), Some(17));
        assert_eq!(blocks_needed(6_000, 0.05), None);
    }

    #[test]
    fn equal_sums_count_whatever_their_rounding() {
        // 0.1 + 0.2 is not 0.3 in binary; it is as far out all the same.
        assert_eq!(exact(&[0.1, 0.2, -0.3]), 1.0);
        // The example of 1, 1, 1, -1 again, a tenth of it: 0.1 + 0.1 + 0.1 - 0.1 is more than 0.1 + 0.1 by one bit.
        assert_eq!(exact(&[0.1, 0.1, 0.1, -0.1]), 0.625);
        assert_eq!(exact(&[0.1, 0.2, 0.3, -0.2]), 0.5);
    }

    #[test]
    fn what_is_drawn_agrees_with_what_is_exact_and_is_never_zero() {
        let gains = [0.05, -0.02, 0.08, 0.01, 0.07, -0.03, 0.04, 0.02, 0.03, -0.01];
        assert!((drawn(&gains, 3, DRAWS) - exact(&gains)).abs() < 0.005);
        // 80 blocks of one sign: no draw is as far, and only the observation itself counts.
        let certain = p_value(&[0.1; 80], 3);
        assert_eq!(certain, PValue { p: 1.0 / 100_000.0, exact: false });
        assert_eq!(p_value(&gains, 3), p_value(&gains, 4), "exact needs no seed");
    }

    #[test]
    fn more_than_sixty_four_blocks_are_all_flipped() {
        // 130 blocks whose signs take turns: nothing to see.
        let balanced: Vec<f64> = (0..130).map(|i| if i % 2 == 0 { 0.1 } else { -0.1 }).collect();
        assert_eq!(p_value(&balanced, 1).p, 1.0);
    }
}
