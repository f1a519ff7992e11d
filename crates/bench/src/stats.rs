//! What follows from the observations of a plan: each cell's gain over the baseline in every block, its geometric mean with
//! an interval, a p-value corrected for the family, and a verdict. [`Analysis::of`] is called by the report; the rooms
//! below each hold one statistic and can be checked by hand. A block that cannot be used is counted under its reason, and
//! a cell with too few blocks gets no verdict rather than a weak one.
//!
//! All statistics are of the logarithm of the gain in a block, so that twice as fast and half as fast are as far from 1,
//! and so that swapping target and baseline inverts estimate and interval exactly.

mod analysis;
pub mod bootstrap;
mod distributions;
pub mod holm;
pub mod signflip;
mod verdict;

pub use analysis::{Analysis, BlockGain, CellSummary, Comparison, Dropped, Estimate};
pub use verdict::Verdict;

/// The mean of some numbers; 0 of none.
fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}
