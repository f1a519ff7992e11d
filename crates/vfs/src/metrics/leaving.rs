//! Replies between a connection and the socket: each with when its request was there and what was asked, until all that
//! leave together have left and one reading of the clock tells how long each took. A connection has one.

use super::{COUNTING, Operations};

/// What is to be timed of a reply: small, since it travels with every one.
#[derive(Debug)]
pub struct Mark {
    arrived_ns: u64,
    operation: u8,
    others: Option<Box<Others>>,
}

/// What else was asked in the same request: mostly nothing.
#[derive(Debug, Default)]
struct Others(Vec<u8>);

impl Mark {
    /// Of the reply to a request that was whole at `arrived_ns`, in nanoseconds.
    pub fn new(arrived_ns: u64, operation: u8) -> Self {
        Self { arrived_ns, operation, others: None }
    }

    /// Another operation was asked for in the same request.
    pub fn and(&mut self, operation: u8) {
        self.others.get_or_insert_default().0.push(operation);
    }
}

/// The replies of one connection that are on their way to the socket.
#[derive(Debug, Default)]
pub struct Leaving(Vec<Timed>);

/// One operation of a reply: what a mark is once it does not travel any more. Nothing is to be dropped, so that all are
/// forgotten at once.
#[derive(Debug, Clone, Copy)]
struct Timed {
    arrived_ns: u64,
    operation: u8,
}

impl Leaving {
    /// A reply is ready.
    pub fn push(&mut self, mark: Mark) {
        if !COUNTING {
            return;
        }
        let Mark { arrived_ns, operation, others } = mark;
        self.0.push(Timed { arrived_ns, operation });
        if let Some(others) = others {
            self.0.extend(others.0.iter().map(|&operation| Timed { arrived_ns, operation }));
        }
    }

    /// Those that were ready are at the socket, at `now_ns`.
    pub fn left<const N: usize>(&mut self, now_ns: u64, operations: &Operations<N>) {
        for timed in &self.0 {
            operations.took(timed.operation.into(), now_ns.saturating_sub(timed.arrived_ns));
        }
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::OperationTotals;
    use super::*;

    #[test]
    fn each_request_is_timed_once_by_its_own_arrival() {
        let operations = Operations::<3>::default();
        let mut leaving = Leaving::default();
        leaving.push(Mark::new(100, 0));
        let mut compound = Mark::new(108, 1);
        compound.and(2);
        compound.and(2);
        leaving.push(compound);
        leaving.left(110, &operations);
        leaving.left(999, &operations);
        let sums = OperationTotals::sum([&operations]);
        let seen = sums.iter().map(|s| (s.latency.count(), s.latency.sum())).collect::<Vec<_>>();
        assert_eq!(seen, [(1, 10), (1, 2), (2, 4)]);
    }
}
