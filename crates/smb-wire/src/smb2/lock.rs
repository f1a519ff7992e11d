//! LOCK (MS-SMB2 2.2.26).

use bitflags::bitflags;

use super::{FileHandle, Malformed, body};
use crate::codec::Put;

bitflags! {
    /// Flags of one lock element (2.2.26.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LockFlags: u32 {
        /// Others may lock shared and read.
        const SHARED = 1;
        /// Others may not.
        const EXCLUSIVE = 2;
        /// The range is given back.
        const UNLOCK = 4;
        /// The answer comes at once, with failure rather than after waiting.
        const FAIL_IMMEDIATELY = 0x10;
        const _ = !0;
    }
}

/// One range of a LOCK request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockElement {
    /// Where it begins.
    pub offset_bytes: u64,
    /// How long it is.
    pub len_bytes: u64,
    /// What is asked.
    pub flags: LockFlags,
}

/// LOCK request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRequest {
    /// LockSequenceNumber (4 bits) and LockSequenceIndex (28 bits), as sent.
    pub sequence: u32,
    /// The open.
    pub handle: FileHandle,
    /// The elements; there must be one, which the server says when it has found the open.
    pub locks: Vec<LockElement>,
}

impl LockRequest {
    /// Decodes a request. The element count is bounded by what was received.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 48)?;
        let count = usize::from(r.u16()?);
        let sequence = r.u32()?;
        let handle = FileHandle::decode(&mut r)?;
        if r.remaining() < count * 24 {
            return Err(Malformed::Truncated);
        }
        let mut locks = Vec::with_capacity(count);
        for _ in 0..count {
            let (offset_bytes, len_bytes) = (r.u64()?, r.u64()?);
            let flags = LockFlags::from_bits_retain(r.u32()?);
            r.skip(4)?;
            locks.push(LockElement { offset_bytes, len_bytes, flags });
        }
        Ok(Self { sequence, handle, locks })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(48);
        out.put_u16(self.locks.len() as u16);
        out.put_u32(self.sequence);
        self.handle.put(out);
        for lock in &self.locks {
            out.put_u64(lock.offset_bytes);
            out.put_u64(lock.len_bytes);
            out.put_u32(lock.flags.bits());
            out.put_u32(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, HEADER_BYTES, Header};
    use super::*;

    #[test]
    fn locks_survive_the_wire_and_lying_counts_do_not() {
        let request = LockRequest {
            sequence: 0x21,
            handle: FileHandle { persistent: 1, volatile: 2 },
            locks: vec![LockElement { offset_bytes: 1, len_bytes: 2, flags: LockFlags::EXCLUSIVE }; 3],
        };
        let mut bytes = Vec::new();
        Header::request(Command::Lock, 1).put(&mut bytes);
        request.put(&mut bytes);
        assert_eq!(LockRequest::decode(&bytes), Ok(request));
        bytes[HEADER_BYTES + 2..HEADER_BYTES + 4].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(LockRequest::decode(&bytes), Err(Malformed::Truncated));
        bytes[HEADER_BYTES + 2..HEADER_BYTES + 4].copy_from_slice(&[0, 0]);
        assert_eq!(LockRequest::decode(&bytes).unwrap().locks, []);
    }
}
