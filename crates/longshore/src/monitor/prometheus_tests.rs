//! The text is read back by a small checker of the format's rules, and every metric in it is in `docs/metrics.md`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use vfs::metrics::{Distribution, Histogram};

use super::super::snapshot::{Connection, NfsClient};
use super::*;

/// One line of values.
#[derive(Debug, PartialEq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Samples by family, checked on the way: each family is declared once, before its samples, which come together.
fn read(text: &str) -> HashMap<String, (String, Vec<Sample>)> {
    let mut families: HashMap<String, (String, Vec<Sample>)> = HashMap::new();
    let mut current = String::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help");
            assert!(!help.is_empty());
            current = name.to_owned();
            let before = families.insert(current.clone(), (String::new(), Vec::new()));
            assert!(before.is_none(), "{name} twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, current);
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            families.get_mut(name).unwrap().0 = kind.to_owned();
        } else {
            let sample = sample(line);
            let (kind, samples) = families.get_mut(&current).unwrap();
            let suffix = sample.name.strip_prefix(&current).unwrap_or_else(|| panic!("{line} in {current}"));
            let allowed: &[_] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(allowed.contains(&suffix), "{line}");
            let again = samples.iter().any(|other| (&other.name, &other.labels) == (&sample.name, &sample.labels));
            assert!(!again, "twice: {line}");
            samples.push(sample);
        }
    }
    families
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}').expect("an end of the labels")),
        None => (series, ""),
    };
    assert!(
        name.starts_with("longshore_")
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    );
    let pairs = labels.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, text) = pair.split_once('=').unwrap();
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).expect("quotes");
        (name.to_owned(), text.to_owned())
    });
    let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    Sample { name: name.to_owned(), labels: pairs.collect(), value }
}

/// Buckets rise to the count, and their bounds rise.
fn check_histogram(samples: &[Sample]) {
    let without_bound = |sample: &Sample| {
        let mut labels = sample.labels.clone();
        labels.remove("le");
        labels
    };
    let series: BTreeSet<_> = samples.iter().map(without_bound).collect();
    for labels in series {
        let of_it: Vec<_> = samples.iter().filter(|sample| without_bound(sample) == labels).collect();
        let buckets: Vec<_> = of_it.iter().filter(|sample| sample.name.ends_with("_bucket")).collect();
        let bound = |sample: &Sample| match sample.labels["le"].as_str() {
            "+Inf" => f64::INFINITY,
            number => number.parse().unwrap(),
        };
        assert!(buckets.windows(2).all(|two| bound(two[0]) < bound(two[1]) && two[0].value <= two[1].value));
        let count = of_it.iter().find(|sample| sample.name.ends_with("_count")).unwrap();
        assert_eq!(buckets.last().unwrap().value, count.value);
        assert_eq!(bound(buckets.last().unwrap()), f64::INFINITY);
        assert_eq!(of_it.iter().filter(|sample| sample.name.ends_with("_sum")).count(), 1);
    }
}

fn numbers(values: &[u64]) -> Numbers {
    let histogram = Histogram::default();
    values.iter().for_each(|value| histogram.record(*value));
    Numbers::from(&Distribution::of(&histogram))
}

fn busy() -> Snapshot {
    let counters =
        ["read_pages", "read_bytes", "read_pages_bytes", "write_bytes", "write_worker_bytes", "nfs_read_bytes"];
    let operation = |protocol: &str, name: &str, latency: &[u64]| Operation {
        protocol: protocol.into(),
        name: name.into(),
        count: 10,
        errors: 1,
        latency_ns: numbers(latency),
    };
    Snapshot {
        version: "1 \"\\\n".into(),
        counters: counters.iter().zip([3, 100, 70, 50, 20, 7]).map(|(k, v)| ((*k).to_owned(), v)).collect(),
        operations: vec![
            operation("smb", "read", &[1_000, 1_023, 1_024, 5_000_000, u64::MAX]),
            operation("smb", "cancel", &[]),
            operation("nfs3", "read", &[2_000]),
            operation("nfs4", "read", &[3_000]),
        ],
        connections: vec![Connection { protocol: "smb".into(), ..Connection::default() }],
        nfs_clients: vec![NfsClient { state: "expired".into(), ..NfsClient::default() }],
        frames_per_recv: numbers(&[0, 1, 1, 4, 200]),
        ..Snapshot::default()
    }
}

#[test]
fn the_text_keeps_the_rules_whatever_there_is_to_tell() {
    for snapshot in [Snapshot::default(), busy()] {
        for (name, (kind, samples)) in read(&text(&snapshot)) {
            assert!(kind != "counter" || name.ends_with("_total"), "{name}");
            if kind == "histogram" {
                check_histogram(&samples);
            }
        }
    }
}

#[test]
fn values_are_where_they_belong() {
    let families = read(&text(&busy()));
    let value = |family: &str, name: &str, labels: &[(&str, &str)]| {
        let labels: BTreeMap<String, String> = labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let found = families[family].1.iter().find(|sample| sample.name == name && sample.labels == labels);
        found.unwrap_or_else(|| panic!("no {name} {labels:?}")).value
    };
    let plain = |name: &str, labels: &[(&str, &str)]| value(name, name, labels);
    assert_eq!(plain("longshore_smb_requests_total", &[("command", "read")]), 10.0);
    assert_eq!(plain("longshore_smb_errors_total", &[("command", "read")]), 1.0);
    assert_eq!(plain("longshore_nfs_requests_total", &[("protocol", "nfs4"), ("operation", "read")]), 10.0);
    assert_eq!(plain("longshore_smb_reads_total", &[("path", "pages")]), 3.0);
    assert_eq!(plain("longshore_smb_read_bytes_total", &[("path", "pages")]), 70.0);
    assert_eq!(plain("longshore_smb_read_bytes_total", &[("path", "copy")]), 30.0);
    assert_eq!(plain("longshore_smb_write_bytes_total", &[("path", "inline")]), 30.0);
    assert_eq!(plain("longshore_nfs_read_bytes_total", &[("path", "copy")]), 7.0);
    assert_eq!(plain("longshore_connections", &[("protocol", "smb")]), 1.0);
    assert_eq!(plain("longshore_nfs_clients", &[("state", "expired")]), 1.0);
    let duration = "longshore_smb_request_duration_seconds";
    let bucket = |le| value(duration, &format!("{duration}_bucket"), &[("command", "read"), ("le", le)]);
    assert_eq!((bucket("0.000001024"), bucket("0.000002048"), bucket("+Inf")), (2.0, 3.0, 5.0));
    let together = "longshore_frames_per_receive";
    let bucket = |le| value(together, &format!("{together}_bucket"), &[("le", le)]);
    assert_eq!((bucket("0"), bucket("1"), bucket("3"), bucket("7"), bucket("+Inf")), (1.0, 3.0, 3.0, 4.0, 5.0));
}

#[test]
fn the_documentation_has_every_metric_and_no_other() {
    let documented: BTreeSet<_> = include_str!("../../../../docs/metrics.md")
        .split('`')
        .filter(|word| word.starts_with("longshore_"))
        .map(|word| word.split('{').next().unwrap().to_owned())
        .collect();
    let told: BTreeSet<_> = read(&text(&busy())).into_keys().collect();
    assert_eq!(told, documented);
}
