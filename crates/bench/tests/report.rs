//! The report in its three forms: JSON that is read back and not believed, a table that a terminal can be given, a page that
//! is well-formed, needs nothing else and shows hostile names as what they are.

mod story;

use bench::Error;
use bench::observation::Reason;
use bench::plan::Plan;
use bench::report::{FORMAT_VERSION, Report};
use roxmltree::{Document, ParsingOptions};
use story::{declaration, discard, observations};

const HOSTILE: [&str; 3] =
    ["</style></title><script>alert(1)</script>", "\" onload='x' & <!-- ]]> \u{1b}[2J", "a\u{0}b\u{fffe}\u{202e}\r\nc"];

fn report(names: [&str; 3], detail: &str) -> Report {
    let plan = Plan::new(declaration(names, 8)).unwrap();
    let mut runs = observations(&plan);
    discard(&mut runs, 0, 1, Reason::Failed, detail);
    discard(&mut runs, 1, 4, Reason::WrongPath, detail);
    let facts = vec![("kernel".to_owned(), detail.to_owned()), (detail.to_owned(), "6.1".to_owned())];
    Report::new(plan, facts, runs).unwrap()
}

fn ordinary() -> Report {
    report(["samba", "longshore", "ganesha"], "the server closed the connection")
}

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn json_is_read_back_whole() {
    for report in [ordinary(), report(HOSTILE, HOSTILE[1])] {
        let json = report.to_json().unwrap();
        let read = Report::from_json(json.as_bytes()).unwrap();
        assert_eq!(read, report);
        assert_eq!(read.to_json().unwrap(), json);
        assert_eq!(read.to_html(), report.to_html());
    }
}

#[test]
fn json_has_every_observation_and_its_version() {
    let report = ordinary();
    let value: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    assert_eq!(value["format"], "longshore-bench");
    assert_eq!(value["version"], FORMAT_VERSION);
    assert_eq!(value["observations"].as_array().unwrap().len(), 24 * 8);
    assert_eq!(value["analysis"]["comparisons"].as_array().unwrap().len(), 32);
    assert_eq!(value["cells"].as_array().unwrap().len(), 24);
}

#[test]
fn the_analysis_in_a_file_is_not_believed() {
    let report = ordinary();
    let mut value: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    value["analysis"]["comparisons"][0]["verdict"] = "worse".into();
    value["analysis"]["family_size"] = 1.into();
    assert_eq!(Report::from_json(value.to_string().as_bytes()).unwrap(), report);
}

#[test]
fn other_files_and_contradictions_are_refused() {
    let json = ordinary().to_json().unwrap();
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut value = serde_json::from_str(&json).unwrap();
        change(&mut value);
        Report::from_json(value.to_string().as_bytes()).unwrap_err()
    };
    assert!(matches!(changed(&|v| v["format"] = "fio".into()), Error::NotAReport));
    assert!(matches!(changed(&|v| v["version"] = 2.into()), Error::Version { found: 2, known: 1 }));
    assert!(matches!(changed(&|v| *v = serde_json::json!({})), Error::NotAReport));
    assert!(matches!(changed(&|v| *v = 7.into()), Error::Json(_)));
    assert!(matches!(changed(&|v| v["plan"]["baseline"] = "nobody".into()), Error::Json(_)));
    assert!(matches!(changed(&|v| v["observations"][0]["cell"] = 24.into()), Error::NotPlanned { cell: 24, .. }));
    assert!(matches!(changed(&|v| v["observations"][0]["block"] = 8.into()), Error::NotPlanned { block: 8, .. }));
    let twice = changed(&|v| {
        let first = v["observations"][0].clone();
        v["observations"].as_array_mut().unwrap().push(first);
    });
    assert!(matches!(twice, Error::ObservedTwice { .. }));
    let cut = &json.as_bytes()[..json.len() / 2];
    assert!(matches!(Report::from_json(cut), Err(Error::Json(_))));
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_else() {
    for report in [ordinary(), report(HOSTILE, HOSTILE[0]), report(HOSTILE, HOSTILE[2])] {
        let page = report.to_html();
        let document = parsed(&page);
        for node in document.descendants().filter(|n| n.is_element()) {
            assert!(!["script", "link", "img", "iframe", "object", "use", "image"].contains(&node.tag_name().name()));
            for attribute in node.attributes() {
                assert!(!["src", "href", "srcset", "style"].contains(&attribute.name()), "{attribute:?}");
                assert!(!attribute.name().starts_with("on"), "{attribute:?}");
            }
        }
        let style = document.descendants().find(|n| n.has_tag_name("style")).unwrap().text().unwrap();
        assert!(!style.contains("url(") && !style.contains("@import"));
        assert!(style.contains("prefers-color-scheme: dark") && style.contains("@media print"));
    }
}

#[test]
fn hostile_names_are_shown_as_text() {
    let page = report(HOSTILE, "plain").to_html();
    let document = parsed(&page);
    let title = document.descendants().find(|n| n.has_tag_name("h1")).unwrap();
    assert_eq!(title.text(), Some("\" onload='x' & <!-- ]]> \u{fffd}[2J against the rest"));
    assert!(
        document
            .descendants()
            .any(|n| n.has_tag_name("li") && n.children().any(|c| c.text().is_some_and(|t| t.contains(HOSTILE[0]))))
    );
    assert!(
        !page.contains("<script") && !page.contains('\u{0}') && !page.contains('\u{1b}') && !page.contains('\u{202e}')
    );
}

#[test]
fn the_page_draws_what_was_measured() {
    let page = ordinary().to_html();
    let document = parsed(&page);
    let of_class = |name: &str, class: &str| {
        let has = |n: &roxmltree::Node<'_, '_>| n.attribute("class").is_some_and(|c| c.split(' ').any(|c| c == class));
        document.descendants().filter(|n| n.has_tag_name(name) && has(n)).count()
    };
    // Two measures of sixteen cells each: an interval for each, a dot for each block that counts. Cell 1 lost a block; cell 4
    // lost one too.
    assert_eq!(of_class("line", "interval"), 32);
    assert_eq!(of_class("circle", "block"), 32 * 8 - 4);
    // Four small plots of throughput and eight of latency, three targets in each, and the legend.
    assert_eq!(of_class("path", "curve"), 4 * 3 + 8 * 3 + 3);
    for number in
        document.descendants().flat_map(|n| n.attributes()).filter(|a| ["x1", "cx", "y1", "d"].contains(&a.name()))
    {
        assert!(!number.value().contains("NaN") && !number.value().contains("inf"), "{number:?}");
    }
}

#[test]
fn the_page_of_nothing_is_a_page() {
    let plan = Plan::new(declaration(["a", "b", "c"], 8)).unwrap();
    let empty = Report::new(plan, Vec::new(), Vec::new()).unwrap();
    let page = empty.to_html();
    assert!(parsed(&page).descendants().any(|n| n.text() == Some("8 not run")));
    assert!(!page.contains("NaN"));
    assert!(empty.to_table().contains("8 not run"));
}

#[test]
fn the_table_says_verdicts_and_what_was_left_out() {
    let table = ordinary().to_table();
    let row = table.lines().find(|l| l.starts_with("longshore") && l.contains("throughput")).unwrap();
    for part in ["read 4 KiB × 1", "7", "better", "1 failed"] {
        assert!(row.contains(part), "{part} is not in {row}");
    }
    assert!(table.lines().any(|l| l.starts_with("longshore") && l.contains("1 wrong path")));
    assert!(
        table.contains(
            "Holm's method over all 32 declared comparisons (8 blocks cannot bring one below 0.05, 11 could)"
        )
    );
    let hostile = report(HOSTILE, HOSTILE[1]).to_table();
    assert!(hostile.chars().all(|c| c == '\n' || !c.is_control()));
    assert!(!hostile.contains('\u{202e}'));
}

#[test]
fn numbers_at_their_limits_break_nothing() {
    let json = report(["a", "b", "c"], "").to_json().unwrap();
    let limits = [0, 1, u64::MAX];
    let mut value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let runs = value["observations"].as_array_mut().unwrap();
    for (number, run) in runs.iter_mut().enumerate() {
        if let Some(measurement) = run["outcome"].get_mut("accepted") {
            measurement["elapsed_ns"] = limits[number % 3].into();
            measurement["bytes"] = limits[number / 3 % 3].into();
            measurement["operations"] = limits[number / 9 % 3].into();
            let latency = serde_json::json!({
                "min_ns": u64::MAX, "max_ns": u64::MAX, "sum_ns": u64::MAX, "buckets": [[7_423, u64::MAX]]
            });
            measurement["latency"] = latency;
        }
    }
    let report = Report::from_json(value.to_string().as_bytes()).unwrap();
    let page = report.to_html();
    parsed(&page);
    assert!(!page.contains("NaN") && !page.contains(">inf"));
    assert!(!report.to_table().contains("NaN"));
}
