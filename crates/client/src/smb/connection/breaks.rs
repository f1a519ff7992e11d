//! Breaks of oplocks and leases (MS-SMB2 3.2.5.19). Nothing is cached here that would have to be written back or forgotten:
//! an oplock or a lease is held for the sake of a durable handle only, and is given up as soon as the server asks, so that
//! nobody is held up. The machine calls it with what comes unasked; it must never let a server have us send without end.

use std::time::Duration;

use smb_wire::smb2::{Command, Header, LeaseAck, LeaseBreak, LeaseFlags, OplockBreak, oplock};

use super::{Connection, Purpose, Queued};
use crate::smb::offer::malformed;
use crate::smb::{Failure, Request};

/// Acknowledgements that are not answered yet. What comes above that is passed over: nobody has so many opens whose
/// breaks the server would not have to wait for.
const MOST_ACKNOWLEDGEMENTS: usize = 1024;

impl Connection {
    /// Takes what the server sends without having been asked.
    pub(super) fn unasked(
        &mut self,
        header: &Header,
        message: &[u8],
        sealed: bool,
        now: Duration,
    ) -> Result<(), Failure> {
        if header.command != Command::OplockBreak as u16 {
            return Err(Failure::Protocol("it sends what nobody asked for"));
        }
        let under_way = self.in_flight.values().filter(|r| r.purpose == Purpose::Acknowledge).count();
        let queued = self.queue.iter().filter(|q| q.purpose == Purpose::Acknowledge).count();
        let Some(answer) = answer(message, self.tree_id)? else { return Ok(()) };
        if under_way + queued < MOST_ACKNOWLEDGEMENTS {
            let queued = Queued { purpose: Purpose::Acknowledge, request: answer.sealed(sealed), related: Vec::new() };
            // What waits for credits may wait for this.
            self.queue.push_front(queued);
            self.pump(now);
        }
        Ok(())
    }
}

/// What a break is to be answered with, if with anything. A lease is kept as far as the server lets it be; an oplock is
/// given up whole, since the levels below batch are of no use for a durable handle.
fn answer(message: &[u8], tree_id: u32) -> Result<Option<Request>, Failure> {
    if let Ok(lease) = LeaseBreak::decode(message) {
        let ack = LeaseAck { key: lease.key, state: lease.from & lease.to };
        let due = lease.flags.contains(LeaseFlags::ACK_REQUIRED);
        return Ok(due.then(|| Request::new(Command::OplockBreak, tree_id, 0, |out| ack.put(out))));
    }
    let OplockBreak { handle, .. } = OplockBreak::decode(message).map_err(malformed)?;
    let ack = OplockBreak { level: oplock::NONE, handle };
    Ok(Some(Request::new(Command::OplockBreak, tree_id, 0, |out| ack.put(out))))
}
