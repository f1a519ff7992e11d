//! From what was asked for to a declared plan: command line over file over defaults. Pure but for reading the file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::plan::{Criteria, Declaration, Measure, Operation, Plan, Target};
use bench::workload::Workload;
use serde::Deserialize;

use super::arguments::{Known, MatrixArgs};
use super::job::Load;
use super::words::{Rw, Size, Time};
use crate::failure::Failure;

/// Connecting, opening files and letting go of them, for each run.
const BETWEEN_RUNS: Duration = Duration::from_millis(50);
/// How fast files are made that are on a disk at the end.
const FILE_BYTES_PER_SECOND: u64 = 200 << 20;

/// A target as it is written, before anybody has looked whether it is there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// What the report calls it.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// The password of the URL's user; relative to the file it stands in.
    pub password_file: Option<PathBuf>,
    /// Its process on this machine.
    pub server_pid: Option<i32>,
}

impl Named {
    /// From `NAME=URL`.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = || Failure::usage(format!("--target {text}: write it as NAME=URL"));
        let (name, url) = text.split_once('=').ok_or_else(wrong)?;
        if name.trim().is_empty() || !url.contains("://") {
            return Err(wrong());
        }
        Ok(Self { name: name.to_owned(), url: url.to_owned(), password_file: None, server_pid: None })
    }
}

/// A comparison's file: its matrix and its targets.
pub fn read_file(path: &Path) -> Result<(MatrixArgs, Vec<Named>), Failure> {
    let failed = |what: String| Failure::usage(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let (matrix, mut targets) = parse(&text).map_err(failed)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    for target in &mut targets {
        target.password_file = target.password_file.take().map(|file| directory.join(file));
    }
    Ok((matrix, targets))
}

fn parse(text: &str) -> Result<(MatrixArgs, Vec<Named>), String> {
    let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let targets = table.remove("target").unwrap_or(toml::Value::Array(Vec::new()));
    let targets = targets.try_into().map_err(|error| format!("[[target]]: {}", error.message()))?;
    let matrix = table.try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
    Ok((matrix, targets))
}

impl MatrixArgs {
    /// These, and from `other` what these do not say.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        fn first<T>(one: Vec<T>, other: Vec<T>) -> Vec<T> {
            if one.is_empty() { other } else { one }
        }
        Self {
            matrix: self.matrix.or(other.matrix),
            title: self.title.or(other.title),
            baseline: self.baseline.or(other.baseline),
            rw: first(self.rw, other.rw),
            bs: first(self.bs, other.bs),
            connections: first(self.connections, other.connections),
            iodepth: self.iodepth.or(other.iodepth),
            rwmixread: self.rwmixread.or(other.rwmixread),
            nrfiles: self.nrfiles.or(other.nrfiles),
            size: self.size.or(other.size),
            blocks: self.blocks.or(other.blocks),
            within: self.within.or(other.within),
            seed: self.seed.or(other.seed),
            margin: self.margin.or(other.margin),
            runtime: self.runtime.or(other.runtime),
            ramp: self.ramp.or(other.ramp),
            measure: first(self.measure, other.measure),
        }
    }

    /// These, and what is not said as the matrix has it that is named.
    #[must_use]
    pub fn filled(self) -> Self {
        match self.matrix {
            None => self,
            Some(Known::Field) => self.over(field()),
        }
    }

    /// The declared plan over these targets. `sees_cpu`: whether the CPU time of the baseline and of another is known.
    pub fn plan(&self, targets: Vec<Target>, ceiling: Option<&str>, sees_cpu: bool) -> Result<Plan, Failure> {
        let baseline = self.baseline.clone().or_else(|| targets.first().map(|t| t.name.clone())).unwrap_or_default();
        let margin = self.margin.unwrap_or(5.0) / 100.0;
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let declared = Declaration {
            title: self.title.clone().unwrap_or_else(|| format!("Compared with {baseline}")),
            targets,
            baseline,
            ceiling: ceiling.map(str::to_owned),
            operations: or_default(&self.rw, |rw| rw.0, &[Operation::Read, Operation::Write]),
            block_sizes_bytes: self.block_sizes()?,
            connections: or_default(&self.connections, |n| *n, &[1]),
            in_flight: self.iodepth.unwrap_or(16),
            rwmixread: self.rwmixread.unwrap_or(50),
            files: self.nrfiles.unwrap_or(1_000),
            blocks: self.blocks.unwrap_or(8),
            seed: self.seed.unwrap_or(1),
            warm_up_ms: self.ramp.map_or(500, |time| milliseconds(time.0)),
            run_ms: self.runtime.map_or(2_000, |time| milliseconds(time.0)),
            measures: or_default(&self.measure, |by| by.0, default_measures(sees_cpu)),
            criteria: Criteria { worse_below: 1.0 - margin, better_above: 1.0 + margin, ..Criteria::default() },
        };
        let plan = Plan::new(declared).map_err(Failure::usage)?;
        self.check_file_size(&plan)?;
        self.within.map_or(Ok(plan.clone()), |within| self.shortened(&plan, within.0))
    }

    /// About how long it takes: the runs, what lies between them, and making each file once.
    pub fn estimate(&self, plan: &Plan) -> Duration {
        let declared = plan.declared();
        let files = u64::from(declared.connections.iter().copied().max().unwrap_or(1));
        let making = Duration::from_secs(files.saturating_mul(self.size_bytes()) / FILE_BYTES_PER_SECOND);
        making + block(plan).saturating_mul(declared.blocks)
    }

    fn shortened(&self, plan: &Plan, within: Duration) -> Result<Plan, Failure> {
        let mut declared = plan.declared().clone();
        let making = self.estimate(plan).saturating_sub(block(plan).saturating_mul(declared.blocks));
        let fitting = within.saturating_sub(making).as_millis() / block(plan).as_millis().max(1);
        declared.blocks = declared.blocks.min(u32::try_from(fitting).unwrap_or(u32::MAX));
        match declared.blocks {
            0 => Err(Failure::usage(format!("one block alone takes about {}", in_words(making + block(plan))))),
            _ => Plan::new(declared).map_err(Failure::usage),
        }
    }

    /// Bytes of each file.
    pub fn size_bytes(&self) -> u64 {
        self.size.map_or(64 << 20, |size| size.0)
    }

    fn block_sizes(&self) -> Result<Vec<u32>, Failure> {
        let bytes = |size: &Size| u32::try_from(size.0).map_err(|_| Failure::usage("a block size above 4 GiB"));
        let is_on_names = !self.rw.is_empty() && self.rw.iter().all(|rw| rw.0.is_on_names());
        match self.bs.is_empty() {
            true if is_on_names => Ok(vec![4 << 10]),
            true => Ok(vec![4 << 10, 64 << 10, 1 << 20]),
            false => self.bs.iter().map(bytes).collect(),
        }
    }

    /// Every cell must find a block in its file: said now, not by the last run of a night.
    fn check_file_size(&self, plan: &Plan) -> Result<(), Failure> {
        if plan.declared().operations.iter().all(|operation| operation.is_on_names()) {
            return Ok(());
        }
        let largest = plan.declared().block_sizes_bytes.iter().copied().max().unwrap_or(0);
        match u64::from(largest) <= self.size_bytes() {
            true => Ok(()),
            false => Err(Failure::usage(format!("files of {} bytes hold no block of {largest}", self.size_bytes()))),
        }
    }
}

/// 4 KiB, 64 KiB and 1 MiB, over 1, 2 and 4 connections, READ, WRITE and half of each.
fn field() -> MatrixArgs {
    MatrixArgs {
        rw: [Operation::Read, Operation::Write, Operation::Rw].map(Rw).to_vec(),
        bs: [4 << 10, 64 << 10, 1 << 20].map(Size).to_vec(),
        connections: vec![1, 2, 4],
        iodepth: Some(32),
        rwmixread: Some(50),
        size: Some(Size(256 << 20)),
        blocks: Some(8),
        runtime: Some(Time(Duration::from_millis(500))),
        ramp: Some(Time(Duration::from_millis(200))),
        ..MatrixArgs::default()
    }
}

/// About how long a block takes.
fn block(plan: &Plan) -> Duration {
    let declared = plan.declared();
    let run = Duration::from_millis(declared.warm_up_ms.saturating_add(declared.run_ms)) + BETWEEN_RUNS;
    run.saturating_mul(u32::try_from(plan.cells().len()).unwrap_or(u32::MAX))
}

/// A length of time as a person says it.
pub fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{:.1} h", seconds as f64 / 3_600.0),
    }
}

fn or_default<T, U: Clone>(given: &[T], of: impl Fn(&T) -> U, default: &[U]) -> Vec<U> {
    if given.is_empty() { default.to_vec() } else { given.iter().map(of).collect() }
}

fn default_measures(sees_cpu: bool) -> &'static [Measure] {
    if sees_cpu { &[Measure::Throughput, Measure::ServerCpu] } else { &[Measure::Throughput] }
}

/// The load of a cell: each of its connections is a job with a file of its own.
pub fn load_of(plan: &Plan, cell: u32, size_bytes: u64) -> Option<Load> {
    let (declared, cell) = (plan.declared(), plan.cell(cell)?);
    let workload = Workload {
        operation: cell.operation,
        rwmixread: declared.rwmixread,
        block_bytes: cell.block_size_bytes,
        size_bytes,
        files: declared.files,
    };
    Some(Load {
        workload,
        jobs: cell.connections,
        connections: 1,
        depth: declared.in_flight,
        ramp: Duration::from_millis(declared.warm_up_ms),
        runtime: Duration::from_millis(declared.run_ms),
        seed: declared.seed,
    })
}

impl From<Operation> for Rw {
    fn from(operation: Operation) -> Self {
        Self(operation)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        matrix: MatrixArgs,
    }

    fn line(text: &str) -> MatrixArgs {
        Line::try_parse_from(["x"].into_iter().chain(text.split_whitespace())).unwrap().matrix
    }

    fn targets() -> Vec<Target> {
        let target = |name: &str| Target { name: name.into(), url: format!("smb://h/{name}") };
        vec![target("a"), target("b")]
    }

    const FILE: &str = "
        title = 'night'
        bs = ['4k', 65536]
        rw = ['randrw']
        runtime = 0.25
        ramp_time = '100ms'
        margin = 3
        blocks = 12
        [[target]]
        name = 'a'
        url = 'smb://h/s'
        password_file = 'secret'
        [[target]]
        name = 'b'
        url = 'smb://i/s'
        server_pid = 7
    ";

    #[test]
    fn the_command_line_comes_before_the_file_and_the_file_before_the_defaults() {
        let (file, named) = parse(FILE).unwrap();
        assert_eq!((named.len(), named[1].server_pid), (2, Some(7)));
        let matrix = line("--blocks 6 --bs 1m,4k --measure p99").over(file);
        let plan = matrix.plan(targets(), None, true).unwrap();
        let d = plan.declared();
        assert_eq!((d.title.as_str(), d.blocks, d.baseline.as_str()), ("night", 6, "a"));
        assert_eq!(
            (d.block_sizes_bytes.as_slice(), d.operations.as_slice()),
            (&[1 << 20, 4_096][..], &[Operation::RandRw][..])
        );
        assert_eq!((d.run_ms, d.warm_up_ms, d.in_flight, d.connections.as_slice()), (250, 100, 16, &[1][..]));
        assert_eq!(d.measures, [Measure::LatencyP99]);
        assert!((d.criteria.better_above - 1.03).abs() < 1e-9 && (d.criteria.worse_below - 0.97).abs() < 1e-9);
    }

    #[test]
    fn without_a_word_there_are_defaults() {
        let of = |sees_cpu| line("").plan(targets(), None, sees_cpu).unwrap().declared().measures.clone();
        assert_eq!(of(true), [Measure::Throughput, Measure::ServerCpu]);
        assert_eq!(of(false), [Measure::Throughput]);
    }

    #[test]
    fn the_field_has_27_cells_and_what_is_said_otherwise_holds() {
        let plan = line("--matrix field").filled().plan(targets(), None, false).unwrap();
        assert_eq!(plan.cells().len(), 2 * 27);
        let d = plan.declared();
        assert_eq!((d.in_flight, d.rwmixread, d.blocks, d.connections.as_slice()), (32, 50, 8, &[1, 2, 4][..]));
        assert_eq!(d.operations, [Operation::Read, Operation::Write, Operation::Rw]);
        let (file, _) = parse("matrix = 'field'\nblocks = 12").unwrap();
        let d =
            line("--rw rw --iodepth 4").over(file).filled().plan(targets(), None, false).unwrap().declared().clone();
        assert_eq!((d.operations.as_slice(), d.in_flight, d.blocks), (&[Operation::Rw][..], 4, 12));
        assert_eq!(d.block_sizes_bytes, [4_096, 65_536, 1 << 20]);
    }

    #[test]
    fn a_time_that_is_given_is_kept() {
        let of = |text: &str| line(text).filled().plan(targets(), None, false);
        // 12 runs of 2.55 s a block.
        let plan = of("--blocks 12").unwrap();
        let estimate = line("--blocks 12").estimate(&plan);
        assert_eq!((plan.cells().len(), estimate.as_millis()), (12, 12 * 12 * 2_550));
        let shorter = of("--blocks 12 --within 4m").unwrap();
        assert_eq!(shorter.declared().blocks, 7);
        assert!(line("").estimate(&shorter) <= Duration::from_secs(240));
        assert_eq!(of("--blocks 12 --within 1000m").unwrap().declared().blocks, 12);
        assert_eq!(of("--within 30s").unwrap_err().code(), 2);
        assert_eq!([90, 3_000, 9_000].map(|s| in_words(Duration::from_secs(s))), ["90 s", "50 min", "2.5 h"]);
    }

    #[test]
    fn mistakes_are_said_before_anything_runs() {
        for wrong in ["rw = ['trim']", "blokcs = 3", "[[target]]\nname = 'x'", "bs = ['4q']", "= 3"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["--bs 128m", "--bs 8g --size 9g", "--blocks 0", "--margin 100", "--connections 0", "--baseline c"]
        {
            assert_eq!(line(wrong).plan(targets(), None, false).unwrap_err().code(), 2, "{wrong}");
        }
        for wrong in ["a", "=smb://h/s", "a=b"] {
            assert!(Named::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Named::parse("a=smb://h/s?x=y").unwrap().url, "smb://h/s?x=y");
    }

    #[test]
    fn a_cells_connections_are_jobs() {
        let plan = line("--connections 3 --iodepth 7 --rw write --bs 8k").plan(targets(), None, false).unwrap();
        let load = load_of(&plan, 1, 1 << 20).unwrap();
        assert_eq!((load.jobs, load.connections, load.depth), (3, 1, 7));
        assert_eq!((load.workload.operation, load.workload.block_bytes), (Operation::Write, 8_192));
        assert!(load_of(&plan, 2, 1 << 20).is_none());
    }
}
