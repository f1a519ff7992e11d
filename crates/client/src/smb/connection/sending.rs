//! Requests on their way out: numbered, charged, signed or sealed, and framed, several in one frame where they are a
//! compound. The machine calls it whenever credits or requests have come.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use smb_wire::smb2::{Command, Dialect, Flags, HEADER_BYTES, Header, put_four};

use super::keeping::Kept;
use super::{Connection, InFlight, Phase, Purpose, Queued};
use crate::buffer::Buffer;
use crate::smb::Failure;
use crate::smb::offer::CREDIT_BYTES;
use crate::smb::request::{MESSAGE_AT, Outgoing, PREFIX_BYTES, Request};

/// Requests of a compound begin at such offsets (MS-SMB2 2.2.1.2, NextCommand).
const COMPOUND_ALIGN: usize = 8;

/// Where a message stands: on its connection, and in its frame.
struct Place {
    id: u64,
    at: usize,
    next_command: u32,
    is_related: bool,
    sealed: bool,
}

impl Connection {
    /// Sends what credits allow, in order.
    pub(super) fn pump(&mut self, now: Duration) {
        while matches!(self.phase, Phase::Ready)
            && let Some(queued) = self.queue.front()
        {
            let charge = self.charge_of_all(queued);
            if self.credits.is_too_large(charge) {
                self.fail(Failure::Protocol("it grants fewer credits than one request needs"));
                return;
            }
            let Some(id) = self.credits.take(charge) else { return };
            if let Some(queued) = self.queue.pop_front() {
                self.emit(queued, id, now);
            }
        }
    }

    /// Sends a request of the handshake, of which there is one at a time.
    pub(super) fn send_now(&mut self, purpose: Purpose, request: Request, now: Duration) {
        match self.credits.take(1) {
            Some(id) => self.emit(Queued { purpose, request, related: Vec::new() }, id, now),
            None => self.fail(Failure::Protocol("it grants no credits")),
        }
    }

    fn charge_of_all(&self, queued: &Queued) -> u16 {
        let related = queued.related.iter().map(|(_, request)| self.charge_of(request));
        related.fold(self.charge_of(&queued.request), u16::saturating_add)
    }

    /// The credits a request costs (MS-SMB2 3.2.4.1.5).
    fn charge_of(&self, request: &Request) -> u16 {
        if !self.negotiated.as_ref().is_some_and(|n| n.multi_credit) {
            return 1;
        }
        u16::try_from(request.payload_bytes.div_ceil(CREDIT_BYTES).max(1)).unwrap_or(u16::MAX)
    }

    /// Frames `queued`, whose message ids begin with `id`. What is related goes into the first one's buffer.
    fn emit(&mut self, queued: Queued, id: u64, now: Duration) {
        let Queued { mut purpose, mut request, related } = queued;
        let sealed = self.shield.as_ref().is_some_and(|shield| shield.seal_all || request.seal);
        if !self.in_flight.values().any(|r| !r.may_wait()) {
            self.last_progress = now;
        }
        if sealed || self.is_signed(request.command) || !related.is_empty() {
            request.join();
        }
        let data = request.data.as_deref().cloned().unwrap_or_default();
        let mut buf = std::mem::take(&mut request.buf);
        let mut place = Place { id, at: MESSAGE_AT, next_command: 0, is_related: false, sealed };
        for (next_purpose, mut next) in related {
            next.join();
            let len = (buf.len() - place.at).next_multiple_of(COMPOUND_ALIGN);
            buf.resize(place.at + len, 0);
            place.next_command = u32::try_from(len).unwrap_or(0);
            let charge = self.number(purpose, request, &mut buf, &place, now);
            let id = place.id.saturating_add(charge.max(1).into());
            place = Place { id, at: buf.len(), next_command: 0, is_related: true, sealed };
            buf.extend_from_slice(next.buf.get(MESSAGE_AT..).unwrap_or_default());
            (purpose, request) = (next_purpose, next);
        }
        self.number(purpose, request, &mut buf, &place, now);
        let last = place.id;
        if let Some(frame) = self.send_frame(buf, data, sealed)
            && self.keeps
        {
            self.keep_frame(id..=last, &frame);
        }
    }

    /// Gives a request its header, and its signature where it has one. Answers what it is charged.
    fn number(&mut self, purpose: Purpose, request: Request, buf: &mut [u8], place: &Place, now: Duration) -> u16 {
        let charge = self.charge_of(&request);
        let is_3 = self.negotiated.as_ref().is_some_and(|n| n.dialect.is_3());
        if request.tree_id != 0 {
            self.tree_id = request.tree_id;
        }
        let signed = !place.sealed && self.is_signed(request.command);
        let mut header = Header::request(request.command, place.id);
        header.credit_charge = self.charge_field(charge);
        header.credits = self.credits.to_request(charge);
        header.tree_id = request.tree_id;
        header.session_id = self.session_id;
        header.next_command = place.next_command;
        header.flags.set(Flags::SIGNED, signed || purpose == Purpose::Login && self.bind.is_some());
        header.flags.set(Flags::RELATED, place.is_related);
        if is_3 && matches!(purpose, Purpose::Caller(_)) {
            header.status = self.sequence.into();
            header.flags.set(Flags::REPLAY, request.replay);
        }
        let message = buf.get_mut(place.at..).unwrap_or_default();
        put_header(&header, message);
        if let (true, Some(shield)) = (signed, &self.shield) {
            shield.sign(message);
        }
        if let (Purpose::Login, Some(bind)) = (purpose, &self.bind) {
            bind.shield.sign(message);
        }
        self.hash(purpose, place.at, buf);
        let flight = InFlight {
            purpose,
            command: request.command,
            charge,
            since: now,
            signed,
            sealed: place.sealed,
            has_interim: false,
            patient: request.patient,
            async_id: 0,
            kept: self.keeps.then(|| Kept::new(request, place.at..buf.len(), place.is_related)),
        };
        self.in_flight.insert(place.id, flight);
        charge
    }

    /// CANCEL has the number of what it cancels, costs nothing and is not answered (MS-SMB2 3.2.4.24).
    pub(super) fn send_cancel(&mut self, id: u64, async_id: u64, sealed: bool) {
        let Request { mut buf, .. } = Request::new(Command::Cancel, 0, 0, put_four);
        let signed = !sealed && self.is_signed(Command::Cancel);
        let mut header = Header::request(Command::Cancel, id);
        (header.credit_charge, header.credits, header.session_id) = (0, 0, self.session_id);
        header.flags.set(Flags::SIGNED, signed);
        header.flags.set(Flags::ASYNC, async_id != 0);
        header.async_id = async_id;
        let message = buf.get_mut(MESSAGE_AT..).unwrap_or_default();
        put_header(&header, message);
        if let (true, Some(shield)) = (signed, &self.shield) {
            shield.sign(message);
        }
        self.send_frame(buf, Bytes::new(), sealed);
    }

    fn send_frame(&mut self, mut buf: Buffer, data: Bytes, sealed: bool) -> Option<Arc<Buffer>> {
        let start = if sealed { 0 } else { MESSAGE_AT - PREFIX_BYTES };
        if let (true, Some(shield)) = (sealed, &self.shield)
            && let Err(failure) = shield.seal(buf.get_mut(PREFIX_BYTES..).unwrap_or_default())
        {
            self.fail(failure);
            return None;
        }
        put_prefix(&mut buf, start, data.len());
        let buf = Arc::new(buf);
        self.out.push_back(Outgoing { buf: Arc::clone(&buf), start, data });
        Some(buf)
    }

    /// CreditCharge is 0 where there are no multi-credit requests (MS-SMB2 3.2.4.1.5).
    fn charge_field(&self, charge: u16) -> u16 {
        if self.negotiated.as_ref().is_some_and(|n| n.multi_credit) { charge } else { 0 }
    }

    /// MS-SMB2 3.2.4.1.1: 3.1.1 wants TREE_CONNECT signed always; VALIDATE_NEGOTIATE_INFO proves nothing unsigned.
    fn is_signed(&self, command: Command) -> bool {
        let always = match command {
            Command::TreeConnect => self.negotiated.as_ref().is_some_and(|n| n.dialect == Dialect::V3_1_1),
            Command::Ioctl => true,
            _ => false,
        };
        self.shield.as_ref().is_some_and(|shield| shield.sign_all || always)
    }
}

fn put_header(header: &Header, message: &mut [u8]) {
    let mut head = Vec::with_capacity(HEADER_BYTES);
    header.put(&mut head);
    if let Some(room) = message.get_mut(..HEADER_BYTES) {
        room.copy_from_slice(&head);
    }
}

/// Writes the direct-TCP prefix of what follows `start`, and of `more_bytes` behind it.
fn put_prefix(buf: &mut [u8], start: usize, more_bytes: usize) {
    let len = buf.len().saturating_sub(start + PREFIX_BYTES) + more_bytes;
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    if let Some(prefix) = buf.get_mut(start..start + PREFIX_BYTES) {
        prefix.copy_from_slice(&len.to_be_bytes());
    }
}
