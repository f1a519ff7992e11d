//! The three messages of NTLMSSP (MS-NLMP 2.2.1) as views over received bytes and as builders. `auth` calls it on both
//! sides; no cryptography here. Every offset and length is checked before use, and a view never copies.

mod av;
mod messages;
mod v2;

use bitflags::bitflags;

pub use av::{AvFlags, AvId, AvPairs, AvPairsBuilder};
pub use messages::{AUTHENTICATE_MIC, Authenticate, Challenge, Negotiate, message_type};
pub use v2::NtlmV2Response;

/// What every message begins with.
pub const SIGNATURE: [u8; 8] = *b"NTLMSSP\0";

bitflags! {
    /// NEGOTIATE flags (MS-NLMP 2.2.2.5).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Flags: u32 {
        /// Strings are UTF-16LE.
        const UNICODE = 0x0000_0001;
        /// Strings may be in the OEM code page.
        const OEM = 0x0000_0002;
        /// The acceptor is asked for its name.
        const REQUEST_TARGET = 0x0000_0004;
        /// Session key negotiation for signatures.
        const SIGN = 0x0000_0010;
        /// Session key negotiation for encryption.
        const SEAL = 0x0000_0020;
        /// Connectionless.
        const DATAGRAM = 0x0000_0040;
        /// LAN Manager session key.
        const LM_KEY = 0x0000_0080;
        /// NTLM v1 or v2, as opposed to LAN Manager.
        const NTLM = 0x0000_0200;
        /// No user: anonymous.
        const ANONYMOUS = 0x0000_0800;
        /// A domain name is in the NEGOTIATE message.
        const OEM_DOMAIN_SUPPLIED = 0x0000_1000;
        /// A workstation name is in the NEGOTIATE message.
        const OEM_WORKSTATION_SUPPLIED = 0x0000_2000;
        /// A signature on every message, a dummy if need be.
        const ALWAYS_SIGN = 0x0000_8000;
        /// The target name is a domain's.
        const TARGET_TYPE_DOMAIN = 0x0001_0000;
        /// The target name is a server's.
        const TARGET_TYPE_SERVER = 0x0002_0000;
        /// The session security of NTLM2.
        const EXTENDED_SESSION_SECURITY = 0x0008_0000;
        /// An identify-level token is enough.
        const IDENTIFY = 0x0010_0000;
        /// The LAN Manager session key is the one wanted.
        const NON_NT_SESSION_KEY = 0x0040_0000;
        /// The CHALLENGE carries target information.
        const TARGET_INFO = 0x0080_0000;
        /// A version structure is present.
        const VERSION = 0x0200_0000;
        /// 128-bit keys.
        const KEY_128 = 0x2000_0000;
        /// The session key is chosen by the client and sent encrypted.
        const KEY_EXCHANGE = 0x4000_0000;
        /// 56-bit keys.
        const KEY_56 = 0x8000_0000;
        const _ = !0;
    }
}

/// Why bytes are not the message they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NtlmError {
    /// The message ends before its fixed part does, or a field points outside it.
    Truncated,
    /// No NTLMSSP signature.
    NotNtlmssp,
    /// Another message than the one that is due.
    WrongType,
    /// A list of attributes without end, or a string that is no UTF-16.
    Malformed,
}

impl std::fmt::Display for NtlmError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the NTLMSSP message ends early",
            Self::NotNtlmssp => "not an NTLMSSP message",
            Self::WrongType => "not the NTLMSSP message that is due",
            Self::Malformed => "the NTLMSSP message is malformed",
        })
    }
}

impl std::error::Error for NtlmError {}

/// VERSION (MS-NLMP 2.2.2.10): informative only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    /// Major version of the operating system.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
    /// Build number.
    pub build: u16,
    /// NTLMSSP_REVISION_W2K3: 15.
    pub revision: u8,
}

impl Version {
    /// What we say: Windows 6.1, since some clients look for at least that and no feature hangs on more.
    pub const OURS: Self = Self { major: 6, minor: 1, build: 0, revision: 15 };

    fn decode(bytes: [u8; 8]) -> Self {
        let [major, minor, b0, b1, _, _, _, revision] = bytes;
        Self { major, minor, build: u16::from_le_bytes([b0, b1]), revision }
    }

    fn encode(self) -> [u8; 8] {
        let [b0, b1] = self.build.to_le_bytes();
        [self.major, self.minor, b0, b1, 0, 0, 0, self.revision]
    }
}

/// Decodes UTF-16LE. An odd length and lone surrogates are errors.
pub fn utf16le_decode(bytes: &[u8]) -> Result<String, NtlmError> {
    let (units, []) = bytes.as_chunks::<2>() else { return Err(NtlmError::Malformed) };
    char::decode_utf16(units.iter().map(|unit| u16::from_le_bytes(*unit)))
        .collect::<Result<_, _>>()
        .map_err(|_| NtlmError::Malformed)
}

/// Encodes UTF-16LE.
pub fn utf16le_encode(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// The `N` bytes at `at`.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], NtlmError> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(NtlmError::Truncated)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, NtlmError> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, NtlmError> {
    array_at(bytes, at).map(u32::from_le_bytes)
}
