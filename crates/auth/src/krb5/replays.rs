//! Which requests were here (RFC 4120 3.2.3): each counts once, for as long as its time is within the skew. Bounded; the
//! acceptor asks it, and says what is to be done where there is no room.

use std::collections::{HashMap, VecDeque};

use sha2::{Digest, Sha256};

/// What is remembered at a time.
const MOST: usize = 1 << 16;

type Print = [u8; 16];

/// Requests of the last minutes.
#[derive(Default)]
pub(super) struct Replays {
    known: HashMap<Print, i64>,
    /// In the order in which they came, with when they may be forgotten.
    order: VecDeque<(Print, i64)>,
}

/// What came of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    New,
    Before,
    /// Nobody knows: there are too many.
    NoRoom,
}

impl Replays {
    /// Looks for a request, which is remembered until `until`.
    pub fn note(&mut self, request: &[u8], now: i64, until: i64) -> Seen {
        while let Some((print, _)) = self.order.front().filter(|(_, until)| *until < now) {
            self.known.remove(print);
            self.order.pop_front();
        }
        let print = *Sha256::digest(request).first_chunk().unwrap_or(&[0; 16]);
        if self.known.contains_key(&print) {
            return Seen::Before;
        }
        if self.known.len() >= MOST {
            return Seen::NoRoom;
        }
        self.known.insert(print, until);
        self.order.push_back((print, until));
        Seen::New
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_once_until_its_time_is_over() {
        let mut replays = Replays::default();
        assert_eq!(replays.note(b"a", 100, 200), Seen::New);
        assert_eq!(replays.note(b"a", 200, 300), Seen::Before);
        assert_eq!(replays.note(b"b", 200, 300), Seen::New);
        assert_eq!(replays.note(b"a", 201, 300), Seen::New);
    }

    #[test]
    fn there_is_an_end_of_it() {
        let mut replays = Replays::default();
        for n in 0..MOST {
            assert_eq!(replays.note(&n.to_be_bytes(), 0, 10), Seen::New);
        }
        assert_eq!(replays.note(b"one more", 10, 20), Seen::NoRoom);
        assert_eq!(replays.note(&3usize.to_be_bytes(), 10, 20), Seen::Before);
        assert_eq!(replays.note(b"one more", 11, 20), Seen::New);
        assert_eq!(replays.order.len(), 1);
    }
}
