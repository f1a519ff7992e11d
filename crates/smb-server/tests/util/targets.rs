//! What is fuzzed: each decoder that sees a peer's bytes, and the whole connection. A target takes any bytes and must
//! neither panic nor take more memory than they are worth; what decodes must survive being encoded and decoded again.
//! Run by `fuzz_short` on stable Rust and by cargo-fuzz.

use std::sync::Arc;

use auth::{Acceptor, AcceptorConfig};
use smb_wire::crypto::{Cipher, SealingKey, TransformHeader};
use smb_wire::dcerpc::{RpcPipe, ServerInfo, Share, Srvsvc, Wkssvc, share_enum_response};
use smb_wire::fscc::{self, DirInfoClass, FileInfoClass, Pattern, RenameInfo, dir_entries};
use smb_wire::name;
use smb_wire::ntlmssp::{Authenticate, AvId, AvPairs, Challenge, Negotiate, NtlmV2Response};
use smb_wire::smb2::{self, Command, Header, RawContext};
use smb_wire::spnego::Token;
use vfs::dosattrib::DosAttrib;

use super::world::{OTHER, OTHER_PASSWORD};
use super::{Message, Profile, Siege, World, wide};

/// A target: its name, what it does with bytes, and bytes to begin with.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// How many inputs of the others one of these is worth.
    pub cost: usize,
}

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, seeds, cost: 1 }
}

/// All of them.
pub const TARGETS: &[Target] = &[
    target("header", header, requests),
    target("requests", every_request, requests),
    target("negotiate", negotiate, requests),
    target("create", create, requests),
    target("spnego", spnego, tokens),
    target("ntlmssp", ntlmssp, tokens),
    target("acceptor", acceptor, tokens),
    target("dcerpc", dcerpc, calls),
    target("names", names, texts),
    target("pattern", pattern, texts),
    target("dosattrib", dosattrib, dos_attribs),
    target("transform", transform, requests),
    target("fscc", information, calls),
    Target { name: "stranger", run: stranger, seeds: frames, cost: 20 },
    Target { name: "member", run: member, seeds: scripts, cost: 400 },
];

/// The header; what it says is what it says again.
pub fn header(data: &[u8]) {
    let Ok(header) = Header::decode(data) else { return };
    let mut bytes = Vec::new();
    header.put(&mut bytes);
    assert_eq!(Header::decode(&bytes), Ok(header));
    smb2::ProtocolId::of(data);
}

/// Decodes `$type`, encodes and decodes again.
macro_rules! again {
    ($data:expr, $($type:ty),*) => {$(
        if let Ok(first) = <$type>::decode($data) {
            let mut bytes = vec![0; smb2::HEADER_BYTES];
            first.put(&mut bytes);
            let second = <$type>::decode(&bytes).expect("what was encoded decodes");
            assert_eq!(format!("{first:?}"), format!("{second:?}"));
        }
    )*};
}

/// Each request decoder of SMB2.
pub fn every_request(data: &[u8]) {
    again!(data, smb2::SessionSetupRequest, smb2::CloseRequest, smb2::FlushRequest, smb2::ReadRequest);
    again!(data, smb2::LockRequest, smb2::IoctlRequest, smb2::QueryDirectoryRequest, smb2::QueryInfoRequest);
    again!(data, smb2::SetInfoRequest, smb2::ChangeNotifyRequest);
    let _ = smb2::TreeConnectRequest::decode(data);
    let _ = smb2::WriteRequest::decode(data);
    let _ = smb2::OplockBreak::decode(data);
    let _ = smb2::ValidateNegotiate::decode_request(data);
    let _ = smb2::ErrorResponse::decode(data);
    let _ = smb2::ReadResponse::decode(data);
    let _ = smb2::CreateResponse::decode(data);
    let _ = smb2::CloseResponse::decode(data);
    let _ = smb2::SessionSetupResponse::decode(data);
    let _ = smb2::TreeConnectResponse::decode(data);
    let _ = smb2::IoctlResponse::decode(data);
    let _ = smb2::read_output_buffer(data);
}

/// NEGOTIATE with its contexts, and SMB1's.
pub fn negotiate(data: &[u8]) {
    again!(data, smb2::NegotiateRequest);
    let _ = smb2::NegotiateResponse::decode(data);
    if smb2::is_smb1_negotiate(data) {
        let _ = smb2::smb1_negotiate_dialects(data);
    }
}

/// CREATE with its contexts.
pub fn create(data: &[u8]) {
    let Ok(first) = smb2::CreateRequest::decode(data) else { return };
    let contexts: Vec<RawContext<'_>> = first.contexts.iter().collect();
    let mut bytes = vec![0; smb2::HEADER_BYTES];
    first.put(&contexts, &mut bytes);
    let second = smb2::CreateRequest::decode(&bytes).expect("what was encoded decodes");
    assert_eq!(second.contexts.iter().collect::<Vec<_>>(), contexts);
    assert_eq!(second.name, first.name);
}

/// SPNEGO tokens.
pub fn spnego(data: &[u8]) {
    match Token::decode(data) {
        Ok(Token::Init(init)) => {
            Token::decode(&init.encode()).expect("what was encoded decodes");
        }
        Ok(Token::Resp(resp)) => {
            Token::decode(&resp.encode()).expect("what was encoded decodes");
        }
        Err(_) => {}
    }
}

/// NTLMSSP messages.
pub fn ntlmssp(data: &[u8]) {
    let _ = smb_wire::ntlmssp::message_type(data);
    let _ = Negotiate::decode(data).map(|m| m.encode());
    let _ = Challenge::decode(data).map(|m| m.encode());
    let _ = Authenticate::decode(data).map(|m| m.encode());
    if let Ok(response) = NtlmV2Response::decode(data) {
        let _ = response.av_pairs().find(AvId::TIMESTAMP);
    }
    let _ = AvPairs::new(data).find(AvId::TARGET_NAME);
}

/// A login's tokens, one after the other, each behind its length.
pub fn acceptor(data: &[u8]) {
    let users = auth::UserDb::default();
    let mut acceptor = Acceptor::new(&AcceptorConfig::default(), [1; 8], 0);
    for token in split(data) {
        if acceptor.step(token, &users).is_err() {
            return;
        }
    }
}

/// What a client writes to a pipe, in pieces.
pub fn dcerpc(data: &[u8]) {
    let info = Arc::new(ServerInfo {
        name: "LONGSHORE".into(),
        domain: "WORKGROUP".into(),
        comment: "fuzzed".into(),
        version: (6, 1),
        shares: vec![Share { name: "data".into(), kind: 0, comment: String::new(), path: String::new(), flags: 0 }],
    });
    let mut pipes = [
        RpcPipe::new("srvsvc", Arc::new(Srvsvc::new(Arc::clone(&info)))),
        RpcPipe::new("wkssvc", Arc::new(Wkssvc::new(info))),
    ];
    for pipe in &mut pipes {
        for piece in split(data) {
            if pipe.write(piece).is_err() {
                break;
            }
            while pipe.read(1000).is_some_and(|read| !read.bytes.is_empty()) {}
        }
    }
    let _ = share_enum_response(data);
}

/// Paths and names; a component that is taken comes back as it was.
pub fn names(data: &[u8]) {
    for parsed in [name::parse_path(data), name::parse_target(data)].into_iter().flatten() {
        let path = vfs::Path::new(&parsed.path);
        assert!(
            path.is_ok() || parsed.path.split(|b| *b == b'/').any(|c| c.len() > 255),
            "a path nobody can use: {:?}",
            parsed.path
        );
    }
    let _ = name::parse_stream(data);
    if let Ok(local) = name::component_to_local(data) {
        assert!(!local.contains(&b'/') && !local.contains(&0) && local != b".." && local != b".");
        let mut wire = Vec::new();
        name::local_to_wire(&local, &mut wire);
        assert_eq!(name::component_to_local(&wire).as_deref(), Ok(&local[..]), "one file has one name");
    }
    let mut wire = Vec::new();
    name::local_to_wire(data, &mut wire);
}

/// A pattern, matched against itself and what follows it.
pub fn pattern(data: &[u8]) {
    let (pattern, rest) = data.split_at(data.len() / 4 * 2);
    let Ok(parsed) = Pattern::new(pattern) else { return };
    let matches = parsed.matches(rest);
    assert!(!parsed.matches_all() || matches || rest.is_empty());
    let itself = parsed.matches(pattern);
    assert!(itself || !parsed.is_literal(), "a name matches itself");
}

/// `user.DOSATTRIB`.
pub fn dosattrib(data: &[u8]) {
    if let Ok(first) = DosAttrib::decode(data) {
        assert_eq!(DosAttrib::decode(&first.encode()), Ok(first));
    }
}

/// Encrypted frames.
pub fn transform(data: &[u8]) {
    let _ = TransformHeader::parse(data);
    for cipher in [Cipher::Aes128Gcm, Cipher::Aes256Ccm] {
        let key = SealingKey::new(cipher, &[5; 32][..cipher.key_len()]).unwrap();
        assert!(key.open(&mut data.to_vec()).is_err(), "nobody sealed that");
    }
}

/// MS-FSCC structures a client sends, and those it gets.
pub fn information(data: &[u8]) {
    let _ = fscc::BasicInfo::decode(data);
    let _ = fscc::EndOfFileInfo::decode(data);
    let _ = fscc::DispositionExInfo::decode(data);
    let _ = RenameInfo::decode(data);
    let _ = RenameInfo::decode_ex(data);
    fscc::ea_entries(data).for_each(drop);
    fscc::get_ea_names(data).for_each(drop);
    fscc::stream_entries(data).for_each(drop);
    let _ = fscc::AllInfo::decode(data);
    let _ = fscc::VolumeFsInfo::decode(data);
    for class in [1, 2, 3, 12, 37, 38, 60, 63].iter().filter_map(|n| DirInfoClass::from_u8(*n)) {
        dir_entries(class, data).for_each(drop);
    }
    let _ = data.first().map(|class| FileInfoClass(*class).set_min_len());
}

/// A connection nobody has logged in on: frames as they come.
pub fn stranger(data: &[u8]) {
    let world = World::new();
    let mut client = world.client(Profile::default());
    for frame in split(data) {
        client.feed(frame);
        client.discard();
        assert!(world.pool.stats().used_bytes < 1 << 20);
    }
    client.hang_up();
    world.assert_nothing_left();
}

/// A connection somebody has logged in on. The bytes are a script: which requests make a frame, and what is changed in
/// it; ids are kept right, so that what is inside is looked at.
pub fn member(data: &[u8]) {
    let mut siege = Siege::new();
    for step in data.chunks(8) {
        let requests = siege.valid_requests();
        let byte = |at: usize| usize::from(step.get(at).copied().unwrap_or(0));
        let mut chosen = vec![requests[byte(0) % requests.len()].clone()];
        if byte(1) & 1 != 0 {
            let next = requests[byte(2) % requests.len()].clone();
            chosen.push(if byte(1) & 2 != 0 { next.related() } else { next });
        }
        siege.client.sign = byte(1) & 4 != 0;
        let (mut frame, _) = siege.client.encode(&chosen);
        if byte(1) & 8 != 0 {
            frame = siege.client.seal_frame(&frame);
        }
        let at = byte(3) | byte(4) << 8;
        let len = frame.len();
        if byte(1) & 16 != 0 {
            frame[at % len] = byte(5) as u8;
        }
        if byte(1) & 32 != 0
            && let Some(field) = frame.get_mut(at % len..at % len + 2)
        {
            field.copy_from_slice(&[byte(5) as u8, byte(6) as u8]);
        }
        if byte(1) & 64 != 0 {
            frame.truncate(len - 1 - byte(7) % len);
        }
        siege.attack(&frame);
    }
    siege.lift();
}

/// Pieces, each behind its length in two bytes.
fn split(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = data.split_first_chunk::<2>()?;
        let (piece, rest) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
        data = rest;
        Some(piece)
    })
}

fn pieces(all: &[Vec<u8>]) -> Vec<u8> {
    all.iter().flat_map(|piece| [&(piece.len() as u16).to_le_bytes(), &piece[..]].concat()).collect()
}

/// Whole requests of every kind.
fn requests() -> Vec<Vec<u8>> {
    let mut siege = Siege::new();
    let all = siege.valid_requests();
    let mut frames: Vec<_> = all.iter().map(|m| siege.client.encode(std::slice::from_ref(m)).0).collect();
    let (echo, _) = siege.client.encode(&all[1..3]);
    frames.push(siege.client.seal_frame(&echo));
    frames.push(b"\xffSMB\x72\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0c\0\x02SMB 2.???\0".to_vec());
    frames
}

/// The tokens of a login, and they behind their lengths.
fn tokens() -> Vec<Vec<u8>> {
    let world = World::new();
    let mut all = Vec::new();
    for spnego in [true, false] {
        let mut client = world.client(Profile { spnego, ..Profile::user(OTHER, OTHER_PASSWORD) });
        all.push(client.first_token());
    }
    let bare = b"NTLMSSP\0\x03\0\0\0".iter().copied().chain([0; 120]).collect();
    all.push(bare);
    let mut seeds = all.clone();
    seeds.push(pieces(&all));
    seeds.push(pieces(&all[1..]));
    seeds
}

/// Calls of a pipe, and other structures.
fn calls() -> Vec<Vec<u8>> {
    use smb_wire::dcerpc::{Bind, Context, SHARE_ENUM, Syntax, encode_bind, encode_request, share_enum_request};
    let context = Context { id: 0, interface: Srvsvc::SYNTAX, transfers: vec![Syntax::NDR] };
    let bind =
        encode_bind(1, &Bind { max_xmit_frag: 4280, max_recv_frag: 4280, assoc_group: 0, contexts: vec![context] });
    let call = encode_request(2, 0, SHARE_ENUM, &share_enum_request("\\\\server"));
    let rename = super::ops::rename_info("dir\\file", true);
    vec![pieces(&[bind.clone(), call.clone()]), bind, call, rename, vec![0; 128]]
}

fn texts() -> Vec<Vec<u8>> {
    let texts = ["a\\b\\c.txt", "name:stream:$DATA", "*.t?t", "<.txt>\"", "\u{f001}\u{f022}", "..\\..", "ÄÖ\u{10348}"];
    texts.iter().map(|text| wide(text)).collect()
}

fn dos_attribs() -> Vec<Vec<u8>> {
    let value = DosAttrib { attributes: Some(0x22), create_time: Some(0x01d0_baae_cdf5_a1a1) };
    vec![value.encode(), b"0x22\0".to_vec()]
}

/// Frames a stranger sends.
fn frames() -> Vec<Vec<u8>> {
    let world = World::new();
    let mut client = world.client(Profile::default());
    let request = client.negotiate_request();
    let (negotiate, _) = client.encode(&[Message::of(Command::Negotiate, |out| request.put(out))]);
    client.credits = 8;
    let token = client.first_token();
    let setup = client.setup_message(&token);
    let (setup, _) = client.encode(&[setup]);
    let (echo, _) = client.encode(&[super::ops::echo_message()]);
    vec![pieces(&[negotiate.clone(), setup, echo.clone()]), pieces(&[negotiate, echo])]
}

/// Scripts of [`member`].
fn scripts() -> Vec<Vec<u8>> {
    vec![(0..27).flat_map(|i| [i, 0, 0, 0, 0, 0, 0, 0]).collect(), (0..64).collect(), vec![0x55; 48]]
}
