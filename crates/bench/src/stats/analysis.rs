//! From observations to comparisons: matches each cell with the baseline's in every block, counts what could not be used and
//! why, and puts the statistics of the neighbouring files together. Called by the report; it must leave no observation and
//! no planned run uncounted.

use super::{Verdict, bootstrap, holm, mean, signflip};
use crate::histogram::Histogram;
use crate::observation::{Measurement, Observation, Outcome, Reason};
use crate::plan::{Measure, Plan};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display};

/// Everything that follows from a plan's observations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Analysis {
    /// How many comparisons Holm's correction covers: all that were declared, those without an estimate too.
    pub family_size: usize,
    /// Each declared comparison, in the order of the plan's family.
    pub comparisons: Vec<Comparison>,
    /// Each cell by itself, in the plan's order.
    pub cells: Vec<CellSummary>,
}

/// One cell compared with the baseline's cell by one measure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The cell's number.
    pub cell: u32,
    /// By what.
    pub measure: Measure,
    /// The gain in each block that could be used.
    pub gains: Vec<BlockGain>,
    /// The blocks that could not be used: why, and how many. With `gains` they are all blocks of the plan.
    pub dropped: Vec<(Dropped, u32)>,
    /// What the gains say; none of fewer than two.
    pub estimate: Option<Estimate>,
    /// The verdict by the plan's criteria.
    pub verdict: Verdict,
}

/// How many times better than the baseline a cell was in a block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BlockGain {
    /// The block.
    pub block: u32,
    /// Above 1 is better.
    pub gain: f64,
}

/// What the gains of the blocks say together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The geometric mean of the gains.
    pub gain: f64,
    /// The 95 % interval's lower end.
    pub low: f64,
    /// The 95 % interval's upper end.
    pub high: f64,
    /// The sign-flip p-value of this comparison alone.
    pub p: f64,
    /// Whether all signs were tried.
    pub p_exact: bool,
    /// The p-value corrected for the family.
    pub p_holm: f64,
}

/// Why a block could not be used in a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dropped {
    /// The cell's run was discarded.
    Discarded(Reason),
    /// The cell was not run.
    NotRun,
    /// The baseline's run was discarded.
    BaselineDiscarded(Reason),
    /// The baseline was not run.
    BaselineNotRun,
    /// Both ran, but there is no value to make a ratio of on one side: nothing was moved, or the measure was not taken.
    NoValue,
}

impl Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discarded(reason) => write!(f, "{reason}"),
            Self::NotRun => f.write_str("not run"),
            Self::BaselineDiscarded(reason) => write!(f, "baseline {reason}"),
            Self::BaselineNotRun => f.write_str("baseline not run"),
            Self::NoValue => f.write_str("nothing to compare"),
        }
    }
}

/// One cell by itself, over all blocks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellSummary {
    /// The cell's number.
    pub cell: u32,
    /// How many runs count.
    pub accepted: u32,
    /// How many do not, and why.
    pub discarded: Vec<(Dropped, u32)>,
    /// The geometric mean of bytes a second of the runs that count.
    pub bytes_per_second: Option<f64>,
    /// The geometric mean of operations a second.
    pub operations_per_second: Option<f64>,
    /// The geometric mean of the server's CPU time for a byte, in nanoseconds, where every run that counts has it.
    pub server_cpu_ns_per_byte: Option<f64>,
    /// The same for an operation.
    pub server_cpu_ns_per_operation: Option<f64>,
    /// The client's CPU time for an operation.
    pub client_cpu_ns_per_operation: Option<f64>,
    /// What part of the machine's limit the rate is: the geometric mean over the blocks in which both count.
    pub of_ceiling: Option<f64>,
    /// The latencies of all runs that count.
    pub latency: Histogram,
}

type Runs<'a> = BTreeMap<(u32, u32), &'a Outcome>;

impl Analysis {
    /// Analyses the observations of a plan. An observation of a cell or block that the plan does not have counts for nothing
    /// ([`crate::report::Report`] refuses them).
    pub fn of(plan: &Plan, observations: &[Observation]) -> Self {
        let runs: Runs<'_> = observations.iter().map(|o| ((o.cell, o.block), &o.outcome)).collect();
        let family = plan.family();
        let mut comparisons: Vec<_> = family.iter().map(|(cell, by)| compare(plan, &runs, *cell, *by)).collect();
        correct(&mut comparisons);
        let cells = (0..plan.cells().len() as u32).map(|cell| summarize(plan, &runs, cell)).collect();
        Self { family_size: family.len(), comparisons, cells }
    }
}

fn compare(plan: &Plan, runs: &Runs<'_>, cell: u32, measure: Measure) -> Comparison {
    let baseline = plan.cell(cell).and_then(|c| plan.baseline_of(c));
    let (mut gains, mut dropped) = (Vec::new(), BTreeMap::new());
    for block in 0..plan.declared().blocks {
        let theirs = baseline.and_then(|b| runs.get(&(b, block)).copied());
        match gain_in_block(runs.get(&(cell, block)).copied(), theirs, measure) {
            Ok(gain) => gains.push(BlockGain { block, gain }),
            Err(why) => *dropped.entry(why).or_insert(0) += 1,
        }
    }
    let estimate = estimate(&gains, plan.declared().seed);
    let enough = gains.len() >= plan.declared().criteria.min_blocks as usize;
    let verdict = match &estimate {
        Some(e) if enough => Verdict::of(e.low, e.high, &plan.declared().criteria),
        _ => Verdict::TooFew,
    };
    Comparison { cell, measure, gains, dropped: dropped.into_iter().collect(), estimate, verdict }
}

fn gain_in_block(ours: Option<&Outcome>, baseline: Option<&Outcome>, measure: Measure) -> Result<f64, Dropped> {
    let ours = accepted(ours).map_err(|why| why.map_or(Dropped::NotRun, Dropped::Discarded))?;
    let baseline = accepted(baseline).map_err(|why| why.map_or(Dropped::BaselineNotRun, Dropped::BaselineDiscarded))?;
    ours.gain_over(baseline, measure).ok_or(Dropped::NoValue)
}

/// The measurement if there was a run and it counts; the reason if there was one and it does not.
fn accepted(outcome: Option<&Outcome>) -> Result<&Measurement, Option<Reason>> {
    match outcome {
        Some(Outcome::Accepted(measurement)) => Ok(measurement),
        Some(Outcome::Discarded { reason, .. }) => Err(Some(*reason)),
        None => Err(None),
    }
}

fn estimate(gains: &[BlockGain], seed: u64) -> Option<Estimate> {
    let logs: Vec<f64> = gains.iter().map(|g| g.gain.ln()).collect();
    let (low, high) = bootstrap::interval(&logs, seed)?;
    let p = signflip::p_value(&logs, seed);
    let (gain, low, high) = (mean(&logs).exp(), low.exp(), high.exp());
    Some(Estimate { gain, low, high, p: p.p, p_exact: p.exact, p_holm: 1.0 })
}

/// Fills in the corrected p-values. A comparison without an estimate is in the family with p = 1: it was declared, and the
/// others do not become surer by its failing.
fn correct(comparisons: &mut [Comparison]) {
    let p_values: Vec<f64> = comparisons.iter().map(|c| c.estimate.map_or(1.0, |e| e.p)).collect();
    for (comparison, p_holm) in comparisons.iter_mut().zip(holm::adjusted(&p_values)) {
        if let Some(estimate) = &mut comparison.estimate {
            estimate.p_holm = p_holm;
        }
    }
}

fn summarize(plan: &Plan, runs: &Runs<'_>, cell: u32) -> CellSummary {
    let (mut counting, mut discarded, mut latency) = (Vec::new(), BTreeMap::new(), Histogram::default());
    for block in 0..plan.declared().blocks {
        match accepted(runs.get(&(cell, block)).copied()) {
            Ok(measurement) => {
                latency.merge(&measurement.latency);
                counting.push(measurement);
            }
            Err(why) => *discarded.entry(why.map_or(Dropped::NotRun, Dropped::Discarded)).or_insert(0) += 1,
        }
    }
    let rate = |count: u64, m: &Measurement| count as f64 / (m.elapsed_ns as f64 / 1e9);
    let each = |cpu_ns: Option<u64>, by: u64| cpu_ns.map_or(f64::NAN, |ns| ns as f64 / by as f64);
    CellSummary {
        cell,
        accepted: counting.len() as u32,
        discarded: discarded.into_iter().collect(),
        bytes_per_second: geometric_mean(counting.iter().map(|m| rate(m.bytes, m))),
        operations_per_second: geometric_mean(counting.iter().map(|m| rate(m.operations, m))),
        server_cpu_ns_per_byte: geometric_mean(counting.iter().map(|m| each(m.server_cpu_ns, m.bytes))),
        server_cpu_ns_per_operation: geometric_mean(counting.iter().map(|m| each(m.server_cpu_ns, m.operations))),
        client_cpu_ns_per_operation: geometric_mean(counting.iter().map(|m| each(m.client_cpu_ns, m.operations))),
        of_ceiling: of_ceiling(plan, runs, cell),
        latency,
    }
}

fn of_ceiling(plan: &Plan, runs: &Runs<'_>, cell: u32) -> Option<f64> {
    let ceiling = plan.cell(cell).and_then(|c| plan.ceiling_of(c))?;
    let part = |block| {
        let run = |cell| runs.get(&(cell, block)).copied();
        gain_in_block(run(cell), run(ceiling), Measure::Throughput).ok()
    };
    geometric_mean((0..plan.declared().blocks).filter_map(part))
}

/// The geometric mean; none of nothing, nor where a value is not a positive number.
fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    let usable = !logs.is_empty() && logs.iter().all(|l| l.is_finite());
    usable.then(|| mean(&logs).exp())
}
