//! A session of 4.1: its slots, each with the answer to its last request, so that one that is sent again is not done
//! again (RFC 8881 2.10.6). SEQUENCE asks, the engine brings the answer when the compound is done.

use std::sync::Arc;

use nfs_wire::nfs4::{ChannelAttrs, NfsStat4, SequenceArgs, SessionId};
use parking_lot::Mutex;

use super::callback::BackChannel;
use super::client::Client;

/// Requests of one session at a time.
pub(crate) const MOST_SLOTS: u32 = 64;
/// Operations of one compound.
pub(crate) const MOST_OPS: u32 = 128;
/// Bytes of an answer that is kept.
pub(crate) const MOST_CACHED_BYTES: u32 = 4 << 10;
/// Less than this no compound fits in.
const FEWEST_BYTES: u32 = 256;
/// Callbacks of one session at a time.
const MOST_BACK_SLOTS: u32 = 16;

/// One session.
pub(crate) struct Session {
    pub id: SessionId,
    pub client: Arc<Client>,
    /// For requests, as granted.
    pub fore: ChannelAttrs,
    /// The backchannel.
    pub callbacks: Arc<BackChannel>,
    slots: Box<[Mutex<Slot>]>,
}

#[derive(Default)]
struct Slot {
    sequence: u32,
    busy: bool,
    /// What the request was, as far as a retry can be told from another one.
    print: u64,
    kept: Option<Arc<[u8]>>,
}

/// What a request is to its slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// To be done.
    Next,
    /// Done before: this was the answer.
    Again(Arc<[u8]>),
    /// Done before, and the answer was not kept.
    Uncached,
}

impl Session {
    pub fn new(id: SessionId, client: Arc<Client>, fore: ChannelAttrs, callbacks: BackChannel) -> Self {
        let slots = (0..fore.max_requests).map(|_| Mutex::default()).collect();
        Self { id, client, fore, callbacks: Arc::new(callbacks), slots }
    }

    /// Whose turn it is on the slot (RFC 8881 2.10.6.1, 18.46.3). `print` tells other arguments from the same ones.
    pub fn turn(&self, args: &SequenceArgs, print: u64) -> Result<Turn, NfsStat4> {
        let slot = self.slots.get(args.slot_id as usize).ok_or(NfsStat4::BADSLOT)?;
        if args.highest_slot_id as usize >= self.slots.len() {
            return Err(NfsStat4::BAD_HIGH_SLOT);
        }
        let mut slot = slot.lock();
        if args.sequence_id == slot.sequence.wrapping_add(1) {
            // A client that goes on before it has its answer has given that up; what works on it does still work.
            if slot.busy {
                return Err(NfsStat4::SEQ_MISORDERED);
            }
            *slot = Slot { sequence: args.sequence_id, busy: true, print, kept: None };
            return Ok(Turn::Next);
        }
        match () {
            () if args.sequence_id != slot.sequence => Err(NfsStat4::SEQ_MISORDERED),
            () if slot.print == 0 => Err(NfsStat4::SEQ_MISORDERED),
            () if slot.busy => Err(NfsStat4::DELAY),
            () if slot.print != print => Err(NfsStat4::SEQ_FALSE_RETRY),
            () => Ok(slot.kept.clone().map_or(Turn::Uncached, Turn::Again)),
        }
    }

    /// The request on the slot is done; `kept` is its answer, where that is to be kept.
    pub fn done(&self, slot: u32, sequence: u32, kept: Option<Arc<[u8]>>) {
        let Some(slot) = self.slots.get(slot as usize) else { return };
        let mut slot = slot.lock();
        if slot.sequence == sequence {
            slot.busy = false;
            slot.kept = kept;
        }
    }

    /// Whether a request other than that on `but` is being done.
    pub fn is_busy(&self, but: Option<u32>) -> bool {
        let other = |at: usize| Some(at as u32) != but;
        self.slots.iter().enumerate().any(|(at, slot)| other(at) && slot.lock().busy)
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The highest slot there is.
    pub fn highest_slot(&self) -> u32 {
        self.fore.max_requests.saturating_sub(1)
    }
}

/// What is granted of the channel for requests (RFC 8881 18.36.3), with no more slots than there are to give. TOOSMALL where
/// nothing would fit.
pub(crate) fn fore_channel(
    asked: &ChannelAttrs,
    max_transfer_bytes: u32,
    most_slots: u32,
) -> Result<ChannelAttrs, NfsStat4> {
    let most = max_transfer_bytes.saturating_add(64 << 10);
    let granted = ChannelAttrs {
        header_pad_bytes: 0,
        max_request_bytes: asked.max_request_bytes.min(most),
        max_response_bytes: asked.max_response_bytes.min(most),
        max_response_cached_bytes: asked.max_response_cached_bytes.min(MOST_CACHED_BYTES),
        max_operations: asked.max_operations.min(MOST_OPS),
        max_requests: asked.max_requests.min(most_slots).clamp(1, MOST_SLOTS),
        rdma_ird: None,
    };
    if granted.max_request_bytes < FEWEST_BYTES || granted.max_response_bytes < FEWEST_BYTES {
        return Err(NfsStat4::TOOSMALL);
    }
    if granted.max_operations < 2 || asked.max_requests == 0 {
        return Err(NfsStat4::INVAL);
    }
    Ok(granted)
}

/// The same of the channel for callbacks.
pub(crate) fn back_channel(asked: &ChannelAttrs) -> Result<ChannelAttrs, NfsStat4> {
    if asked.max_request_bytes < FEWEST_BYTES || asked.max_response_bytes < FEWEST_BYTES / 2 {
        return Err(NfsStat4::TOOSMALL);
    }
    Ok(ChannelAttrs {
        header_pad_bytes: 0,
        max_requests: asked.max_requests.clamp(1, MOST_BACK_SLOTS),
        rdma_ird: None,
        max_response_cached_bytes: 0,
        ..*asked
    })
}

#[cfg(test)]
mod tests {
    use super::super::callback::CallbackCred;
    use super::super::client::{Family, Who};
    use super::super::ids::ClientNumber;
    use super::*;

    fn session(slots: u32) -> Session {
        let who = Who { family: Family::Sessions, name: b"c", verifier: [0; 8], principal: None };
        let client = Arc::new(Client::new(ClientNumber(1), 1, &who, 0));
        let channel = ChannelAttrs {
            header_pad_bytes: 0,
            max_request_bytes: 4096,
            max_response_bytes: 4096,
            max_response_cached_bytes: 4096,
            max_operations: 8,
            max_requests: slots,
            rdma_ird: None,
        };
        let callbacks = BackChannel::new([1; 16], 1, 0, CallbackCred::None, 1);
        Session::new([1; 16], client, channel, callbacks)
    }

    fn on(slot_id: u32, sequence_id: u32) -> SequenceArgs {
        SequenceArgs { session_id: [1; 16], sequence_id, slot_id, highest_slot_id: slot_id, cache_this: true }
    }

    #[test]
    fn a_request_is_done_once_and_answered_again() {
        let session = session(2);
        assert_eq!(session.turn(&on(0, 0), 7), Err(NfsStat4::SEQ_MISORDERED), "nothing was answered yet");
        assert_eq!(session.turn(&on(0, 2), 7), Err(NfsStat4::SEQ_MISORDERED));
        assert_eq!(session.turn(&on(0, 1), 7), Ok(Turn::Next));
        assert_eq!(session.turn(&on(0, 1), 7), Err(NfsStat4::DELAY), "it is being done");
        assert_eq!(session.turn(&on(1, 1), 7), Ok(Turn::Next), "another slot is another line");
        session.done(0, 1, Some(Arc::from(*b"answer")));
        assert_eq!(session.turn(&on(0, 1), 7), Ok(Turn::Again(Arc::from(*b"answer"))));
        assert_eq!(session.turn(&on(0, 1), 8), Err(NfsStat4::SEQ_FALSE_RETRY));
        assert_eq!(session.turn(&on(0, 2), 8), Ok(Turn::Next));
        session.done(0, 2, None);
        assert_eq!(session.turn(&on(0, 2), 8), Ok(Turn::Uncached));
        assert_eq!(session.turn(&on(0, 1), 7), Err(NfsStat4::SEQ_MISORDERED));
    }

    #[test]
    fn there_are_no_slots_but_those_granted() {
        let session = session(2);
        assert_eq!(session.turn(&on(2, 1), 7), Err(NfsStat4::BADSLOT));
        let args = SequenceArgs { highest_slot_id: 2, ..on(0, 1) };
        assert_eq!(session.turn(&args, 7), Err(NfsStat4::BAD_HIGH_SLOT));
    }

    #[test]
    fn a_slot_counts_over_the_wrap() {
        let session = session(1);
        session.slots[0].lock().sequence = u32::MAX;
        assert_eq!(session.turn(&on(0, 0), 7), Ok(Turn::Next));
    }
}
