//! What is kept of requests until they are answered, so that another connection can send them when this one is lost. The
//! machine keeps the frames themselves, without a copy; whoever makes the other connection takes them.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use smb_wire::NtStatus;

use super::{Connection, InFlight, Purpose, Queued, Token};
use crate::buffer::Buffer;
use crate::smb::Request;
use crate::smb::request::PREFIX_BYTES;

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Kept {
    /// Without its bytes, which are in the frame.
    request: Request,
    frame: Option<Arc<Buffer>>,
    message: Range<usize>,
    is_related: bool,
}

impl Kept {
    pub fn new(request: Request, message: Range<usize>, is_related: bool) -> Self {
        Self { request, frame: None, message, is_related }
    }
}

/// A request, or a compound, that was not answered when its connection was over.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub token: Token,
    pub request: Request,
    pub related: Vec<(Token, Request)>,
    /// The server may have done it.
    pub is_sent: bool,
    /// Some of the compound was answered, or its bytes are no more: it cannot be sent again.
    pub is_torn: bool,
}

impl Unanswered {
    fn sent(token: Token, request: Request, is_torn: bool) -> Self {
        Self { token, request, related: Vec::new(), is_sent: true, is_torn }
    }

    fn queued(queued: Queued) -> Option<Self> {
        let of_caller = |(purpose, request)| match purpose {
            Purpose::Caller(token) => Some((token, request)),
            _ => None,
        };
        let (token, request) = of_caller((queued.purpose, queued.request))?;
        let related = queued.related.into_iter().filter_map(of_caller).collect();
        Some(Self { token, request, related, is_sent: false, is_torn: false })
    }
}

impl Connection {
    /// Whether from now on what is not answered at the end is kept.
    pub(crate) fn keep_unanswered(&mut self, keeps: bool) {
        self.keeps = keeps;
    }

    /// ChannelSequence of what is sent from now on (MS-SMB2 3.2.4.1).
    pub(crate) fn set_sequence(&mut self, sequence: u16) {
        self.sequence = sequence;
    }

    /// Takes a replay back that the server could not do yet (MS-SMB2 3.3.5.2.10): what it repeats was still under way.
    pub(super) fn not_too_early(&mut self, answered: InFlight, status: u32) -> Option<InFlight> {
        let is_replay = answered.kept.as_ref().is_some_and(|kept| kept.request.replay && !kept.is_related);
        if status != NtStatus::FILE_NOT_AVAILABLE.0 || !is_replay {
            return Some(answered);
        }
        let sealed = answered.sealed;
        if let InFlight { purpose: Purpose::Caller(token), kept: Some(kept), .. } = answered {
            let (request, is_torn) = self.restored(kept, sealed);
            self.too_early.push(Unanswered::sent(token, request, is_torn));
        }
        None
    }

    /// Replays that are to be tried again a little later.
    pub(crate) fn take_too_early(&mut self) -> Vec<Unanswered> {
        std::mem::take(&mut self.too_early)
    }

    pub(super) fn keep_frame(&mut self, ids: RangeInclusive<u64>, frame: &Arc<Buffer>) {
        for (_, flight) in self.in_flight.range_mut(ids) {
            if let Some(kept) = &mut flight.kept {
                kept.frame = Some(Arc::clone(frame));
            }
        }
    }

    /// What was not answered, in the order it was asked. To be called when the connection is over.
    pub(crate) fn take_unanswered(&mut self) -> Vec<Unanswered> {
        let in_flight = std::mem::take(&mut self.in_flight);
        let mut all: Vec<Unanswered> = Vec::new();
        let mut last_frame: Option<Arc<Buffer>> = None;
        for flight in in_flight.into_values() {
            let sealed = flight.sealed;
            let InFlight { purpose: Purpose::Caller(token), kept: Some(kept), .. } = flight else { continue };
            let is_related = kept.is_related;
            let goes_on = kept.frame.as_ref().zip(last_frame.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b));
            last_frame.clone_from(&kept.frame);
            let (request, is_torn) = self.restored(kept, sealed);
            match all.last_mut() {
                Some(first) if is_related && goes_on => first.related.push((token, request)),
                _ => all.push(Unanswered::sent(token, request, is_torn || is_related)),
            }
        }
        all.extend(std::mem::take(&mut self.queue).into_iter().filter_map(Unanswered::queued));
        all
    }

    /// The request with its bytes, as they were before they were sealed; whether that failed.
    fn restored(&self, kept: Kept, sealed: bool) -> (Request, bool) {
        let Kept { request, frame, message, .. } = kept;
        let Some(frame) = frame else { return (request, true) };
        let mut bytes = frame.to_vec();
        if sealed {
            let opened = self
                .shield
                .as_ref()
                .is_some_and(|shield| shield.unseal(bytes.get_mut(PREFIX_BYTES..).unwrap_or_default()).is_ok());
            if !opened {
                return (request, true);
            }
        }
        let message = bytes.get(message).unwrap_or_default();
        (request.again(message), false)
    }
}
