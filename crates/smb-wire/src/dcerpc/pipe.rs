//! The server's side of a named pipe: what a client writes goes in, what it may read comes out. Pure; the SMB server
//! holds one [`RpcPipe`] for each open of a pipe and feeds it from WRITE, READ and FSCTL_PIPE_TRANSCEIVE. It holds at
//! most one call's bytes and its answer's.

use super::ndr::NdrError;
use super::pdu::{self, BadPdu, Bind, BindAck, BindResult, HEADER_LEN, Header, PduType, RequestHead, Syntax, flags};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a pipe speaks.
pub trait Interface: Send + Sync {
    /// Which interface it is.
    fn syntax(&self) -> Syntax;

    /// Runs a procedure: stub in, stub out.
    fn call(&self, opnum: u16, stub: &[u8]) -> Result<Vec<u8>, Fault>;
}

/// Why a call has no answer, as the status of a fault PDU (C706 appendix E, MS-RPCE 2.2.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault(pub u32);

impl Fault {
    /// nca_s_op_rng_error: no such procedure.
    pub const OP_RANGE: Self = Self(0x1c01_0002);
    /// nca_s_unk_if: no such context.
    pub const UNKNOWN_INTERFACE: Self = Self(0x1c01_0003);
    /// nca_s_fault_invalid_tag: a union of no known arm, such as an unknown level.
    pub const INVALID_TAG: Self = Self(0x1c00_0006);
    /// RPC_X_BAD_STUB_DATA.
    pub const BAD_STUB: Self = Self(0x0000_06f7);
}

impl From<NdrError> for Fault {
    fn from(_: NdrError) -> Self {
        Self::BAD_STUB
    }
}

/// Why a pipe is broken. The open then only fails: STATUS_PIPE_DISCONNECTED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipeError {
    /// Bytes that are no PDU, or one out of order.
    Protocol,
    /// More than a call may be, or more calls than answers were read.
    TooMuch,
}

impl From<BadPdu> for PipeError {
    fn from(_: BadPdu) -> Self {
        Self::Protocol
    }
}

/// What a READ gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipeRead {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether the message has more of them: STATUS_BUFFER_OVERFLOW.
    pub more: bool,
}

/// Fragments: what Windows and Samba use on pipes.
const MAX_FRAG: u16 = 4280;
/// Fragments have to hold a head and something; C706 has 1432 as the least, and nobody needs to be held to it.
const MIN_FRAG: u16 = 128;
/// The longest stub taken, all fragments together: the calls here have some strings for arguments.
const MAX_REQUEST: usize = 64 * 1024;
/// Answers kept until they are read; a client that writes on without reading is broken off.
const MAX_UNREAD: usize = 4 * 1024 * 1024;
/// Contexts kept for a pipe.
const MAX_CONTEXTS: usize = 16;

/// One open of a pipe.
pub struct RpcPipe {
    interface: Arc<dyn Interface>,
    /// The pipe's name as a bind ack has it.
    address: String,
    max_frag: u16,
    bound: bool,
    /// Contexts that were accepted.
    contexts: Vec<u16>,
    /// The beginning of a PDU.
    input: Vec<u8>,
    /// The beginning of a call.
    call: Option<Call>,
    output: VecDeque<Vec<u8>>,
    /// Bytes of the first message that were read already.
    read: usize,
    unread: usize,
    broken: Option<PipeError>,
}

struct Call {
    call_id: u32,
    head: RequestHead,
    stub: Vec<u8>,
}

impl RpcPipe {
    /// An open of the pipe `name`, such as `srvsvc`.
    pub fn new(name: &str, interface: Arc<dyn Interface>) -> Self {
        Self {
            interface,
            address: format!("\\PIPE\\{name}"),
            max_frag: MAX_FRAG,
            bound: false,
            contexts: Vec::new(),
            input: Vec::new(),
            call: None,
            output: VecDeque::new(),
            read: 0,
            unread: 0,
            broken: None,
        }
    }

    /// Takes bytes a client wrote: a part of a PDU, one, or several.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PipeError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let taken = self.take_all(bytes);
        self.broken = taken.err();
        taken
    }

    /// Takes at most `max` bytes of the next message; `None` when there is none yet (STATUS_PIPE_EMPTY, or wait).
    pub fn read(&mut self, max: usize) -> Option<PipeRead> {
        let message = self.output.front()?;
        let left = message.get(self.read..).unwrap_or_default();
        let bytes = left.get(..max).unwrap_or(left).to_vec();
        let more = bytes.len() < left.len();
        self.unread = self.unread.saturating_sub(bytes.len());
        self.read += bytes.len();
        if !more {
            self.output.pop_front();
            self.read = 0;
        }
        Some(PipeRead { bytes, more })
    }

    /// Bytes waiting to be read: all of them, and those of the first message.
    pub fn available(&self) -> (usize, usize) {
        (self.unread, self.output.front().map_or(0, |message| message.len().saturating_sub(self.read)))
    }

    /// At most `max` bytes of the next message, which stay there.
    pub fn peek(&self, max: usize) -> &[u8] {
        let left = self.output.front().and_then(|message| message.get(self.read..)).unwrap_or_default();
        left.get(..max).unwrap_or(left)
    }

    fn take_all(&mut self, mut bytes: &[u8]) -> Result<(), PipeError> {
        while !bytes.is_empty() {
            let wanted = self.missing()?.min(bytes.len());
            let (now, later) = bytes.split_at_checked(wanted).ok_or(PipeError::Protocol)?;
            self.input.extend_from_slice(now);
            bytes = later;
            if self.missing()? == 0 {
                let pdu = std::mem::take(&mut self.input);
                self.take_pdu(&pdu)?;
            }
        }
        Ok(())
    }

    /// How many bytes the PDU at hand still lacks, as far as can be told yet.
    fn missing(&self) -> Result<usize, PipeError> {
        if self.input.len() < HEADER_LEN {
            return Ok(HEADER_LEN - self.input.len());
        }
        let len = usize::from(Header::decode(&self.input)?.frag_len);
        Ok(len.saturating_sub(self.input.len()))
    }

    fn take_pdu(&mut self, pdu: &[u8]) -> Result<(), PipeError> {
        let header = Header::decode(pdu)?;
        let body = pdu.get(HEADER_LEN..).unwrap_or_default();
        match header.kind {
            PduType::Bind if !self.bound => self.bind(&header, body, PduType::BindAck),
            PduType::AlterContext if self.bound => self.bind(&header, body, PduType::AlterContextResp),
            PduType::Request if self.bound => self.request(&header, body),
            // Calls are over before a cancel could arrive.
            PduType::Cancel | PduType::Orphaned => Ok(()),
            _ => Err(PipeError::Protocol),
        }
    }

    fn bind(&mut self, header: &Header, body: &[u8], answer: PduType) -> Result<(), PipeError> {
        if header.auth_len != 0 {
            const AUTH_TYPE_NOT_RECOGNIZED: u16 = 8;
            return self.send(pdu::encode_bind_nak(header.call_id, AUTH_TYPE_NOT_RECOGNIZED));
        }
        let bind = Bind::decode(body)?;
        let first = answer == PduType::BindAck;
        if first {
            self.max_frag = bind.max_recv_frag.clamp(MIN_FRAG, MAX_FRAG);
            self.bound = true;
        }
        let results = bind.contexts.iter().map(|context| self.judge(context)).collect();
        let ack = BindAck {
            max_xmit_frag: self.max_frag,
            max_recv_frag: MAX_FRAG,
            assoc_group: if bind.assoc_group == 0 { 0x53f0 } else { bind.assoc_group },
            address: if first { self.address.clone() } else { String::new() },
            results,
        };
        self.send(pdu::encode_bind_ack(answer, header.call_id, &ack))
    }

    fn judge(&mut self, context: &pdu::Context) -> BindResult {
        if context.transfers.first().is_some_and(Syntax::is_feature_negotiation) {
            return BindResult::Features(0);
        }
        if !serves(self.interface.syntax(), context.interface) {
            return BindResult::NoInterface;
        }
        if !context.transfers.contains(&Syntax::NDR) || self.contexts.len() >= MAX_CONTEXTS {
            return BindResult::NoTransfer;
        }
        self.contexts.push(context.id);
        BindResult::Accepted
    }

    fn request(&mut self, header: &Header, body: &[u8]) -> Result<(), PipeError> {
        let (head, part) = RequestHead::decode(header, body)?;
        if header.auth_len != 0 {
            return Err(PipeError::Protocol);
        }
        let mut call = match (header.flags & flags::FIRST != 0, self.call.take()) {
            (true, None) => Call { call_id: header.call_id, head, stub: Vec::new() },
            (false, Some(call)) if call.call_id == header.call_id => call,
            _ => return Err(PipeError::Protocol),
        };
        if call.stub.len() + part.len() > MAX_REQUEST {
            return Err(PipeError::TooMuch);
        }
        call.stub.extend_from_slice(part);
        match header.flags & flags::LAST != 0 {
            true => self.run(&call),
            false => {
                self.call = Some(call);
                Ok(())
            }
        }
    }

    fn run(&mut self, call: &Call) -> Result<(), PipeError> {
        let answer = match self.contexts.contains(&call.head.context_id) {
            true => self.interface.call(call.head.opnum, &call.stub),
            false => Err(Fault::UNKNOWN_INTERFACE),
        };
        match answer {
            Ok(stub) => pdu::encode_response(call.call_id, call.head.context_id, &stub, self.max_frag)
                .into_iter()
                .try_for_each(|fragment| self.send(fragment)),
            Err(Fault(status)) => self.send(pdu::encode_fault(call.call_id, call.head.context_id, status)),
        }
    }

    fn send(&mut self, message: Vec<u8>) -> Result<(), PipeError> {
        self.unread += message.len();
        if self.unread > MAX_UNREAD {
            return Err(PipeError::TooMuch);
        }
        self.output.push_back(message);
        Ok(())
    }
}

impl std::fmt::Debug for RpcPipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RpcPipe").field("address", &self.address).field("unread", &self.unread).finish_non_exhaustive()
    }
}

/// Same interface, same major version, and a minor one that is there.
fn serves(have: Syntax, want: Syntax) -> bool {
    have.uuid == want.uuid && have.version & 0xffff == want.version & 0xffff && have.version >> 16 >= want.version >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dcerpc::pdu::{Context, ResponseHead, encode_bind, encode_request};

    struct Echo;

    impl Interface for Echo {
        fn syntax(&self) -> Syntax {
            Syntax::new(1, 2, 3, [4; 8], 1)
        }

        fn call(&self, opnum: u16, stub: &[u8]) -> Result<Vec<u8>, Fault> {
            match opnum {
                0 => Ok(stub.to_vec()),
                1 => Ok(vec![7; 10_000]),
                _ => Err(Fault::OP_RANGE),
            }
        }
    }

    fn bind(contexts: Vec<Context>) -> Vec<u8> {
        encode_bind(1, &Bind { max_xmit_frag: 5840, max_recv_frag: 5840, assoc_group: 0, contexts })
    }

    fn context(id: u16, interface: Syntax, transfer: Syntax) -> Context {
        Context { id, interface, transfers: vec![transfer] }
    }

    fn bound() -> RpcPipe {
        let mut pipe = RpcPipe::new("echo", Arc::new(Echo));
        pipe.write(&bind(vec![context(0, Echo.syntax(), Syntax::NDR)])).unwrap();
        pipe.read(usize::MAX).unwrap();
        pipe
    }

    fn answer(pipe: &mut RpcPipe) -> (Header, Vec<u8>) {
        let bytes = pipe.read(usize::MAX).unwrap().bytes;
        let header = Header::decode(&bytes).unwrap();
        (header, bytes[HEADER_LEN..].to_vec())
    }

    #[test]
    fn contexts_are_judged_one_by_one() {
        let mut pipe = RpcPipe::new("echo", Arc::new(Echo));
        let ndr64 = Syntax::new(0x7171_0533, 0xbeba, 0x4937, [0x83, 0x19, 0xb5, 0xdb, 0xef, 0x9c, 0xcc, 0x36], 1);
        let features = Syntax::new(0x6cb7_1c2c, 0x9812, 0x4540, [3, 0, 0, 0, 0, 0, 0, 0], 1);
        let other = Syntax { version: 2, ..Echo.syntax() };
        pipe.write(&bind(vec![
            context(0, Echo.syntax(), Syntax::NDR),
            context(1, Echo.syntax(), ndr64),
            context(2, Echo.syntax(), features),
            context(3, other, Syntax::NDR),
        ]))
        .unwrap();
        let (header, body) = answer(&mut pipe);
        let ack = BindAck::decode(&body).unwrap();
        assert_eq!(header.kind, PduType::BindAck);
        assert_eq!((ack.address.as_str(), ack.max_xmit_frag), ("\\PIPE\\echo", 4280));
        let want = [BindResult::Accepted, BindResult::NoTransfer, BindResult::Features(0), BindResult::NoInterface];
        assert_eq!(ack.results, want);
        assert_eq!(pipe.write(&bind(vec![])), Err(PipeError::Protocol));
        assert_eq!(pipe.write(&encode_request(2, 0, 0, b"x")), Err(PipeError::Protocol));
    }

    #[test]
    fn a_call_may_come_a_byte_at_a_time_or_with_others() {
        let mut pipe = bound();
        for byte in encode_request(2, 0, 0, b"hello") {
            assert_eq!(pipe.read(1), None);
            pipe.write(&[byte]).unwrap();
        }
        let (header, body) = answer(&mut pipe);
        assert_eq!((header.kind, header.call_id), (PduType::Response, 2));
        assert_eq!(ResponseHead::decode(&body).unwrap().1, b"hello");

        pipe.write(&[encode_request(3, 0, 0, b"a"), encode_request(4, 0, 0, b"b")].concat()).unwrap();
        assert_eq!((answer(&mut pipe).0.call_id, answer(&mut pipe).0.call_id), (3, 4));
    }

    #[test]
    fn a_call_in_fragments_is_put_together() {
        let mut pipe = bound();
        let mut first = encode_request(2, 0, 0, b"hel");
        let mut last = encode_request(2, 0, 0, b"lo");
        (first[3], last[3]) = (flags::FIRST, flags::LAST);
        pipe.write(&first).unwrap();
        assert_eq!(pipe.available(), (0, 0));
        pipe.write(&last).unwrap();
        assert_eq!(ResponseHead::decode(&answer(&mut pipe).1).unwrap().1, b"hello");
        assert_eq!(pipe.write(&last), Err(PipeError::Protocol));
    }

    #[test]
    fn a_long_answer_is_read_a_fragment_at_a_time() {
        let mut pipe = bound();
        pipe.write(&encode_request(2, 0, 1, b"")).unwrap();
        let start = pipe.read(1024).unwrap();
        assert!(start.more && start.bytes.len() == 1024);
        assert_eq!(pipe.available(), (10_000 + 3 * 24 - 1024, 4280 - 1024));
        let rest = pipe.read(usize::MAX).unwrap();
        assert!(!rest.more && rest.bytes.len() == 4280 - 1024);
        assert_eq!(answer(&mut pipe).0.flags, 0);
        assert_eq!(answer(&mut pipe).0.flags, flags::LAST);
        assert_eq!(pipe.read(1), None);
    }

    #[test]
    fn calls_that_fault() {
        let mut pipe = bound();
        pipe.write(&encode_request(2, 0, 9, b"")).unwrap();
        let (header, body) = answer(&mut pipe);
        assert_eq!((header.kind, &body[8..12]), (PduType::Fault, &0x1c01_0002u32.to_le_bytes()[..]));
        pipe.write(&encode_request(3, 5, 0, b"")).unwrap();
        assert_eq!(answer(&mut pipe).1[8..12], 0x1c01_0003u32.to_le_bytes());
    }

    #[test]
    fn what_a_pipe_holds_is_bounded() {
        let mut pipe = bound();
        let mut part = encode_request(2, 0, 0, &[0; 30_000]);
        part[3] = flags::FIRST;
        pipe.write(&part).unwrap();
        part[3] = 0;
        pipe.write(&part).unwrap();
        assert_eq!(pipe.write(&part), Err(PipeError::TooMuch));

        let mut pipe = bound();
        let call = encode_request(2, 0, 1, b"");
        assert!((0..1000).any(|_| pipe.write(&call) == Err(PipeError::TooMuch)));
    }

    #[test]
    fn junk_breaks_the_pipe_and_never_panics() {
        let whole = [bind(vec![context(0, Echo.syntax(), Syntax::NDR)]), encode_request(2, 0, 0, b"hello")].concat();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                let mut pipe = RpcPipe::new("echo", Arc::new(Echo));
                let _ = pipe.write(&bytes);
                while pipe.read(7).is_some() {}
            }
        }
        let mut pipe = RpcPipe::new("echo", Arc::new(Echo));
        assert_eq!(pipe.write(b"GET / HTTP/1.1\r\n"), Err(PipeError::Protocol));
        assert_eq!(pipe.write(&whole), Err(PipeError::Protocol));
    }
}
