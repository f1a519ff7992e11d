//! A comparison that never ran: what the tests of analysis and report are told, with every number chosen.

use bench::histogram::Recorder;
use bench::observation::{Measurement, Observation, Outcome, Reason};
use bench::plan::{Criteria, Declaration, Measure, Operation, Plan, Target};

/// Two targets and a baseline, two operations at two block sizes.
pub fn declaration(names: [&str; 3], blocks: u32) -> Declaration {
    let target = |name: &str| Target { name: name.into(), url: format!("smb://127.0.0.1/{name}") };
    Declaration {
        title: format!("{} against the rest", names[1]),
        targets: names.map(target).to_vec(),
        baseline: names[0].into(),
        ceiling: None,
        operations: vec![Operation::Read, Operation::RandRead],
        block_sizes_bytes: vec![4_096, 1 << 20],
        connections: vec![1, 4],
        in_flight: 16,
        rwmixread: 50,
        files: 1,
        blocks,
        seed: 42,
        warm_up_ms: 100,
        run_ms: 1_000,
        measures: vec![Measure::Throughput, Measure::LatencyP99],
        criteria: Criteria::default(),
    }
}

/// A second in which this many bytes were moved and ten operations took this long, each a little longer than the last.
pub fn measured(bytes: u64, latency_ns: u64) -> Measurement {
    let mut recorder = Recorder::default();
    (0..10).for_each(|i| recorder.record(latency_ns + i * latency_ns / 20));
    Measurement {
        elapsed_ns: 1_000_000_000,
        bytes,
        operations: 10,
        latency: recorder.finish(),
        client_cpu_ns: Some(1_000),
        server_cpu_ns: None,
    }
}

/// Every run of a plan in its declared order. The second target is twice the baseline give or take a few per cent, the third
/// the same as the baseline give or take one per cent; every block has a speed of its own, which the ratios must not see.
pub fn observations(plan: &Plan) -> Vec<Observation> {
    let in_block = |block: u32| {
        let speed_of_block = 1_000_000 * (1 + u64::from(block % 5));
        plan.order(block).into_iter().enumerate().map(move |(place, cell)| {
            let wobble = u64::from((block * 7 + cell) % 5);
            let percent = match plan.cell(cell).unwrap().target {
                0 => 100,
                1 => 196 + 2 * wobble,
                _ => 99 + wobble % 3,
            };
            let measurement = measured(speed_of_block * percent, 100_000_000 / percent);
            Observation { block, cell, place: place as u32, outcome: Outcome::Accepted(measurement) }
        })
    };
    (0..plan.declared().blocks).flat_map(in_block).collect()
}

/// Makes a run one that does not count.
pub fn discard(observations: &mut [Observation], block: u32, cell: u32, reason: Reason, detail: &str) {
    let found = observations.iter_mut().find(|o| (o.block, o.cell) == (block, cell)).unwrap();
    let kept = match &found.outcome {
        Outcome::Accepted(measurement) => Some(measurement.clone()),
        Outcome::Discarded { .. } => None,
    };
    found.outcome = Outcome::Discarded { reason, detail: detail.into(), measurement: kept };
}
