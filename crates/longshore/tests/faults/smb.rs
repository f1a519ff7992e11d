//! SMB's half of a line: the client library's machine, which checks what comes as a client must, over the test's socket.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use client::smb::{Config, Connection, Request, Response, Seed, Token};
use client::{Cipher, Credentials, Dialect, NtStatus, Protection, SigningAlgorithm};
use smb_wire::smb2::{
    Command, CreateContexts, CreateOptions, CreateRequest, CreateResponse, Disposition, FileHandle, ReadRequest,
    ReadResponse, TreeConnectRequest, WriteRequest, WriteResponse,
};

use super::line::{Answer, Ask, Line, Speaker, dial, next_frame};
use super::scene::{PASSWORD, USER};

const WRITE_THROUGH: u32 = 1;
/// Reading and writing, and sharing everything.
const READ_WRITE: u32 = 0x0012_019f;
const SHARE_ALL: u32 = 7;

struct Smb {
    machine: Connection,
    tree_id: u32,
    handle: FileHandle,
    began: Instant,
    under_way: Vec<(Token, u64, bool)>,
    next: u64,
}

/// A client with `file` of `share` open.
pub fn open(to: SocketAddr, protection: Protection, share: &str, file: &str) -> Line {
    let mut stream = dial(to);
    let machine = Connection::new(config(protection), Duration::ZERO);
    let handle = FileHandle { persistent: 0, volatile: 0 };
    let mut smb = Smb { machine, tree_id: 0, handle, began: Instant::now(), under_way: Vec::new(), next: 0 };
    while smb.machine.ready().is_none() {
        smb.exchange(&mut stream);
    }
    let path = wide(&format!("\\\\longshore\\{share}"));
    let connect = |out: &mut Vec<u8>| TreeConnectRequest { flags: 0, path: &path }.put(out);
    smb.tree_id = smb.call(&mut stream, Request::new(Command::TreeConnect, 0, 0, connect)).header.tree_id;
    let name = wide(file);
    let create = CreateRequest {
        oplock_level: 0,
        impersonation: 2,
        desired_access: READ_WRITE,
        file_attributes: 0,
        share_access: SHARE_ALL,
        disposition: Disposition::Open as u32,
        options: CreateOptions::empty(),
        name: &name,
        contexts: CreateContexts::default(),
    };
    let created = smb.call(&mut stream, Request::new(Command::Create, smb.tree_id, 0, |out| create.put(&[], out)));
    smb.handle = CreateResponse::decode(created.message()).unwrap().handle;
    Line { stream, speaker: Box::new(smb) }
}

impl Smb {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn take_in(&mut self, frame: Vec<u8>) {
        self.machine.receive(frame, self.now());
        assert!(self.machine.failure().is_none(), "{:?}", self.machine.failure());
    }

    /// Sends what there is to send, and takes one frame.
    fn exchange(&mut self, stream: &mut TcpStream) {
        while let Some(outgoing) = self.machine.next_outgoing() {
            stream.write_all(&outgoing.parts().concat()).unwrap();
        }
        let frame = next_frame(stream, self, 0);
        self.take_in(frame);
    }

    fn call(&mut self, stream: &mut TcpStream, request: Request) -> Response {
        self.machine.submit(request, self.now());
        loop {
            self.exchange(stream);
            if let Some((_, done)) = self.machine.next_done() {
                let response = done.unwrap();
                assert_eq!(response.status(), NtStatus::SUCCESS, "{:?}", response.header);
                return response;
            }
        }
    }
}

impl Speaker for Smb {
    fn ask(&mut self, what: &Ask<'_>) -> (u64, Vec<u8>) {
        let handle = self.handle;
        let request = match *what {
            Ask::Read { offset: offset_bytes, len } => {
                let len_bytes = len as u32;
                let asked = ReadRequest { flags: 0, len_bytes, offset_bytes, handle, minimum_bytes: 0, channel: 0 };
                Request::new(Command::Read, self.tree_id, len_bytes, |out| asked.put(out))
            }
            Ask::Write { offset: offset_bytes, data, through } => {
                let flags = if through { WRITE_THROUGH } else { 0 };
                let asked = WriteRequest { flags, offset_bytes, handle, channel: 0, data_offset: 0, data };
                Request::new(Command::Write, self.tree_id, data.len() as u32, |out| asked.put(out))
            }
        };
        let token = self.machine.submit(request, self.now());
        let outgoing = self.machine.next_outgoing().expect("credits for all that is asked");
        assert!(self.machine.next_outgoing().is_none());
        self.next += 1;
        self.under_way.push((token, self.next, matches!(what, Ask::Read { .. })));
        (self.next, outgoing.parts().concat())
    }

    fn len_of(&self, prefix: [u8; 4]) -> usize {
        self.machine.framing(prefix).unwrap()
    }

    fn answer(&mut self, frame: Vec<u8>) -> Option<(u64, Answer)> {
        self.take_in(frame);
        let (token, done) = self.machine.next_done()?;
        let response = done.unwrap();
        let at = self.under_way.iter().position(|(asked, ..)| *asked == token).expect("an answer to what was asked");
        let (_, number, reads) = self.under_way.swap_remove(at);
        let answer = match response.status() {
            NtStatus::SUCCESS if reads => Answer::Read(ReadResponse::decode(response.message()).unwrap().data.to_vec()),
            NtStatus::SUCCESS => {
                Answer::Written(WriteResponse::decode(response.message()).unwrap().count_bytes as usize)
            }
            NtStatus::END_OF_FILE if reads => Answer::Read(Vec::new()),
            NtStatus::DISK_FULL => Answer::Full,
            other => Answer::Failed(format!("{other:?}")),
        };
        Some((number, answer))
    }
}

fn config(protection: Protection) -> Config {
    Config {
        server_name: "longshore".into(),
        credentials: Credentials::password(USER, PASSWORD),
        protection,
        min_dialect: Dialect::V2_0_2,
        max_dialect: Dialect::V3_1_1,
        ciphers: vec![Cipher::Aes128Gcm],
        signing: vec![SigningAlgorithm::AesGmac],
        max_transfer_bytes: 1 << 20,
        credits: 512,
        timeout: Duration::from_secs(60),
        previous_session_id: 0,
        multi_channel: false,
        seed: Seed { client_guid: [1; 16], salt: [2; 32], client_challenge: [3; 8], session_key: [4; 16], now: 5 },
    }
}

fn wide(text: &str) -> Vec<u8> {
    smb_wire::name::utf16le(text)
}
