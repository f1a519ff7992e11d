//! NEGOTIATE, CHALLENGE and AUTHENTICATE (MS-NLMP 2.2.1.1 to 2.2.1.3). Payload fields are slices of the message they
//! came in, still in the encoding the flags say.

use super::{Flags, NtlmError, SIGNATURE, Version, array_at, u16_at, u32_at};

const NEGOTIATE: u32 = 1;
const CHALLENGE: u32 = 2;
const AUTHENTICATE: u32 = 3;

const NEGOTIATE_FIXED_LEN: usize = 40;
const CHALLENGE_FIXED_LEN: usize = 56;
const AUTHENTICATE_FIXED_LEN: usize = 88;
/// Where the MIC is in an AUTHENTICATE message that has one; all zeros while the MIC is computed.
pub const AUTHENTICATE_MIC: std::ops::Range<usize> = 72..88;

/// Which of the three (1 to 3) `bytes` claims to be.
pub fn message_type(bytes: &[u8]) -> Result<u32, NtlmError> {
    if !bytes.starts_with(&SIGNATURE) {
        return Err(NtlmError::NotNtlmssp);
    }
    u32_at(bytes, 8)
}

fn expect_type(bytes: &[u8], expected: u32) -> Result<(), NtlmError> {
    if message_type(bytes)? == expected { Ok(()) } else { Err(NtlmError::WrongType) }
}

/// A payload field: length, capacity and offset at `at`. An empty one may point anywhere.
fn payload(bytes: &[u8], at: usize) -> Result<&[u8], NtlmError> {
    let len = usize::from(u16_at(bytes, at)?);
    let offset = u32_at(bytes, at + 4)? as usize;
    if len == 0 {
        return Ok(&[]);
    }
    let end = offset.checked_add(len).ok_or(NtlmError::Truncated)?;
    bytes.get(offset..end).ok_or(NtlmError::Truncated)
}

/// The version, where the flags say so and nothing else lies there: Windows writes it into the fixed part always.
fn version(bytes: &[u8], flags: Flags, at: usize) -> Option<Version> {
    let present = flags.contains(Flags::VERSION);
    present.then(|| array_at(bytes, at).ok().map(Version::decode)).flatten()
}

/// Writes a fixed part whose fields point into the payload behind it.
struct Builder {
    out: Vec<u8>,
}

impl Builder {
    fn new(kind: u32, fixed_len: usize) -> Self {
        let mut out = vec![0; fixed_len];
        out[..8].copy_from_slice(&SIGNATURE);
        out[8..12].copy_from_slice(&kind.to_le_bytes());
        Self { out }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.out[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Appends `content`, cut to what a field can say, and points the field at `at` to it.
    fn payload(&mut self, at: usize, content: &[u8]) {
        let len = u16::try_from(content.len()).unwrap_or(u16::MAX);
        let offset = u32::try_from(self.out.len()).expect("a handful of 64 KiB fields");
        self.put(at, &len.to_le_bytes());
        self.put(at + 2, &len.to_le_bytes());
        self.put(at + 4, &offset.to_le_bytes());
        self.out.extend_from_slice(&content[..len.into()]);
    }
}

/// NEGOTIATE_MESSAGE (MS-NLMP 2.2.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiate<'a> {
    /// What the client can and wants.
    pub flags: Flags,
    /// The client's domain, OEM; informative.
    pub domain: &'a [u8],
    /// The client's name, OEM; informative.
    pub workstation: &'a [u8],
    /// The client's version.
    pub version: Option<Version>,
}

impl<'a> Negotiate<'a> {
    /// Reads the message. Old clients end it after the flags.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, NtlmError> {
        expect_type(bytes, NEGOTIATE)?;
        let flags = Flags::from_bits_retain(u32_at(bytes, 12)?);
        let name = |flag, at| if flags.contains(flag) { payload(bytes, at) } else { Ok(&[][..]) };
        Ok(Self {
            flags,
            domain: name(Flags::OEM_DOMAIN_SUPPLIED, 16)?,
            workstation: name(Flags::OEM_WORKSTATION_SUPPLIED, 24)?,
            version: version(bytes, flags, 32),
        })
    }

    /// The message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Builder::new(NEGOTIATE, NEGOTIATE_FIXED_LEN);
        out.put(12, &self.flags.bits().to_le_bytes());
        out.payload(16, self.domain);
        out.payload(24, self.workstation);
        out.put(32, &self.version.map(Version::encode).unwrap_or_default());
        out.out
    }
}

/// CHALLENGE_MESSAGE (MS-NLMP 2.2.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// What the server agrees to.
    pub flags: Flags,
    /// The server's challenge.
    pub server_challenge: [u8; 8],
    /// The server's or its domain's name.
    pub target_name: &'a [u8],
    /// Attributes: see [`AvPairs`](super::AvPairs).
    pub target_info: &'a [u8],
    /// The server's version.
    pub version: Option<Version>,
}

impl<'a> Challenge<'a> {
    /// Reads the message. Old servers end it after the challenge.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, NtlmError> {
        expect_type(bytes, CHALLENGE)?;
        let flags = Flags::from_bits_retain(u32_at(bytes, 20)?);
        let target_info = if flags.contains(Flags::TARGET_INFO) { payload(bytes, 40)? } else { &[] };
        Ok(Self {
            flags,
            server_challenge: array_at(bytes, 24)?,
            target_name: payload(bytes, 12)?,
            target_info,
            version: version(bytes, flags, 48),
        })
    }

    /// The message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Builder::new(CHALLENGE, CHALLENGE_FIXED_LEN);
        out.payload(12, self.target_name);
        out.put(20, &self.flags.bits().to_le_bytes());
        out.put(24, &self.server_challenge);
        out.payload(40, self.target_info);
        out.put(48, &self.version.map(Version::encode).unwrap_or_default());
        out.out
    }
}

/// AUTHENTICATE_MESSAGE (MS-NLMP 2.2.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authenticate<'a> {
    /// What was agreed.
    pub flags: Flags,
    /// LmChallengeResponse.
    pub lm_response: &'a [u8],
    /// NtChallengeResponse: 24 bytes for NTLMv1, more for NTLMv2.
    pub nt_response: &'a [u8],
    /// The user's domain, as the client names it.
    pub domain: &'a [u8],
    /// The user.
    pub user: &'a [u8],
    /// The client's name; informative.
    pub workstation: &'a [u8],
    /// EncryptedRandomSessionKey.
    pub encrypted_session_key: &'a [u8],
    /// The client's version.
    pub version: Option<Version>,
    /// The MIC, where the payload leaves room for one. Only the attributes say whether it means something.
    pub mic: Option<[u8; 16]>,
}

impl<'a> Authenticate<'a> {
    /// Where the field descriptors are.
    const FIELDS: [usize; 6] = [12, 20, 28, 36, 44, 52];

    /// Reads the message. Old clients leave out MIC, version and even session key and flags.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, NtlmError> {
        expect_type(bytes, AUTHENTICATE)?;
        let payload_at = Self::payload_start(bytes)?;
        let complete = payload_at >= 64;
        let flags = if complete { Flags::from_bits_retain(u32_at(bytes, 60)?) } else { Flags::empty() };
        let has_room_for_mic = payload_at >= AUTHENTICATE_MIC.end;
        Ok(Self {
            flags,
            lm_response: payload(bytes, 12)?,
            nt_response: payload(bytes, 20)?,
            domain: payload(bytes, 28)?,
            user: payload(bytes, 36)?,
            workstation: payload(bytes, 44)?,
            encrypted_session_key: if complete { payload(bytes, 52)? } else { &[] },
            version: if payload_at >= 72 { version(bytes, flags, 64) } else { None },
            mic: if has_room_for_mic { array_at(bytes, AUTHENTICATE_MIC.start).ok() } else { None },
        })
    }

    /// The lowest offset any field that is not empty points to; the message's length if all are empty.
    fn payload_start(bytes: &[u8]) -> Result<usize, NtlmError> {
        let mut start = bytes.len();
        for at in Self::FIELDS {
            if at >= start {
                break;
            }
            if u16_at(bytes, at)? != 0 {
                start = start.min(u32_at(bytes, at + 4)? as usize);
            }
        }
        Ok(start)
    }

    /// The message's bytes, with the MIC or 16 zeros in its place. To compute a MIC, encode without one, and put it
    /// at [`AUTHENTICATE_MIC`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Builder::new(AUTHENTICATE, AUTHENTICATE_FIXED_LEN);
        out.put(60, &self.flags.bits().to_le_bytes());
        out.put(64, &self.version.map(Version::encode).unwrap_or_default());
        out.put(AUTHENTICATE_MIC.start, &self.mic.unwrap_or_default());
        out.payload(28, self.domain);
        out.payload(36, self.user);
        out.payload(44, self.workstation);
        out.payload(12, self.lm_response);
        out.payload(20, self.nt_response);
        out.payload(52, self.encrypted_session_key);
        out.out
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AvFlags, AvId, AvPairs, NtlmV2Response, utf16le_decode, utf16le_encode};
    use super::*;
    use crate::crypto::hex;

    /// The messages of Microsoft's published SMB 3.1.1 walk-through.
    const NEGOTIATE_BYTES: &str = "4E544C4D5353500001000000978208E2000000000000000000000000000000000603802500000 00F";
    const CHALLENGE_BYTES: &str = "4E544C4D53535000020000000C000C003800000015828AE20D1D8BA31179D0080000000000000000
        50005000440000000A0092270000000F53005500540033003100310002000C0053005500540033003100310001000C005300550054
        003300310031000400 0C0053005500540033003100310003000C0053005500540033003100310007000800A1A1F5ADCBAED00100000000";
    const AUTHENTICATE_BYTES: &str = "4E544C4D53535000030000
        001800180090000000EE00EE00A80000000C000C00580000001A001A0064000000120012007E0000
        001000100096010000158288E2060380250000000FECAC77A5F385A8BF9C38C706EEEDDCD3530055
        005400330031003100610064006D0069006E006900730074007200610074006F0072004400520049
        0056004500520033003100310000000000000000000000000000000000000000000000000063078E
        B639FE03E20A231C3AE3BF23080101000000000000A1A1F5ADCBAED001BC4AD05F223CC90F000000
        0002000C0053005500540033003100310001000C0053005500540033003100310004000C00530055
        00540033003100310003000C0053005500540033003100310007000800A1A1F5ADCBAED001060004
        00020000000800300030000000000000000000000000300000B61FEFCAA857EA57BF1EDCEBF8974B
        8E0EBA5A6DFD9D07A31D11B548F8C9D0CC0A00100000000000000000000000000000000000090016
        0063006900660073002F005300550054003300310031000000000000000000000000003B9BDFF38F
        5EE8F9663F11A0F4C03A78";

    #[test]
    fn a_windows_negotiate_is_read() {
        let bytes = hex(NEGOTIATE_BYTES);
        let message = Negotiate::decode(&bytes).unwrap();
        assert!(message.flags.contains(Flags::UNICODE | Flags::KEY_EXCHANGE | Flags::EXTENDED_SESSION_SECURITY));
        assert_eq!(message.version.unwrap(), Version { major: 6, minor: 3, build: 9600, revision: 15 });
        assert_eq!(Negotiate::decode(&message.encode()), Ok(message));
        assert_eq!(Negotiate::decode(&bytes[..16]).unwrap().flags, message.flags, "old clients end here");
    }

    #[test]
    fn a_windows_challenge_is_read_and_written_the_same() {
        let bytes = hex(CHALLENGE_BYTES);
        let message = Challenge::decode(&bytes).unwrap();
        assert_eq!(message.server_challenge.to_vec(), hex("0D1D8BA31179D008"));
        assert_eq!(utf16le_decode(message.target_name).unwrap(), "SUT311");
        assert_eq!(AvPairs::new(message.target_info).count(), 5);
        assert_eq!(message.encode(), bytes);
    }

    #[test]
    fn a_windows_authenticate_is_read() {
        let bytes = hex(AUTHENTICATE_BYTES);
        let message = Authenticate::decode(&bytes).unwrap();
        assert_eq!(utf16le_decode(message.domain).unwrap(), "SUT311");
        assert_eq!(utf16le_decode(message.user).unwrap(), "administrator");
        assert_eq!(utf16le_decode(message.workstation).unwrap(), "DRIVER311");
        assert_eq!(message.mic.unwrap().to_vec(), hex("ECAC77A5F385A8BF9C38C706EEEDDCD3"));
        assert_eq!(message.encrypted_session_key, hex("3B9BDFF38F5EE8F9663F11A0F4C03A78"));
        let response = NtlmV2Response::decode(message.nt_response).unwrap();
        let flags = response.av_pairs().find(AvId::FLAGS).unwrap().unwrap();
        assert_eq!(flags, AvFlags::MIC_PRESENT.bits().to_le_bytes());
        let target = response.av_pairs().find(AvId::TARGET_NAME).unwrap().unwrap();
        assert_eq!(target, utf16le_encode("cifs/SUT311"));
        assert_eq!(message.encode(), bytes, "our order of fields is Windows's");
    }

    #[test]
    fn a_message_without_mic_has_none() {
        let mut bytes = hex(AUTHENTICATE_BYTES);
        // The domain begins where the MIC would end; claim one byte less.
        bytes[32] -= 1;
        assert_eq!(Authenticate::decode(&bytes).unwrap().mic, None);
    }

    #[test]
    fn cut_messages_never_panic_and_lose_their_payload() {
        let [negotiate, challenge, authenticate] = [NEGOTIATE_BYTES, CHALLENGE_BYTES, AUTHENTICATE_BYTES].map(hex);
        for len in 0..authenticate.len() {
            assert!(Authenticate::decode(&authenticate[..len]).is_err(), "cut to {len}");
            let _ = Challenge::decode(&challenge[..len.min(challenge.len())]);
            let _ = Negotiate::decode(&negotiate[..len.min(negotiate.len())]);
        }
        assert_eq!(Negotiate::decode(&challenge), Err(NtlmError::WrongType));
        assert_eq!(Challenge::decode(b"NTLMSSQ\0\x02\0\0\0"), Err(NtlmError::NotNtlmssp));
    }

    #[test]
    fn any_changed_byte_never_panics() {
        for text in [NEGOTIATE_BYTES, CHALLENGE_BYTES, AUTHENTICATE_BYTES] {
            let bytes = hex(text);
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut bad = bytes.clone();
                    bad[at] = value;
                    let _ = Negotiate::decode(&bad);
                    let _ = Challenge::decode(&bad).map(|m| AvPairs::new(m.target_info).count());
                    let _ = Authenticate::decode(&bad).map(|m| NtlmV2Response::decode(m.nt_response).is_ok());
                }
            }
        }
    }
}
