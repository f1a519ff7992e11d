//! Which shard a new connection goes to. It stays there, and nobody knows beforehand how much it will ask for. So connections
//! are spread evenly, but not in turns: of clients that come in a pattern, one that works and one that does not, all that
//! work would be on one shard. Among the shards that have about as few, chance decides, and one that has had much more to do
//! lately than another is passed over.

use std::time::{Duration, Instant};

/// For so long what shards had to do counts as lately.
const PERIOD: Duration = Duration::from_millis(250);
/// Fewer requests in a period, those of logins for the most part, are nothing to choose by.
const LITTLE: u64 = 4_000;
/// A shard may have this part more of the connections than the one with the fewest.
const SLACK: usize = 8;

/// The choices of one listener.
pub struct Placing {
    since: Option<Instant>,
    /// Requests of each shard since it began, and in the last whole period.
    totals: Vec<u64>,
    lately: Vec<u64>,
    chance: u64,
}

impl Placing {
    /// Among so many shards, nothing seen yet.
    pub fn new(shards: usize) -> Self {
        Self { since: None, totals: vec![0; shards], lately: vec![0; shards], chance: 0 }
    }

    /// The shard for the next connection, by the connections open on each; `totals` are the requests each has had since it
    /// began, asked for once in a period.
    pub fn choose(&mut self, now: Instant, open: &[usize], totals: impl FnOnce() -> Vec<u64>) -> Option<usize> {
        self.see(now, totals);
        let fewest = *open.iter().min()?;
        let shards = open.iter().zip(&self.lately).enumerate();
        let near: Vec<_> = shards.filter(|(_, (open, _))| **open <= fewest + fewest / SLACK).collect();
        let least = near.iter().map(|(_, (_, lately))| **lately).min()?;
        let has_much = |lately: u64| lately > least + least / 2 + LITTLE;
        let free: Vec<_> = near.iter().filter(|(_, (_, lately))| !has_much(**lately)).map(|(at, _)| *at).collect();
        free.get(self.next_chance() % free.len().max(1)).copied()
    }

    fn see(&mut self, now: Instant, totals: impl FnOnce() -> Vec<u64>) {
        let age = self.since.map(|since| now.saturating_duration_since(since));
        if age.is_some_and(|age| age < PERIOD) {
            return;
        }
        let totals = totals();
        // After a long time without a new connection it is the pace that counts, not the sum.
        let periods = age.map_or(1, |age| (age.as_nanos() / PERIOD.as_nanos()).max(1)) as u64;
        let news = totals.iter().zip(&self.totals).map(|(now, before)| now.saturating_sub(*before) / periods);
        self.lately = news.collect();
        self.totals = totals;
        self.since = Some(now);
    }

    /// Without a pattern, which is all it needs.
    fn next_chance(&mut self) -> usize {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places so many on two shards where there are `open`; `totals` tells what they have had to do by then.
    fn place(open: &mut [usize; 2], count: u32, totals: impl Fn(u32) -> Vec<u64>) {
        let (mut placing, begun) = (Placing::new(2), Instant::now());
        for number in 0..count {
            let at = placing.choose(begun + number * PERIOD, open, || totals(number)).unwrap();
            open[at] += 1;
        }
    }

    #[test]
    fn few_are_spread_evenly() {
        let mut placing = Placing::new(3);
        let mut open = [0; 3];
        for _ in 0..9 {
            open[placing.choose(Instant::now(), &open, || vec![50, 0, 90]).unwrap()] += 1;
        }
        assert_eq!(open, [3, 3, 3]);
        assert_eq!(placing.choose(Instant::now(), &[], Vec::new), None);
    }

    #[test]
    fn of_clients_that_come_in_turns_not_all_that_work_are_on_one_shard() {
        let mut placing = Placing::new(2);
        let (mut open, mut busy) = ([500; 2], [0; 2]);
        for number in 0..128 {
            let at = placing.choose(Instant::now(), &open, || vec![0, 0]).unwrap();
            open[at] += 1;
            busy[at] += number % 2;
        }
        assert!(busy.iter().all(|clients| (22..=42).contains(clients)), "{busy:?}");
    }

    #[test]
    fn after_many_have_gone_from_one_shard_it_does_not_get_all_that_come() {
        let mut open = [500, 450];
        place(&mut open, 64, |_| vec![0, 0]);
        assert!((22..=42).contains(&(open[0] - 500)), "{open:?}");
    }

    #[test]
    fn who_has_much_to_do_gets_no_more_until_the_others_have_an_eighth_more() {
        let mut open = [100, 100];
        place(&mut open, 12, |number| vec![100_000 * (u64::from(number) + 1), 0]);
        assert_eq!(open, [100, 112]);
        place(&mut open, 100, |number| vec![100_000 * (u64::from(number) + 1), 0]);
        assert!(open[1] <= open[0] + open[0] / SLACK + 1, "{open:?}");
    }

    #[test]
    fn what_counts_is_the_pace_of_late() {
        let mut placing = Placing::new(2);
        let begun = Instant::now();
        placing.see(begun, || vec![10, 20]);
        assert_eq!(placing.lately, [10, 20]);
        placing.see(begun + PERIOD / 2, || unreachable!("asked too soon"));
        placing.see(begun + PERIOD, || vec![110, 20]);
        assert_eq!(placing.lately, [100, 0]);
        placing.see(begun + 11 * PERIOD, || vec![110, 1_020]);
        assert_eq!(placing.lately, [0, 100]);
    }
}
