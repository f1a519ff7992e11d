//! Numbers and strings as people read them, for table and page: units, p-values, and strings made harmless where they go.

use crate::plan::{Cell, Plan};
use crate::stats::Dropped;

/// What may stand in the text and in the quoted attributes of a page, and in XML. Control characters become a mark, since
/// XML does not allow them even escaped.
pub fn escaped(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(' '),
            c if is_unprintable(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// What a terminal may be given: no escape sequence, no new line, nothing that turns the direction of writing.
pub fn plain(raw: &str) -> String {
    raw.chars().map(|c| if is_unprintable(c) { '\u{fffd}' } else { c }).collect()
}

/// Control characters, what turns the direction of writing, and what is no character at all.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || (c as u32) & 0xfffe == 0xfffe
}

/// A number of bytes in the largest binary unit that keeps it whole: `4 KiB`, `1 MiB`, `1000 B`.
pub fn bytes(count: u32) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.iter().find(|(size, _)| count >= *size && count.is_multiple_of(*size));
    whole.map_or_else(|| format!("{count} B"), |(size, unit)| format!("{} {unit}", count / size))
}

/// A number to three significant digits and without an exponent.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.999_5 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Nanoseconds in the unit in which they are short: `850 ns`, `12.3 µs`, `1.20 ms`, `3.40 s`.
pub fn duration(nanoseconds: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let fitting = units.iter().find(|(size, _)| nanoseconds >= *size);
    fitting
        .map_or_else(|| format!("{nanoseconds:.0} ns"), |(size, unit)| format!("{} {unit}", figure(nanoseconds / size)))
}

/// MiB a second, or a dash.
pub fn mib_per_second(rate: Option<f64>) -> String {
    rate.map_or_else(|| "–".to_owned(), |r| figure(r / f64::from(1 << 20)))
}

/// A p-value: three places, or that it is below them.
pub fn p_value(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

/// What a cell does, without its target: `randread 4 KiB × 2`.
pub fn workload(cell: &Cell) -> String {
    format!("{} {} × {}", cell.operation, bytes(cell.block_size_bytes), cell.connections)
}

/// A cell with its target.
pub fn cell(plan: &Plan, cell: &Cell) -> String {
    format!("{}: {}", plan.target_name(cell), workload(cell))
}

/// Counts by reason: `2 failed, 1 too short`; empty when there are none.
pub fn reasons(dropped: &[(Dropped, u32)]) -> String {
    let each: Vec<String> = dropped.iter().map(|(why, count)| format!("{count} {why}")).collect();
    each.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([4_096, 1 << 20, 1_000, 3 << 30, 1_536].map(bytes), ["4 KiB", "1 MiB", "1000 B", "3 GiB", "1536 B"]);
        assert_eq!([0.0, 0.5, 1.0, 12.34, 123.4].map(figure), ["0.00", "0.500", "1.00", "12.3", "123"]);
        assert_eq!([850.0, 12_300.0, 1_200_000.0, 3.4e9].map(duration), ["850 ns", "12.3 µs", "1.20 ms", "3.40 s"]);
        assert_eq!([0.000_1, 0.031_25, 1.0].map(p_value), ["<0.001", "0.031", "1.000"]);
    }

    #[test]
    fn nothing_harmful_gets_through() {
        assert_eq!(escaped("<b a='\"'>&\u{0}\u{1b}[31m"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;\u{fffd}\u{fffd}[31m");
        assert_eq!(plain("a\u{1b}[2J\r\nb\u{202e}c"), "a\u{fffd}[2J\u{fffd}\u{fffd}b\u{fffd}c");
        assert_eq!(escaped("a\u{fffe}b\u{1ffff}\u{202e}"), "a\u{fffd}b\u{fffd}\u{fffd}");
    }
}
