//! What is compared, declared before anything is measured: targets x operations x block sizes x connections, the baseline,
//! the blocks and their shuffled order, how long each run is, and by which criteria it will be judged. The command line
//! makes a [`Declaration`] and runs [`Plan::order`]; a report carries the plan, so that a reader sees that nothing was
//! chosen afterwards. Nothing here runs anything.

use crate::Error;
use crate::rng::{Rng, Stream};
use crate::stats::signflip::{blocks_needed, least_p};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::{self, Display};

/// The most targets: as many as a reader can tell apart in a plot, and some.
pub const MAX_TARGETS: usize = 32;
/// The most cells in a block.
pub const MAX_CELLS: usize = 2_000;
/// The most runs in all: days of measuring. It bounds what a report holds, and how long a file can make its reader compute.
pub const MAX_RUNS: usize = 100_000;
/// The most files of one connection: more than a directory should hold.
pub const MAX_FILES: u32 = 10_000_000;
/// The longest label in bytes.
pub const MAX_LABEL_BYTES: usize = 400;
const MAX_MS: u64 = 24 * 3_600 * 1_000;

/// One server with its settings, under the name that the report uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The name in tables and plots.
    pub name: String,
    /// Where it is, without any secret.
    pub url: String,
}

/// What a run does, in fio's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Reads at random offsets.
    RandRead,
    /// Writes at random offsets.
    RandWrite,
    /// Sequential reads and writes, mixed as the plan's `rwmixread` says.
    Rw,
    /// Reads and writes at random offsets, mixed likewise.
    RandRw,
    /// Small files opened, read whole and closed.
    FileRead,
    /// Empty files made.
    FileCreate,
    /// Files' attributes asked for by name.
    FileStat,
    /// A directory listed with its entries' attributes. What is counted is entries.
    FileList,
    /// Files removed.
    FileDelete,
}

impl Operation {
    /// Whether it works on many files by their names, not on the contents of one that is open.
    pub fn is_on_names(self) -> bool {
        match self {
            Self::Read | Self::Write | Self::RandRead | Self::RandWrite | Self::Rw | Self::RandRw => false,
            Self::FileRead | Self::FileCreate | Self::FileStat | Self::FileList | Self::FileDelete => true,
        }
    }

    /// Whether it can be done once with each file: a run ends early when it has been.
    pub fn uses_files_up(self) -> bool {
        matches!(self, Self::FileCreate | Self::FileDelete)
    }

    /// Whether bytes of files are moved. What moves none is counted in operations.
    pub fn moves_bytes(self) -> bool {
        !self.is_on_names() || self == Self::FileRead
    }
}

impl Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::RandRead => "randread",
            Self::RandWrite => "randwrite",
            Self::Rw => "rw",
            Self::RandRw => "randrw",
            Self::FileRead => "fileread",
            Self::FileCreate => "filecreate",
            Self::FileStat => "filestat",
            Self::FileList => "filelist",
            Self::FileDelete => "filedelete",
        })
    }
}

/// What of a run is compared. Each measure of each cell is one hypothesis of the family that Holm's correction covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Bytes a second, which with one block size is operations a second too; operations a second where no bytes are moved.
    Throughput,
    /// Mean completion latency.
    LatencyMean,
    /// Median completion latency.
    LatencyP50,
    /// The completion latency that one operation in a hundred exceeds.
    LatencyP99,
    /// The completion latency that one operation in a thousand exceeds.
    LatencyP999,
    /// The client's CPU time for each byte, or for each operation where no bytes are moved.
    ClientCpu,
    /// The server's likewise, where it can be seen.
    ServerCpu,
}

impl Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Throughput => "throughput",
            Self::LatencyMean => "mean latency",
            Self::LatencyP50 => "p50 latency",
            Self::LatencyP99 => "p99 latency",
            Self::LatencyP999 => "p99.9 latency",
            Self::ClientCpu => "client CPU",
            Self::ServerCpu => "server CPU",
        })
    }
}

/// By what a verdict is given: bounds of the gain, which is how many times better than the baseline a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Criteria {
    /// *Worse* when the whole interval lies below this.
    pub worse_below: f64,
    /// *Better* when the whole interval lies above this; *equivalent* when the interval lies within the two.
    pub better_above: f64,
    /// How many blocks must be usable for a verdict. Below 6 not even a result that is the same in every block reaches
    /// p < 0.05 in a two-sided sign-flip test (2 of 2^5 is 0.063).
    pub min_blocks: u32,
}

impl Default for Criteria {
    fn default() -> Self {
        Self { worse_below: 0.95, better_above: 1.05, min_blocks: 6 }
    }
}

/// A comparison as it is written down, before it is checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Declaration {
    /// What the comparison is about, in a line.
    pub title: String,
    /// The servers; two at least.
    pub targets: Vec<Target>,
    /// The name of the target that the others are compared to.
    pub baseline: String,
    /// The name of the target that stands for what the machine can do, if there is one: rates are shown as a part of its.
    #[serde(default)]
    pub ceiling: Option<String>,
    /// What is done.
    pub operations: Vec<Operation>,
    /// How many bytes a request carries.
    pub block_sizes_bytes: Vec<u32>,
    /// How many connections work at the same time.
    pub connections: Vec<u32>,
    /// How many requests each connection keeps in flight (fio's iodepth).
    pub in_flight: u32,
    /// Reads among a hundred operations of a mixed run (fio's rwmixread).
    pub rwmixread: u8,
    /// How many files each connection has, where an operation is on many (fio's nrfiles).
    #[serde(default = "one_file")]
    pub files: u32,
    /// How often everything is repeated.
    pub blocks: u32,
    /// The order of cells, the intervals and the Monte Carlo p-values come from this.
    pub seed: u64,
    /// How long a run goes on in milliseconds before it is measured (fio's ramp_time).
    pub warm_up_ms: u64,
    /// How long a run is measured, in milliseconds.
    pub run_ms: u64,
    /// What is compared.
    pub measures: Vec<Measure>,
    /// By what it is judged.
    pub criteria: Criteria,
}

fn one_file() -> u32 {
    1
}

/// One thing to run: a target doing an operation at a block size over a number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// The target's number in the plan.
    pub target: u32,
    /// What it does.
    pub operation: Operation,
    /// Bytes in a request.
    pub block_size_bytes: u32,
    /// Connections at the same time.
    pub connections: u32,
}

/// A declaration that was found sound, with its cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Declaration", into = "Declaration")]
pub struct Plan {
    declared: Declaration,
    cells: Vec<Cell>,
    baseline: u32,
    ceiling: Option<u32>,
}

impl Plan {
    /// Checks a declaration and numbers its cells.
    pub fn new(declared: Declaration) -> Result<Self, Error> {
        check_labels(&declared)?;
        check_dimensions(&declared)?;
        check_numbers(&declared)?;
        check_criteria(&declared.criteria)?;
        let baseline = declared.targets.iter().position(|t| t.name == declared.baseline);
        let baseline = baseline.ok_or_else(|| Error::NoSuchBaseline(declared.baseline.clone()))? as u32;
        let ceiling = declared.ceiling.as_ref().map(|name| {
            let found = declared.targets.iter().position(|t| t.name == *name);
            found.map(|at| at as u32).ok_or_else(|| Error::NoSuchCeiling(name.clone()))
        });
        let (ceiling, cells) = (ceiling.transpose()?, cells_of(&declared));
        Ok(Self { declared, cells, baseline, ceiling })
    }

    /// What was declared.
    pub fn declared(&self) -> &Declaration {
        &self.declared
    }

    /// All cells of a block; a cell's place here is its number.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The cell of this number.
    pub fn cell(&self, number: u32) -> Option<&Cell> {
        self.cells.get(number as usize)
    }

    /// The number of the target that the others are compared to.
    pub fn baseline(&self) -> u32 {
        self.baseline
    }

    /// The name of a cell's target.
    pub fn target_name(&self, cell: &Cell) -> &str {
        self.declared.targets.get(cell.target as usize).map_or("", |t| &t.name)
    }

    /// The cell of the baseline that does what this cell does.
    pub fn baseline_of(&self, cell: &Cell) -> Option<u32> {
        self.like(cell, self.baseline)
    }

    /// The cell of the machine's limit that does what this cell does; none of the limit's own.
    pub fn ceiling_of(&self, cell: &Cell) -> Option<u32> {
        self.ceiling.filter(|ceiling| *ceiling != cell.target).and_then(|ceiling| self.like(cell, ceiling))
    }

    fn like(&self, cell: &Cell, target: u32) -> Option<u32> {
        let wanted = Cell { target, ..*cell };
        self.cells.iter().position(|c| *c == wanted).map(|place| place as u32)
    }

    /// The cells' numbers in the order in which this block runs them: every cell once, shuffled by the plan's seed. The
    /// order of one block does not depend on how many blocks there are.
    pub fn order(&self, block: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.cells.len() as u32).collect();
        Rng::new(self.declared.seed, Stream::Order(block)).shuffle(&mut order);
        order
    }

    /// How many blocks the plan would need for any of its corrected p-values to be able to fall below 0.05, if it has fewer:
    /// to be said before hours are spent. Verdicts come from intervals and do not depend on it.
    pub fn blocks_short_of(&self) -> Option<u32> {
        let family_size = self.family().len();
        let possible = least_p(self.declared.blocks) * family_size as f64 <= 0.05;
        if possible { None } else { Some(blocks_needed(family_size, 0.05).unwrap_or(u32::MAX)) }
    }

    /// The hypotheses that Holm's correction covers: every measure of every cell that is neither the
    /// baseline's nor the machine's limit.
    pub fn family(&self) -> Vec<(u32, Measure)> {
        // Nobody claims anything about the machine's limit; it would cost the others' p-values their size.
        let is_compared = |cell: &Cell| cell.target != self.baseline && Some(cell.target) != self.ceiling;
        let compared = self.cells.iter().enumerate().filter(|(_, cell)| is_compared(cell));
        let numbers: Vec<u32> = compared.map(|(number, _)| number as u32).collect();
        let of_measure = |m: &Measure| numbers.iter().map(|n| (*n, *m)).collect::<Vec<_>>();
        self.declared.measures.iter().flat_map(of_measure).collect()
    }
}

impl TryFrom<Declaration> for Plan {
    type Error = Error;

    fn try_from(declared: Declaration) -> Result<Self, Error> {
        Self::new(declared)
    }
}

impl From<Plan> for Declaration {
    fn from(plan: Plan) -> Self {
        plan.declared
    }
}

fn cells_of(declared: &Declaration) -> Vec<Cell> {
    let mut cells = Vec::new();
    for operation in &declared.operations {
        for block_size_bytes in &declared.block_sizes_bytes {
            for connections in &declared.connections {
                for target in 0..declared.targets.len() as u32 {
                    let (operation, block_size_bytes, connections) = (*operation, *block_size_bytes, *connections);
                    cells.push(Cell { target, operation, block_size_bytes, connections });
                }
            }
        }
    }
    cells
}

fn check_labels(declared: &Declaration) -> Result<(), Error> {
    let labels = declared.targets.iter().flat_map(|t| [("a target's name", &t.name), ("a target's address", &t.url)]);
    for (what, label) in labels.chain([("the title", &declared.title)]) {
        within(what, label.len(), 0..=MAX_LABEL_BYTES, "bytes")?;
    }
    match declared.targets.iter().any(|t| t.name.trim().is_empty()) {
        true => Err(Error::Empty("name for a target")),
        false => Ok(()),
    }
}

fn check_dimensions(declared: &Declaration) -> Result<(), Error> {
    distinct("target", declared.targets.iter().map(|t| t.name.clone()))?;
    distinct("operation", declared.operations.iter().copied())?;
    distinct("block size", declared.block_sizes_bytes.iter().copied())?;
    distinct("number of connections", declared.connections.iter().copied())?;
    distinct("measure", declared.measures.iter().copied())?;
    within("the number of targets", declared.targets.len(), 2..=MAX_TARGETS, "")?;
    let sizes = [declared.operations.len(), declared.block_sizes_bytes.len(), declared.connections.len()];
    let cells = sizes.iter().fold(declared.targets.len(), |all, size| all.saturating_mul(*size));
    within("the number of cells", cells, 1..=MAX_CELLS, "")?;
    within("the number of runs", cells.saturating_mul(declared.blocks as usize), 1..=MAX_RUNS, "")
}

fn check_numbers(declared: &Declaration) -> Result<(), Error> {
    for size in &declared.block_sizes_bytes {
        within("a block size", *size, 1..=1 << 30, "bytes")?;
    }
    for connections in &declared.connections {
        within("a number of connections", *connections, 1..=4_096, "")?;
    }
    within("the number in flight", declared.in_flight, 1..=65_536, "")?;
    within("rwmixread", declared.rwmixread, 0..=100, "")?;
    within("the number of files", declared.files, 1..=MAX_FILES, "")?;
    within("the warm-up", declared.warm_up_ms, 0..=MAX_MS, "ms")?;
    within("the run length", declared.run_ms, 1..=MAX_MS, "ms")
}

fn check_criteria(criteria: &Criteria) -> Result<(), Error> {
    within("worse_below", criteria.worse_below, f64::MIN_POSITIVE..=1.0, "")?;
    within("better_above", criteria.better_above, 1.0..=f64::MAX, "")?;
    within("min_blocks", criteria.min_blocks, 2..=10_000, "")
}

fn within<T: PartialOrd + Display>(
    what: &'static str,
    value: T,
    allowed: std::ops::RangeInclusive<T>,
    unit: &str,
) -> Result<(), Error> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let allowed = format!("{} to {} {unit}", allowed.start(), allowed.end());
    Err(Error::OutOfRange { what, value: value.to_string(), allowed: allowed.trim_end().to_owned() })
}

fn distinct<T: Ord + Display + Clone>(what: &'static str, items: impl Iterator<Item = T>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for item in items {
        if !seen.insert(item.clone()) {
            return Err(Error::Twice { what, name: item.to_string() });
        }
    }
    if seen.is_empty() { Err(Error::Empty(what)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared() -> Declaration {
        let target = |name: &str| Target { name: name.into(), url: format!("smb://127.0.0.1/{name}") };
        Declaration {
            title: "a test".into(),
            targets: vec![target("ours"), target("theirs")],
            baseline: "theirs".into(),
            ceiling: None,
            operations: vec![Operation::Read, Operation::RandRead],
            block_sizes_bytes: vec![4_096, 1 << 20],
            connections: vec![1],
            in_flight: 16,
            rwmixread: 50,
            files: 1,
            blocks: 8,
            seed: 20_261_130,
            warm_up_ms: 500,
            run_ms: 2_000,
            measures: vec![Measure::Throughput],
            criteria: Criteria::default(),
        }
    }

    #[test]
    fn every_block_runs_every_cell_once() {
        let plan = Plan::new(declared()).unwrap();
        for block in 0..8 {
            let mut order = plan.order(block);
            order.sort_unstable();
            assert_eq!(order, (0..8).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_seed_gives_the_same_order_for_ever() {
        let plan = Plan::new(declared()).unwrap();
        // Worked out apart from this program (SplitMix64, Lemire, Fisher and Yates in a few lines of Python). If this
        // changes, reports of the past can no longer be repeated.
        assert_eq!(plan.order(0), ORDER_0);
        assert_eq!(plan.order(1), ORDER_1);
        let other = Plan::new(Declaration { seed: 1, ..declared() }).unwrap();
        assert_ne!(plan.order(0), other.order(0));
        let longer = Plan::new(Declaration { blocks: 80, ..declared() }).unwrap();
        assert_eq!(plan.order(1), longer.order(1));
    }

    const ORDER_0: [u32; 8] = [7, 2, 0, 5, 1, 3, 4, 6];
    const ORDER_1: [u32; 8] = [0, 5, 4, 2, 1, 3, 6, 7];

    #[test]
    fn a_cell_finds_its_baseline_and_the_family_leaves_the_baseline_out() {
        let plan = Plan::new(declared()).unwrap();
        let family = plan.family();
        assert_eq!(family.len(), 4);
        for (number, _) in family {
            let cell = plan.cell(number).unwrap();
            let baseline = plan.cell(plan.baseline_of(cell).unwrap()).unwrap();
            assert_eq!(plan.target_name(cell), "ours");
            assert_eq!(plan.target_name(baseline), "theirs");
            assert_eq!((cell.operation, cell.block_size_bytes), (baseline.operation, baseline.block_size_bytes));
        }
    }

    #[test]
    fn the_machines_limit_is_run_and_shown_but_not_judged() {
        let mut declared = declared();
        declared.targets.push(Target { name: "limit".into(), url: "limit:".into() });
        declared.ceiling = Some("limit".into());
        let plan = Plan::new(declared).unwrap();
        assert_eq!((plan.cells().len(), plan.family().len()), (12, 4));
        let ours = plan.cells()[0];
        let limit = plan.ceiling_of(&ours).and_then(|n| plan.cell(n)).unwrap();
        assert_eq!((plan.target_name(limit), limit.operation), ("limit", ours.operation));
        assert_eq!(plan.ceiling_of(limit), None);
    }

    #[test]
    fn what_cannot_be_run_or_judged_is_refused() {
        let wrongs: [fn(&mut Declaration); 17] = [
            |d| d.ceiling = Some("nobody".into()),
            |d| d.targets.truncate(1),
            |d| d.targets[1].name = "ours".into(),
            |d| d.targets[1].name = " ".into(),
            |d| d.targets[1].name = "x".repeat(MAX_LABEL_BYTES + 1),
            |d| d.baseline = "nobody".into(),
            |d| d.operations.clear(),
            |d| d.operations.push(Operation::Read),
            |d| d.block_sizes_bytes.push(0),
            |d| d.connections.push(0),
            |d| d.measures.clear(),
            |d| d.blocks = 0,
            |d| d.blocks = u32::MAX,
            |d| d.run_ms = 0,
            |d| d.rwmixread = 101,
            |d| d.criteria.better_above = f64::NAN,
            |d| d.criteria.worse_below = 1.2,
        ];
        for (number, wrong) in wrongs.iter().enumerate() {
            let mut declared = declared();
            wrong(&mut declared);
            assert!(Plan::new(declared).is_err(), "wrong number {number} was accepted");
        }
    }

    #[test]
    fn a_plan_says_when_its_blocks_cannot_be_enough() {
        // Four comparisons: 4 x 2 / 2^8 is 0.031, and 4 x 2 / 2^7 is 0.063.
        let of = |blocks| Plan::new(Declaration { blocks, ..declared() }).unwrap().blocks_short_of();
        assert_eq!((of(8), of(7), of(1)), (None, Some(8), Some(8)));
    }

    #[test]
    fn a_plan_in_a_file_is_checked_when_it_is_read() {
        let plan = Plan::new(declared()).unwrap();
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
        let wrong = json.replace("\"baseline\":\"theirs\"", "\"baseline\":\"nobody\"");
        assert!(serde_json::from_str::<Plan>(&wrong).is_err());
    }
}
