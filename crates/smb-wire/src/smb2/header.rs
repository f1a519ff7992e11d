//! The SMB2 packet header (MS-SMB2 2.2.1).

use bitflags::bitflags;

use super::Malformed;
use crate::NtStatus;
use crate::codec::{Put, Reader};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;

/// The first four bytes of a message tell what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolId {
    /// `FE 'S' 'M' 'B'`: a plain SMB2 message.
    Smb2,
    /// `FD 'S' 'M' 'B'`: an encrypted one (2.2.41).
    Transform,
    /// `FC 'S' 'M' 'B'`: a compressed one (2.2.42).
    Compressed,
    /// `FF 'S' 'M' 'B'`: SMB1.
    Smb1,
}

impl ProtocolId {
    /// Looks at the first four bytes of `message`.
    pub fn of(message: &[u8]) -> Option<Self> {
        match message.first_chunk::<4>()? {
            [0xfe, b'S', b'M', b'B'] => Some(Self::Smb2),
            [0xfd, b'S', b'M', b'B'] => Some(Self::Transform),
            [0xfc, b'S', b'M', b'B'] => Some(Self::Compressed),
            [0xff, b'S', b'M', b'B'] => Some(Self::Smb1),
            _ => None,
        }
    }
}

/// The commands of 2.2.1.2, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum Command {
    Negotiate = 0,
    SessionSetup = 1,
    Logoff = 2,
    TreeConnect = 3,
    TreeDisconnect = 4,
    Create = 5,
    Close = 6,
    Flush = 7,
    Read = 8,
    Write = 9,
    Lock = 10,
    Ioctl = 11,
    Cancel = 12,
    Echo = 13,
    QueryDirectory = 14,
    ChangeNotify = 15,
    QueryInfo = 16,
    SetInfo = 17,
    OplockBreak = 18,
}

impl Command {
    /// All commands, at the index that is their number.
    pub const ALL: [Self; 19] = [
        Self::Negotiate,
        Self::SessionSetup,
        Self::Logoff,
        Self::TreeConnect,
        Self::TreeDisconnect,
        Self::Create,
        Self::Close,
        Self::Flush,
        Self::Read,
        Self::Write,
        Self::Lock,
        Self::Ioctl,
        Self::Cancel,
        Self::Echo,
        Self::QueryDirectory,
        Self::ChangeNotify,
        Self::QueryInfo,
        Self::SetInfo,
        Self::OplockBreak,
    ];

    /// The command with that number.
    pub fn from_u16(code: u16) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

bitflags! {
    /// Header flags (2.2.1.2). The priority bits are kept as they come.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Flags: u32 {
        /// The message is a response.
        const RESPONSE = 0x0000_0001;
        /// The header holds an AsyncId, not a TreeId.
        const ASYNC = 0x0000_0002;
        /// In a compound: uses the session, tree and handle of the request before.
        const RELATED = 0x0000_0004;
        /// The message is signed.
        const SIGNED = 0x0000_0008;
        /// The priority, 0 to 7 (3.1.1).
        const PRIORITY = 0x0000_0070;
        /// A DFS operation.
        const DFS = 0x1000_0000;
        /// A replay after failover (3.x).
        const REPLAY = 0x2000_0000;
        const _ = !0;
    }
}

/// A decoded header, synchronous or asynchronous by its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Credits this request is charged.
    pub credit_charge: u16,
    /// In a response the status; in a request of 3.x the channel sequence in its low half.
    pub status: u32,
    /// The command's number; see [`Command::from_u16`].
    pub command: u16,
    /// Credits requested, or granted.
    pub credits: u16,
    /// Flags.
    pub flags: Flags,
    /// Bytes from this header to the next in a compound, 0 in the last.
    pub next_command: u32,
    /// The message's number on its connection.
    pub message_id: u64,
    /// The AsyncId when `flags` has ASYNC, else 0.
    pub async_id: u64,
    /// The tree connect when `flags` lacks ASYNC, else 0.
    pub tree_id: u32,
    /// The session.
    pub session_id: u64,
    /// The signature, or zeros.
    pub signature: [u8; 16],
}

impl Header {
    /// Where the signature stands.
    pub const SIGNATURE_AT: usize = 48;

    /// Decodes the first 64 bytes of `message`.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        if ProtocolId::of(message) != Some(ProtocolId::Smb2) {
            return Err(Malformed::Field("ProtocolId"));
        }
        let mut r = Reader::new(message);
        r.skip(4)?;
        if r.u16()? != 64 {
            return Err(Malformed::StructureSize);
        }
        let credit_charge = r.u16()?;
        let status = r.u32()?;
        let command = r.u16()?;
        let credits = r.u16()?;
        let flags = Flags::from_bits_retain(r.u32()?);
        let next_command = r.u32()?;
        let message_id = r.u64()?;
        let (async_id, tree_id) = if flags.contains(Flags::ASYNC) {
            (r.u64()?, 0)
        } else {
            r.skip(4)?; // Reserved; a ProcessId of old clients
            (0, r.u32()?)
        };
        let session_id = r.u64()?;
        let signature = r.array()?;
        Ok(Self {
            credit_charge,
            status,
            command,
            credits,
            flags,
            next_command,
            message_id,
            async_id,
            tree_id,
            session_id,
            signature,
        })
    }

    /// Appends the 64 bytes.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_bytes(&[0xfe, b'S', b'M', b'B']);
        out.put_u16(64);
        out.put_u16(self.credit_charge);
        out.put_u32(self.status);
        out.put_u16(self.command);
        out.put_u16(self.credits);
        out.put_u32(self.flags.bits());
        out.put_u32(self.next_command);
        out.put_u64(self.message_id);
        if self.flags.contains(Flags::ASYNC) {
            out.put_u64(self.async_id);
        } else {
            out.put_u32(0xfeff);
            out.put_u32(self.tree_id);
        }
        out.put_u64(self.session_id);
        out.put_bytes(&self.signature);
    }

    /// The header of a request.
    pub fn request(command: Command, message_id: u64) -> Self {
        Self {
            credit_charge: 1,
            status: 0,
            command: command as u16,
            credits: 1,
            flags: Flags::empty(),
            next_command: 0,
            message_id,
            async_id: 0,
            tree_id: 0,
            session_id: 0,
            signature: [0; 16],
        }
    }

    /// The header of the response to this request, granting nothing yet.
    pub fn response(&self, status: NtStatus) -> Self {
        Self {
            status: status.0,
            flags: Flags::RESPONSE | (self.flags & (Flags::RELATED | Flags::PRIORITY | Flags::REPLAY)),
            credits: 0,
            next_command: 0,
            async_id: 0,
            signature: [0; 16],
            ..*self
        }
    }
}

/// Writes NextCommand into the header at the start of `message`.
pub fn set_next_command(message: &mut [u8], next_bytes: u32) {
    if let Some(field) = message.get_mut(20..24) {
        field.copy_from_slice(&next_bytes.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_what_it_was() {
        let mut header = Header::request(Command::Read, 7);
        header.tree_id = 5;
        header.session_id = 0x1122_3344_5566_7788;
        header.signature = *b"0123456789abcdef";
        let mut bytes = Vec::new();
        header.put(&mut bytes);
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(Header::decode(&bytes), Ok(header));
        header.flags = Flags::ASYNC | Flags::RESPONSE;
        (header.async_id, header.tree_id) = (9, 0);
        bytes.clear();
        header.put(&mut bytes);
        assert_eq!(Header::decode(&bytes), Ok(header));
        for end in 0..HEADER_BYTES {
            assert!(Header::decode(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn commands_stand_at_their_number() {
        for (number, command) in Command::ALL.into_iter().enumerate() {
            assert_eq!(command as usize, number);
        }
        assert_eq!(Command::from_u16(19), None);
    }
}
