//! NEGOTIATE (MS-SMB2 2.2.3, 2.2.4) with its contexts, and the SMB1 NEGOTIATE that opens a multi-protocol connection
//! (MS-SMB2 3.3.5.3, MS-CIFS 2.2.4.52.1).

use bitflags::bitflags;

use super::{HEADER_BYTES, Malformed, body, slice_at};
use crate::codec::{Put, Reader};

/// The dialects of SMB 2 and 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum Dialect {
    V2_0_2 = 0x0202,
    V2_1 = 0x0210,
    V3_0 = 0x0300,
    V3_0_2 = 0x0302,
    V3_1_1 = 0x0311,
}

impl Dialect {
    /// The revision an SMB1 NEGOTIATE with `SMB 2.???` is answered with.
    pub const WILDCARD: u16 = 0x02ff;

    /// All of them, oldest first.
    pub const ALL: [Self; 5] = [Self::V2_0_2, Self::V2_1, Self::V3_0, Self::V3_0_2, Self::V3_1_1];

    /// The dialect with that revision number.
    pub fn from_u16(revision: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|d| *d as u16 == revision)
    }

    /// Whether it is one of the 3.x family.
    pub fn is_3(self) -> bool {
        self >= Self::V3_0
    }
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V2_0_2 => "2.0.2",
            Self::V2_1 => "2.1",
            Self::V3_0 => "3.0",
            Self::V3_0_2 => "3.0.2",
            Self::V3_1_1 => "3.1.1",
        })
    }
}

bitflags! {
    /// SecurityMode (2.2.3).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SecurityMode: u16 {
        /// Can sign.
        const SIGNING_ENABLED = 1;
        /// Wants every message signed.
        const SIGNING_REQUIRED = 2;
    }

    /// Capabilities (2.2.3, 2.2.4).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Capabilities: u32 {
        /// Distributed file system.
        const DFS = 1;
        /// Leases.
        const LEASING = 2;
        /// Requests charged more than one credit.
        const LARGE_MTU = 4;
        /// Several connections for one session.
        const MULTI_CHANNEL = 8;
        /// Persistent handles.
        const PERSISTENT_HANDLES = 0x10;
        /// Directory leases.
        const DIRECTORY_LEASING = 0x20;
        /// Encryption, in 3.0 and 3.0.2.
        const ENCRYPTION = 0x40;
        /// Server to client notifications.
        const NOTIFICATIONS = 0x80;
    }
}

/// The one preauthentication integrity hash there is: SHA-512 (2.2.3.1.1).
pub const PREAUTH_SHA512: u16 = 1;

/// A negotiate context (2.2.3.1). Unknown ones are dropped while decoding, as 3.3.5.4 asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NegotiateContext {
    /// Hash algorithms with the salt.
    Preauth {
        /// Algorithm ids; see [`PREAUTH_SHA512`].
        hashes: Vec<u16>,
        /// Random bytes.
        salt: Vec<u8>,
    },
    /// Cipher ids in order of preference (2.2.3.1.2).
    Encryption(Vec<u16>),
    /// Compression algorithm ids (2.2.3.1.3).
    Compression {
        /// Whether messages may be compressed in several pieces.
        chained: bool,
        /// Algorithm ids.
        algorithms: Vec<u16>,
    },
    /// The server's name as the client knows it, UTF-16LE (2.2.3.1.4).
    NetName(Vec<u8>),
    /// Transport security flags (2.2.3.1.5).
    Transport(u32),
    /// Signing algorithm ids in order of preference (2.2.3.1.7).
    Signing(Vec<u16>),
    /// POSIX extensions wanted: 0x100 with its 16 bytes.
    Posix(Vec<u8>),
}

impl NegotiateContext {
    fn id(&self) -> u16 {
        match self {
            Self::Preauth { .. } => 1,
            Self::Encryption(_) => 2,
            Self::Compression { .. } => 3,
            Self::NetName(_) => 5,
            Self::Transport(_) => 6,
            Self::Signing(_) => 8,
            Self::Posix(_) => 0x100,
        }
    }

    fn decode(id: u16, data: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut r = Reader::new(data);
        Ok(Some(match id {
            1 => {
                let (count, salt_len) = (r.u16()?, r.u16()?);
                Self::Preauth { hashes: u16_list(&mut r, count)?, salt: r.bytes(usize::from(salt_len))?.to_vec() }
            }
            2 => {
                let count = r.u16()?;
                Self::Encryption(u16_list(&mut r, count)?)
            }
            3 => {
                let count = r.u16()?;
                r.skip(2)?;
                let chained = r.u32()? & 1 != 0;
                Self::Compression { chained, algorithms: u16_list(&mut r, count)? }
            }
            5 => Self::NetName(data.to_vec()),
            6 => Self::Transport(r.u32()?),
            8 => {
                let count = r.u16()?;
                Self::Signing(u16_list(&mut r, count)?)
            }
            0x100 => Self::Posix(data.to_vec()),
            _ => return Ok(None),
        }))
    }

    fn encode_data(&self) -> Vec<u8> {
        let mut data = Vec::new();
        let put_list = |data: &mut Vec<u8>, list: &[u16]| list.iter().for_each(|&v| data.put_u16(v));
        match self {
            Self::Preauth { hashes, salt } => {
                data.put_u16(hashes.len() as u16);
                data.put_u16(salt.len() as u16);
                put_list(&mut data, hashes);
                data.put_bytes(salt);
            }
            Self::Encryption(list) | Self::Signing(list) => {
                data.put_u16(list.len() as u16);
                put_list(&mut data, list);
            }
            Self::Compression { chained, algorithms } => {
                data.put_u16(algorithms.len() as u16);
                data.put_u16(0);
                data.put_u32(u32::from(*chained));
                put_list(&mut data, algorithms);
            }
            Self::NetName(bytes) | Self::Posix(bytes) => data.put_bytes(bytes),
            Self::Transport(flags) => data.put_u32(*flags),
        }
        data
    }
}

fn u16_list(r: &mut Reader<'_>, count: u16) -> Result<Vec<u16>, Malformed> {
    if r.remaining() < usize::from(count) * 2 {
        return Err(Malformed::Truncated);
    }
    (0..count).map(|_| Ok(r.u16()?)).collect()
}

fn decode_contexts(message: &[u8], offset: usize, count: u16) -> Result<Vec<NegotiateContext>, Malformed> {
    let mut contexts = Vec::new();
    if count == 0 {
        return Ok(contexts);
    }
    let list = message.get(offset.max(HEADER_BYTES)..).ok_or(Malformed::Truncated)?;
    let mut r = Reader::new(list);
    for index in 0..count {
        if index > 0 {
            r.align(8)?;
        }
        let (id, len) = (r.u16()?, r.u16()?);
        r.skip(4)?;
        contexts.extend(NegotiateContext::decode(id, r.bytes(usize::from(len))?)?);
    }
    Ok(contexts)
}

/// Appends contexts, each on an 8-byte boundary; the list itself begins on one.
fn put_contexts(contexts: &[NegotiateContext], out: &mut (impl Put + ?Sized)) {
    for (index, context) in contexts.iter().enumerate() {
        let data = context.encode_data();
        out.put_u16(context.id());
        out.put_u16(data.len() as u16);
        out.put_u32(0);
        out.put_bytes(&data);
        if index + 1 < contexts.len() {
            out.put_zeros(data.len().next_multiple_of(8) - data.len());
        }
    }
}

/// NEGOTIATE request (2.2.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NegotiateRequest {
    /// The client's signing.
    pub security_mode: SecurityMode,
    /// The client's capabilities.
    pub capabilities: Capabilities,
    /// Names the client across its connections.
    pub client_guid: [u8; 16],
    /// Revisions offered, as sent.
    pub dialects: Vec<u16>,
    /// Contexts, if 3.1.1 is offered.
    pub contexts: Vec<NegotiateContext>,
}

impl NegotiateRequest {
    /// Decodes a request.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 36)?;
        let count = r.u16()?;
        let security_mode = SecurityMode::from_bits_truncate(r.u16()?);
        r.skip(2)?;
        let capabilities = Capabilities::from_bits_truncate(r.u32()?);
        let client_guid = r.array()?;
        let context_offset = r.u32()? as usize;
        let context_count = r.u16()?;
        r.skip(2)?;
        let dialects = u16_list(&mut r, count)?;
        let contexts = if dialects.contains(&(Dialect::V3_1_1 as u16)) {
            decode_contexts(message, context_offset, context_count)?
        } else {
            Vec::new() // the fields are ClientStartTime then
        };
        Ok(Self { security_mode, capabilities, client_guid, dialects, contexts })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        let fixed = HEADER_BYTES + 36 + self.dialects.len() * 2;
        let offset = fixed.next_multiple_of(8);
        out.put_u16(36);
        out.put_u16(self.dialects.len() as u16);
        out.put_u16(self.security_mode.bits());
        out.put_u16(0);
        out.put_u32(self.capabilities.bits());
        out.put_bytes(&self.client_guid);
        out.put_u32(if self.contexts.is_empty() { 0 } else { offset as u32 });
        out.put_u16(self.contexts.len() as u16);
        out.put_u16(0);
        for dialect in &self.dialects {
            out.put_u16(*dialect);
        }
        if !self.contexts.is_empty() {
            out.put_zeros(offset - fixed);
            put_contexts(&self.contexts, out);
        }
    }
}

/// NEGOTIATE response (2.2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NegotiateResponse {
    /// The server's signing.
    pub security_mode: SecurityMode,
    /// The revision chosen, or [`Dialect::WILDCARD`].
    pub dialect: u16,
    /// Names the server.
    pub server_guid: [u8; 16],
    /// The server's capabilities.
    pub capabilities: Capabilities,
    /// Largest QUERY_DIRECTORY, QUERY_INFO, SET_INFO and CHANGE_NOTIFY buffer.
    pub max_transact_bytes: u32,
    /// Largest READ.
    pub max_read_bytes: u32,
    /// Largest WRITE.
    pub max_write_bytes: u32,
    /// The server's clock, FILETIME.
    pub system_time: u64,
    /// SPNEGO token.
    pub security_buffer: Vec<u8>,
    /// Contexts, with 3.1.1.
    pub contexts: Vec<NegotiateContext>,
}

impl NegotiateResponse {
    /// Decodes a response.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 65)?;
        let security_mode = SecurityMode::from_bits_truncate(r.u16()?);
        let dialect = r.u16()?;
        let context_count = r.u16()?;
        let server_guid = r.array()?;
        let capabilities = Capabilities::from_bits_truncate(r.u32()?);
        let (max_transact_bytes, max_read_bytes, max_write_bytes) = (r.u32()?, r.u32()?, r.u32()?);
        let system_time = r.u64()?;
        r.skip(8)?;
        let (offset, len) = (r.u16()?, r.u16()?);
        let context_offset = r.u32()? as usize;
        let security_buffer = slice_at(message, usize::from(offset), usize::from(len))?.to_vec();
        let contexts = if dialect == Dialect::V3_1_1 as u16 {
            decode_contexts(message, context_offset, context_count)?
        } else {
            Vec::new()
        };
        Ok(Self {
            security_mode,
            dialect,
            server_guid,
            capabilities,
            max_transact_bytes,
            max_read_bytes,
            max_write_bytes,
            system_time,
            security_buffer,
            contexts,
        })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        let buffer_end = HEADER_BYTES + 64 + self.security_buffer.len();
        let context_offset = buffer_end.next_multiple_of(8);
        out.put_u16(65);
        out.put_u16(self.security_mode.bits());
        out.put_u16(self.dialect);
        out.put_u16(self.contexts.len() as u16);
        out.put_bytes(&self.server_guid);
        out.put_u32(self.capabilities.bits());
        out.put_u32(self.max_transact_bytes);
        out.put_u32(self.max_read_bytes);
        out.put_u32(self.max_write_bytes);
        out.put_u64(self.system_time);
        out.put_u64(0);
        out.put_u16((HEADER_BYTES + 64) as u16);
        out.put_u16(self.security_buffer.len() as u16);
        out.put_u32(if self.contexts.is_empty() { 0 } else { context_offset as u32 });
        out.put_bytes(&self.security_buffer);
        if !self.contexts.is_empty() {
            out.put_zeros(context_offset - buffer_end);
            put_contexts(&self.contexts, out);
        }
    }
}

/// Whether `message` is an SMB1 NEGOTIATE.
pub fn is_smb1_negotiate(message: &[u8]) -> bool {
    message.starts_with(&[0xff, b'S', b'M', b'B', 0x72])
}

/// The dialect strings of an SMB1 NEGOTIATE (MS-CIFS 2.2.4.52.1): after 32 bytes of header and an empty parameter block,
/// a byte count and strings that each begin with 02 and end with NUL.
pub fn smb1_negotiate_dialects(message: &[u8]) -> Result<Vec<&[u8]>, Malformed> {
    let mut r = Reader::new(message);
    r.skip(32)?;
    let words = r.u8()?;
    r.skip(usize::from(words) * 2)?;
    let count = r.u16()?;
    let list = r.bytes(usize::from(count))?;
    Ok(list.split(|&b| b == 0).filter_map(|s| s.strip_prefix(&[2])).collect())
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Header};
    use super::*;

    fn message(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        Header::request(Command::Negotiate, 0).put(&mut bytes);
        put(&mut bytes);
        bytes
    }

    #[test]
    fn request_and_response_survive_the_wire_and_truncation() {
        let request = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::LARGE_MTU,
            client_guid: [7; 16],
            dialects: vec![0x0202, 0x0210, 0x0311],
            contexts: vec![
                NegotiateContext::Preauth { hashes: vec![PREAUTH_SHA512], salt: vec![1, 2, 3] },
                NegotiateContext::Encryption(vec![2, 1]),
                NegotiateContext::Signing(vec![2, 1, 0]),
                NegotiateContext::Compression { chained: true, algorithms: vec![1] },
            ],
        };
        let bytes = message(|b| request.put(b));
        assert_eq!(NegotiateRequest::decode(&bytes), Ok(request));
        for end in 0..bytes.len() {
            assert!(NegotiateRequest::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        let response = NegotiateResponse {
            security_mode: SecurityMode::SIGNING_ENABLED,
            dialect: 0x0311,
            server_guid: [9; 16],
            capabilities: Capabilities::LARGE_MTU,
            max_transact_bytes: 1,
            max_read_bytes: 2,
            max_write_bytes: 3,
            system_time: 4,
            security_buffer: vec![5; 11],
            contexts: vec![NegotiateContext::Preauth { hashes: vec![1], salt: vec![6; 32] }],
        };
        let bytes = message(|b| response.put(b));
        assert_eq!(NegotiateResponse::decode(&bytes), Ok(response));
        for end in 0..bytes.len() {
            assert!(NegotiateResponse::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn an_smb1_negotiate_lists_its_dialects() {
        let mut bytes = vec![0xff, b'S', b'M', b'B', 0x72];
        bytes.resize(32, 0);
        bytes.push(0);
        let list = b"\x02NT LM 0.12\0\x02SMB 2.002\0\x02SMB 2.???\0";
        bytes.extend((list.len() as u16).to_le_bytes());
        bytes.extend(list);
        assert!(is_smb1_negotiate(&bytes));
        assert_eq!(
            smb1_negotiate_dialects(&bytes).unwrap(),
            [&b"NT LM 0.12"[..], &b"SMB 2.002"[..], &b"SMB 2.???"[..]]
        );
        assert!(smb1_negotiate_dialects(&bytes[..40]).is_err());
    }
}
