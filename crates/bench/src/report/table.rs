//! The report for a terminal: the comparisons, every cell with what counts and what does not, and how it was computed. Plain
//! text, aligned, without colour; the command line prints it.

use super::{Report, text};
use crate::observation::Outcome;
use crate::stats::{CellSummary, Comparison, bootstrap};
use std::fmt::Write;

/// Draws the whole of it.
pub fn draw(report: &Report) -> String {
    let declared = report.plan().declared();
    let mut out = format!("{}\n", text::plain(&declared.title));
    let _ = writeln!(
        out,
        "baseline {}, {} blocks, {} ms each after {} ms of warm-up, {} in flight, seed {}\n",
        text::plain(&declared.baseline),
        declared.blocks,
        declared.run_ms,
        declared.warm_up_ms,
        declared.in_flight,
        declared.seed
    );
    if let Some(warning) = failures(report) {
        let _ = writeln!(out, "{warning}\n");
    }
    out.push_str(&aligned(&comparisons(report)));
    out.push('\n');
    out.push_str(&aligned(&cells(report)));
    out.push('\n');
    out.push_str(&method(report));
    out
}

/// That runs are missing, where they are: first of all, before a figure is read. The page says the same.
pub fn failures(report: &Report) -> Option<String> {
    let planned = report.plan().cells().len() * report.plan().declared().blocks as usize;
    let counting = report.observations().iter().filter(|o| matches!(o.outcome, Outcome::Accepted(_))).count();
    if counting == planned {
        return None;
    }
    let details = report.observations().iter().filter_map(|o| match &o.outcome {
        Outcome::Discarded { reason, detail, .. } => Some(format!("{reason}: {}", text::plain(detail))),
        Outcome::Accepted(_) => None,
    });
    let first = details.map(|detail| format!(" The first: {detail}.")).next().unwrap_or_default();
    Some(format!("INCOMPLETE: {} of {planned} runs do not count.{first}", planned - counting))
}

/// How the figures were come by, in a few lines; the page says the same.
pub fn method(report: &Report) -> String {
    let criteria = &report.plan().declared().criteria;
    format!(
        "Gain: how many times better than the baseline in the same block, geometric mean over blocks. Interval: 95 %, {} \
         resamples of whole blocks, expanded percentiles. p: two-sided sign-flip test, corrected by Holm's method over all {} \
         declared comparisons{}. Verdict, from the whole interval: better above {}, worse below {}, equivalent within; none \
         with fewer than {} usable blocks.\n",
        bootstrap::RESAMPLES,
        report.analysis().family_size,
        out_of_reach(report),
        criteria.better_above,
        criteria.worse_below,
        criteria.min_blocks
    )
}

/// That no corrected p-value could have become small, where that is so: a reader must not take it for lack of a difference.
fn out_of_reach(report: &Report) -> String {
    match report.plan().blocks_short_of() {
        None => String::new(),
        Some(u32::MAX) => " (more than any number of blocks can correct to below 0.05)".to_owned(),
        Some(needed) => {
            format!(" ({} blocks cannot bring one below 0.05, {needed} could)", report.plan().declared().blocks)
        }
    }
}

fn comparisons(report: &Report) -> Vec<Vec<String>> {
    let head = COMPARISON_HEAD;
    let rows = report.analysis().comparisons.iter().map(|c| comparison(report, c));
    std::iter::once(head.map(str::to_owned).to_vec()).chain(rows).collect()
}

/// The columns of [`comparison`].
pub const COMPARISON_HEAD: [&str; 9] =
    ["target", "workload", "measure", "blocks", "gain", "95 % interval", "p (Holm)", "verdict", "not used"];

/// A comparison's row, for the page too.
pub fn comparison(report: &Report, comparison: &Comparison) -> Vec<String> {
    let cell = report.plan().cell(comparison.cell);
    let estimate = comparison.estimate.as_ref();
    let or_dash = |shown: Option<String>| shown.unwrap_or_else(|| "–".to_owned());
    vec![
        text::plain(cell.map_or("", |c| report.plan().target_name(c))),
        cell.map(text::workload).unwrap_or_default(),
        comparison.measure.to_string(),
        comparison.gains.len().to_string(),
        or_dash(estimate.map(|e| text::figure(e.gain))),
        or_dash(estimate.map(|e| format!("{} to {}", text::figure(e.low), text::figure(e.high)))),
        or_dash(estimate.map(|e| text::p_value(e.p_holm))),
        comparison.verdict.to_string(),
        text::reasons(&comparison.dropped),
    ]
}

fn cells(report: &Report) -> Vec<Vec<String>> {
    let head = CELL_HEAD.map(str::to_owned).to_vec();
    std::iter::once(head).chain(report.analysis().cells.iter().map(|c| cell(report, c))).collect()
}

/// The columns of [`cell`].
pub const CELL_HEAD: [&str; 14] = [
    "target",
    "workload",
    "MiB/s",
    "IOPS",
    "of limit",
    "mean",
    "p50",
    "p99",
    "p99.9",
    "server CPU/op",
    "server CPU/GiB",
    "client CPU/op",
    "runs",
    "discarded",
];

/// A cell's row, for the page too.
pub fn cell(report: &Report, summary: &CellSummary) -> Vec<String> {
    let cell = report.plan().cell(summary.cell);
    let quantile = |part| summary.latency.quantile_ns(part).map(|ns| ns as f64);
    let shown = |ns: Option<f64>| ns.map_or_else(|| "–".to_owned(), text::duration);
    vec![
        text::plain(cell.map_or("", |c| report.plan().target_name(c))),
        cell.map(text::workload).unwrap_or_default(),
        text::mib_per_second(summary.bytes_per_second),
        summary.operations_per_second.map_or_else(|| "–".to_owned(), text::figure),
        summary.of_ceiling.map_or_else(|| "–".to_owned(), |part| format!("{:.0} %", 100.0 * part)),
        shown(summary.latency.mean_ns()),
        shown(quantile(0.5)),
        shown(quantile(0.99)),
        shown(quantile(0.999)),
        shown(summary.server_cpu_ns_per_operation),
        shown(summary.server_cpu_ns_per_byte.map(|ns| ns * f64::from(1 << 30))),
        shown(summary.client_cpu_ns_per_operation),
        summary.accepted.to_string(),
        text::reasons(&summary.discarded),
    ]
}

/// Rows with each column as wide as its widest entry.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column| rows.iter().filter_map(|r| r.get(column)).map(|s: &String| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let padded: Vec<String> = row.iter().zip(&widths).map(|(entry, width)| format!("{entry:<width$}")).collect();
        out.push_str(padded.join("  ").trim_end());
        out.push('\n');
    }
    out
}
