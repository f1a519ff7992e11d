//! From which request size on moving pages beats copying: what the observations of a sweep say when each target is our
//! server with another threshold. In one block, of one request size, some targets moved and the others copied; the ratio
//! of the two sides is that block's gain. The command line runs the sweep and has checked, by the server's counters, that
//! each run took its path.

use crate::observation::{Measurement, Observation, Outcome};
use crate::plan::{Cell, Criteria, Measure, Operation, Plan};
use crate::stats::{Verdict, bootstrap};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The measures by which the two paths are compared.
pub const MEASURES: [Measure; 2] = [Measure::Throughput, Measure::ServerCpu];

/// Moving against copying for one request size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Boundary {
    /// What was done.
    pub operation: Operation,
    /// Bytes of a request.
    pub block_size_bytes: u32,
    /// Connections at the same time.
    pub connections: u32,
    /// How many blocks had runs on both sides.
    pub blocks: u32,
    /// By rate; above 1, moving is faster.
    pub rate: Option<Gain>,
    /// By the server's CPU time; above 1, moving needs less.
    pub cpu: Option<Gain>,
}

/// The geometric mean of the blocks' gains with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain {
    /// The mean.
    pub gain: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
    /// The verdict by the plan's criteria.
    pub verdict: Verdict,
}

/// What to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Recommendation {
    /// Requests of at least so many bytes should be moved.
    From(u32),
    /// Always copy: from no size on is moving better and nowhere worse.
    Off,
    /// Whether moving requests of this size is no worse cannot be said: too few blocks, or intervals too wide.
    Undecided(u32),
}

/// The two sides of every request size. `thresholds` are the targets', in the plan's order; none is `off`.
pub fn boundaries(plan: &Plan, observations: &[Observation], thresholds: &[Option<u32>]) -> Vec<Boundary> {
    let declared = plan.declared();
    let mut all = Vec::new();
    for operation in &declared.operations {
        for connections in &declared.connections {
            for size in &declared.block_sizes_bytes {
                let like =
                    Cell { target: 0, operation: *operation, block_size_bytes: *size, connections: *connections };
                let runs = runs_of(plan, observations, &like);
                let gains = |measure| block_gains(&runs, thresholds, *size, measure);
                let [rate, cpu] = MEASURES.map(gains);
                all.push(Boundary {
                    operation: *operation,
                    block_size_bytes: *size,
                    connections: *connections,
                    blocks: u32::try_from(rate.len()).unwrap_or(u32::MAX),
                    rate: gain(&rate, declared.seed, &declared.criteria),
                    cpu: gain(&cpu, declared.seed, &declared.criteria),
                });
            }
        }
    }
    all
}

/// The runs that count of cells that differ in their target only: by block, target and measurement.
type Runs<'a> = BTreeMap<u32, Vec<(u32, &'a Measurement)>>;

fn runs_of<'a>(plan: &Plan, observations: &'a [Observation], like: &Cell) -> Runs<'a> {
    let mut runs = Runs::new();
    for Observation { block, cell, outcome, .. } in observations {
        let cell = plan.cell(*cell).filter(|cell| Cell { target: 0, ..**cell } == *like);
        if let (Some(cell), Outcome::Accepted(measured)) = (cell, outcome) {
            runs.entry(*block).or_default().push((cell.target, measured));
        }
    }
    runs
}

/// The logarithm of each block's gain of moving over copying.
fn block_gains(runs: &Runs<'_>, thresholds: &[Option<u32>], size: u32, measure: Measure) -> Vec<f64> {
    let moves = |target: u32| thresholds.get(target as usize).copied().flatten().is_some_and(|from| from <= size);
    let side = |runs: &[(u32, &Measurement)], moving: bool| {
        let values = runs.iter().filter(|(target, _)| moves(*target) == moving).map(|(_, m)| m.value(measure));
        let logs: Option<Vec<f64>> = values.map(|value| value.map(f64::ln)).collect();
        logs.filter(|logs| !logs.is_empty()).map(|logs| logs.iter().sum::<f64>() / logs.len() as f64)
    };
    let sign = if measure == Measure::Throughput { 1.0 } else { -1.0 };
    runs.values().filter_map(|runs| Some(sign * (side(runs, true)? - side(runs, false)?))).collect()
}

fn gain(logs: &[f64], seed: u64, criteria: &Criteria) -> Option<Gain> {
    let (low, high) = bootstrap::interval(logs, seed)?;
    let (gain, low, high) = ((logs.iter().sum::<f64>() / logs.len() as f64).exp(), low.exp(), high.exp());
    let enough = logs.len() >= criteria.min_blocks as usize;
    let verdict = if enough { Verdict::of(low, high, criteria) } else { Verdict::TooFew };
    Some(Gain { gain, low, high, verdict })
}

/// What is to be said of moving requests of one size, over all loads and both measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moving {
    /// Nowhere worse, and somewhere better.
    Better,
    /// Nowhere worse nor better.
    AsGood,
    /// Worse somewhere.
    Worse,
    /// Nobody knows.
    Open,
}

impl Moving {
    fn of<'a>(boundaries: impl Iterator<Item = &'a Boundary>) -> Self {
        let mut all = Self::AsGood;
        for boundary in boundaries {
            // The server's CPU time need not be known; the rate is, where anything was measured.
            let verdicts =
                [Some(boundary.rate.map_or(Verdict::TooFew, |g| g.verdict)), boundary.cpu.map(|g| g.verdict)];
            for verdict in verdicts.into_iter().flatten() {
                all = match (all, verdict) {
                    (Self::Worse, _) | (_, Verdict::Worse) => Self::Worse,
                    (Self::Open, _) | (_, Verdict::Ambiguous | Verdict::TooFew) => Self::Open,
                    (Self::Better, _) | (_, Verdict::Better) => Self::Better,
                    (Self::AsGood, Verdict::Equivalent) => Self::AsGood,
                };
            }
        }
        all
    }
}

/// The least request size from which on moving is nowhere worse, by the whole interval, and at which it is better by one
/// measure at least. A size of which nothing can be said ends the search: what lies below it is not recommended on a guess,
/// and where nothing above it is better, neither is anything else.
pub fn recommend(boundaries: &[Boundary]) -> Recommendation {
    let mut sizes: Vec<u32> = boundaries.iter().map(|b| b.block_size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut least = None;
    for size in sizes.into_iter().rev() {
        match Moving::of(boundaries.iter().filter(|b| b.block_size_bytes == size)) {
            Moving::Better => least = Some(size),
            Moving::AsGood => {}
            Moving::Worse => break,
            Moving::Open => return least.map_or(Recommendation::Undecided(size), Recommendation::From),
        }
    }
    least.map_or(Recommendation::Off, Recommendation::From)
}

/// The boundary as a table for a terminal.
pub fn table(boundaries: &[Boundary]) -> String {
    let mut out = String::from("Moving pages against copying (gain above 1: moving is better; 95 % intervals)\n");
    for boundary in boundaries {
        let _ = writeln!(out, "  {}", line(boundary));
    }
    out
}

/// One request size in a line.
pub fn line(boundary: &Boundary) -> String {
    let said = |gain: Option<Gain>| {
        gain.map_or_else(
            || "not known".to_owned(),
            |g| format!("{:.2} ({:.2} to {:.2}) {}", g.gain, g.low, g.high, g.verdict),
        )
    };
    format!(
        "{} {} × {}: rate {}; CPU {}; {} blocks",
        boundary.operation,
        crate::report::bytes(boundary.block_size_bytes),
        boundary.connections,
        said(boundary.rate),
        said(boundary.cpu),
        boundary.blocks
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use crate::plan::{Declaration, Target};

    const SIZES: [u32; 3] = [4_096, 65_536, 1 << 20];
    const THRESHOLDS: [Option<u32>; 3] = [None, Some(4_096), Some(65_536)];

    fn plan() -> Plan {
        let target = |name: &str| Target { name: name.into(), url: "smb://h/s".into() };
        Plan::new(Declaration {
            title: "sweep".into(),
            targets: ["off", "4k", "64k"].map(target).to_vec(),
            baseline: "off".into(),
            ceiling: None,
            operations: vec![Operation::Read],
            block_sizes_bytes: SIZES.to_vec(),
            connections: vec![1],
            in_flight: 1,
            rwmixread: 50,
            files: 1,
            blocks: 8,
            seed: 1,
            warm_up_ms: 0,
            run_ms: 1_000,
            measures: vec![Measure::Throughput],
            criteria: Criteria::default(),
        })
        .unwrap()
    }

    /// Every run: moving is so many times faster, by size; CPU time goes with it.
    fn observed(plan: &Plan, gains: [f64; 3]) -> Vec<Observation> {
        let mut all = Vec::new();
        for block in 0..8 {
            for (number, cell) in plan.cells().iter().enumerate() {
                let moves = THRESHOLDS[cell.target as usize].is_some_and(|from| from <= cell.block_size_bytes);
                let at = SIZES.iter().position(|size| *size == cell.block_size_bytes).unwrap();
                // The machine is another in each block, and both sides feel it.
                let pace = 1_000.0 * f64::from(block + 1) * if moves { gains[at] } else { 1.0 };
                let measured = Measurement {
                    elapsed_ns: 1_000_000_000,
                    bytes: (1_000.0 * pace) as u64,
                    operations: 1,
                    latency: Histogram::default(),
                    client_cpu_ns: None,
                    server_cpu_ns: Some(1_000_000),
                };
                let (cell, outcome) = (number as u32, Outcome::Accepted(measured));
                all.push(Observation { block, cell, place: 0, outcome });
            }
        }
        all
    }

    fn of(gains: [f64; 3]) -> (Vec<Boundary>, Recommendation) {
        let plan = plan();
        let all = boundaries(&plan, &observed(&plan, gains), &THRESHOLDS);
        let recommended = recommend(&all);
        (all, recommended)
    }

    #[test]
    fn each_size_is_compared_within_its_blocks() {
        let (all, _) = of([0.5, 1.0, 2.0]);
        let gains: Vec<f64> = all.iter().map(|b| b.rate.unwrap().gain).collect();
        for (gain, expected) in gains.iter().zip([0.5, 1.0, 2.0]) {
            assert!((gain - expected).abs() < 1e-3, "{gains:?}");
        }
        assert!(all.iter().all(|b| b.blocks == 8));
        assert!((all[2].cpu.unwrap().gain - 2.0).abs() < 1e-3, "the same CPU time for twice the bytes");
        assert!(table(&all).contains("read 64 KiB × 1: rate 1.00 (1.00 to 1.00) equivalent"), "{}", table(&all));
    }

    #[test]
    fn the_threshold_is_where_moving_begins_to_be_better_and_stays_no_worse() {
        assert_eq!(of([0.5, 1.0, 2.0]).1, Recommendation::From(1 << 20));
        assert_eq!(of([0.5, 1.2, 2.0]).1, Recommendation::From(65_536));
        assert_eq!(of([1.5, 1.2, 1.0]).1, Recommendation::From(4_096));
        assert_eq!(of([1.5, 1.2, 0.8]).1, Recommendation::Off, "it would be worse above");
        assert_eq!(of([1.0, 1.0, 1.0]).1, Recommendation::Off);
    }

    /// A boundary whose rate and CPU time have these verdicts.
    fn judged(block_size_bytes: u32, rate: Verdict, cpu: Option<Verdict>) -> Boundary {
        let gain = |verdict| Gain { gain: 1.0, low: 1.0, high: 1.0, verdict };
        let (rate, cpu) = (Some(gain(rate)), cpu.map(gain));
        Boundary { operation: Operation::Read, block_size_bytes, connections: 1, blocks: 8, rate, cpu }
    }

    #[test]
    fn doubt_is_not_taken_for_an_answer() {
        use Verdict::{Ambiguous, Better, Equivalent, Worse};
        let large = |rate, cpu| judged(1 << 20, rate, Some(cpu));
        let small = |rate, cpu| judged(4_096, rate, Some(cpu));
        let of = |all: [Boundary; 2]| recommend(&all);
        assert_eq!(of([large(Ambiguous, Better), small(Better, Better)]), Recommendation::Undecided(1 << 20));
        assert_eq!(of([large(Equivalent, Better), small(Ambiguous, Better)]), Recommendation::From(1 << 20));
        assert_eq!(of([large(Equivalent, Equivalent), small(Ambiguous, Better)]), Recommendation::Undecided(4_096));
        assert_eq!(of([large(Ambiguous, Worse), small(Better, Better)]), Recommendation::Off, "worse is worse");
        let on_four = Boundary { connections: 4, ..large(Worse, Better) };
        assert_eq!(of([large(Better, Better), on_four]), Recommendation::Off, "with more connections it is worse");
        assert_eq!(recommend(&[judged(4_096, Better, None)]), Recommendation::From(4_096), "CPU time unknown");
    }

    #[test]
    fn without_both_sides_nothing_is_recommended() {
        let plan = plan();
        let observations = observed(&plan, [1.0, 1.0, 2.0]);
        let few: Vec<_> = observations.iter().filter(|o| o.block < 3).cloned().collect();
        assert_eq!(recommend(&boundaries(&plan, &few, &THRESHOLDS)), Recommendation::Undecided(1 << 20));
        let all_move = boundaries(&plan, &observations, &[Some(1), Some(1), Some(1)]);
        assert!(all_move.iter().all(|b| b.rate.is_none() && b.blocks == 0));
        assert_eq!(recommend(&all_move), Recommendation::Undecided(1 << 20));
    }
}
