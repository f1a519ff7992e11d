//! The report as one page: tables and plots in a file that needs nothing else, not even a script, and that is read as well
//! in dark mode and on paper. The page is well-formed XML too, which a test uses to find what would break it. Whatever
//! comes from a declaration, a server or a file goes through [`super::text::escaped`].

use super::plots::{self, Panels};
use super::text::escaped;
use super::{Report, table, text};
use crate::observation::Outcome;
use crate::stats::Verdict;
use std::fmt::Write;

/// How many discarded runs are listed one by one; the tables count them all.
const MAX_DISCARDED_LISTED: usize = 500;

/// Draws the page.
pub fn draw(report: &Report) -> String {
    let title = escaped(&report.plan().declared().title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/>\
         <title>{title}</title><style>{STYLE}</style></head><body><main><h1>{title}</h1>\n"
    );
    for section in [summary, legend, comparisons, throughput, latency, cells, discarded, declaration, facts] {
        page.push_str(&section(report));
        page.push('\n');
    }
    page.push_str("</main></body></html>\n");
    page
}

fn summary(report: &Report) -> String {
    let of = |wanted| report.analysis().comparisons.iter().filter(|c| c.verdict == wanted).count();
    let all =
        [Verdict::Better, Verdict::Equivalent, Verdict::Worse, Verdict::Ambiguous, Verdict::TooFew].map(|v| (v, of(v)));
    let counts: Vec<String> = all.iter().map(|(v, n)| format!("<b>{n}</b> {v}")).collect();
    let discarded = report.observations().iter().filter(|o| matches!(o.outcome, Outcome::Discarded { .. })).count();
    let planned = report.plan().cells().len() * report.plan().declared().blocks as usize;
    let warning = table::failures(report).map(|w| format!("<p class=\"warning\">{}</p>", escaped(&w)));
    format!(
        "{}<p class=\"lead\">Compared with <b>{}</b>: {}.</p><p>{planned} runs planned, {} made, {discarded} of them \
         discarded.</p>",
        warning.unwrap_or_default(),
        escaped(&report.plan().declared().baseline),
        counts.join(", "),
        report.observations().len()
    )
}

fn legend(report: &Report) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for (number, target) in report.plan().declared().targets.iter().enumerate() {
        let mark = if number as u32 == report.plan().baseline() { " (baseline)" } else { "" };
        let _ = write!(out, "<li>{} {}{mark}</li>", plots::sample(number as u32, &target.name), escaped(&target.name));
    }
    out + "</ul>"
}

fn comparisons(report: &Report) -> String {
    let mut out = String::from("<section><h2>Compared with the baseline</h2>");
    for measure in &report.plan().declared().measures {
        let panels = plots::gains(report, *measure);
        let _ = write!(
            out,
            "<h3>By {measure}</h3><p class=\"note\">Mark and bar: geometric mean and 95 % interval; small dots: single blocks; \
             band: within the declared criteria.{}</p>",
            left_out_note(panels.left_out, "more comparisons are in the table")
        );
        for plot in &panels.drawn {
            let _ = write!(out, "<figure class=\"wide\">{plot}</figure>");
        }
    }
    let rows: Vec<_> = report.analysis().comparisons.iter().map(|c| table::comparison(report, c)).collect();
    out + &html_table(&table::COMPARISON_HEAD, &rows) + &format!("<p class=\"note\">{}</p></section>", method(report))
}

fn method(report: &Report) -> String {
    escaped(table::method(report).trim())
}

fn throughput(report: &Report) -> String {
    grid("Throughput by block size and connections", &plots::throughput(report))
}

fn latency(report: &Report) -> String {
    grid("Latency distribution", &plots::latency(report))
}

fn grid(title: &str, panels: &Panels) -> String {
    let figures: String = panels.drawn.iter().map(|svg| format!("<figure>{svg}</figure>")).collect();
    let note =
        left_out_note(panels.left_out, "more plots of this kind were left out; the table below has their figures");
    format!("<section><h2>{title}</h2><div class=\"panels\">{figures}</div><p class=\"note\">{note}</p></section>")
}

fn left_out_note(count: usize, what: &str) -> String {
    if count == 0 { String::new() } else { format!(" {count} {what}.") }
}

fn cells(report: &Report) -> String {
    let rows: Vec<_> = report.analysis().cells.iter().map(|c| table::cell(report, c)).collect();
    format!("<section><h2>Every cell</h2>{}</section>", html_table(&table::CELL_HEAD, &rows))
}

fn discarded(report: &Report) -> String {
    let listed = report.observations().iter().filter_map(|o| match &o.outcome {
        Outcome::Discarded { reason, detail, .. } => {
            let cell = report.plan().cell(o.cell).map(|c| text::cell(report.plan(), c)).unwrap_or_default();
            Some(vec![cell, o.block.to_string(), reason.to_string(), detail.clone()])
        }
        Outcome::Accepted(_) => None,
    });
    let rows: Vec<_> = listed.clone().take(MAX_DISCARDED_LISTED).collect();
    if rows.is_empty() {
        return "<section><h2>Discarded runs</h2><p>None.</p></section>".to_owned();
    }
    let note = left_out_note(listed.count() - rows.len(), "more are in the report's JSON");
    let table = html_table(&["cell", "block", "reason", "detail"], &rows);
    format!("<section><h2>Discarded runs</h2>{table}<p class=\"note\">{note}</p></section>")
}

fn declaration(report: &Report) -> String {
    let d = report.plan().declared();
    let measures: Vec<String> = d.measures.iter().map(ToString::to_string).collect();
    let mut rows = vec![
        ["blocks".to_owned(), d.blocks.to_string()],
        ["order and resamples from seed".to_owned(), d.seed.to_string()],
        ["warm-up".to_owned(), format!("{} ms", d.warm_up_ms)],
        ["run".to_owned(), format!("{} ms", d.run_ms)],
        ["in flight on each connection".to_owned(), d.in_flight.to_string()],
        ["reads in a mixed run".to_owned(), format!("{} %", d.rwmixread)],
        ["files of each connection, where an operation is on many".to_owned(), d.files.to_string()],
        ["compared".to_owned(), measures.join(", ")],
    ];
    rows.extend(d.targets.iter().map(|t| [t.name.clone(), t.url.clone()]));
    pairs("Declared beforehand", &rows)
}

fn facts(report: &Report) -> String {
    let rows: Vec<_> = report.facts().iter().map(|(name, value)| [name.clone(), value.clone()]).collect();
    if rows.is_empty() { String::new() } else { pairs("Circumstances", &rows) }
}

fn pairs(title: &str, rows: &[[String; 2]]) -> String {
    let each = |[name, value]: &[String; 2]| {
        format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escaped(name), escaped(value))
    };
    let body: String = rows.iter().map(each).collect();
    format!("<section><h2>{title}</h2><div class=\"scroll pairs\"><table><tbody>{body}</tbody></table></div></section>")
}

fn html_table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: String = head.iter().map(|h| format!("<th scope=\"col\">{}</th>", escaped(h))).collect();
    let row = |cells: &Vec<String>| {
        let cells: String = cells.iter().map(|c| format!("<td>{}</td>", escaped(c))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.iter().map(row).collect();
    format!("<div class=\"scroll figures\"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>")
}

/// Colours are named once for light and once for dark. Dark is for screens alone, so that paper is always light. The eight
/// colours of targets differ in lightness too, and lines in their dashes and marks, for readers who see no colours.
const STYLE: &str = "
:root{--bg:#ffffff;--fg:#1b1f24;--muted:#57606a;--grid:#d9dee3;--band:#e9eef4;
--c0:#0b62c4;--c1:#c2410c;--c2:#157f3c;--c3:#8b2fb3;--c4:#8a6a00;--c5:#0b7a83;--c6:#b3205b;--c7:#4b5563}
@media screen and (prefers-color-scheme: dark){:root{--bg:#14171a;--fg:#e4e8ec;--muted:#a3adb8;--grid:#343b42;--band:#222a33;
--c0:#6cb2ff;--c1:#ff9a5c;--c2:#5fd08a;--c3:#d79bf5;--c4:#e3c04f;--c5:#56cfd8;--c6:#ff86b3;--c7:#b6bec8}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,-apple-system,Segoe UI,Roboto,sans-serif}
main{max-width:1060px;margin:0 auto;padding:24px 20px 60px}
h1{font-size:26px;line-height:1.2;margin:0 0 8px;overflow-wrap:anywhere}
h2{font-size:19px;margin:36px 0 10px}
h3{font-size:15px;margin:20px 0 2px}
.note{margin:0 0 10px}
.warning{border:2px solid var(--c1);padding:8px 12px;font-weight:600;overflow-wrap:anywhere}
.lead{font-size:17px;margin:8px 0}
.note{color:var(--muted);font-size:13px}
figure{margin:0 0 14px}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:16px}
svg{display:block;max-width:100%;height:auto}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:6px 20px;padding:0;margin:14px 0}
.legend li{display:flex;align-items:center;gap:8px;max-width:100%;overflow-wrap:break-word}
.legend svg{flex:none}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;width:100%}
th,td{text-align:left;padding:4px 12px 4px 0;border-bottom:1px solid var(--grid);vertical-align:top;overflow-wrap:break-word}
.figures td{white-space:nowrap}
.figures td:last-child{white-space:normal}
.pairs table{table-layout:fixed}
.pairs th{width:28%}
.pairs td,.pairs th{overflow-wrap:anywhere}
thead th{color:var(--muted);font-weight:600;vertical-align:bottom}
tbody th{font-weight:500}
text{fill:var(--fg);font:12px system-ui,-apple-system,Segoe UI,Roboto,sans-serif}
.tick{fill:var(--muted);font-size:11px}
.head{font-weight:600;font-size:13px}
line.grid{stroke:var(--grid);stroke-width:1}
.band{fill:var(--band)}
line.one{stroke:var(--muted);stroke-width:1.2}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}
.c4{color:var(--c4)}.c5{color:var(--c5)}.c6{color:var(--c6)}.c7{color:var(--c7)}
.interval{stroke:currentColor;stroke-width:3}
.mark{fill:currentColor;stroke:var(--bg);stroke-width:.8}
.block{fill:currentColor;opacity:.45}
.curve{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}
.d1{stroke-dasharray:7 3}.d2{stroke-dasharray:2.5 2.5}.d3{stroke-dasharray:9 3 2 3}
@media screen{.wide{overflow-x:auto}.wide svg{min-width:720px}}
@media print{@page{margin:14mm}body{font-size:11pt}main{max-width:none;padding:0}table{font-size:8pt}
thead{display:table-header-group}figure,tr{break-inside:avoid}h2,h3,.note{break-after:avoid}.scroll{overflow:visible}
.panels{grid-template-columns:1fr 1fr}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
";
