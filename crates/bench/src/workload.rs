//! Which requests a job sends, in what order: fio's `rw`, `rwmixread`, `bs` and `size` turned into a sequence that a seed
//! gives again for ever. The command line's jobs ask for one request after another; nothing here sends any.

use crate::Error;
use crate::plan::{MAX_FILES, Operation};
use crate::rng::{Rng, Stream};

/// What one job does to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// What is done.
    pub operation: Operation,
    /// Reads among a hundred operations of a mixed run.
    pub rwmixread: u8,
    /// Bytes of a request.
    pub block_bytes: u32,
    /// Bytes of the job's file. What is left behind its last whole block is not touched.
    pub size_bytes: u64,
    /// The job's files, where the operation is on many; each has one block.
    pub files: u32,
}

impl Workload {
    /// Whether anything is written.
    pub fn writes(&self) -> bool {
        match self.operation {
            Operation::Write | Operation::RandWrite => true,
            Operation::Rw | Operation::RandRw => self.rwmixread < 100,
            _ => false,
        }
    }
}

/// What one request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It reads a block.
    Read,
    /// It writes a block.
    Write,
}

/// One request of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What it does.
    pub kind: Kind,
    /// Where in the file its block begins.
    pub offset_bytes: u64,
}

/// The requests of a job, one after another without an end. As with fio, reads and writes of a sequential mix each go
/// through the file at their own pace, and start again at its end; random offsets may repeat (fio's `norandommap`).
#[derive(Debug, Clone)]
pub struct Requests {
    workload: Workload,
    blocks: u32,
    next_read: u32,
    next_write: u32,
    rng: Rng,
}

impl Requests {
    /// The requests of the job of this number.
    pub fn new(workload: Workload, seed: u64, job: u32) -> Result<Self, Error> {
        if workload.operation.is_on_names() {
            return Err(Error::NotOnOneFile(workload.operation));
        }
        let out_of_range = |allowed: String| Error::OutOfRange {
            what: "the size of a job's file",
            value: workload.size_bytes.to_string(),
            allowed,
        };
        let blocks = workload.size_bytes.checked_div(u64::from(workload.block_bytes)).filter(|blocks| *blocks > 0);
        let blocks =
            blocks.ok_or_else(|| out_of_range(format!("{} bytes, one block, or more", workload.block_bytes)))?;
        let blocks = u32::try_from(blocks).map_err(|_| out_of_range(format!("{} blocks or fewer", u32::MAX)))?;
        Ok(Self { workload, blocks, next_read: 0, next_write: 0, rng: Rng::new(seed, Stream::Requests(job)) })
    }

    /// The next request.
    pub fn draw(&mut self) -> Request {
        let kind = self.draw_kind();
        let block = match self.workload.operation {
            Operation::Read | Operation::Write | Operation::Rw => self.in_sequence(kind),
            _ => self.rng.below(self.blocks),
        };
        Request { kind, offset_bytes: u64::from(block) * u64::from(self.workload.block_bytes) }
    }

    fn draw_kind(&mut self) -> Kind {
        match self.workload.operation {
            Operation::Write | Operation::RandWrite => Kind::Write,
            Operation::Rw | Operation::RandRw if self.rng.below(100) >= u32::from(self.workload.rwmixread) => {
                Kind::Write
            }
            _ => Kind::Read,
        }
    }

    fn in_sequence(&mut self, kind: Kind) -> u32 {
        let next = match kind {
            Kind::Read => &mut self.next_read,
            Kind::Write => &mut self.next_write,
        };
        let block = *next;
        *next = if block + 1 < self.blocks { block + 1 } else { 0 };
        block
    }
}

/// The files a job goes to, by their numbers from 0: at random and without an end, or each once where that is all that can be
/// done with it.
#[derive(Debug, Clone)]
pub struct Visits {
    workload: Workload,
    next: u32,
    rng: Rng,
}

impl Visits {
    /// The visits of the job of this number.
    pub fn new(workload: Workload, seed: u64, job: u32) -> Result<Self, Error> {
        if !workload.operation.is_on_names() {
            return Err(Error::NotOnNames(workload.operation));
        }
        let (allowed, value) = (1..=MAX_FILES, workload.files);
        if !allowed.contains(&value) {
            let allowed = format!("{} to {}", allowed.start(), allowed.end());
            return Err(Error::OutOfRange { what: "the number of files", value: value.to_string(), allowed });
        }
        Ok(Self { workload, next: 0, rng: Rng::new(seed, Stream::Requests(job)) })
    }

    /// The next file; none when all were used up.
    pub fn draw(&mut self) -> Option<u32> {
        if !self.workload.operation.uses_files_up() {
            return Some(self.rng.below(self.workload.files));
        }
        let file = self.next;
        self.next += u32::from(file < self.workload.files);
        (file < self.workload.files).then_some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visits(operation: Operation, files: u32) -> Visits {
        let workload = Workload { operation, rwmixread: 0, block_bytes: 4_096, size_bytes: 0, files };
        Visits::new(workload, 7, 0).unwrap()
    }

    #[test]
    fn files_are_used_up_in_their_order_and_once() {
        for operation in [Operation::FileCreate, Operation::FileDelete] {
            let mut visits = visits(operation, 3);
            let drawn: Vec<_> = (0..5).map(|_| visits.draw()).collect();
            assert_eq!(drawn, [Some(0), Some(1), Some(2), None, None], "{operation}");
        }
    }

    #[test]
    fn other_visits_reach_all_files_and_do_not_end() {
        for operation in [Operation::FileRead, Operation::FileStat] {
            let mut visits = visits(operation, 64);
            let drawn: std::collections::BTreeSet<_> = (0..2_000).map(|_| visits.draw().unwrap()).collect();
            assert_eq!((drawn.len(), drawn.last()), (64, Some(&63)), "{operation}");
        }
    }

    #[test]
    fn each_operation_has_its_own_sequence() {
        let workload = requests(Operation::Read, 4_096, 0).workload;
        assert!(Visits::new(workload, 0, 0).is_err());
        assert!(Requests::new(Workload { operation: Operation::FileStat, ..workload }, 0, 0).is_err());
        assert!(Visits::new(Workload { operation: Operation::FileStat, files: 0, ..workload }, 0, 0).is_err());
    }

    fn requests(operation: Operation, size_bytes: u64, rwmixread: u8) -> Requests {
        Requests::new(Workload { operation, rwmixread, block_bytes: 4_096, size_bytes, files: 1 }, 7, 0).unwrap()
    }

    #[test]
    fn a_sequence_goes_through_the_file_and_starts_again() {
        let mut reads = requests(Operation::Read, 3 * 4_096 + 100, 50);
        let offsets: Vec<u64> = (0..5).map(|_| reads.draw().offset_bytes).collect();
        assert_eq!(offsets, [0, 4_096, 8_192, 0, 4_096]);
        assert!((0..9).all(|_| reads.draw().kind == Kind::Read));
    }

    #[test]
    fn a_mix_has_its_share_of_reads_and_each_kind_its_own_place() {
        let mut mixed = requests(Operation::Rw, 1 << 20, 70);
        let drawn: Vec<Request> = (0..10_000).map(|_| mixed.draw()).collect();
        let (reads, writes): (Vec<Request>, Vec<_>) = drawn.iter().partition(|r| r.kind == Kind::Read);
        // 7,000 expected, standard deviation 46.
        assert!((6_800..7_200).contains(&reads.len()), "{}", reads.len());
        for kind in [reads, writes] {
            assert!(kind.iter().enumerate().all(|(n, r)| r.offset_bytes == (n as u64 % 256) * 4_096));
        }
    }

    #[test]
    fn random_offsets_are_blocks_of_the_file_and_reach_all_of_it() {
        for operation in [Operation::RandRead, Operation::RandWrite, Operation::RandRw] {
            let mut random = requests(operation, 64 * 4_096, 50);
            let blocks: std::collections::BTreeSet<u64> = (0..2_000).map(|_| random.draw().offset_bytes).collect();
            assert_eq!(blocks.len(), 64, "{operation}");
            assert!(blocks.iter().all(|at| at % 4_096 == 0 && *at < 64 * 4_096));
        }
    }

    #[test]
    fn a_seed_repeats_and_jobs_differ() {
        let operation = Operation::RandRead;
        let workload = Workload { operation, rwmixread: 0, block_bytes: 512, size_bytes: 1 << 30, files: 1 };
        let first = |seed, job| {
            let mut requests = Requests::new(workload, seed, job).unwrap();
            (0..8).map(|_| requests.draw().offset_bytes).collect::<Vec<_>>()
        };
        assert_eq!(first(1, 0), first(1, 0));
        assert_ne!(first(1, 0), first(1, 1));
        assert_ne!(first(1, 0), first(2, 0));
    }

    #[test]
    fn a_file_without_a_whole_block_is_refused() {
        let of = |block_bytes, size_bytes| {
            let operation = Operation::Read;
            Requests::new(Workload { operation, rwmixread: 0, block_bytes, size_bytes, files: 1 }, 0, 0)
        };
        assert!(of(4_096, 4_095).is_err() && of(0, 4_096).is_err() && of(1, 1 << 33).is_err());
        assert!(of(4_096, 4_096).is_ok());
    }

    #[test]
    fn only_what_writes_says_so() {
        let writes = |operation, rwmixread| requests(operation, 1 << 20, rwmixread).workload.writes();
        assert!(!writes(Operation::RandRead, 0) && !writes(Operation::Rw, 100));
        assert!(writes(Operation::Write, 100) && writes(Operation::RandRw, 99));
    }
}
