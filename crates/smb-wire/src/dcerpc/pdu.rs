//! The connection-oriented PDUs (C706 12.6, MS-RPCE 2.2.2): header, bind, request, response and fault, both ways.
//! Little-endian only, which is what everybody sends.

use crate::codec::{Put, Reader, Truncated};

/// Bytes of [`Header`].
pub const HEADER_LEN: usize = 16;
/// Bytes of a request or response before its stub, header included.
pub const STUB_AT: usize = 24;

/// Fragment flags (C706 12.6.3.1).
pub mod flags {
    /// The first fragment of a call.
    pub const FIRST: u8 = 0x01;
    /// The last fragment of a call.
    pub const LAST: u8 = 0x02;
    /// The call did not run.
    pub const DID_NOT_EXECUTE: u8 = 0x20;
    /// An object's UUID follows the head of a request.
    pub const OBJECT: u8 = 0x80;
}

/// What a PDU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PduType {
    /// A call, or a fragment of one.
    Request,
    /// Its answer.
    Response,
    /// Its failure.
    Fault,
    /// Which interfaces the caller wants.
    Bind,
    /// Which of them it gets.
    BindAck,
    /// None of them.
    BindNak,
    /// More interfaces on the same connection.
    AlterContext,
    /// Which of those it gets.
    AlterContextResp,
    /// The third leg of an authentication.
    Auth3,
    /// Cancels a call.
    Cancel,
    /// Abandons a call.
    Orphaned,
}

impl PduType {
    const ALL: [(u8, Self); 11] = [
        (0, Self::Request),
        (2, Self::Response),
        (3, Self::Fault),
        (11, Self::Bind),
        (12, Self::BindAck),
        (13, Self::BindNak),
        (14, Self::AlterContext),
        (15, Self::AlterContextResp),
        (16, Self::Auth3),
        (18, Self::Cancel),
        (19, Self::Orphaned),
    ];

    fn from_u8(kind: u8) -> Option<Self> {
        Self::ALL.iter().find(|(number, _)| *number == kind).map(|&(_, kind)| kind)
    }

    fn as_u8(self) -> u8 {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or(0, |&(number, _)| number)
    }
}

/// The head of every PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: PduType,
    /// See [`flags`].
    pub flags: u8,
    /// Bytes of the whole PDU.
    pub frag_len: u16,
    /// Bytes of the authentication value at its end.
    pub auth_len: u16,
    /// Which call.
    pub call_id: u32,
}

/// Bytes that are no PDU this code can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPdu;

impl From<Truncated> for BadPdu {
    fn from(_: Truncated) -> Self {
        Self
    }
}

impl Header {
    /// Reads it. Version 5.0 or 5.1, little-endian with ASCII and IEEE, anything else is refused.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadPdu> {
        let mut from = Reader::new(bytes);
        let (major, minor) = (from.u8()?, from.u8()?);
        let kind = PduType::from_u8(from.u8()?).ok_or(BadPdu)?;
        let flags = from.u8()?;
        let drep: [u8; 4] = from.array()?;
        let header = Self { kind, flags, frag_len: from.u16()?, auth_len: from.u16()?, call_id: from.u32()? };
        let sane = major == 5 && minor <= 1 && drep == DREP && usize::from(header.frag_len) >= HEADER_LEN;
        sane.then_some(header).ok_or(BadPdu)
    }
}

const DREP: [u8; 4] = [0x10, 0, 0, 0];

/// Starts a PDU; [`finish`] fills in its length.
fn start(kind: PduType, flags: u8, call_id: u32) -> Vec<u8> {
    let mut out = vec![5, 0, kind.as_u8(), flags];
    out.put_bytes(&DREP);
    out.put_u32(0);
    out.put_u32(call_id);
    out
}

fn finish(mut pdu: Vec<u8>) -> Vec<u8> {
    let len = u16::try_from(pdu.len()).unwrap_or(u16::MAX);
    pdu.patch_u16(8, len);
    pdu
}

/// An interface or transfer syntax and its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syntax {
    /// The UUID as it travels: the first three fields little-endian.
    pub uuid: [u8; 16],
    /// The major version in the low half, the minor one above.
    pub version: u32,
}

impl Syntax {
    /// NDR 2.0.
    pub const NDR: Self = Self::new(0x8a88_5d04, 0x1ceb, 0x11c9, [0x9f, 0xe8, 0x08, 0, 0x2b, 0x10, 0x48, 0x60], 2);

    /// From the fields of a UUID as people write it.
    pub const fn new(a: u32, b: u16, c: u16, d: [u8; 8], version: u32) -> Self {
        let (a, b, c) = (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes());
        let [d0, d1, d2, d3, d4, d5, d6, d7] = d;
        let uuid = [a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], d0, d1, d2, d3, d4, d5, d6, d7];
        Self { uuid, version }
    }

    /// Whether it offers bind-time features rather than a transfer syntax (MS-RPCE 3.3.1.5.3); what it asks for is in
    /// its last 8 bytes.
    pub fn is_feature_negotiation(&self) -> bool {
        self.uuid.starts_with(&[0x2c, 0x1c, 0xb7, 0x6c, 0x12, 0x98, 0x40, 0x45])
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Truncated> {
        Ok(Self { uuid: from.array()?, version: from.u32()? })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_bytes(&self.uuid);
        out.put_u32(self.version);
    }
}

/// One presentation context a caller proposes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// What requests will call it by.
    pub id: u16,
    /// The interface.
    pub interface: Syntax,
    /// The transfer syntaxes it could be spoken in.
    pub transfers: Vec<Syntax>,
}

/// The body of bind and alter context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The largest fragment the caller sends.
    pub max_xmit_frag: u16,
    /// The largest fragment the caller takes.
    pub max_recv_frag: u16,
    /// Joins connections; 0 for a new group.
    pub assoc_group: u32,
    /// The proposals.
    pub contexts: Vec<Context>,
}

impl Bind {
    /// Reads it from what follows the header.
    pub fn decode(body: &[u8]) -> Result<Self, BadPdu> {
        let mut from = Reader::new(body);
        let (max_xmit_frag, max_recv_frag, assoc_group) = (from.u16()?, from.u16()?, from.u32()?);
        let count = from.u8()?;
        from.skip(3)?;
        let contexts = (0..count).map(|_| take_context(&mut from)).collect::<Result<_, _>>()?;
        Ok(Self { max_xmit_frag, max_recv_frag, assoc_group, contexts })
    }
}

fn take_context(from: &mut Reader<'_>) -> Result<Context, Truncated> {
    let id = from.u16()?;
    let count = from.u8()?;
    from.skip(1)?;
    let interface = Syntax::take(from)?;
    let transfers = (0..count).map(|_| Syntax::take(from)).collect::<Result<_, _>>()?;
    Ok(Context { id, interface, transfers })
}

/// A bind, for a client.
pub fn encode_bind(call_id: u32, bind: &Bind) -> Vec<u8> {
    let mut out = start(PduType::Bind, flags::FIRST | flags::LAST, call_id);
    out.put_u16(bind.max_xmit_frag);
    out.put_u16(bind.max_recv_frag);
    out.put_u32(bind.assoc_group);
    out.put_u32(u32::from(u8::try_from(bind.contexts.len()).unwrap_or(u8::MAX)));
    for context in bind.contexts.iter().take(255) {
        out.put_u16(context.id);
        out.put_u16(u16::from(u8::try_from(context.transfers.len()).unwrap_or(u8::MAX)));
        context.interface.put(&mut out);
        context.transfers.iter().take(255).for_each(|syntax| syntax.put(&mut out));
    }
    finish(out)
}

/// What became of a proposed context (C706 12.6.3.1, MS-RPCE 2.2.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindResult {
    /// It can be called, in NDR.
    Accepted,
    /// No such interface here.
    NoInterface,
    /// In none of these transfer syntaxes.
    NoTransfer,
    /// These of the features asked for are there.
    Features(u16),
}

impl BindResult {
    const fn codes(self) -> (u16, u16) {
        match self {
            Self::Accepted => (0, 0),
            Self::NoInterface => (2, 1),
            Self::NoTransfer => (2, 2),
            Self::Features(bits) => (3, bits),
        }
    }

    fn from_codes(result: u16, reason: u16) -> Self {
        match (result, reason) {
            (0, _) => Self::Accepted,
            (3, bits) => Self::Features(bits),
            (_, 2) => Self::NoTransfer,
            _ => Self::NoInterface,
        }
    }
}

/// The body of bind ack and alter context response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindAck {
    /// The largest fragment the server sends.
    pub max_xmit_frag: u16,
    /// The largest fragment the server takes.
    pub max_recv_frag: u16,
    /// The group the connection is in.
    pub assoc_group: u32,
    /// The pipe's name, `\PIPE\srvsvc`; empty in an alter context response.
    pub address: String,
    /// One for each proposal.
    pub results: Vec<BindResult>,
}

impl BindAck {
    /// Reads it from what follows the header.
    pub fn decode(body: &[u8]) -> Result<Self, BadPdu> {
        let mut from = Reader::new(body);
        let (max_xmit_frag, max_recv_frag, assoc_group) = (from.u16()?, from.u16()?, from.u32()?);
        let address_len = from.u16()?;
        let address = from.bytes(address_len.into())?;
        let address = String::from_utf8_lossy(address).trim_end_matches('\0').to_owned();
        // The body begins on a multiple of 4, so aligning within it is aligning within the PDU.
        from.align(4)?;
        let count = from.u8()?;
        from.skip(3)?;
        let mut results = Vec::new();
        for _ in 0..count {
            results.push(BindResult::from_codes(from.u16()?, from.u16()?));
            from.skip(20)?;
        }
        Ok(Self { max_xmit_frag, max_recv_frag, assoc_group, address, results })
    }
}

/// The answer to a bind, or to an alter context.
pub fn encode_bind_ack(kind: PduType, call_id: u32, ack: &BindAck) -> Vec<u8> {
    let mut out = start(kind, flags::FIRST | flags::LAST, call_id);
    out.put_u16(ack.max_xmit_frag);
    out.put_u16(ack.max_recv_frag);
    out.put_u32(ack.assoc_group);
    match ack.address.as_str() {
        "" => out.put_u16(0),
        address => {
            out.put_u16(u16::try_from(address.len() + 1).unwrap_or(u16::MAX));
            out.put_bytes(address.as_bytes());
            out.put_u8(0);
        }
    }
    out.put_align(4);
    out.put_u32(u32::from(u8::try_from(ack.results.len()).unwrap_or(u8::MAX)));
    for result in ack.results.iter().take(255) {
        let (code, reason) = result.codes();
        out.put_u16(code);
        out.put_u16(reason);
        match result {
            BindResult::Accepted => Syntax::NDR.put(&mut out),
            _ => out.put_zeros(20),
        }
    }
    finish(out)
}

/// The refusal of a bind (C706 12.6.4.5). 8 is "authentication type not recognized", 4 "protocol version not supported".
pub fn encode_bind_nak(call_id: u32, reason: u16) -> Vec<u8> {
    let mut out = start(PduType::BindNak, flags::FIRST | flags::LAST, call_id);
    out.put_u16(reason);
    out.put_bytes(&[1, 5, 0, 0]);
    finish(out)
}

/// What stands before a request's stub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHead {
    /// A hint of the stub's length, all fragments together.
    pub alloc_hint: u32,
    /// Which context.
    pub context_id: u16,
    /// Which procedure of its interface.
    pub opnum: u16,
}

impl RequestHead {
    /// Reads it and the stub from what follows `header`.
    pub fn decode<'a>(header: &Header, body: &'a [u8]) -> Result<(Self, &'a [u8]), BadPdu> {
        let mut from = Reader::new(body);
        let head = Self { alloc_hint: from.u32()?, context_id: from.u16()?, opnum: from.u16()? };
        if header.flags & flags::OBJECT != 0 {
            from.skip(16)?;
        }
        Ok((head, from.rest()))
    }
}

/// A request in one fragment, for a client.
pub fn encode_request(call_id: u32, context_id: u16, opnum: u16, stub: &[u8]) -> Vec<u8> {
    let mut out = start(PduType::Request, flags::FIRST | flags::LAST, call_id);
    out.put_u32(u32::try_from(stub.len()).unwrap_or(u32::MAX));
    out.put_u16(context_id);
    out.put_u16(opnum);
    out.put_bytes(stub);
    finish(out)
}

/// What stands before a response's stub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead {
    /// A hint of the stub's length from here on.
    pub alloc_hint: u32,
    /// Which context.
    pub context_id: u16,
}

impl ResponseHead {
    /// Reads it and the stub from what follows the header.
    pub fn decode(body: &[u8]) -> Result<(Self, &[u8]), BadPdu> {
        let mut from = Reader::new(body);
        let head = Self { alloc_hint: from.u32()?, context_id: from.u16()? };
        from.skip(2)?;
        Ok((head, from.rest()))
    }
}

/// A response in fragments of at most `max_frag` bytes, each an own PDU.
pub fn encode_response(call_id: u32, context_id: u16, stub: &[u8], max_frag: u16) -> Vec<Vec<u8>> {
    // Fragments carry a multiple of 8 bytes of stub, so that alignment goes on in the next one.
    let room = (usize::from(max_frag).saturating_sub(STUB_AT) & !7).max(8);
    let count = stub.len().div_ceil(room).max(1);
    let fragment = |index: usize| {
        let at = index * room;
        let part = stub.get(at..stub.len().min(at + room)).unwrap_or_default();
        let first = if index == 0 { flags::FIRST } else { 0 };
        let last = if index + 1 == count { flags::LAST } else { 0 };
        let mut out = start(PduType::Response, first | last, call_id);
        out.put_u32(u32::try_from(stub.len().saturating_sub(at)).unwrap_or(u32::MAX));
        out.put_u16(context_id);
        out.put_u16(0);
        out.put_bytes(part);
        finish(out)
    };
    (0..count).map(fragment).collect()
}

/// A call's failure.
pub fn encode_fault(call_id: u32, context_id: u16, status: u32) -> Vec<u8> {
    let mut out = start(PduType::Fault, flags::FIRST | flags::LAST | flags::DID_NOT_EXECUTE, call_id);
    out.put_u32(32);
    out.put_u16(context_id);
    out.put_u16(0);
    out.put_u32(status);
    out.put_u32(0);
    finish(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind() -> Bind {
        let interface = Syntax::new(0x4b32_4fc8, 0x1670, 0x01d3, [0x12, 0x78, 0x5a, 0x47, 0xbf, 0x6e, 0xe1, 0x88], 3);
        let contexts = vec![Context { id: 1, interface, transfers: vec![Syntax::NDR] }];
        Bind { max_xmit_frag: 4280, max_recv_frag: 4280, assoc_group: 0, contexts }
    }

    #[test]
    fn a_bind_to_srvsvc() {
        let pdu = encode_bind(1, &bind());
        let want = b"\x05\x00\x0b\x03\x10\x00\x00\x00\x48\x00\x00\x00\x01\x00\x00\x00\
                     \xb8\x10\xb8\x10\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x01\x00\
                     \xc8\x4f\x32\x4b\x70\x16\xd3\x01\x12\x78\x5a\x47\xbf\x6e\xe1\x88\x03\x00\x00\x00\
                     \x04\x5d\x88\x8a\xeb\x1c\xc9\x11\x9f\xe8\x08\x00\x2b\x10\x48\x60\x02\x00\x00\x00";
        assert_eq!(pdu, want);
        let header = Header::decode(&pdu).unwrap();
        assert_eq!((header.kind, header.frag_len, header.call_id), (PduType::Bind, 72, 1));
        assert_eq!(Bind::decode(&pdu[16..]), Ok(bind()));
        for short in 0..56 {
            assert_eq!(Bind::decode(&pdu[16..16 + short]), Err(BadPdu));
        }
    }

    #[test]
    fn a_bind_ack_goes_round() {
        let ack = BindAck {
            max_xmit_frag: 4280,
            max_recv_frag: 4280,
            assoc_group: 0x53f0,
            address: "\\PIPE\\srvsvc".to_owned(),
            results: vec![
                BindResult::Accepted,
                BindResult::NoTransfer,
                BindResult::Features(3),
                BindResult::NoInterface,
            ],
        };
        let pdu = encode_bind_ack(PduType::BindAck, 1, &ack);
        assert_eq!(pdu[24..26], [13, 0]);
        assert_eq!(pdu[40..44], [4, 0, 0, 0]);
        assert_eq!(BindAck::decode(&pdu[16..]), Ok(ack.clone()));
        for short in 0..pdu.len() - 16 {
            assert_eq!(BindAck::decode(&pdu[16..16 + short]), Err(BadPdu));
        }
        let alter = BindAck { address: String::new(), ..ack };
        let pdu = encode_bind_ack(PduType::AlterContextResp, 1, &alter);
        assert_eq!(BindAck::decode(&pdu[16..]), Ok(alter));
    }

    #[test]
    fn a_response_is_cut_into_fragments() {
        let stub: Vec<u8> = (0..100).collect();
        let fragments = encode_response(9, 1, &stub, 24 + 45);
        assert_eq!(fragments.len(), 3);
        let mut whole = Vec::new();
        for (index, pdu) in fragments.iter().enumerate() {
            let header = Header::decode(pdu).unwrap();
            assert_eq!(usize::from(header.frag_len), pdu.len());
            assert_eq!(header.flags, [1, 0, 2][index]);
            let (head, part) = ResponseHead::decode(&pdu[16..]).unwrap();
            assert_eq!(head.alloc_hint, 100 - 40 * u32::try_from(index).unwrap());
            whole.extend_from_slice(part);
        }
        assert_eq!(whole, stub);
        assert_eq!(encode_response(9, 1, &[], 4280).len(), 1);
    }

    #[test]
    fn headers_that_are_refused() {
        let good = encode_request(1, 0, 15, b"");
        assert!(Header::decode(&good).is_ok());
        for (at, byte) in [(0, 4), (1, 2), (2, 1), (4, 0), (8, 15)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(Header::decode(&bad), Err(BadPdu), "{at}");
        }
        for short in 0..16 {
            assert_eq!(Header::decode(&good[..short]), Err(BadPdu));
        }
    }
}
