//! Which calls of a context were here (RFC 2203 5.3.3.1): each number counts once, and what is older than the window is
//! not known any more.

/// How many numbers are told apart: more calls than a client has under way on all its connections together.
pub(super) const SIZE: u32 = 2048;

const WORDS: usize = SIZE as usize / 64;

/// The window.
pub(super) struct Window {
    /// The highest number that came; `None` before the first.
    highest: Option<u32>,
    /// A bit for each number up to it, at its place in the ring.
    seen: [u64; WORDS],
}

impl Default for Window {
    fn default() -> Self {
        Self { highest: None, seen: [0; WORDS] }
    }
}

impl Window {
    /// Takes a number; false when it was here or may have been.
    pub fn take(&mut self, number: u32) -> bool {
        match self.highest {
            Some(highest) if number <= highest => {
                if highest - number >= SIZE {
                    return false;
                }
            }
            highest => self.advance(highest, number),
        }
        let Some(word) = self.seen.get_mut(number as usize / 64 % WORDS) else { return false };
        let bit = 1 << (number % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Moves on to a higher number; those between were not here.
    fn advance(&mut self, highest: Option<u32>, number: u32) {
        self.highest = Some(number);
        let Some(highest) = highest else { return };
        if number - highest >= SIZE {
            self.seen = [0; WORDS];
            return;
        }
        for between in highest + 1..=number {
            if let Some(word) = self.seen.get_mut(between as usize / 64 % WORDS) {
                *word &= !(1 << (between % 64));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_counts_once() {
        let mut window = Window::default();
        for number in [1, 2, 5, 3, 4, 100, 99] {
            assert!(window.take(number), "{number}");
            assert!(!window.take(number), "{number} again");
        }
        assert!(window.take(0));
    }

    #[test]
    fn what_is_older_than_the_window_is_not_taken() {
        let mut window = Window::default();
        assert!(window.take(10_000));
        assert!(!window.take(10_000 - SIZE));
        assert!(window.take(10_000 - SIZE + 1));
        assert!(window.take(10_001));
        assert!(!window.take(10_000 - SIZE + 1), "the window has moved on");
    }

    #[test]
    fn every_number_is_new_when_the_ring_comes_round() {
        let mut window = Window::default();
        for number in 0..5 * SIZE {
            assert!(window.take(number), "{number}");
        }
        assert!(window.take(20 * SIZE + 3));
        for number in 19 * SIZE + 4..20 * SIZE + 3 {
            assert!(window.take(number), "{number}");
        }
        assert!(window.take(u32::MAX) && !window.take(u32::MAX));
    }
}
