//! A server, or somebody on the line, that does what it should not: every time a clear error, within the timeout, and
//! memory for no more than was asked for.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use client::{Client, Error, ErrorKind, NfsVersion, Options};
use nfs_wire::nfs3::{self, Nfs3Proc};
use nfs_wire::nfs4::{CompoundReply, CompoundResults, OpNum, OpResult};
use nfs_wire::rpc::{FragmentHeader, Reply, put_success};
use nfs_wire::xdr::{Bounded, Chain, Put, Reader, to_vec};
use nfs_wire::{NfsStat3, NfsStat4};

use crate::faults::does;
use crate::line::{Fate, Line, Way};
use crate::world::World;
use crate::{in_each_version, join, options, pattern, url};

/// A record in one fragment.
fn record(message: &[u8]) -> Vec<u8> {
    let mark = FragmentHeader { last: true, len_bytes: message.len() as u32 };
    [&mark.to_bytes()[..], message].concat()
}

pub fn xid_of(record: &[u8]) -> u32 {
    u32::from_be_bytes(record[4..8].try_into().unwrap())
}

/// A reply with other results.
pub fn with_results(reply: &[u8], results: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    put_success(xid_of(reply), &mut message);
    message.extend(results);
    record(&message)
}

/// The reply says "not now"; from 4.1 on, behind its SEQUENCE.
pub fn not_now(reply: &[u8], version: NfsVersion) -> Vec<u8> {
    if version == NfsVersion::V3 {
        // What follows is of no length in a failure, or attributes that are not there.
        return with_results(reply, &to_vec(&(NfsStat3::JUKEBOX, [0u8; 8])));
    }
    let mut r = Reader::new(&reply[4..]);
    Reply::decode(&mut r).unwrap();
    let mut walk = CompoundResults::decode(&mut r).unwrap();
    let mut out = Vec::new();
    let mut results = CompoundReply::begin(b"", &mut out);
    if let Some(Ok(OpResult::Sequence(result))) = walk.next_result() {
        results.result(OpNum::Sequence, &result, &mut out);
    }
    results.result(OpNum::Putfh, &Err::<(), _>(NfsStat4::DELAY), &mut out);
    results.end(NfsStat4::DELAY, &mut out);
    with_results(reply, &out)
}

/// Changes the results of operations: in version 4 each result is given to `four`, in 3 those of `procedure` to `three`.
struct Liar {
    op: OpNum,
    procedure: Nfs3Proc,
    four: Vec<u8>,
    three: Vec<u8>,
}

impl Liar {
    fn on(self, line: &Line) {
        let asked: Rc<RefCell<Vec<u32>>> = Rc::default();
        line.meddle(move |way, record| {
            let xid = xid_of(record);
            match way {
                Way::Call if does(record, self.op, self.procedure) => asked.borrow_mut().push(xid),
                Way::Reply if asked.borrow().contains(&xid) => return Fate::Change(self.lie(record)),
                _ => {}
            }
            Fate::Pass
        });
    }

    fn lie(&self, reply: &[u8]) -> Vec<u8> {
        let mut r = Reader::new(&reply[4..]);
        Reply::decode(&mut r).unwrap();
        let mut walk = match CompoundResults::decode(&mut r.clone()) {
            Ok(walk) if reply.len() > 60 && self.is_four(&walk) => walk,
            _ => return with_results(reply, &self.three),
        };
        let mut out = Vec::new();
        let mut results = CompoundReply::begin(b"", &mut out);
        while let Some(Ok(result)) = walk.next_result() {
            if result.number() == self.op {
                results.begin_result(self.op as u32, &mut out);
                out.put_bytes(&self.four);
            } else {
                let mut bytes = to_vec(&result);
                bytes.drain(..4);
                results.begin_result(result.number() as u32, &mut out);
                out.put_bytes(&bytes);
            }
        }
        results.end(NfsStat4::OK, &mut out);
        with_results(reply, &out)
    }

    fn is_four(&self, walk: &CompoundResults<'_>) -> bool {
        let mut walk = walk.clone();
        std::iter::from_fn(|| walk.next_result()).any(|result| result.is_ok_and(|r| r.number() == self.op))
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), what).await.expect("it ends within its timeout")
}

async fn read(client: &Client) -> Result<Vec<u8>, Error> {
    let mut buf = vec![0; 50_000];
    let count = client.read_at("file", 0, &mut buf).await?;
    buf.truncate(count);
    Ok(buf)
}

#[track_caller]
fn nonsense(error: &Error, about: &str) {
    assert!(matches!(error.kind(), ErrorKind::Nonsense(_)), "{error}");
    assert!(error.to_string().contains(about), "{error}");
}

#[test]
fn lies_about_what_was_read_are_seen() {
    let long = pattern(50_004);
    let cases = [
        // what is sent, the count that is told, eof, what is said of it
        (&long[..], long.len() as u32, false, "more data than were asked for"),
        (&b""[..], 0, false, "not the end of the file"),
    ];
    for (data, count_bytes, eof, about) in cases {
        in_each_version(|version| async move {
            let line = Line::new(World::new());
            let client = join(&line, version).await;
            client.write_at("file", 0, &pattern(50_000)).await.unwrap();
            let three = nfs3::ReadOk { attributes: None, count_bytes, eof, data };
            let four = nfs_wire::nfs4::ReadOk { eof, data };
            Liar {
                op: OpNum::Read,
                procedure: Nfs3Proc::Read,
                four: to_vec(&(NfsStat4::OK, four)),
                three: to_vec(&(NfsStat3::OK, three)),
            }
            .on(&line);
            nonsense(&soon(read(&client)).await.unwrap_err(), about);
        });
    }
}

#[test]
fn lies_about_what_was_written_are_seen() {
    for (count_bytes, about) in [(101, "more than it was sent"), (0, "writes nothing"), (u32::MAX, "more than")] {
        in_each_version(|version| async move {
            let line = Line::new(World::new());
            let client = join(&line, version).await;
            let (committed, verifier) = (nfs3::StableHow::Unstable, [0; 8]);
            let three = nfs3::WriteOk { wcc: nfs3::WccData::NONE, count_bytes, committed, verifier };
            let four = nfs_wire::nfs4::WriteOk { count_bytes, committed, verifier };
            Liar {
                op: OpNum::Write,
                procedure: Nfs3Proc::Write,
                four: to_vec(&(NfsStat4::OK, four)),
                three: to_vec(&(NfsStat3::OK, three)),
            }
            .on(&line);
            nonsense(&soon(client.write_at("file", 0, &[7; 100])).await.unwrap_err(), about);
        });
    }
}

#[test]
fn a_server_that_always_loses_what_it_was_sent_is_given_up() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        let three = nfs3::CommitOk { wcc: nfs3::WccData::NONE, verifier: *b"another!" };
        Liar {
            op: OpNum::Commit,
            procedure: Nfs3Proc::Commit,
            four: to_vec(&(NfsStat4::OK, *b"another!")),
            three: to_vec(&(NfsStat3::OK, three)),
        }
        .on(&line);
        nonsense(&soon(client.write_at("file", 0, &[7; 100])).await.unwrap_err(), "loses again and again");
    });
}

/// A listing of one entry, with this name and cookie.
fn listing(name: &[u8], cookie: u64) -> Liar {
    let attributes = nfs_wire::nfs4::Fattr::NONE;
    let entries = [nfs_wire::nfs4::DirEntry { cookie, name, attributes }];
    let four = nfs_wire::nfs4::ReaddirOk { cookie_verifier: [0; 8], entries: Chain::new(&entries), eof: false };
    let fattr = nfs3::Fattr {
        file_type: nfs3::FileType::Regular,
        mode: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        size_bytes: 0,
        used_bytes: 0,
        rdev: nfs3::SpecData { major: 0, minor: 0 },
        fsid: 0,
        fileid: 5,
        atime: nfs3::Time { seconds: u32::MAX, nanoseconds: u32::MAX },
        mtime: nfs3::Time { seconds: 0, nanoseconds: 0 },
        ctime: nfs3::Time { seconds: 0, nanoseconds: 0 },
    };
    let entry = nfs3::DirEntry { fileid: 5, name, cookie };
    let entries = [nfs3::DirEntryPlus { entry, attributes: Some(fattr), handle: Some(Bounded(b"fh")) }];
    let three =
        nfs3::ReaddirPlusOk { attributes: None, cookie_verifier: [0; 8], entries: Chain::new(&entries), eof: false };
    Liar {
        op: OpNum::Readdir,
        procedure: Nfs3Proc::ReaddirPlus,
        four: to_vec(&(NfsStat4::OK, four)),
        three: to_vec(&(NfsStat3::OK, three)),
    }
}

#[test]
fn names_that_are_paths_and_listings_without_end_are_errors() {
    let cases: [(&[u8], u64, &str); 5] = [
        (b"../etc/passwd", 7, "no name"),
        (b"a/b", 7, "no name"),
        (b"", 7, "empty"),
        (b"x\0y", 7, "no name"),
        (b"honest", 0, "does not get on"),
    ];
    for (name, cookie, about) in cases {
        in_each_version(|version| async move {
            let line = Line::new(World::new());
            let client = join(&line, version).await;
            listing(name, cookie).on(&line);
            nonsense(&soon(client.list("")).await.unwrap_err(), about);
        });
    }
    // Always the same, but for a cookie that does not stay: it ends where more is held than may be.
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let options = Options { list_entries: 10, ..options() };
        let client = Client::connect_by(line.dial(), &url(version), &options).await.unwrap();
        listing(b"honest", 7).on(&line);
        let error = soon(client.list("")).await.unwrap_err();
        nonsense(&error, "does not get on");
    });
}

#[test]
fn records_in_pieces_are_put_together_and_endless_ones_are_not() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        client.write_at("file", 0, &pattern(50_000)).await.unwrap();
        line.meddle(|way, record| match way {
            Way::Call => Fate::Pass,
            Way::Reply => {
                let mut pieces = Vec::new();
                let parts: Vec<&[u8]> = record[4..].chunks(1 + record.len() / 7).collect();
                for (n, part) in parts.iter().enumerate() {
                    let mark = FragmentHeader { last: n + 1 == parts.len(), len_bytes: part.len() as u32 };
                    pieces.extend(mark.to_bytes());
                    pieces.extend(*part);
                    if n == 0 {
                        pieces.extend(FragmentHeader { last: false, len_bytes: 0 }.to_bytes());
                    }
                }
                Fate::Change(pieces)
            }
        });
        assert!(soon(read(&client)).await.unwrap() == pattern(50_000));
        for endless in [vec![0u8; 4 * 100], vec![0xff; 8], vec![0x7f, 0xff, 0xff, 0xff, 1, 2, 3]] {
            let line = Line::new(World::new());
            let client = join(&line, version).await;
            line.meddle(move |way, _| if way == Way::Reply { Fate::Change(endless.clone()) } else { Fate::Pass });
            let error = soon(client.stat("file")).await.unwrap_err();
            assert!(error.to_string().contains("broke the protocol"), "{error}");
        }
    });
}

#[test]
fn answers_nobody_asked_for_are_passed_over() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        client.write_at("file", 0, &pattern(50_000)).await.unwrap();
        line.meddle(|way, reply| match way {
            Way::Call => Fate::Pass,
            Way::Reply => {
                // Of another call, twice, and a call of the server's own.
                let mut stranger = Vec::new();
                put_success(xid_of(reply).wrapping_add(1 << 20), &mut stranger);
                let mut call = Vec::new();
                nfs_wire::rpc::Call {
                    xid: 5,
                    program: 0x4000_0000,
                    version: 1,
                    procedure: 0,
                    credential: nfs_wire::rpc::OpaqueAuth::NONE,
                    verifier: nfs_wire::rpc::OpaqueAuth::NONE,
                }
                .put(&mut call);
                Fate::Change([record(&stranger), reply.to_vec(), reply.to_vec(), record(&call)].concat())
            }
        });
        assert!(soon(read(&client)).await.unwrap() == pattern(50_000));
        client.list("").await.unwrap();
        // Only such answers are no answer.
        line.meddle(|way, reply| match way {
            Way::Call => Fate::Pass,
            Way::Reply => {
                let mut stranger = Vec::new();
                put_success(xid_of(reply).wrapping_add(1 << 20), &mut stranger);
                Fate::Change(record(&stranger))
            }
        });
        let error = soon(client.stat("file")).await.unwrap_err();
        assert!(error.to_string().contains("no answer within 30 seconds"), "{error}");
    });
}

#[test]
fn silence_ends_and_does_not_end_the_client() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        client.write_at("file", 0, &pattern(50_000)).await.unwrap();
        line.meddle(|way, _| if way == Way::Reply { Fate::Drop } else { Fate::Pass });
        let error = soon(read(&client)).await.unwrap_err();
        assert!(error.to_string().contains("no answer within 30 seconds"), "{error}");
        line.honest();
        assert!(soon(read(&client)).await.unwrap() == pattern(50_000));
    });
}

/// A small generator: the same run every time.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn whatever_bytes_come_it_ends() {
    in_each_version(|version| async move {
        for seed in 1..=60u64 {
            let line = Line::new(World::new());
            let client = join(&line, version).await;
            client.write_at("file", 0, &pattern(3_000)).await.unwrap();
            let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            line.meddle(move |way, record| {
                if way == Way::Call || chance.next().is_multiple_of(3) {
                    return Fate::Pass;
                }
                let mut bytes = record.to_vec();
                for _ in 0..1 + chance.next() % 4 {
                    let from = if chance.next().is_multiple_of(4) { 0 } else { 8 };
                    let at = from + (chance.next() as usize) % (bytes.len() - from);
                    bytes[at] = if chance.next().is_multiple_of(2) { chance.next() as u8 } else { bytes[at] ^ 1 };
                }
                if chance.next().is_multiple_of(16) {
                    bytes.truncate(chance.next() as usize % bytes.len());
                }
                Fate::Change(bytes)
            });
            let _ = soon(read(&client)).await;
            let _ = soon(client.list("")).await;
            let _ = soon(client.write_at("other", 0, &[1; 10_000])).await;
            let _ = soon(client.rename("file", "renamed", false)).await;
            let _ = soon(client.space()).await;
        }
    });
}
