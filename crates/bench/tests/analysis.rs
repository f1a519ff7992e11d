//! Whole comparisons with known answers: gains, verdicts, and that nothing that was left out is silent.

mod story;

use bench::observation::{Observation, Outcome, Reason};
use bench::plan::{Declaration, Measure, Plan};
use bench::stats::{Analysis, Comparison, Dropped, Verdict};
use story::{declaration, discard, measured, observations};

fn plan(blocks: u32) -> Plan {
    Plan::new(declaration(["theirs", "ours", "other"], blocks)).unwrap()
}

fn comparison(analysis: &Analysis, cell: u32, measure: Measure) -> &Comparison {
    analysis.comparisons.iter().find(|c| (c.cell, c.measure) == (cell, measure)).unwrap()
}

#[test]
fn twice_as_fast_is_better_and_the_same_is_equivalent() {
    let plan = plan(8);
    let analysis = Analysis::of(&plan, &observations(&plan));
    assert_eq!(analysis.family_size, 2 * 8 * 2);
    for c in &analysis.comparisons {
        let (estimate, cell) = (c.estimate.unwrap(), plan.cell(c.cell).unwrap());
        let (gain, verdict) = if cell.target == 1 { (2.0, Verdict::Better) } else { (1.0, Verdict::Equivalent) };
        assert!((estimate.gain - gain).abs() < 0.03, "{c:?}");
        assert!(estimate.low <= estimate.gain && estimate.gain <= estimate.high, "{c:?}");
        assert_eq!((c.verdict, c.gains.len(), c.dropped.len()), (verdict, 8, 0), "{c:?}");
        assert!(estimate.p_exact && estimate.p_holm >= estimate.p);
    }
    // All eight blocks of one sign: 2 of 256, times at most 32.
    let first = comparison(&analysis, 1, Measure::Throughput).estimate.unwrap();
    assert_eq!((first.p, first.p_holm), (2.0 / 256.0, 0.25));
}

#[test]
fn the_estimate_is_the_geometric_mean_of_the_blocks_ratios() {
    let plan = plan(2);
    let mut runs = Vec::new();
    for (block, ours) in [(0, 4_000_000), (1, 1_000_000)] {
        for (cell, bytes) in [(0, 1_000_000), (1, ours)] {
            runs.push(Observation { block, cell, place: cell, outcome: Outcome::Accepted(measured(bytes, 1_000)) });
        }
    }
    // 4 and 1: the geometric mean is 2; of two blocks the interval is all there is, and no verdict is given.
    let analysis = Analysis::of(&plan, &runs);
    let c = comparison(&analysis, 1, Measure::Throughput);
    let estimate = c.estimate.unwrap();
    assert!((estimate.gain - 2.0).abs() < 1e-12 && (estimate.low - 1.0).abs() < 1e-12);
    assert!((estimate.high - 4.0).abs() < 1e-12);
    assert_eq!((estimate.p, c.verdict), (1.0, Verdict::TooFew));
}

#[test]
fn swapping_target_and_baseline_inverts_the_answer() {
    let plan = plan(8);
    let swapped = Plan::new(Declaration { baseline: "ours".into(), ..plan.declared().clone() }).unwrap();
    let runs = observations(&plan);
    let there = Analysis::of(&plan, &runs);
    let back = Analysis::of(&swapped, &runs);
    let (a, b) = (comparison(&there, 1, Measure::Throughput), comparison(&back, 0, Measure::Throughput));
    let (ea, eb) = (a.estimate.unwrap(), b.estimate.unwrap());
    assert!((ea.gain * eb.gain - 1.0).abs() < 1e-12);
    assert!((ea.low * eb.high - 1.0).abs() < 1e-9 && (ea.high * eb.low - 1.0).abs() < 1e-9);
    assert_eq!((a.verdict, b.verdict, ea.p == eb.p), (Verdict::Better, Verdict::Worse, true));
}

#[test]
fn what_does_not_count_is_counted_under_its_reason() {
    let plan = plan(8);
    let mut runs = observations(&plan);
    discard(&mut runs, 0, 1, Reason::Failed, "connection closed");
    discard(&mut runs, 1, 1, Reason::Failed, "connection closed");
    discard(&mut runs, 2, 0, Reason::Disturbed, "somebody compiled");
    runs.retain(|o| (o.block, o.cell) != (3, 1));
    runs.retain(|o| (o.block, o.cell) != (4, 0));
    let analysis = Analysis::of(&plan, &runs);
    let c = comparison(&analysis, 1, Measure::Throughput);
    let dropped = [
        (Dropped::Discarded(Reason::Failed), 2),
        (Dropped::NotRun, 1),
        (Dropped::BaselineDiscarded(Reason::Disturbed), 1),
        (Dropped::BaselineNotRun, 1),
    ];
    assert_eq!(c.dropped, dropped);
    assert_eq!(c.gains.iter().map(|g| g.block).collect::<Vec<_>>(), [5, 6, 7]);
    assert_eq!(c.verdict, Verdict::TooFew, "three blocks are too few");
    let cell = &analysis.cells[1];
    assert_eq!((cell.accepted, cell.latency.count()), (5, 50));
    assert_eq!(cell.discarded, [(Dropped::Discarded(Reason::Failed), 2), (Dropped::NotRun, 1)]);
}

#[test]
fn a_measure_that_was_not_taken_is_no_verdict_and_stays_in_the_family() {
    let measures = vec![Measure::Throughput, Measure::ServerCpu];
    let plan = Plan::new(Declaration { measures, ..plan(8).declared().clone() }).unwrap();
    let analysis = Analysis::of(&plan, &observations(&plan));
    let c = comparison(&analysis, 1, Measure::ServerCpu);
    assert_eq!((c.estimate, c.verdict), (None, Verdict::TooFew));
    assert_eq!(c.dropped, [(Dropped::NoValue, 8)]);
    let seen = comparison(&analysis, 1, Measure::Throughput).estimate.unwrap();
    assert_eq!(seen.p_holm, seen.p * 32.0, "the comparisons without a value are in the family all the same");
}

#[test]
fn every_block_is_either_used_or_accounted_for() {
    let plan = plan(7);
    let mut runs = observations(&plan);
    for n in 0..40 {
        discard(&mut runs, n % 7, n * 5 % 24, Reason::TooShort, "");
    }
    runs.retain(|o| (o.block + o.cell) % 6 != 0);
    let analysis = Analysis::of(&plan, &runs);
    for c in &analysis.comparisons {
        assert_eq!(c.gains.len() as u32 + c.dropped.iter().map(|d| d.1).sum::<u32>(), 7, "{c:?}");
    }
    for c in &analysis.cells {
        assert_eq!(c.accepted + c.discarded.iter().map(|d| d.1).sum::<u32>(), 7, "{c:?}");
    }
}
