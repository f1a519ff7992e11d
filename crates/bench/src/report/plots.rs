//! The plots of the page: gains with their intervals, throughput by block size and connections, latency distributions. Called
//! by [`super::html`]. A plot shows what the tables say and nothing else; where there would be more of it than a reader
//! looks at, the rest is counted in words.

use super::svg::{Anchor, Scale, Svg, of_target};
use super::{Report, text};
use crate::plan::{Cell, Measure, Operation};
use crate::stats::{CellSummary, Comparison};

/// The most rows of gains for one measure, and of one drawing of them.
const MAX_ROWS: usize = 360;
const ROWS_ON_A_SHEET: usize = 30;
/// Where the rows of gains begin.
const GAINS_TOP: f64 = 24.0;
/// The most small plots of one kind.
const MAX_PANELS: usize = 80;
const PANEL: (f64, f64) = (440.0, 260.0);
/// The inside of a small plot: left, top, right, bottom.
const INSIDE: (f64, f64, f64, f64) = (58.0, 30.0, 428.0, 222.0);

/// Drawings, and how many more there would have been.
pub struct Panels {
    /// The drawings.
    pub drawn: Vec<String>,
    /// How many were left out.
    pub left_out: usize,
}

/// The gains of one measure: a row for each comparison, on a logarithmic axis, with each block's own gain as a small dot.
/// Drawn in pieces that fit a sheet of paper, all with the same axis; what is left out is counted in rows.
pub fn gains(report: &Report, measure: Measure) -> Panels {
    let all: Vec<&Comparison> = report.analysis().comparisons.iter().filter(|c| c.measure == measure).collect();
    let rows = all.get(..MAX_ROWS).unwrap_or(&all);
    let range = gain_range(report, rows);
    let drawn = rows.chunks(ROWS_ON_A_SHEET).map(|piece| gains_piece(report, measure, piece, range)).collect();
    Panels { drawn, left_out: all.len() - rows.len() }
}

fn gains_piece(report: &Report, measure: Measure, rows: &[&Comparison], range: (f64, f64)) -> String {
    let height = 76.0 + 24.0 * rows.len() as f64;
    let mut svg = Svg::new(980.0, height, &format!("Gain over the baseline by {measure}, with 95 % intervals"));
    let axis = Scale::new(range, (300.0, 720.0));
    gain_axis(&mut svg, report, &axis, height - 34.0);
    for (number, row) in rows.iter().enumerate() {
        gain_row(&mut svg, report, row, &axis, 40.0 + 24.0 * number as f64);
    }
    svg.finish()
}

/// The logarithms of the least and greatest gain to be shown; the criteria always are.
fn gain_range(report: &Report, rows: &[&Comparison]) -> (f64, f64) {
    let criteria = &report.plan().declared().criteria;
    let shown = rows.iter().flat_map(|r| {
        let ends = r.estimate.map(|e| [e.low, e.high]).into_iter().flatten();
        ends.chain(r.gains.iter().map(|g| g.gain))
    });
    let shown = shown.chain([criteria.worse_below, criteria.better_above]).map(|gain| gain.clamp(1e-4, 1e4).ln());
    let (low, high) = shown.fold((0.0f64, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
    (low - 0.03 * (high - low), high + 0.03 * (high - low))
}

fn gain_axis(svg: &mut Svg, report: &Report, axis: &Scale, bottom: f64) {
    let criteria = &report.plan().declared().criteria;
    let within = (axis.at(criteria.worse_below.ln()), axis.at(criteria.better_above.ln()));
    svg.rectangle("band", (within.0, GAINS_TOP), (within.1, bottom));
    gain_tick(svg, "one", axis.at(0.0), bottom, "1");
    let steps = [1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1_000.0, 10_000.0];
    for direction in [-1.0, 1.0] {
        let mut last = axis.at(0.0);
        for step in steps {
            let value = f64::powf(step, direction);
            let x = axis.at(value.ln());
            if axis.holds(value.ln()) && (x - last).abs() >= 36.0 {
                gain_tick(svg, "grid", x, bottom, &text::figure(value));
                last = x;
            }
        }
    }
    svg.text("tick", (510.0, bottom + 30.0), Anchor::Middle, "times better than the baseline (logarithmic)");
}

fn gain_tick(svg: &mut Svg, class: &str, x: f64, bottom: f64, name: &str) {
    svg.line(class, (x, GAINS_TOP), (x, bottom));
    svg.text("tick", (x, GAINS_TOP - 8.0), Anchor::Middle, name);
    svg.text("tick", (x, bottom + 14.0), Anchor::Middle, name);
}

fn gain_row(svg: &mut Svg, report: &Report, row: &Comparison, axis: &Scale, y: f64) {
    let Some(cell) = report.plan().cell(row.cell) else { return };
    svg.text("label", (290.0, y + 4.0), Anchor::End, &shortened(&text::cell(report.plan(), cell), 46));
    for block in &row.gains {
        svg.dot(&of_target("block", cell.target), (axis.at(block.gain.ln()), y), 2.0);
    }
    let said = match &row.estimate {
        None => format!("{}, {} blocks", row.verdict, row.gains.len()),
        Some(e) => {
            let (low, high) = (axis.at(e.low.ln()), axis.at(e.high.ln()));
            svg.line(&of_target("interval", cell.target), (low, y), (high, y));
            svg.mark(&of_target("mark", cell.target), (axis.at(e.gain.ln()), y), cell.target);
            let [gain, low, high] = [e.gain, e.low, e.high].map(text::figure);
            format!("{gain} ({low} to {high}) {}", row.verdict)
        }
    };
    svg.text("label", (730.0, y + 4.0), Anchor::Start, &said);
}

/// Throughput over block size: a small plot for each operation and number of connections, a line for each target. Plots of
/// one operation have the same scale.
pub fn throughput(report: &Report) -> Panels {
    let declared = report.plan().declared();
    let mut panels = Panels { drawn: Vec::new(), left_out: 0 };
    for operation in &declared.operations {
        let top = top_rate(report, *operation);
        for connections in &declared.connections {
            panels.add(|| throughput_panel(report, *operation, *connections, top));
        }
    }
    panels
}

impl Panels {
    fn add(&mut self, draw: impl FnOnce() -> String) {
        if self.drawn.len() < MAX_PANELS {
            self.drawn.push(draw());
        } else {
            self.left_out += 1;
        }
    }
}

fn cells<'a>(
    report: &'a Report,
    wanted: impl Fn(&Cell) -> bool + 'a,
) -> impl Iterator<Item = (&'a Cell, &'a CellSummary)> {
    let both = report.analysis().cells.iter().filter_map(|s| Some((report.plan().cell(s.cell)?, s)));
    both.filter(move |(cell, _)| wanted(cell))
}

fn top_rate(report: &Report, operation: Operation) -> f64 {
    let rates = cells(report, |c| c.operation == operation).filter_map(|(_, s)| shown_rate(operation, s));
    rates.fold(0.0, f64::max).max(1.0 / f64::from(1 << 20))
}

/// The rate in the unit that is written at its axis: MiB a second, or operations where no bytes are moved.
fn shown_rate(operation: Operation, summary: &CellSummary) -> Option<f64> {
    match operation.moves_bytes() {
        true => summary.bytes_per_second.map(|rate| rate / f64::from(1 << 20)),
        false => summary.operations_per_second,
    }
}

fn throughput_panel(report: &Report, operation: Operation, connections: u32, top: f64) -> String {
    let title = format!("{operation}, {}", counted(connections, "connection"));
    let mut svg = panel(&format!("Throughput: {title}"), &title);
    let (left, above, right, below) = INSIDE;
    let step = round_step(top);
    let rate = Scale::new((0.0, (top / step).ceil() * step), (below, above));
    for tick in 0..=(top / step).ceil() as u32 {
        let (value, y) = (f64::from(tick) * step, rate.at(f64::from(tick) * step));
        svg.line("grid", (left, y), (right, y));
        svg.text("tick", (left - 6.0, y + 4.0), Anchor::End, &short_number(value));
    }
    svg.text("tick", (left - 6.0, above - 12.0), Anchor::End, if operation.moves_bytes() { "MiB/s" } else { "op/s" });
    let mut sizes = report.plan().declared().block_sizes_bytes.clone();
    sizes.sort_unstable();
    let size_at = |place: usize| left + (right - left) * (place as f64 + 0.5) / sizes.len() as f64;
    let apart = sizes.len().div_ceil(7);
    for (place, size) in sizes.iter().enumerate().filter(|(place, _)| place % apart == 0) {
        svg.text("tick", (size_at(place), below + 16.0), Anchor::Middle, &text::bytes(*size));
    }
    for target in 0..report.plan().declared().targets.len() as u32 {
        let of_line = |c: &Cell| c.target == target && c.operation == operation && c.connections == connections;
        let mut points: Vec<(f64, f64)> = cells(report, of_line)
            .filter_map(|(c, s)| {
                let place = sizes.binary_search(&c.block_size_bytes).ok()?;
                Some((size_at(place), rate.at(shown_rate(operation, s)?)))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        line_with_marks(&mut svg, target, &points);
    }
    svg.text("tick", ((left + right) / 2.0, below + 32.0), Anchor::Middle, "block size");
    svg.finish()
}

fn line_with_marks(svg: &mut Svg, target: u32, points: &[(f64, f64)]) {
    if points.len() > 1 {
        svg.path(&of_target(&format!("curve d{}", target % 4), target), points);
    }
    for point in points {
        svg.mark(&of_target("mark", target), *point, target);
    }
}

/// Latency distributions: a small plot for each workload, a line for each target. Across, the latency on a logarithmic axis;
/// up, what part of the operations took no longer, each further nine as high as the one before.
pub fn latency(report: &Report) -> Panels {
    let mut panels = Panels { drawn: Vec::new(), left_out: 0 };
    let baseline = report.plan().baseline();
    for workload in report.plan().cells().iter().filter(|c| c.target == baseline) {
        let same = |c: &Cell| Cell { target: baseline, ..*c } == *workload;
        let lines: Vec<_> = cells(report, same).filter(|(_, s)| s.latency.count() > 0).collect();
        if !lines.is_empty() {
            panels.add(|| latency_panel(workload, &lines));
        }
    }
    panels
}

/// How many nines the latency axis has, and what it is marked with.
const NINES: f64 = 4.0;
const PARTS: [(f64, &str); 6] =
    [(0.0, "0 %"), (0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.999_9, "99.99 %")];

fn latency_panel(workload: &Cell, lines: &[(&Cell, &CellSummary)]) -> String {
    let title = text::workload(workload);
    let mut svg = panel(&format!("Latency: {title}"), &title);
    let (left, above, right, below) = INSIDE;
    let least = lines.iter().map(|(_, s)| s.latency.min_ns().max(1)).min().unwrap_or(1);
    let most = lines.iter().map(|(_, s)| s.latency.max_ns().max(1)).max().unwrap_or(1);
    let time = Scale::new(((least as f64).ln(), (most as f64 * 1.05).ln()), (left, right));
    let part = Scale::new((0.0, NINES), (below, above));
    for (value, name) in PARTS {
        let y = part.at(nines(value));
        svg.line("grid", (left, y), (right, y));
        svg.text("tick", (left - 6.0, y + 4.0), Anchor::End, name);
    }
    time_axis(&mut svg, &time, below);
    for (cell, summary) in lines {
        let points = steps(&summary.latency.distribution(), &time, &part);
        svg.path(&of_target(&format!("curve d{}", cell.target % 4), cell.target), &points);
    }
    svg.text("tick", ((left + right) / 2.0, below + 32.0), Anchor::Middle, "completion latency (logarithmic)");
    svg.finish()
}

fn nines(part: f64) -> f64 {
    -(1.0 - part).max(f64::MIN_POSITIVE).log10()
}

fn time_axis(svg: &mut Svg, time: &Scale, below: f64) {
    let mut last = f64::MIN;
    for power in 0..20 {
        for first in [1.0, 2.0, 5.0] {
            let nanoseconds = first * 10f64.powi(power);
            let x = time.at(nanoseconds.ln());
            if time.holds(nanoseconds.ln()) && x - last >= 56.0 {
                svg.line("grid", (x, INSIDE.1), (x, below));
                let name = text::duration(nanoseconds).replace(".00 ", " ").replace(".0 ", " ");
                svg.text("tick", (x, below + 16.0), Anchor::Middle, &name);
                last = x;
            }
        }
    }
}

/// The points of a distribution as a stair, of which points less than a pixel from the one before are left out.
fn steps(distribution: &[(u64, f64)], time: &Scale, part: &Scale) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut height = part.at(0.0);
    for (place, (nanoseconds, so_far)) in distribution.iter().enumerate() {
        let (x, y) = (time.at((*nanoseconds as f64).max(1.0).ln()), part.at(nines(*so_far)));
        let near = points.last().is_some_and(|(px, py)| (px - x).abs() < 1.0 && (py - y).abs() < 1.0);
        if !near || place + 1 == distribution.len() {
            points.extend([(x, height), (x, y)]);
            height = y;
        }
    }
    points
}

fn panel(read_out: &str, title: &str) -> Svg {
    let mut svg = Svg::new(PANEL.0, PANEL.1, read_out);
    svg.text("head", ((INSIDE.0 + INSIDE.2) / 2.0, 16.0), Anchor::Middle, title);
    svg
}

/// A legend's sample of a target's line.
pub fn sample(target: u32, name: &str) -> String {
    let mut svg = Svg::new(36.0, 12.0, name);
    svg.path(&of_target(&format!("curve d{}", target % 4), target), &[(0.0, 6.0), (36.0, 6.0)]);
    svg.mark(&of_target("mark", target), (18.0, 6.0), target);
    svg.finish()
}

/// A step of 1, 2 or 5 times a power of ten, of which three to seven make up `top`.
fn round_step(top: f64) -> f64 {
    let power = 10f64.powf((top / 3.0).log10().floor());
    let fitting = [5.0, 2.0].into_iter().find(|first| top / (first * power) >= 3.0);
    fitting.unwrap_or(1.0) * power
}

/// A tick's number: without places when it has none.
fn short_number(value: f64) -> String {
    if (value - value.round()).abs() < 1e-9 { format!("{value:.0}") } else { text::figure(value) }
}

fn counted(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn shortened(label: &str, most: usize) -> String {
    if label.chars().count() <= most {
        return label.to_owned();
    }
    let kept: String = label.chars().skip(label.chars().count() - (most - 1)).collect();
    format!("…{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_a_handful_of_round_steps() {
        for top in [0.003, 0.9, 1.0, 3.0, 14.9, 15.0, 99.0, 640.0, 2_999.0, 12_345.0] {
            let count = top / round_step(top);
            assert!((3.0..7.6).contains(&count), "{top}: {count} steps of {}", round_step(top));
        }
    }

    #[test]
    fn a_long_label_keeps_its_end_where_the_workload_is() {
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("äbcdefg", 4), "…efg");
    }

    #[test]
    fn a_stair_ends_at_the_top_and_is_thinned() {
        let time = Scale::new((0.0, 10f64.ln()), (0.0, 100.0));
        let part = Scale::new((0.0, NINES), (100.0, 0.0));
        let many: Vec<(u64, f64)> = (0..10_000).map(|i| (5, (i + 1) as f64 / 10_000.0)).collect();
        let points = steps(&many, &time, &part);
        assert_eq!(points.last().map(|p| p.1), Some(0.0));
        assert!(points.len() < 500, "{}", points.len());
    }
}
