//! What was seen of a crowd, for a person and as JSON. Pure: figures out of what was counted.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::{Part, Timed};

/// The server's resident memory, where it runs on this machine.
#[derive(Debug, Default, Clone, Copy)]
pub struct Memory {
    /// Before anybody came.
    pub before: Option<u64>,
    /// With the idle clients there.
    pub idle: Option<u64>,
    /// When the load was over, everybody still connected.
    pub after: Option<u64>,
}

/// All that was seen.
pub struct Seen {
    /// Idle clients.
    pub idle: u32,
    /// How long it took them to come.
    pub connecting: Duration,
    /// How long it was measured.
    pub runtime: Duration,
    /// What the server held.
    pub memory: Memory,
    /// What each of the others got, but for the slow ones.
    pub clients: Vec<Timed>,
}

#[derive(Serialize)]
struct Document {
    format: &'static str,
    version: u32,
    idle: u32,
    connecting_ms: u128,
    resident_bytes_before: Option<u64>,
    resident_bytes_idle: Option<u64>,
    resident_bytes_after: Option<u64>,
    bytes_per_idle_client: Option<f64>,
    busy: Option<Spread>,
    greedy: Option<Spread>,
    clients: Vec<One>,
}

/// How unequal clients of one kind were.
#[derive(Debug, PartialEq, Serialize)]
struct Spread {
    operations_per_second: f64,
    median_p99_us: f64,
    slowest_p99_us: f64,
    /// The slowest client's p99 by the median client's.
    ratio: f64,
    median_operations: u64,
    fewest_operations: u64,
}

#[derive(Serialize)]
struct One {
    number: u32,
    greedy: bool,
    operations: u64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

impl Seen {
    /// For programs.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(&self.document())
    }

    /// For a person.
    pub fn table(&self) -> String {
        let document = self.document();
        let mut out = String::new();
        let mib = |bytes: Option<u64>| bytes.map_or("–".to_owned(), |b| format!("{:.1} MiB", b as f64 / 1048576.0));
        let _ = writeln!(
            out,
            "{} idle clients connected in {} ms; server: {} before, {} with them, {} after the load",
            document.idle,
            document.connecting_ms,
            mib(document.resident_bytes_before),
            mib(document.resident_bytes_idle),
            mib(document.resident_bytes_after)
        );
        if let Some(bytes) = document.bytes_per_idle_client {
            let _ = writeln!(out, "an idle client: {:.1} KiB", bytes / 1024.0);
        }
        for (name, spread) in [("busy", &document.busy), ("greedy", &document.greedy)] {
            let Some(s) = spread else { continue };
            let _ = writeln!(
                out,
                "{name}: {:.0} IOPS; p99 of the median client {:.0} µs, of the slowest {:.0} µs ({:.2} times); \
                 operations: median {}, fewest {}",
                s.operations_per_second,
                s.median_p99_us,
                s.slowest_p99_us,
                s.ratio,
                s.median_operations,
                s.fewest_operations
            );
        }
        out.trim_end().to_owned()
    }

    fn document(&self) -> Document {
        let Memory { before, idle, after } = self.memory;
        let grown = idle.zip(before).map(|(idle, before)| idle.saturating_sub(before));
        Document {
            format: "longshore-bench-crowd",
            version: 1,
            idle: self.idle,
            connecting_ms: self.connecting.as_millis(),
            resident_bytes_before: before,
            resident_bytes_idle: idle,
            resident_bytes_after: after,
            bytes_per_idle_client: grown.filter(|_| self.idle > 0).map(|bytes| bytes as f64 / f64::from(self.idle)),
            busy: self.spread(Part::Busy),
            greedy: self.spread(Part::Greedy),
            clients: self.clients.iter().map(One::of).collect(),
        }
    }

    fn spread(&self, part: Part) -> Option<Spread> {
        let of_part = || self.clients.iter().filter(|client| client.part == part);
        let p99_us = sorted(of_part().map(|client| quantile_us(client, 0.99).unwrap_or(f64::INFINITY)), f64::total_cmp);
        let operations = sorted(of_part().map(|client| client.counted.operations), Ord::cmp);
        let (median_p99_us, slowest_p99_us) = (*median(&p99_us)?, *p99_us.last()?);
        Some(Spread {
            operations_per_second: operations.iter().sum::<u64>() as f64 / self.runtime.as_secs_f64(),
            median_p99_us,
            slowest_p99_us,
            ratio: slowest_p99_us / median_p99_us,
            median_operations: *median(&operations)?,
            fewest_operations: *operations.first()?,
        })
    }
}

impl One {
    fn of(client: &Timed) -> Self {
        Self {
            number: client.number,
            greedy: client.part == Part::Greedy,
            operations: client.counted.operations,
            p50_us: quantile_us(client, 0.5),
            p99_us: quantile_us(client, 0.99),
        }
    }
}

/// None where nothing completed.
fn quantile_us(client: &Timed, part: f64) -> Option<f64> {
    client.counted.latency.quantile_ns(part).map(|ns| ns as f64 / 1e3)
}

fn sorted<T>(values: impl Iterator<Item = T>, by: fn(&T, &T) -> std::cmp::Ordering) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_by(by);
    values
}

fn median<T>(sorted: &[T]) -> Option<&T> {
    sorted.get(sorted.len() / 2)
}

#[cfg(test)]
mod tests {
    use bench::tally::Counted;

    use super::*;

    fn client(number: u32, part: Part, latencies_us: &[u64]) -> Timed {
        let mut recorder = bench::histogram::Recorder::default();
        latencies_us.iter().for_each(|us| recorder.record(us * 1_000));
        let operations = latencies_us.len() as u64;
        let latency = recorder.finish();
        Timed { number, part, counted: Counted { bytes: 0, operations, latency, ended_ns: 0 } }
    }

    fn seen(clients: Vec<Timed>) -> Seen {
        let memory = Memory { before: Some(10 << 20), idle: Some(12 << 20), after: None };
        let (connecting, runtime) = (Duration::from_millis(5), Duration::from_secs(2));
        Seen { idle: 1024, connecting, runtime, memory, clients }
    }

    #[test]
    fn the_slowest_is_compared_with_the_median_of_its_kind() {
        let clients = vec![
            client(0, Part::Greedy, &[9_000]),
            client(1, Part::Busy, &[100, 100]),
            client(2, Part::Busy, &[200, 200, 200]),
            client(3, Part::Busy, &[50; 7]),
        ];
        let document = seen(clients).document();
        let busy = document.busy.unwrap();
        assert_eq!((busy.median_operations, busy.fewest_operations, busy.operations_per_second), (3, 2, 6.0));
        assert!((busy.ratio - 2.0).abs() < 0.02, "{busy:?}");
        assert!((document.greedy.unwrap().slowest_p99_us - 9_000.0).abs() < 90.0);
        assert_eq!(document.bytes_per_idle_client, Some(2048.0));
    }

    #[test]
    fn a_client_that_got_nothing_is_the_slowest() {
        let seen = seen(vec![client(0, Part::Busy, &[10]), client(1, Part::Busy, &[]), client(2, Part::Busy, &[10])]);
        assert_eq!(seen.document().busy.unwrap().ratio, f64::INFINITY);
        assert!(seen.table().contains("fewest 0"));
    }
}
