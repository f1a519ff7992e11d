//! What one compound is to be counted as. It may be done on a worker, and the shard's counters only its own thread may
//! touch: so it is noted here, and added to them when the compound is done.

use nfs_wire::nfs4::{NfsStat4, OpNum};
use vfs::metrics::COUNTING;

use crate::PathCounters;
use crate::counters::of_operation;

/// Operations noted without memory of their own: more than most compounds have.
const FEW: usize = 16;

/// Counts of a compound.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub read_pages: u64,
    pub read_copy: u64,
    pub read_waited: u64,
    pub read_bytes: u64,
    pub read_pages_bytes: u64,
    pub write_inline: u64,
    pub write_worker: u64,
    pub write_bytes: u64,
    pub write_worker_bytes: u64,
    first: [u8; FEW],
    count: usize,
    others: Vec<u8>,
    failed: bool,
    /// The operation that weighs most so far, as it is counted, and its weight.
    about: u8,
    about_weight: u8,
}

impl Tally {
    /// An operation was done. One that failed is the last.
    pub fn did(&mut self, number: OpNum, status: NfsStat4) {
        if !COUNTING {
            return;
        }
        let operation = of_operation(number) as u8;
        match self.first.get_mut(self.count) {
            Some(place) => *place = operation,
            None => self.others.push(operation),
        }
        self.count += 1;
        self.failed = status != NfsStat4::OK;
        let weight = WEIGHTS.get(usize::from(operation)).copied().unwrap_or_default();
        if weight >= self.about_weight {
            (self.about, self.about_weight) = (operation, weight);
        }
    }

    /// Where it is counted what the compound was about, and how long that took: its last operation but for those that only
    /// lead to others or look at what they did.
    pub fn about(&self) -> usize {
        if self.count == 0 { of_operation(OpNum::Illegal) } else { self.about.into() }
    }

    /// Adds itself to the counters.
    pub fn count(&self, counters: &PathCounters) {
        if !COUNTING {
            return;
        }
        if self.read_pages + self.read_copy + self.read_waited > 0 {
            PathCounters::bump(&counters.read_pages, self.read_pages);
            PathCounters::bump(&counters.read_copy, self.read_copy);
            PathCounters::bump(&counters.read_waited, self.read_waited);
            PathCounters::bump(&counters.read_bytes, self.read_bytes);
            PathCounters::bump(&counters.read_pages_bytes, self.read_pages_bytes);
        }
        if self.write_inline + self.write_worker > 0 {
            PathCounters::bump(&counters.write_inline, self.write_inline);
            PathCounters::bump(&counters.write_worker, self.write_worker);
            PathCounters::bump(&counters.write_bytes, self.write_bytes);
            PathCounters::bump(&counters.write_worker_bytes, self.write_worker_bytes);
        }
        let first = self.first.get(..self.count).unwrap_or(&self.first);
        first.iter().for_each(|operation| counters.operations.count((*operation).into(), false));
        self.others.iter().for_each(|operation| counters.operations.count((*operation).into(), false));
        if self.failed
            && let Some(last) = self.others.last().or(first.last())
        {
            counters.operations.failed((*last).into());
        }
    }
}

/// How much each operation, as it is counted, says about what its compound is for. A table, since every operation asks.
static WEIGHTS: [u8; 256] = {
    let mut weights = [MOST; 256];
    let mut index = 0;
    while index < LIGHT.len() {
        let (number, weight) = LIGHT[index];
        weights[of_operation(number)] = weight;
        index += 1;
    }
    weights
};

/// Of those that something is done with.
const MOST: u8 = 4;

/// Those that only lead to others or look at what they did.
const LIGHT: [(OpNum, u8); 12] = {
    use OpNum::*;
    [
        (Sequence, 0),
        (Putfh, 0),
        (Putrootfh, 0),
        (Putpubfh, 0),
        (Savefh, 0),
        (Restorefh, 0),
        (Getfh, 1),
        (Getattr, 2),
        (Access, 3),
        (Verify, 3),
        (Nverify, 3),
        (Illegal, MOST),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::metrics::OperationTotals;

    fn done(numbers: &[OpNum], last: NfsStat4) -> Tally {
        let mut tally = Tally::default();
        for (index, number) in numbers.iter().enumerate() {
            tally.did(*number, if index + 1 == numbers.len() { last } else { NfsStat4::OK });
        }
        tally
    }

    #[test]
    fn a_compound_is_about_what_it_is_sent_for() {
        use OpNum::*;
        for (numbers, about) in [
            (&[Sequence, Putfh, Read][..], Read),
            (&[Sequence, Putfh, Savefh, Lookup, Getfh, Getattr], Lookup),
            (&[Sequence, Putfh, Open, Getfh, Access, Getattr], Open),
            (&[Sequence, Putfh, Access, Getattr], Access),
            (&[Sequence, Putfh, Getattr], Getattr),
            (&[Sequence], Sequence),
            (&[Putfh, Close, Getattr], Close),
        ] {
            assert_eq!(done(numbers, NfsStat4::OK).about(), of_operation(about), "{numbers:?}");
        }
    }

    #[test]
    fn each_operation_counts_and_only_the_last_can_have_failed() {
        let counters = PathCounters::default();
        let many = vec![OpNum::Lookup; 3 * FEW];
        done(&many, NfsStat4::NOENT).count(&counters);
        done(&[OpNum::Putfh, OpNum::Lookup], NfsStat4::OK).count(&counters);
        let sums = OperationTotals::sum([&counters.operations]);
        let lookup = &sums[of_operation(OpNum::Lookup)];
        assert_eq!((lookup.count, lookup.errors), (3 * FEW as u64 + 1, 1));
        assert_eq!(sums[of_operation(OpNum::Putfh)].count, 1);
    }
}
