//! SPNEGO tokens (RFC 4178, MS-SPNG): the wrapping around NTLMSSP and Kerberos in NEGOTIATE and SESSION_SETUP. `auth`
//! calls it on both sides. The DER reader is bounded by its input, follows no nesting but that of the two tokens, and
//! must never allocate more than the token's own size.

mod der;

use der::{Reader, Writer};

/// A mechanism's object identifier as DER content bytes (without tag and length).
pub type Oid<'a> = &'a [u8];

/// SPNEGO itself, 1.3.6.1.5.5.2.
pub const OID_SPNEGO: Oid<'static> = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x02];
/// NTLMSSP, 1.3.6.1.4.1.311.2.2.10.
pub const OID_NTLMSSP: Oid<'static> = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0a];
/// Kerberos 5, 1.2.840.113554.1.2.2.
pub const OID_KERBEROS: Oid<'static> = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];
/// Kerberos 5 with the number Windows 2000 mistook, 1.2.840.48018.1.2.2.
pub const OID_MS_KERBEROS: Oid<'static> = &[0x2a, 0x86, 0x48, 0x82, 0xf7, 0x12, 0x01, 0x02, 0x02];
/// NEGOEX, 1.3.6.1.4.1.311.2.2.30.
pub const OID_NEGOEX: Oid<'static> = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x1e];

/// The hint every acceptor sends since Windows 2000 and nobody reads (MS-SPNG 3.2.5.2).
const HINT_NAME: &[u8] = b"not_defined_in_RFC4178@please_ignore";
/// More mechanisms than any system has; a bound on what a peer can make us walk.
const MAX_MECHS: usize = 32;

/// Why a token is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpnegoError {
    /// A length points past the end of what holds it, or the token ends early.
    Truncated,
    /// A tag other than the one that must stand there, or a length of a form not allowed.
    Malformed,
    /// More mechanisms than this side is ready to look at.
    TooMany,
}

impl std::fmt::Display for SpnegoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the SPNEGO token ends early",
            Self::Malformed => "the SPNEGO token is malformed",
            Self::TooMany => "the SPNEGO token lists too many mechanisms",
        })
    }
}

impl std::error::Error for SpnegoError {}

/// Any SPNEGO token, borrowed from the bytes it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token<'a> {
    /// The initiator's first token, or the acceptor's hint.
    Init(NegTokenInit<'a>),
    /// Every other.
    Resp(NegTokenResp<'a>),
}

impl<'a> Token<'a> {
    /// Reads a token. What follows its end is ignored.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, SpnegoError> {
        let mut outer = Reader::new(bytes);
        let (tag, content) = outer.any()?;
        match tag {
            der::APPLICATION_0 => {
                let mut inner = Reader::new(content);
                if inner.expect(der::OID)? != OID_SPNEGO {
                    return Err(SpnegoError::Malformed);
                }
                NegTokenInit::decode(inner.expect(der::context(0))?).map(Self::Init)
            }
            // Some initiators leave out the GSS-API framing.
            der::CONTEXT_0 => NegTokenInit::decode(content).map(Self::Init),
            der::CONTEXT_1 => NegTokenResp::decode(content).map(Self::Resp),
            _ => Err(SpnegoError::Malformed),
        }
    }
}

/// NegTokenInit (RFC 4178 4.2.1) and NegTokenInit2 (MS-SPNG 2.2.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NegTokenInit<'a> {
    /// The mechanisms, most wanted first.
    pub mech_types: Vec<Oid<'a>>,
    /// The MechTypeList as it was encoded: what mechListMIC is computed over. Empty in a token being made.
    pub mech_types_der: &'a [u8],
    /// The first token of the first mechanism, sent in the hope that it is chosen.
    pub mech_token: Option<&'a [u8]>,
    /// Integrity of the list.
    pub mech_list_mic: Option<&'a [u8]>,
}

impl<'a> NegTokenInit<'a> {
    fn decode(bytes: &'a [u8]) -> Result<Self, SpnegoError> {
        let mut fields = Reader::new(Reader::new(bytes).expect(der::SEQUENCE)?);
        let mut token = Self::default();
        while let Some((tag, content)) = fields.next()? {
            match tag {
                der::CONTEXT_0 => {
                    token.mech_types = decode_mech_types(content)?;
                    token.mech_types_der = content;
                }
                der::CONTEXT_2 => token.mech_token = Some(Reader::new(content).expect(der::OCTET_STRING)?),
                der::CONTEXT_3 | der::CONTEXT_4 => token.mech_list_mic = mic_unless_hints(content)?,
                // reqFlags [1], and whatever a later revision adds.
                _ => {}
            }
        }
        Ok(token)
    }

    /// The token with its GSS-API framing.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_with(|_| {})
    }

    /// The acceptor's token of the NEGOTIATE response: the mechanisms and the customary hint (MS-SPNG 2.2.1).
    pub fn encode_hint(mech_types: &[Oid<'_>]) -> Vec<u8> {
        let token = NegTokenInit { mech_types: mech_types.to_vec(), ..NegTokenInit::default() };
        token.encode_with(|fields| {
            fields.nested(der::context(3), |hints| {
                hints.nested(der::SEQUENCE, |hints| {
                    hints.nested(der::context(0), |name| name.leaf(der::GENERAL_STRING, HINT_NAME));
                });
            });
        })
    }

    fn encode_with(&self, hints: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut out = Writer::default();
        out.nested(der::APPLICATION_0, |out| {
            out.leaf(der::OID, OID_SPNEGO);
            out.nested(der::context(0), |out| {
                out.nested(der::SEQUENCE, |fields| {
                    fields.nested(der::context(0), |list| list.raw(&encode_mech_types(&self.mech_types)));
                    if let Some(token) = self.mech_token {
                        fields.nested(der::context(2), |field| field.leaf(der::OCTET_STRING, token));
                    }
                    hints(fields);
                    if let Some(mic) = self.mech_list_mic {
                        fields.nested(der::context(3), |field| field.leaf(der::OCTET_STRING, mic));
                    }
                });
            });
        });
        out.finish()
    }
}

/// The DER encoding of a MechTypeList: what both sides compute mechListMIC over (RFC 4178 5).
pub fn encode_mech_types(mech_types: &[Oid<'_>]) -> Vec<u8> {
    let mut out = Writer::default();
    out.nested(der::SEQUENCE, |list| mech_types.iter().for_each(|oid| list.leaf(der::OID, oid)));
    out.finish()
}

fn decode_mech_types(content: &[u8]) -> Result<Vec<Oid<'_>>, SpnegoError> {
    let mut list = Reader::new(Reader::new(content).expect(der::SEQUENCE)?);
    let mut mech_types = Vec::new();
    while let Some((tag, oid)) = list.next()? {
        if tag != der::OID {
            return Err(SpnegoError::Malformed);
        }
        if mech_types.len() == MAX_MECHS {
            return Err(SpnegoError::TooMany);
        }
        mech_types.push(oid);
    }
    Ok(mech_types)
}

/// Field 3 is the MIC in RFC 4178 and the hints in NegTokenInit2, where the MIC is field 4.
fn mic_unless_hints(content: &[u8]) -> Result<Option<&[u8]>, SpnegoError> {
    match Reader::new(content).any()? {
        (der::OCTET_STRING, mic) => Ok(Some(mic)),
        (der::SEQUENCE, _hints) => Ok(None),
        _ => Err(SpnegoError::Malformed),
    }
}

/// How the negotiation stands (RFC 4178 4.2.2, negState).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NegState {
    /// It is over and good.
    AcceptCompleted,
    /// The mechanism wants another token.
    AcceptIncomplete,
    /// It is over and bad.
    Reject,
    /// Another mechanism than the most wanted was chosen, so the list must be authenticated.
    RequestMic,
}

impl NegState {
    fn from_wire(value: u8) -> Result<Self, SpnegoError> {
        match value {
            0 => Ok(Self::AcceptCompleted),
            1 => Ok(Self::AcceptIncomplete),
            2 => Ok(Self::Reject),
            3 => Ok(Self::RequestMic),
            _ => Err(SpnegoError::Malformed),
        }
    }

    fn to_wire(self) -> u8 {
        match self {
            Self::AcceptCompleted => 0,
            Self::AcceptIncomplete => 1,
            Self::Reject => 2,
            Self::RequestMic => 3,
        }
    }
}

/// NegTokenResp (RFC 4178 4.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NegTokenResp<'a> {
    /// How the negotiation stands.
    pub state: Option<NegState>,
    /// The mechanism chosen; in the acceptor's first answer only.
    pub supported_mech: Option<Oid<'a>>,
    /// The mechanism's token.
    pub response_token: Option<&'a [u8]>,
    /// Integrity of the initiator's list.
    pub mech_list_mic: Option<&'a [u8]>,
}

impl<'a> NegTokenResp<'a> {
    fn decode(bytes: &'a [u8]) -> Result<Self, SpnegoError> {
        let mut fields = Reader::new(Reader::new(bytes).expect(der::SEQUENCE)?);
        let mut token = Self::default();
        while let Some((tag, content)) = fields.next()? {
            let mut field = Reader::new(content);
            match tag {
                der::CONTEXT_0 => match field.expect(der::ENUMERATED)? {
                    [value] => token.state = Some(NegState::from_wire(*value)?),
                    _ => return Err(SpnegoError::Malformed),
                },
                der::CONTEXT_1 => token.supported_mech = Some(field.expect(der::OID)?),
                der::CONTEXT_2 => token.response_token = Some(field.expect(der::OCTET_STRING)?),
                der::CONTEXT_3 => token.mech_list_mic = Some(field.expect(der::OCTET_STRING)?),
                _ => {}
            }
        }
        Ok(token)
    }

    /// The token as it goes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.nested(der::context(1), |out| {
            out.nested(der::SEQUENCE, |fields| {
                if let Some(state) = self.state {
                    fields.nested(der::context(0), |field| field.leaf(der::ENUMERATED, &[state.to_wire()]));
                }
                let octets = [(2, self.response_token), (3, self.mech_list_mic)];
                if let Some(oid) = self.supported_mech {
                    fields.nested(der::context(1), |field| field.leaf(der::OID, oid));
                }
                for (number, bytes) in octets {
                    if let Some(bytes) = bytes {
                        fields.nested(der::context(number), |field| field.leaf(der::OCTET_STRING, bytes));
                    }
                }
            });
        });
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::hex;

    /// The tokens of Microsoft's published SMB 3.1.1 walk-through, the NTLMSSP inside left as it was.
    const CLIENT_INIT: &str = "604806062B0601050502A03E303CA00E300C060A2B06010401823702020AA22A
        04284E544C4D5353500001000000978208E2000000000000000000000000000000000603802500000 00F";
    const SERVER_FINAL: &str = "A11B3019A0030A0100A3120410010000003B453CDC3524164200000000";

    fn reserialize(bytes: &[u8]) -> Vec<u8> {
        match Token::decode(bytes).unwrap() {
            Token::Init(token) => token.encode(),
            Token::Resp(token) => token.encode(),
        }
    }

    #[test]
    fn windows_tokens_decode_and_encode_to_the_same_bytes() {
        let bytes = hex(CLIENT_INIT);
        let Token::Init(init) = Token::decode(&bytes).unwrap() else { panic!("an init token") };
        assert_eq!(init.mech_types, [OID_NTLMSSP]);
        assert_eq!(init.mech_types_der, hex("300C060A2B06010401823702020A"));
        assert_eq!(init.mech_types_der, encode_mech_types(&[OID_NTLMSSP]));
        assert!(init.mech_token.unwrap().starts_with(b"NTLMSSP\0\x01"));
        assert_eq!(reserialize(&bytes), bytes);

        let bytes = hex(SERVER_FINAL);
        let Token::Resp(resp) = Token::decode(&bytes).unwrap() else { panic!("a response") };
        assert_eq!(resp.state, Some(NegState::AcceptCompleted));
        assert_eq!(resp.mech_list_mic.unwrap(), hex("010000003B453CDC3524164200000000"));
        assert_eq!(reserialize(&bytes), bytes);
    }

    #[test]
    fn the_hint_lists_mechanisms_and_is_no_mic() {
        let hint = NegTokenInit::encode_hint(&[OID_KERBEROS, OID_NTLMSSP]);
        let Token::Init(init) = Token::decode(&hint).unwrap() else { panic!("an init token") };
        assert_eq!(init.mech_types, [OID_KERBEROS, OID_NTLMSSP]);
        assert_eq!((init.mech_token, init.mech_list_mic), (None, None));
        assert!(hint.windows(HINT_NAME.len()).any(|window| window == HINT_NAME));
    }

    #[test]
    fn responses_of_every_shape_and_size_round_trip() {
        let long = vec![0x5a; 70_000];
        for state in [None, Some(NegState::AcceptIncomplete), Some(NegState::Reject), Some(NegState::RequestMic)] {
            for token in [None, Some(&long[..0]), Some(&long[..127]), Some(&long[..128]), Some(&long[..])] {
                for mic in [None, Some(&b"0123456789abcdef"[..])] {
                    let resp = NegTokenResp {
                        state,
                        supported_mech: state.map(|_| OID_NTLMSSP),
                        response_token: token,
                        mech_list_mic: mic,
                    };
                    assert_eq!(Token::decode(&resp.encode()), Ok(Token::Resp(resp)));
                }
            }
        }
    }

    #[test]
    fn an_init_with_a_mic_round_trips() {
        let list = encode_mech_types(&[OID_MS_KERBEROS, OID_NEGOEX]);
        let init = NegTokenInit {
            mech_types: vec![OID_MS_KERBEROS, OID_NEGOEX],
            mech_types_der: &list,
            mech_token: Some(b"token"),
            mech_list_mic: Some(b"mic"),
        };
        assert_eq!(Token::decode(&init.encode()), Ok(Token::Init(init)));
    }

    #[test]
    fn cut_tokens_are_refused_and_flipped_ones_do_not_panic() {
        for text in [CLIENT_INIT, SERVER_FINAL] {
            let bytes = hex(text);
            for len in 0..bytes.len() {
                assert!(Token::decode(&bytes[..len]).is_err(), "cut to {len}");
            }
            for at in 0..bytes.len() {
                for value in 0..=255 {
                    let mut bad = bytes.clone();
                    bad[at] = value;
                    let _ = Token::decode(&bad);
                }
            }
        }
    }

    #[test]
    fn a_list_without_end_is_refused() {
        let many = vec![OID_NTLMSSP; MAX_MECHS + 1];
        let token = NegTokenInit { mech_types: many, ..NegTokenInit::default() }.encode();
        assert_eq!(Token::decode(&token), Err(SpnegoError::TooMany));
    }
}
