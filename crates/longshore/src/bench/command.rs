//! `longshore bench run` and `longshore bench limit`: one load on each server or bare loop, and its figures.

use std::fmt::Write;
use std::sync::Arc;

use bench::observation::{Measurement, Outcome};
use bench::workload::Workload;
use serde::Serialize;

use super::arguments::{LimitArgs, LoadArgs, RunArgs};
use super::bare::Bare;
use super::ground::{Ground, prepare, remove};
use super::job::Load;
use super::load::{self, Stop};
use super::login::Logins;
use super::place::Place;
use super::{results, signals};
use crate::failure::Failure;
use crate::status;

/// `longshore bench run`.
pub fn run(arguments: &RunArgs) -> Result<(), Failure> {
    let mut logins = Logins::new(&arguments.access.login);
    let mut places = Vec::new();
    for url in &arguments.urls {
        places.push(Place::of_server(url, logins.way(url, None)?, arguments.server_pid)?);
    }
    measure(&places, &arguments.load, arguments.access.keep_files, arguments.json)
}

/// `longshore bench limit`.
pub fn limit(arguments: &LimitArgs) -> Result<(), Failure> {
    let start = |how| Ok(Place::of_bare(&format!("{how}"), Bare::start(&arguments.directory, how)?));
    let places: Vec<_> = arguments.how.iter().map(|how| start(*how)).collect::<Result<_, Failure>>()?;
    measure(&places, &arguments.load, arguments.keep_files, arguments.json)
}

fn measure(places: &[Arc<Place>], arguments: &LoadArgs, keep_files: bool, json: bool) -> Result<(), Failure> {
    results::warn_of_build();
    let load = load_of(arguments)?;
    if load.workload.operation.is_on_names() && places.iter().any(|place| place.server_way().is_none()) {
        return Err(Failure::usage("the bare loop knows no names: it reads and writes open files"));
    }
    let ground = Ground::of_load(&load);
    let stop = signals::watch()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system(format!("cannot start a runtime: {error}")))?;
    let runs = runtime.block_on(async {
        let mut runs = Vec::new();
        for place in places {
            if !stop.is_told() {
                runs.push(one(place, &load, &ground, &stop).await);
            }
            if !keep_files {
                let _ = remove(place, &ground).await;
            }
        }
        runs
    });
    show(&runs, arguments, json)?;
    let failed = places.len() - runs.iter().filter(|run| run.outcome.is_accepted()).count();
    match failed {
        0 => Ok(()),
        failed => Err(Failure::system(format!("{failed} of {} runs failed", places.len()))),
    }
}

async fn one(place: &Arc<Place>, load: &Load, ground: &Ground, stop: &Stop) -> Run {
    let prepared = tokio::select! {
        prepared = prepare(place, ground) => prepared,
        () = stop.wait() => Err("it was ended".to_owned()),
    };
    let (said, outcome) = match prepared {
        Ok(said) => (said, load::measure(place, load, stop).await),
        Err(detail) => {
            let reason = bench::observation::Reason::Failed;
            (String::new(), Outcome::Discarded { reason, detail, measurement: None })
        }
    };
    let server = place.server().map(|server| server.name().to_owned());
    Run { target: place.shown(), negotiated: said, server, outcome }
}

fn load_of(arguments: &LoadArgs) -> Result<Load, Failure> {
    let block_bytes = u32::try_from(arguments.bs.0).ok().filter(|bytes| *bytes <= 1 << 30);
    let block_bytes = block_bytes.ok_or_else(|| Failure::usage("--bs above 1 GiB"))?;
    if arguments.runtime.0.is_zero() {
        return Err(Failure::usage("--runtime of nothing"));
    }
    let workload = Workload {
        operation: arguments.rw.0,
        rwmixread: arguments.rwmixread,
        block_bytes,
        size_bytes: arguments.size.0,
        files: arguments.nrfiles,
    };
    match workload.operation.is_on_names() {
        true => bench::workload::Visits::new(workload, 0, 0).map(drop),
        false => bench::workload::Requests::new(workload, 0, 0).map(drop),
    }
    .map_err(Failure::usage)?;
    Ok(Load {
        workload,
        jobs: arguments.numjobs,
        connections: arguments.connections,
        depth: arguments.iodepth,
        ramp: arguments.ramp_time.0,
        runtime: arguments.runtime.0,
        seed: arguments.seed,
    })
}

/// One load on one server, as it is in the JSON.
#[derive(Debug, Serialize)]
struct Run {
    target: String,
    negotiated: String,
    server: Option<String>,
    outcome: Outcome,
}

impl Run {
    fn figures(&self) -> Option<Figures> {
        self.outcome.accepted().map(Figures::of)
    }
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    workload: Words,
    facts: Vec<(String, String)>,
    runs: Vec<Described<'a>>,
}

/// The workload in fio's words.
#[derive(Serialize)]
struct Words {
    rw: String,
    rwmixread: u8,
    nrfiles: u32,
    bs: u64,
    numjobs: u32,
    connections: u32,
    iodepth: u32,
    size: u64,
    runtime_ms: u128,
    ramp_time_ms: u128,
    seed: u64,
}

#[derive(Serialize)]
struct Described<'a> {
    #[serde(flatten)]
    run: &'a Run,
    figures: Option<Figures>,
}

/// What a reader would compute from a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Figures {
    mib_per_second: f64,
    iops: f64,
    mean_us: Option<f64>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    p999_us: Option<f64>,
    client_cpu_us_per_operation: Option<f64>,
    server_cpu_us_per_operation: Option<f64>,
    server_cpu_seconds_per_gib: Option<f64>,
}

impl Figures {
    fn of(measured: &Measurement) -> Self {
        let seconds = measured.elapsed_ns as f64 / 1e9;
        let quantile = |part| measured.latency.quantile_ns(part).map(|ns| ns as f64 / 1e3);
        let of_each = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3 / measured.operations as f64);
        Self {
            mib_per_second: measured.bytes as f64 / f64::from(1 << 20) / seconds,
            iops: measured.operations as f64 / seconds,
            mean_us: measured.latency.mean_ns().map(|ns| ns / 1e3),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            client_cpu_us_per_operation: of_each(measured.client_cpu_ns),
            server_cpu_us_per_operation: of_each(measured.server_cpu_ns),
            server_cpu_seconds_per_gib: measured
                .server_cpu_ns
                .filter(|_| measured.bytes > 0)
                .map(|ns| ns as f64 / 1e9 / (measured.bytes as f64 / f64::from(1 << 30))),
        }
    }
}

fn show(runs: &[Run], arguments: &LoadArgs, json: bool) -> Result<(), Failure> {
    let described = |run| Described { run, figures: Run::figures(run) };
    let runs: Vec<_> = runs.iter().map(described).collect();
    if !json {
        status::say(table(&runs, arguments).trim_end());
        return Ok(());
    }
    let facts = super::facts::of_this_machine();
    let document = Document { format: "longshore-bench-run", version: 1, workload: words(arguments), facts, runs };
    status::say(&serde_json::to_string_pretty(&document).map_err(Failure::system)?);
    Ok(())
}

fn words(arguments: &LoadArgs) -> Words {
    Words {
        rw: arguments.rw.0.to_string(),
        rwmixread: arguments.rwmixread,
        nrfiles: arguments.nrfiles,
        bs: arguments.bs.0,
        numjobs: arguments.numjobs,
        connections: arguments.connections,
        iodepth: arguments.iodepth,
        size: arguments.size.0,
        runtime_ms: arguments.runtime.0.as_millis(),
        ramp_time_ms: arguments.ramp_time.0.as_millis(),
        seed: arguments.seed,
    }
}

fn table(runs: &[Described<'_>], arguments: &LoadArgs) -> String {
    let w = words(arguments);
    let mut out = format!(
        "rw={} rwmixread={} bs={} numjobs={} connections={} iodepth={} size={} runtime={} ms after {} ms\n\n",
        w.rw, w.rwmixread, w.bs, w.numjobs, w.connections, w.iodepth, w.size, w.runtime_ms, w.ramp_time_ms
    );
    for Described { run, figures } in runs {
        let line = match (figures, &run.outcome) {
            (Some(figures), _) => figures.in_words(run),
            (None, Outcome::Discarded { reason, detail, .. }) => format!("  {reason}: {detail}\n"),
            (None, Outcome::Accepted(_)) => String::new(),
        };
        let said = if run.negotiated.is_empty() { String::new() } else { format!(" ({})", run.negotiated) };
        let _ = write!(out, "{}{said}\n{line}", run.target);
    }
    out
}

impl Figures {
    fn in_words(&self, run: &Run) -> String {
        let us = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |us| format!("{us:.1} µs"));
        let per_gib = self.server_cpu_seconds_per_gib.map(|seconds| format!(", {seconds:.3} s a GiB"));
        let server = match (&run.server, self.server_cpu_us_per_operation) {
            (Some(name), Some(_)) => {
                let each = us(self.server_cpu_us_per_operation);
                format!("server {name} {each} an operation{}", per_gib.unwrap_or_default())
            }
            _ => "server not on this machine".to_owned(),
        };
        format!(
            "  {:.1} MiB/s, {:.0} IOPS\n  latency: mean {}, p50 {}, p99 {}, p99.9 {}\n  CPU: client {} an operation, {server}\n",
            self.mib_per_second,
            self.iops,
            us(self.mean_us),
            us(self.p50_us),
            us(self.p99_us),
            us(self.p999_us),
            us(self.client_cpu_us_per_operation),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_what_was_measured_by_time_and_operation() {
        let mut recorder = bench::histogram::Recorder::default();
        (0..1_000).for_each(|_| recorder.record(50_000));
        let measured = Measurement {
            elapsed_ns: 500_000_000,
            bytes: 1 << 30,
            operations: 1_000,
            latency: recorder.finish(),
            client_cpu_ns: Some(3_000_000),
            server_cpu_ns: Some(60_000_000),
        };
        let figures = Figures::of(&measured);
        assert_eq!((figures.mib_per_second, figures.iops), (2_048.0, 2_000.0));
        assert_eq!((figures.client_cpu_us_per_operation, figures.server_cpu_us_per_operation), (Some(3.0), Some(60.0)));
        assert_eq!(figures.server_cpu_seconds_per_gib, Some(0.06));
        assert_eq!(figures.mean_us, Some(50.0));
    }
}
