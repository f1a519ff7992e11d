//! Which shard a new connection goes to. It stays there, and nobody knows beforehand how much it will ask for: connections are
//! spread evenly, and among shards that have about as few, one that has had much more to do lately than another is passed
//! over. Without that, clients that come in turns, one that works and one that does not, would all work on one shard.

use std::time::{Duration, Instant};

/// For so long what shards had to do counts as lately.
const PERIOD: Duration = Duration::from_millis(250);
/// Fewer requests in a period are nothing to choose by.
const LITTLE: u64 = 100;
/// A shard may have this part more of the connections than the one with the fewest, and one.
const SLACK: usize = 8;

/// How many requests each shard has had in the last whole period.
pub struct Lately {
    since: Option<Instant>,
    totals: Vec<u64>,
    requests: Vec<u64>,
}

impl Lately {
    /// Of so many shards, nothing seen yet.
    pub fn new(shards: usize) -> Self {
        Self { since: None, totals: vec![0; shards], requests: vec![0; shards] }
    }

    /// The requests of each shard; `totals` are those since the beginning, asked for once in a period.
    pub fn seen(&mut self, now: Instant, totals: impl FnOnce() -> Vec<u64>) -> &[u64] {
        let age = self.since.map(|since| now.saturating_duration_since(since));
        if age.is_none_or(|age| age >= PERIOD) {
            let totals = totals();
            // After a long time without a new connection it is the pace that counts, not the sum.
            let periods = age.map_or(1, |age| (age.as_nanos() / PERIOD.as_nanos()).max(1)) as u64;
            let since = totals.iter().zip(&self.totals).map(|(now, before)| now.saturating_sub(*before) / periods);
            self.requests = since.collect();
            self.totals = totals;
            self.since = Some(now);
        }
        &self.requests
    }
}

/// The shard for the next connection, by the connections open on each and their requests lately.
pub fn choose(open: &[usize], lately: &[u64]) -> Option<usize> {
    let fewest = *open.iter().min()?;
    let shards = || open.iter().zip(lately).enumerate().filter(|(_, (open, _))| **open <= fewest + fewest / SLACK + 1);
    let least = shards().map(|(_, (_, lately))| *lately).min()?;
    let has_much = |lately: u64| lately > least + least / 2 + LITTLE;
    shards().filter(|(_, (_, lately))| !has_much(**lately)).min_by_key(|(_, (open, _))| **open).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_spread_evenly_where_nobody_has_more_to_do() {
        let mut open = [0; 3];
        for _ in 0..9 {
            open[choose(&open, &[50, 0, 90]).unwrap()] += 1;
        }
        assert_eq!(open, [3, 3, 3]);
        assert_eq!(choose(&[], &[]), None);
    }

    #[test]
    fn who_comes_in_turns_with_others_does_not_end_on_one_shard() {
        let (mut open, mut busy) = ([0; 2], [0u64; 2]);
        for number in 0..64 {
            let at = choose(&open, &busy.map(|clients| clients * 1_000)).unwrap();
            open[at] += 1;
            busy[at] += number % 2;
        }
        assert!(busy.iter().all(|clients| (12..=20).contains(clients)), "{busy:?}");
        assert!(open.iter().all(|count| (28..=36).contains(count)), "{open:?}");
    }

    #[test]
    fn one_that_has_nothing_to_do_does_not_get_them_all() {
        let mut open = [100, 100];
        for _ in 0..100 {
            open[choose(&open, &[1_000_000, 0]).unwrap()] += 1;
        }
        assert!(open[0] >= 130, "{open:?}");
    }

    #[test]
    fn what_counts_is_the_pace_of_late() {
        let mut lately = Lately::new(2);
        let begun = Instant::now();
        assert_eq!(lately.seen(begun, || vec![10, 20]), [10, 20]);
        assert_eq!(lately.seen(begun + PERIOD / 2, || unreachable!("asked too soon")), [10, 20]);
        assert_eq!(lately.seen(begun + PERIOD, || vec![110, 20]), [100, 0]);
        assert_eq!(lately.seen(begun + 11 * PERIOD, || vec![110, 1_020]), [0, 100]);
    }
}
