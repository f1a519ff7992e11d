//! The window of message ids a client may use: how credits are kept (MS-SMB2 3.3.1.1, 3.3.1.2, 3.3.5.2.3).

/// The ids granted and not yet used. A client uses them in any order, each once.
#[derive(Debug)]
pub struct Window {
    /// Every id below has been used.
    low: u64,
    /// Ids from here on are not granted.
    high: u64,
    /// Which ids of `low..high` are used, as a ring of bits.
    used: Vec<u64>,
    most: u64,
}

/// A message id that was not granted, or was used before.
#[derive(Debug, PartialEq, Eq)]
pub struct OutOfWindow;

impl Window {
    /// A window that has granted message id 0 and will never have more than `most` ids outstanding.
    pub fn new(most: u16) -> Self {
        let most = u64::from(most).max(2).next_multiple_of(64);
        // Used ids above an unused low one stay in the ring, so it spans as many ids as can be granted at once, twice.
        Self { low: 0, high: 1, used: vec![0; (most / 64 * 2) as usize], most }
    }

    fn span(&self) -> u64 {
        self.used.len() as u64 * 64
    }

    fn bit(&self, id: u64) -> (usize, u64) {
        let at = id % self.span();
        ((at / 64) as usize, 1 << (at % 64))
    }

    fn is_used(&self, id: u64) -> bool {
        let (word, mask) = self.bit(id);
        self.used[word] & mask != 0
    }

    /// Uses `charge` ids from `id` on; all or none.
    pub fn consume(&mut self, id: u64, charge: u16) -> Result<(), OutOfWindow> {
        let end = id.checked_add(u64::from(charge.max(1))).ok_or(OutOfWindow)?;
        if id < self.low || end > self.high || (id..end).any(|i| self.is_used(i)) {
            return Err(OutOfWindow);
        }
        for i in id..end {
            let (word, mask) = self.bit(i);
            self.used[word] |= mask;
        }
        while self.low < self.high && self.is_used(self.low) {
            let (word, mask) = self.bit(self.low);
            self.used[word] &= !mask;
            self.low += 1;
        }
        Ok(())
    }

    /// Grants up to `wanted` further ids, at least one if the client would otherwise have none, and answers how many.
    pub fn grant(&mut self, wanted: u16) -> u16 {
        let outstanding = self.high - self.low;
        let wanted = u64::from(wanted).max(1);
        let granted = wanted.min(self.most.saturating_sub(outstanding)).min(self.span() - outstanding);
        self.high += granted;
        granted as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_used_once_and_only_when_granted() {
        let mut window = Window::new(64);
        assert_eq!(window.consume(1, 1), Err(OutOfWindow));
        assert_eq!(window.consume(0, 1), Ok(()));
        assert_eq!(window.consume(0, 1), Err(OutOfWindow));
        assert_eq!(window.grant(10), 10);
        assert_eq!(window.consume(5, 3), Ok(()), "in any order");
        assert_eq!(window.consume(4, 2), Err(OutOfWindow), "overlaps");
        assert_eq!(window.consume(10, 2), Err(OutOfWindow), "beyond what was granted");
        assert_eq!(window.consume(u64::MAX, 1), Err(OutOfWindow));
        for id in [1, 2, 3, 4, 8, 9, 10] {
            assert_eq!(window.consume(id, 1), Ok(()));
        }
        assert_eq!((window.low, window.high), (11, 11));
    }

    #[test]
    fn the_window_is_bounded_and_never_closes_for_good() {
        let mut window = Window::new(64);
        window.consume(0, 1).unwrap();
        assert_eq!(window.grant(u16::MAX), 64);
        assert_eq!(window.grant(5), 0, "as many as can be are outstanding");
        window.consume(1, 1).unwrap();
        assert_eq!(window.grant(0), 1, "an asker of none gets one");
    }

    #[test]
    fn a_hole_at_the_low_end_does_not_let_an_id_be_used_twice() {
        let mut window = Window::new(64);
        window.consume(0, 1).unwrap();
        window.grant(64);
        let mut next = 2;
        // Id 1 stays unused while the others are used as they are granted.
        loop {
            while next < window.high {
                window.consume(next, 1).unwrap();
                next += 1;
            }
            if window.grant(64) == 0 {
                break;
            }
        }
        assert_eq!(window.high - window.low, 64);
        window.consume(1, 1).unwrap();
        assert_eq!(window.low, window.high);
        for id in 0..next {
            assert_eq!(window.consume(id, 1), Err(OutOfWindow));
        }
    }
}
