//! The ranges that one owner has locked in one file, as a server counts them: what is locked later lies over what was
//! locked before, and no byte is locked twice (POSIX, which RFC 8881 9.5 and NLM follow). And how a lock is put back that
//! nobody waited for. The locks of versions 3 and 4 keep their lists here; nothing here is sent.

use std::ops::Range;
use std::sync::Arc;

/// A range, and how it is locked: not at all, or whether against everybody. It ends at `u64::MAX` where it reaches to
/// the end of any file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub range: Range<u64>,
    pub exclusive: Option<bool>,
}

/// What is locked: pieces in order that do not overlap.
#[derive(Debug, Default)]
pub(super) struct Ranges(Vec<Piece>);

impl Ranges {
    /// All there is.
    pub fn pieces(&self) -> Vec<Piece> {
        self.0.clone()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A range is locked otherwise from now on.
    pub fn set(&mut self, piece: &Piece) {
        let new = &piece.range;
        let mut pieces = Vec::with_capacity(self.0.len() + 2);
        for old in self.0.drain(..) {
            let Range { start, end } = old.range;
            for rest in [start..end.min(new.start), start.max(new.end)..end] {
                if !rest.is_empty() {
                    pieces.push(Piece { range: rest, exclusive: old.exclusive });
                }
            }
        }
        if piece.exclusive.is_some() && !new.is_empty() {
            pieces.push(piece.clone());
        }
        pieces.sort_by_key(|piece| piece.range.start);
        self.0 = pieces;
    }

    /// How each part of a range is locked.
    pub fn within(&self, range: &Range<u64>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        for held in &self.0 {
            let (start, end) = (held.range.start.max(at), held.range.end.min(range.end));
            if start >= end {
                continue;
            }
            if at < start {
                pieces.push(Piece { range: at..start, exclusive: None });
            }
            pieces.push(Piece { range: start..end, exclusive: held.exclusive });
            at = end;
        }
        if at < range.end {
            pieces.push(Piece { range: at..range.end, exclusive: None });
        }
        pieces
    }
}

/// Whose turn it is to lock and unlock for an owner: from the question until somebody has the answer, or it is undone.
#[derive(Debug, Default)]
pub(super) struct Turns(Arc<tokio::sync::Mutex<()>>);

pub(super) type Turn = tokio::sync::OwnedMutexGuard<()>;

impl Turns {
    pub async fn next(&self) -> Turn {
        Arc::clone(&self.0).lock_owned().await
    }
}

/// An owner of locks.
pub(super) trait Keeper: Send + Sync + 'static {
    /// Has all locked as the pieces say. What comes of it nobody is told.
    fn put_back(&self, pieces: Vec<Piece>) -> impl Future<Output = ()> + Send;
}

/// A lock that was granted and that nobody has taken yet: if nobody does, its range is locked again as it was before.
pub(super) struct Granted<K: Keeper> {
    keeper: Arc<K>,
    before: Vec<Piece>,
    turn: Option<Turn>,
    runtime: tokio::runtime::Handle,
}

impl<K: Keeper> Granted<K> {
    pub fn new(keeper: Arc<K>, before: Vec<Piece>, turn: Turn) -> Self {
        Self { keeper, before, turn: Some(turn), runtime: tokio::runtime::Handle::current() }
    }

    /// Somebody has it.
    pub fn keep(mut self) {
        self.turn = None;
    }
}

impl<K: Keeper> Drop for Granted<K> {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            let (keeper, before) = (Arc::clone(&self.keeper), std::mem::take(&mut self.before));
            self.runtime.spawn(async move {
                keeper.put_back(before).await;
                drop(turn);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(range: Range<u64>, exclusive: Option<bool>) -> Piece {
        Piece { range, exclusive }
    }

    #[test]
    fn what_is_locked_later_lies_over_what_was_before() {
        let mut ranges = Ranges::default();
        ranges.set(&piece(0..10, Some(false)));
        ranges.set(&piece(20..u64::MAX, Some(true)));
        ranges.set(&piece(5..25, Some(true)));
        let expected = [piece(0..5, Some(false)), piece(5..25, Some(true)), piece(25..u64::MAX, Some(true))];
        assert_eq!(ranges.pieces(), expected);
        ranges.set(&piece(8..9, None));
        ranges.set(&piece(0..5, None));
        let expected = [piece(5..8, Some(true)), piece(9..25, Some(true)), piece(25..u64::MAX, Some(true))];
        assert_eq!(ranges.pieces(), expected);
        ranges.set(&piece(0..u64::MAX, None));
        assert!(ranges.is_empty());
    }

    #[test]
    fn every_byte_of_a_range_is_told() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.within(&(3..9)), [piece(3..9, None)]);
        ranges.set(&piece(2..4, Some(false)));
        ranges.set(&piece(6..8, Some(true)));
        let expected = [piece(3..4, Some(false)), piece(4..6, None), piece(6..8, Some(true)), piece(8..9, None)];
        assert_eq!(ranges.within(&(3..9)), expected);
        assert_eq!(ranges.within(&(6..7)), [piece(6..7, Some(true))]);
    }

    /// Against a list of bytes.
    #[test]
    fn pieces_are_what_a_byte_by_byte_account_says() {
        let (mut ranges, mut bytes) = (Ranges::default(), [None; 16]);
        let mut chance = 12_345u64;
        let mut next = |most: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) % most
        };
        for _ in 0..2000 {
            let start = next(15);
            let end = start + 1 + next(16 - start);
            let exclusive = [None, Some(false), Some(true)][next(3) as usize];
            ranges.set(&piece(start..end, exclusive));
            bytes[start as usize..end as usize].fill(exclusive);
            let mut told = Vec::new();
            for Piece { range, exclusive } in ranges.within(&(0..16)) {
                told.extend(std::iter::repeat_n(exclusive, (range.end - range.start) as usize));
            }
            assert_eq!(told, bytes);
        }
    }
}
