//! Replies between a connection and the socket: each with when its request was there and what was asked, until all that
//! leave together have left and one reading of the clock tells how long each took. A connection has one.

use super::Operations;

/// What is to be timed of a reply.
#[derive(Debug)]
pub struct Mark {
    /// When the whole request was there, in nanoseconds.
    pub arrived_ns: u64,
    /// What was asked first.
    pub operation: u8,
    /// What else was asked in the same request; without memory of its own while there is nothing.
    pub others: Vec<u8>,
}

/// The replies of one connection that are on their way to the socket.
#[derive(Debug, Default)]
pub struct Leaving(Vec<Mark>);

impl Leaving {
    /// A reply is handed over.
    pub fn push(&mut self, mark: Mark) {
        self.0.push(mark);
    }

    /// Those that were handed over are at the socket, at `now_ns`.
    pub fn left<const N: usize>(&mut self, now_ns: u64, operations: &Operations<N>) {
        for mark in self.0.drain(..) {
            let took_ns = now_ns.saturating_sub(mark.arrived_ns);
            operations.took(mark.operation.into(), took_ns);
            mark.others.iter().for_each(|other| operations.took(usize::from(*other), took_ns));
        }
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
        leaving.push(Mark { arrived_ns: 100, operation: 0, others: Vec::new() });
        leaving.push(Mark { arrived_ns: 108, operation: 1, others: vec![2, 2] });
        leaving.left(110, &operations);
        leaving.left(999, &operations);
        let sums = OperationTotals::sum([&operations]);
        let seen = sums.iter().map(|s| (s.latency.count(), s.latency.sum())).collect::<Vec<_>>();
        assert_eq!(seen, [(1, 10), (1, 2), (2, 4)]);
    }
}
