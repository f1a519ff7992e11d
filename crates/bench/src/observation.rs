//! What one run of one cell in one block gave: a measurement that counts, or one that does not with the reason for it. The
//! command line makes them; [`crate::stats`] and [`crate::report`] read them. An observation is never left out: what does
//! not count stays in the report under its reason.

use crate::histogram::Histogram;
use crate::plan::Measure;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The block, from 0.
    pub block: u32,
    /// The cell's number in the plan.
    pub cell: u32,
    /// When in its block it was run, from 0.
    pub place: u32,
    /// What came of it.
    pub outcome: Outcome,
}

/// Whether a run counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It counts.
    Accepted(Measurement),
    /// It does not count.
    Discarded {
        /// Why, as a kind.
        reason: Reason,
        /// Why, in words.
        detail: String,
        /// What was measured nevertheless.
        measurement: Option<Measurement>,
    },
}

impl Outcome {
    /// The measurement, if it counts.
    pub fn accepted(&self) -> Option<&Measurement> {
        match self {
            Self::Accepted(measurement) => Some(measurement),
            Self::Discarded { .. } => None,
        }
    }

    /// Whether it counts.
    pub fn is_accepted(&self) -> bool {
        self.accepted().is_some()
    }
}

/// Why a run does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The run ended with an error.
    Failed,
    /// The run ended before its declared length.
    TooShort,
    /// The server did not serve the run on the path that it was meant to measure.
    WrongPath,
    /// Something else was at work on the machine.
    Disturbed,
    /// The person who measured ended the comparison.
    Interrupted,
}

impl Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Failed => "failed",
            Self::TooShort => "too short",
            Self::WrongPath => "wrong path",
            Self::Disturbed => "disturbed",
            Self::Interrupted => "interrupted",
        })
    }
}

/// What was measured after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// How long it was measured.
    pub elapsed_ns: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations completed.
    pub operations: u64,
    /// How long each took.
    pub latency: Histogram,
    /// CPU time of the client, where it is known.
    pub client_cpu_ns: Option<u64>,
    /// CPU time of the server, where it is local or ours.
    pub server_cpu_ns: Option<u64>,
}

impl Measurement {
    /// The value of a measure: bytes a second, nanoseconds, or nanoseconds of CPU for each byte; of what moved no bytes,
    /// operations take their place. None when it was not measured, or is zero or less so that no ratio can be made of it.
    pub fn value(&self, measure: Measure) -> Option<f64> {
        let moved = if self.bytes > 0 { self.bytes } else { self.operations } as f64;
        let value = match measure {
            Measure::Throughput => Some(moved / (self.elapsed_ns as f64 / 1e9)),
            Measure::LatencyMean => self.latency.mean_ns(),
            Measure::LatencyP50 => self.latency.quantile_ns(0.5).map(|ns| ns as f64),
            Measure::LatencyP99 => self.latency.quantile_ns(0.99).map(|ns| ns as f64),
            Measure::LatencyP999 => self.latency.quantile_ns(0.999).map(|ns| ns as f64),
            Measure::ClientCpu => self.client_cpu_ns.map(|ns| ns as f64 / moved),
            Measure::ServerCpu => self.server_cpu_ns.map(|ns| ns as f64 / moved),
        };
        value.filter(|v| v.is_finite() && *v > 0.0)
    }

    /// How many times better than `baseline` this is by a measure: above 1 is better, whether more of it is (throughput) or
    /// less (everything else).
    pub fn gain_over(&self, baseline: &Self, measure: Measure) -> Option<f64> {
        let (ours, theirs) = (self.value(measure)?, baseline.value(measure)?);
        let gain = if measure == Measure::Throughput { ours / theirs } else { theirs / ours };
        (gain.is_finite() && gain > 0.0).then_some(gain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Recorder;

    fn measured(bytes: u64, latency_ns: u64, client_cpu_ns: Option<u64>) -> Measurement {
        let mut recorder = Recorder::default();
        recorder.record(latency_ns);
        let latency = recorder.finish();
        Measurement { elapsed_ns: 500_000_000, bytes, operations: 1, latency, client_cpu_ns, server_cpu_ns: None }
    }

    #[test]
    fn more_bytes_and_less_waiting_are_both_gains() {
        let (fast, slow) = (measured(3_000, 100, Some(3_000)), measured(1_000, 200, Some(4_000)));
        assert_eq!(fast.value(Measure::Throughput), Some(6_000.0));
        assert_eq!(fast.gain_over(&slow, Measure::Throughput), Some(3.0));
        assert_eq!(fast.gain_over(&slow, Measure::LatencyP99), Some(2.0));
        assert_eq!(fast.gain_over(&slow, Measure::ClientCpu), Some(4.0));
        assert_eq!(slow.gain_over(&fast, Measure::LatencyMean), Some(0.5));
    }

    #[test]
    fn what_moves_no_bytes_is_compared_by_its_operations() {
        let of = |operations| Measurement { operations, ..measured(0, 100, Some(3_000)) };
        assert_eq!(of(30).value(Measure::Throughput), Some(60.0));
        assert_eq!(of(30).value(Measure::ClientCpu), Some(100.0));
        assert_eq!(of(30).gain_over(&of(10), Measure::Throughput), Some(3.0));
    }

    #[test]
    fn what_was_not_measured_has_no_value() {
        let nothing = Measurement { elapsed_ns: 0, operations: 0, ..measured(0, 5, Some(5)) };
        for measure in [Measure::Throughput, Measure::ClientCpu, Measure::ServerCpu] {
            assert_eq!(nothing.value(measure), None, "{measure}");
        }
        assert_eq!(measured(1, 1, None).gain_over(&nothing, Measure::Throughput), None);
    }
}
