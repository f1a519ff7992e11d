//! What is said of a comparison in one word, from its interval and the criteria that were declared. Called by the analysis;
//! the p-value stands beside the verdict and does not change it.

use crate::plan::Criteria;
use serde::Serialize;
use std::fmt::{self, Display};

/// The one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval lies above the upper criterion.
    Better,
    /// The whole interval lies below the lower criterion.
    Worse,
    /// The whole interval lies within the criteria.
    Equivalent,
    /// The interval crosses a criterion: more blocks would tell.
    Ambiguous,
    /// Fewer usable blocks than declared: nothing is said.
    TooFew,
}

impl Verdict {
    /// The verdict on an interval of the gain.
    pub fn of(low: f64, high: f64, criteria: &Criteria) -> Self {
        if low > criteria.better_above {
            Self::Better
        } else if high < criteria.worse_below {
            Self::Worse
        } else if low >= criteria.worse_below && high <= criteria.better_above {
            Self::Equivalent
        } else {
            Self::Ambiguous
        }
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::Ambiguous => "ambiguous",
            Self::TooFew => "no verdict",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_interval_decides() {
        let of = |low, high| Verdict::of(low, high, &Criteria::default());
        assert_eq!(of(1.06, 1.2), Verdict::Better);
        assert_eq!(of(1.05, 1.2), Verdict::Ambiguous);
        assert_eq!(of(1.02, 1.2), Verdict::Ambiguous);
        assert_eq!(of(0.95, 1.05), Verdict::Equivalent);
        assert_eq!(of(1.01, 1.04), Verdict::Equivalent);
        assert_eq!(of(0.5, 0.949), Verdict::Worse);
        assert_eq!(of(0.5, 0.96), Verdict::Ambiguous);
        assert_eq!(of(0.5, 2.0), Verdict::Ambiguous);
        assert_eq!(of(f64::NAN, f64::NAN), Verdict::Ambiguous);
    }
}
