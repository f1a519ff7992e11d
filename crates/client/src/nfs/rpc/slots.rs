//! The slots of an NFSv4.1 session that one connection may use (RFC 8881 2.10.6). Several connections of a session each
//! have a share of its slots, so that none must ask another. A slot is given out once at a time, and again only when it
//! is certain what number the server expects on it.

use std::ops::Range;

use nfs_wire::nfs4::{CompoundResults, NfsStat4, OpResult, SequenceArgs, SessionId};
use nfs_wire::xdr::Reader;

/// The slots of one connection.
#[derive(Debug, Clone)]
pub struct Slots {
    session_id: SessionId,
    /// Free ones, the lowest last.
    free: Vec<Slot>,
    /// The highest the server takes.
    highest: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    session_id: SessionId,
    id: u32,
    /// Of the next request on it.
    sequence_id: u32,
}

impl Slots {
    /// The slots `ids` of a session that was just made.
    pub fn new(session_id: SessionId, ids: Range<u32>) -> Self {
        let highest = ids.end.saturating_sub(1);
        Self { session_id, free: ids.rev().map(|id| Slot { session_id, id, sequence_id: 1 }).collect(), highest }
    }

    /// A slot, and the SEQUENCE of a request on it.
    pub(super) fn take(&mut self, keep: bool) -> Option<(Slot, SequenceArgs)> {
        let slot = self.free.pop()?;
        let args = SequenceArgs {
            session_id: slot.session_id,
            sequence_id: slot.sequence_id,
            slot_id: slot.id,
            highest_slot_id: self.highest,
            cache_this: keep,
        };
        Some((slot, args))
    }

    /// The answer to the request on `slot` has come.
    pub(super) fn release(&mut self, slot: Slot, results: &[u8]) {
        if slot.session_id != self.session_id {
            return;
        }
        let Some(sequence_id) = self.next_of(slot, results) else { return };
        if slot.id <= self.highest {
            let at = self.free.partition_point(|free| free.id > slot.id);
            self.free.insert(at, Slot { sequence_id, ..slot });
        }
    }

    /// The next request's number; `None` when that is not certain, and the slot of no more use.
    fn next_of(&mut self, slot: Slot, results: &[u8]) -> Option<u32> {
        let mut walk = CompoundResults::decode(&mut Reader::new(results)).ok()?;
        let Some(Ok(OpResult::Sequence(result))) = walk.next_result() else { return None };
        let next = slot.sequence_id.wrapping_add(1);
        match result {
            Ok(ok) => {
                let is_ours =
                    ok.session_id == slot.session_id && (ok.slot_id, ok.sequence_id) == (slot.id, slot.sequence_id);
                if !is_ours {
                    return None;
                }
                // RFC 8881 2.10.6.1: slots above are given back by not being used. One is always left.
                let lowest = self.free.last().map_or(slot.id, |free| free.id.min(slot.id));
                self.highest = self.highest.min(ok.highest_slot_id.max(lowest));
                self.free.retain(|free| free.id <= self.highest);
                Some(next)
            }
            Err(NfsStat4::RETRY_UNCACHED_REP) => Some(next),
            Err(NfsStat4::SEQ_MISORDERED | NfsStat4::SEQ_FALSE_RETRY | NfsStat4::BADSLOT | NfsStat4::BAD_HIGH_SLOT) => {
                None
            }
            // The server has not looked at the slot.
            Err(_) => Some(slot.sequence_id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs_wire::nfs4::{CompoundReply, OpNum, SequenceOk, SequenceRes, SequenceStatus};

    const SESSION: SessionId = [7; 16];

    fn answer(result: SequenceRes) -> Vec<u8> {
        let mut out = Vec::new();
        let mut reply = CompoundReply::begin(b"", &mut out);
        reply.result(OpNum::Sequence, &result, &mut out);
        reply.end(result.err().unwrap_or(NfsStat4::OK), &mut out);
        out
    }

    fn ok(slot_id: u32, sequence_id: u32, highest_slot_id: u32) -> SequenceRes {
        let status = SequenceStatus::empty();
        let target_highest_slot_id = highest_slot_id;
        Ok(SequenceOk { session_id: SESSION, sequence_id, slot_id, highest_slot_id, target_highest_slot_id, status })
    }

    #[test]
    fn a_slot_counts_what_was_done_on_it() {
        let mut slots = Slots::new(SESSION, 0..2);
        let (first, args) = slots.take(true).unwrap();
        assert_eq!((args.slot_id, args.sequence_id, args.highest_slot_id), (0, 1, 1));
        let (second, args) = slots.take(false).unwrap();
        assert_eq!((args.slot_id, args.sequence_id), (1, 1));
        assert!(slots.take(true).is_none());
        slots.release(second, &answer(Err(NfsStat4::DELAY)));
        let (second, args) = slots.take(true).unwrap();
        assert_eq!((args.slot_id, args.sequence_id), (1, 1), "not looked at, not counted");
        slots.release(second, &answer(Err(NfsStat4::RETRY_UNCACHED_REP)));
        slots.release(first, &answer(ok(0, 1, 1)));
        let (_, args) = slots.take(true).unwrap();
        assert_eq!((args.slot_id, args.sequence_id), (0, 2), "the lowest first");
        let (second, args) = slots.take(true).unwrap();
        assert_eq!((args.slot_id, args.sequence_id), (1, 2));
        slots.release(second, &answer(Err(NfsStat4::SEQ_MISORDERED)));
        assert!(slots.take(true).is_none(), "nobody knows what is expected on it");
    }

    #[test]
    fn a_server_takes_slots_back_but_not_the_last() {
        let mut slots = Slots::new(SESSION, 4..8);
        let (slot, _) = slots.take(true).unwrap();
        slots.release(slot, &answer(ok(4, 1, 5)));
        assert_eq!(slots.free.len(), 2);
        let (slot, args) = slots.take(true).unwrap();
        assert_eq!(args.highest_slot_id, 5);
        slots.release(slot, &answer(ok(4, 2, 0)));
        assert_eq!(slots.free.len(), 1);
    }

    #[test]
    fn an_answer_of_another_slot_or_session_gives_nothing_back() {
        let mut slots = Slots::new(SESSION, 0..1);
        let (slot, _) = slots.take(true).unwrap();
        slots.release(slot, &answer(ok(1, 1, 0)));
        slots.release(slot, b"");
        assert!(slots.take(true).is_none());
        let mut other = Slots::new([8; 16], 0..1);
        other.take(true).unwrap();
        other.release(slot, &answer(ok(0, 1, 0)));
        assert!(other.take(true).is_none());
    }
}
