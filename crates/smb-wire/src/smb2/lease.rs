//! Leases on the wire: the create context in both versions (MS-SMB2 2.2.13.2.8, 2.2.13.2.10), the break notification
//! (2.2.23.2), its acknowledgement (2.2.24.2) and the response to that (2.2.25.2).

use bitflags::bitflags;

use super::{Malformed, body};
use crate::codec::{Put, Reader};

/// RequestedOplockLevel and OplockLevel (2.2.13).
pub mod oplock {
    /// None.
    pub const NONE: u8 = 0;
    /// Level II: reads.
    pub const LEVEL_II: u8 = 1;
    /// Exclusive: reads and writes.
    pub const EXCLUSIVE: u8 = 8;
    /// Batch: reads, writes and the open.
    pub const BATCH: u8 = 9;
    /// A lease, told in a context.
    pub const LEASE: u8 = 0xff;
}

bitflags! {
    /// Flags of a lease context and of a lease break.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct LeaseFlags: u32 {
        /// In a notification: an acknowledgement is due.
        const ACK_REQUIRED = 1;
        /// In a response: the lease is being broken.
        const BREAK_IN_PROGRESS = 2;
        /// ParentLeaseKey is there.
        const PARENT_LEASE_KEY_SET = 4;
        const _ = !0;
    }
}

/// The content of an `RqLs` context, in a request or a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseContext {
    /// LeaseKey.
    pub key: [u8; 16],
    /// LeaseState: 1 read, 2 handle, 4 write.
    pub state: u32,
    /// Flags.
    pub flags: LeaseFlags,
    /// What version 2 adds.
    pub v2: Option<LeaseV2>,
}

/// What version 2 of the context adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseV2 {
    /// The lease key of the directory the file is in; meant only with [`LeaseFlags::PARENT_LEASE_KEY_SET`].
    pub parent_key: [u8; 16],
    /// Epoch.
    pub epoch: u16,
}

impl LeaseContext {
    /// Decodes the content of the context: 32 bytes are version 1, 52 version 2.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(data);
        let (key, state, flags) = (r.array()?, r.u32()?, LeaseFlags::from_bits_retain(r.u32()?));
        r.skip(8)?;
        let v2 = match data.len() {
            32 => None,
            52 => {
                let v2 = LeaseV2 { parent_key: r.array()?, epoch: r.u16()? };
                Some(v2)
            }
            _ => return Err(Malformed::Field("lease context length")),
        };
        Ok(Self { key, state, flags, v2 })
    }

    /// Appends the content of the context.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_bytes(&self.key);
        out.put_u32(self.state);
        out.put_u32(self.flags.bits());
        out.put_u64(0);
        if let Some(v2) = &self.v2 {
            out.put_bytes(&v2.parent_key);
            out.put_u16(v2.epoch);
            out.put_u16(0);
        }
    }
}

/// Lease break notification (2.2.23.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseBreak {
    /// NewEpoch; 0 for a lease of version 1.
    pub epoch: u16,
    /// Flags.
    pub flags: LeaseFlags,
    /// LeaseKey.
    pub key: [u8; 16],
    /// CurrentLeaseState.
    pub from: u32,
    /// NewLeaseState.
    pub to: u32,
}

impl LeaseBreak {
    /// Decodes one.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 44)?;
        let epoch = r.u16()?;
        let flags = LeaseFlags::from_bits_retain(r.u32()?);
        let key = r.array()?;
        let (from, to) = (r.u32()?, r.u32()?);
        r.skip(12)?;
        Ok(Self { epoch, flags, key, from, to })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(44);
        out.put_u16(self.epoch);
        out.put_u32(self.flags.bits());
        out.put_bytes(&self.key);
        out.put_u32(self.from);
        out.put_u32(self.to);
        out.put_zeros(12); // BreakReason and two hints, all reserved
    }
}

/// Lease break acknowledgement and the response to it: one shape (2.2.24.2, 2.2.25.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseAck {
    /// LeaseKey.
    pub key: [u8; 16],
    /// LeaseState kept.
    pub state: u32,
}

impl LeaseAck {
    /// Decodes one.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 36)?;
        r.skip(6)?;
        let (key, state) = (r.array()?, r.u32()?);
        r.skip(8)?;
        Ok(Self { key, state })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(36);
        out.put_zeros(6);
        out.put_bytes(&self.key);
        out.put_u32(self.state);
        out.put_u64(0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, HEADER_BYTES, Header};
    use super::*;

    fn whole(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        Header::request(Command::OplockBreak, 1).put(&mut bytes);
        put(&mut bytes);
        bytes
    }

    #[test]
    fn both_versions_of_the_context_survive_the_wire() {
        let v1 = LeaseContext { key: [1; 16], state: 7, flags: LeaseFlags::empty(), v2: None };
        let v2 = LeaseContext {
            flags: LeaseFlags::PARENT_LEASE_KEY_SET,
            v2: Some(LeaseV2 { parent_key: [9; 16], epoch: 0x4711 }),
            ..v1
        };
        for (context, len) in [(v1, 32), (v2, 52)] {
            let mut bytes = Vec::new();
            context.put(&mut bytes);
            assert_eq!(bytes.len(), len);
            assert_eq!(LeaseContext::decode(&bytes), Ok(context));
            for end in (0..len).filter(|&end| end != 32) {
                assert!(LeaseContext::decode(&bytes[..end]).is_err(), "cut at {end}");
            }
        }
    }

    #[test]
    fn a_context_lies_as_the_specification_draws_it() {
        let mut bytes = Vec::new();
        let v2 = Some(LeaseV2 { parent_key: [2; 16], epoch: 0x0102 });
        LeaseContext { key: [1; 16], state: 5, flags: LeaseFlags::PARENT_LEASE_KEY_SET, v2 }.put(&mut bytes);
        let mut expected = vec![1; 16];
        expected.extend([5, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([2; 16]);
        expected.extend([2, 1, 0, 0]);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn breaks_and_acknowledgements_survive_the_wire() {
        let notice = LeaseBreak { epoch: 3, flags: LeaseFlags::ACK_REQUIRED, key: [4; 16], from: 7, to: 1 };
        let bytes = whole(|out| notice.put(out));
        assert_eq!(bytes.len(), HEADER_BYTES + 44);
        assert_eq!(LeaseBreak::decode(&bytes), Ok(notice));
        let ack = LeaseAck { key: [4; 16], state: 1 };
        let bytes = whole(|out| ack.put(out));
        assert_eq!(bytes.len(), HEADER_BYTES + 36);
        assert_eq!(LeaseAck::decode(&bytes), Ok(ack));
        for end in 0..bytes.len() {
            assert!(LeaseAck::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert_eq!(LeaseBreak::decode(&bytes), Err(Malformed::StructureSize));
    }
}
