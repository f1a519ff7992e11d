//! A server, or somebody on the line, that does what it should not: every time a clear error, within the timeout.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use client::{Client, Credentials, Error, ErrorKind, Failure, Options, Protection};
use smb_wire::smb2::{Command, FileHandle, Flags, Header, LeaseBreak, LeaseFlags, OplockBreak, put_read_response};

use crate::util::world::{PASSWORD, USER};
use crate::util::{Rng, World};
use crate::wire::{Meddle, join_stranger, soon, try_join};
use crate::{pattern, story};

/// Changes the replies to `command` from the `from`th on.
fn on(command: Command, mut change: impl FnMut(Vec<u8>) -> Option<Vec<u8>> + 'static) -> Meddle {
    Box::new(move |frame| match Header::decode(&frame[4..]) {
        Ok(header) if header.command == command as u16 => change(frame),
        _ => Some(frame),
    })
}

/// The same, where the header is all that changes.
fn header(command: Command, mut change: impl FnMut(&mut Header) + 'static) -> Meddle {
    on(command, move |mut frame| {
        let mut header = Header::decode(&frame[4..]).unwrap();
        change(&mut header);
        let mut bytes = Vec::new();
        header.put(&mut bytes);
        frame[4..68].copy_from_slice(&bytes);
        Some(frame)
    })
}

fn patch(command: Command, at: usize, bytes: &'static [u8]) -> Meddle {
    on(command, move |mut frame| {
        frame[4 + at..4 + at + bytes.len()].copy_from_slice(bytes);
        Some(frame)
    })
}

async fn joined(options: &Options, meddle: Meddle) -> Result<Client, Error> {
    let world = World::new();
    world.put("file", &pattern(200_000));
    soon(try_join(&world, options, Credentials::password(USER, PASSWORD), meddle)).await
}

/// The error of reading a file whose replies are meddled with.
fn reading(options: Options, meddle: Meddle) -> Error {
    let error = Rc::new(Cell::new(None));
    let told = Rc::clone(&error);
    story(async move {
        let client = joined(&options, meddle).await.unwrap();
        told.set(soon(read(&client)).await.err());
        if let Some(again) = soon(read(&client)).await.err() {
            assert!(!again.to_string().is_empty());
        }
    });
    Rc::into_inner(error).unwrap().into_inner().expect("an error")
}

async fn read(client: &Client) -> Result<(), Error> {
    let mut buf = vec![0; 200_000];
    client.read_at("file", 0, &mut buf).await.map(drop)
}

fn failure(error: &Error) -> &Failure {
    match error.kind() {
        ErrorKind::Connection(failure) => failure,
        kind => panic!("{kind:?}"),
    }
}

#[test]
fn a_closed_line_is_said() {
    for command in [Command::Negotiate, Command::SessionSetup, Command::TreeConnect] {
        story(async move {
            let error = joined(&Options::default(), on(command, |_| None)).await.unwrap_err();
            assert_eq!(failure(&error), &Failure::Closed, "{command:?}");
        });
    }
    for command in [Command::Create, Command::Read, Command::Close] {
        let error = reading(Options::default(), on(command, |_| None));
        assert_eq!(failure(&error), &Failure::Closed, "{command:?}");
    }
}

#[test]
fn a_reply_cut_anywhere_is_no_reply() {
    for keep in [0, 1, 4, 5, 67, 68, 80, 1000] {
        let meddle = on(Command::Read, move |mut frame| {
            frame.truncate(keep);
            Some(frame)
        });
        let error = reading(Options { timeout: Duration::from_secs(7), ..Options::default() }, meddle);
        assert_eq!(failure(&error), &Failure::Timeout(Duration::from_secs(7)), "{keep}");
    }
}

#[test]
fn a_server_that_drips_is_not_waited_for() {
    let meddle = on(Command::Read, |frame| Some(frame[..frame.len() - 1].to_vec()));
    let error = reading(Options::default(), meddle);
    assert_eq!(failure(&error), &Failure::Timeout(Duration::from_secs(30)));
    assert!(error.to_string().starts_with("read file: no answer within 30 seconds"), "{error}");
}

#[test]
fn silence_ends() {
    for command in [Command::Negotiate, Command::SessionSetup, Command::TreeConnect] {
        story(async move {
            let begun = tokio::time::Instant::now();
            let error = joined(&Options::default(), on(command, |_| Some(Vec::new()))).await.unwrap_err();
            assert_eq!(failure(&error), &Failure::Timeout(Duration::from_secs(30)), "{command:?}");
            assert!(begun.elapsed() < Duration::from_secs(31));
        });
    }
}

#[test]
fn one_request_left_unanswered_is_not_waited_for_for_ever() {
    story(async {
        let first = Cell::new(true);
        let meddle = on(Command::Read, move |frame| Some(if first.replace(false) { Vec::new() } else { frame }));
        let client = joined(&Options::default(), meddle).await.unwrap();
        let stuck = {
            let client = client.clone();
            tokio::task::spawn_local(async move { read(&client).await })
        };
        tokio::task::yield_now().await;
        // Others are answered all the while.
        while !stuck.is_finished() {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let _ = client.stat("file").await;
        }
        assert!(matches!(failure(&stuck.await.unwrap().unwrap_err()), Failure::Timeout(_)));
    });
}

#[test]
fn lengths_are_not_believed() {
    // READ: DataOffset, DataLength; CREATE: the contexts.
    let cases: [(Command, usize, &[u8]); 6] = [
        (Command::Read, 64, &[99, 0]),
        (Command::Read, 66, &[3]),
        (Command::Read, 66, &[255]),
        (Command::Read, 68, &[0xff, 0xff, 0xff, 0xff]),
        (Command::Create, 144, &[0x98, 0, 0, 0, 0xff, 0xff, 0, 0]),
        (Command::Create, 64, &[1, 2]),
    ];
    for (command, at, bytes) in cases {
        let error = reading(Options::default(), patch(command, at, bytes));
        assert!(matches!(error.kind(), ErrorKind::Nonsense(_)), "{command:?} {at}: {error}");
    }
}

#[test]
fn more_data_than_asked_for_are_refused() {
    // The server is asked for 200,000 bytes and sends 8 more.
    let meddle = on(Command::Read, |mut frame| {
        let len = u32::from_le_bytes(frame[72..76].try_into().unwrap()) + 8;
        frame[72..76].copy_from_slice(&len.to_le_bytes());
        frame.extend([7; 8]);
        let whole = (frame.len() - 4) as u32;
        frame[..4].copy_from_slice(&whole.to_be_bytes());
        Some(frame)
    });
    let error = reading(Options::default(), meddle);
    assert_eq!(error.kind(), &ErrorKind::Nonsense("more data than were asked for"));
}

#[test]
fn a_frame_larger_than_anything_asked_for_ends_it() {
    let meddle = on(Command::Read, |mut frame| {
        frame[..4].copy_from_slice(&[0, 0xff, 0xff, 0xff]);
        Some(frame)
    });
    assert!(matches!(failure(&reading(Options::default(), meddle)), Failure::Protocol(_)));
}

#[test]
fn an_answer_out_of_turn_ends_it() {
    type Change = fn(&mut Header);
    let changes: [(&str, Change); 8] = [
        ("another message", |h| h.message_id += 1000),
        ("an old message", |h| h.message_id = 0),
        ("unasked", |h| h.message_id = u64::MAX),
        ("another command", |h| h.command = Command::Write as u16),
        ("a request", |h| h.flags -= Flags::RESPONSE),
        ("another session", |h| h.session_id ^= 1),
        ("an interim answer that is none", |h| h.status = 0x103),
        ("a compound that goes on outside", |h| h.next_command = 0xffff_fff8),
    ];
    for (what, change) in changes {
        let error = reading(Options::default(), header(Command::Read, change));
        assert!(matches!(failure(&error), Failure::Protocol(_)), "{what}: {error}");
    }
    // The same answer twice.
    let twice = on(Command::Read, |frame| Some([&frame[..], &frame[..]].concat()));
    story(async {
        let client = joined(&Options::default(), twice).await.unwrap();
        let _ = soon(read(&client)).await;
        let error = soon(read(&client)).await.unwrap_err();
        assert!(matches!(failure(&error), Failure::Protocol(_)), "{error}");
    });
}

#[test]
fn no_more_credits_is_said() {
    let meddle: Meddle = Box::new(|mut frame| {
        if let Ok(header) = Header::decode(&frame[4..])
            && header.command > Command::TreeConnect as u16
        {
            frame[4 + 14..4 + 16].copy_from_slice(&[0, 0]);
        }
        Some(frame)
    });
    // What was granted before is used up at some time.
    story(async {
        let client = joined(&Options { credits: 4, ..Options::default() }, meddle).await.unwrap();
        let mut outcome = Ok(());
        for _ in 0..100 {
            outcome = soon(read(&client)).await;
        }
        assert!(matches!(failure(&outcome.unwrap_err()), Failure::Protocol(_)));
    });
}

#[test]
fn what_was_changed_on_the_way_is_not_taken() {
    let flip = |command| {
        on(command, |mut frame| {
            let last = frame.len() - 1;
            frame[last] ^= 1;
            Some(frame)
        })
    };
    let signed = Options { protection: Protection::Signed, ..Options::default() };
    assert!(matches!(failure(&reading(signed.clone(), flip(Command::Read))), Failure::NotGenuine(_)));
    let strip = header(Command::Read, |h| h.flags -= Flags::SIGNED);
    assert!(matches!(failure(&reading(signed, strip)), Failure::NotGenuine(_)));
    // Sealed frames have no header to be seen; the third answer after the login is changed.
    let seen = Cell::new(0);
    let meddle: Meddle = Box::new(move |mut frame| {
        if frame[4] == 0xfd {
            seen.set(seen.get() + 1);
            let last = frame.len() - 1;
            frame[last] ^= u8::from(seen.get() == 3);
        }
        Some(frame)
    });
    let sealed = Options { protection: Protection::Sealed, ..Options::default() };
    assert!(matches!(failure(&reading(sealed, meddle)), Failure::NotGenuine(_)));
}

/// Who cannot seal answers a READ openly, knowing all that can be seen: the session and how ids follow one another.
#[test]
fn an_open_answer_to_a_sealed_request_is_not_taken() {
    let seen = Cell::new(0);
    let meddle: Meddle = Box::new(move |answer| {
        if answer[4] != 0xfd {
            return Some(answer);
        }
        seen.set(seen.get() + 1);
        if seen.get() < 3 {
            return Some(answer); // to TREE_CONNECT and CREATE
        }
        let mut header = Header::request(Command::Read, 5);
        header.flags = Flags::RESPONSE;
        header.session_id = u64::from_le_bytes(answer[48..56].try_into().unwrap());
        let mut body = Vec::new();
        put_read_response(1, &mut body);
        body.push(b'!');
        Some(frame(&header, &body))
    });
    let error = reading(Options { protection: Protection::Sealed, ..Options::default() }, meddle);
    assert_eq!(failure(&error), &Failure::NotGenuine("an answer came open to what was asked sealed"));
}

#[test]
fn the_last_answer_of_a_login_must_be_signed_by_who_knows_the_key() {
    for max_dialect in client::Dialect::ALL {
        let last = move |change: fn(&mut Header)| {
            header(Command::SessionSetup, move |h| {
                if h.status == 0 {
                    change(h);
                }
            })
        };
        story(async move {
            let options = Options { max_dialect, ..Options::default() };
            let unsigned = joined(&options, last(|h| h.flags -= Flags::SIGNED)).await;
            // Only 3.1.1 has it signed whatever was asked for; signing must then be asked for.
            assert_eq!(unsigned.is_err(), max_dialect == client::Dialect::V3_1_1, "{max_dialect}");
            let options = Options { protection: Protection::Signed, ..options };
            for change in [(|h: &mut Header| h.flags -= Flags::SIGNED) as fn(&mut Header), |h| h.signature[3] ^= 1] {
                let error = joined(&options, last(change)).await.unwrap_err();
                assert!(matches!(failure(&error), Failure::NotGenuine(_)), "{max_dialect}: {error}");
            }
        });
    }
}

#[test]
fn a_handshake_changed_on_the_way_fails() {
    // In 3.1.1 the hash tells, before it VALIDATE_NEGOTIATE_INFO: the signing bit of the server is taken away.
    for max_dialect in [client::Dialect::V3_1_1, client::Dialect::V3_0_2, client::Dialect::V2_1] {
        story(async move {
            let options = Options { max_dialect, ..Options::default() };
            let offers_3 = max_dialect.is_3();
            let outcome = joined(&options, patch(Command::Negotiate, 66, &[0])).await;
            match outcome {
                Err(error) => assert!(matches!(failure(&error), Failure::NotGenuine(_)), "{error}"),
                Ok(_) => assert!(!offers_3, "{max_dialect}"),
            }
        });
    }
    for (at, bytes) in [(68, &[0x77, 0x77][..]), (68, &[0xff, 0x02]), (92, &[0, 1, 0, 0])] {
        story(async move {
            let error = joined(&Options::default(), patch(Command::Negotiate, at, bytes)).await.unwrap_err();
            assert!(matches!(failure(&error), Failure::Protocol(_)), "{error}");
        });
    }
}

#[test]
fn a_stranger_is_recognised() {
    let answers: [&[u8]; 5] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\0\x04\xffSMB",
        b"\0\0\0\0",
        b"\0\0\0\x08\xfeSMB\x40\0\0\0",
        b"\0\0\0\x04nope",
    ];
    for answer in answers {
        story(async move {
            let error = soon(join_stranger(move |_| Some(answer.to_vec()), &Options::default())).await.unwrap_err();
            assert!(matches!(failure(&error), Failure::Protocol(_) | Failure::NoCommonGround(_)), "{error}");
        });
    }
}

#[test]
fn a_listing_that_goes_on_for_ever_or_lies_is_an_error() {
    let cases: [(usize, &[u8]); 3] = [(68, &[0, 0, 0, 0]), (68, &[0xff, 0xff, 0, 0]), (72, &[1, 0, 0, 0])];
    for (at, bytes) in cases {
        story(async move {
            let client = joined(&Options::default(), patch(Command::QueryDirectory, at, bytes)).await.unwrap();
            let error = soon(client.list("")).await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Nonsense(_)), "{at}: {error}");
        });
    }
}

#[test]
fn an_endless_directory_is_not_collected() {
    // "No more" never comes: the first answer is given again and again.
    let first = std::cell::RefCell::new(None);
    let meddle = on(Command::QueryDirectory, move |answer| {
        let first = first.borrow_mut().get_or_insert_with(|| answer.clone()).clone();
        let mut frame = first;
        frame[4 + 24..4 + 32].copy_from_slice(&answer[4 + 24..4 + 32]); // the message id
        Some(frame)
    });
    story(async {
        let client = joined(&Options { list_entries: 1000, ..Options::default() }, meddle).await.unwrap();
        let error = soon(client.list("")).await.unwrap_err();
        assert!(error.to_string().contains("too large"), "{error}");
        assert!(client.listing("").await.unwrap().next_batch().await.unwrap().is_some(), "piece by piece it goes on");
    });
}

/// A frame with this header and body.
fn frame(header: &Header, body: &[u8]) -> Vec<u8> {
    let mut frame = ((64 + body.len()) as u32).to_be_bytes().to_vec();
    header.put(&mut frame);
    frame.extend(body);
    frame
}

/// In front of each answer to a READ, `times` interim ones.
fn interim(times: usize) -> Meddle {
    on(Command::Read, move |answer| {
        let mut header = Header::decode(&answer[4..]).unwrap();
        header.status = 0x103;
        header.flags |= Flags::ASYNC;
        (header.async_id, header.tree_id, header.credits) = (7, 0, 1);
        let interim = frame(&header, b"\x09\0\0\0\0\0\0\0\0");
        Some([interim.repeat(times), answer].concat())
    })
}

#[test]
fn an_interim_answer_is_waited_on_once() {
    story(async {
        let client = joined(&Options::default(), interim(1)).await.unwrap();
        soon(read(&client)).await.unwrap();
    });
    let error = reading(Options::default(), interim(2));
    assert!(matches!(failure(&error), Failure::Protocol(_)), "{error}");
}

#[test]
fn a_break_that_concerns_nobody_is_passed_over() {
    let meddle = on(Command::Read, |answer| {
        let mut header = Header::request(Command::OplockBreak, u64::MAX);
        header.flags = Flags::RESPONSE;
        Some([frame(&header, &[24, 0, 1, 0, 0, 0, 0, 0].repeat(3)), answer].concat())
    });
    story(async {
        let client = joined(&Options::default(), meddle).await.unwrap();
        soon(read(&client)).await.unwrap();
    });
}

/// Whatever comes, everything ends, with an answer or an error: replies are changed at random, cut, doubled, and lost.
#[test]
fn chance_brings_nothing_down() {
    let protections = [Protection::AsServer, Protection::AsServer, Protection::Signed, Protection::Sealed];
    for seed in 0..400_u64 {
        let protection = protections[seed as usize % protections.len()];
        let max_dialect = client::Dialect::ALL[seed as usize / 4 % 5];
        let protection = if max_dialect.is_3() { protection } else { Protection::AsServer };
        let mut rng = Rng::new(seed);
        let meddle: Meddle = Box::new(move |mut frame| {
            match rng.below(30) {
                0 => frame.truncate(rng.below(frame.len())),
                1 => return Some([&frame[..], &frame[..]].concat()),
                2 => return Some(Vec::new()),
                3 => return None,
                4..10 => {
                    // The first bytes are where the meaning is.
                    let reach = if rng.one_in(2) { 160 } else { frame.len() };
                    let at = rng.below(reach.min(frame.len()));
                    frame[at] = rng.next() as u8;
                }
                _ => {}
            }
            Some(frame)
        });
        story(async move {
            let options = Options { protection, max_dialect, ..Options::default() };
            let Ok(client) = joined(&options, meddle).await else { return };
            let _ = soon(read(&client)).await;
            let _ = soon(client.list("")).await;
            let _ = soon(client.write_at("new", 0, &pattern(100_000))).await;
            let _ = soon(client.rename("new", "newer", true)).await;
            let _ = soon(client.remove("newer")).await;
            let _ = soon(client.disconnect()).await;
        });
    }
}

/// What a server sends unasked.
fn unasked(command: Command, put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = vec![0; 4];
    let mut header = Header::request(command, u64::MAX);
    header.flags = Flags::RESPONSE;
    header.put(&mut frame);
    put(&mut frame);
    let len = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&len.to_be_bytes());
    frame
}

#[test]
fn breaks_of_what_nobody_has_are_answered_and_do_no_harm() {
    let handle = FileHandle { persistent: 7, volatile: 8 };
    let of_a_lease = |key| {
        let flags = LeaseFlags::ACK_REQUIRED;
        unasked(Command::OplockBreak, |out| LeaseBreak { epoch: 1, flags, key: [key; 16], from: 7, to: 0 }.put(out))
    };
    let of_an_oplock = unasked(Command::OplockBreak, |out| OplockBreak { level: 0, handle }.put(out));
    story(async move {
        let mut many = Vec::new();
        for n in 0..5000_u32 {
            many.extend(of_a_lease(n as u8));
            many.extend(&of_an_oplock);
        }
        let meddle = on(Command::Read, move |frame| Some([&many[..], &frame[..]].concat()));
        let client = joined(&Options::default(), meddle).await.unwrap();
        for _ in 0..3 {
            soon(read(&client)).await.unwrap();
        }
    });
    let cut = |len: usize| unasked(Command::OplockBreak, move |out| out.extend(vec![44; len]));
    for (what, frame) in [("cut", cut(10)), ("no body", cut(0)), ("another", unasked(Command::Echo, |_| {}))] {
        let meddle = on(Command::Read, move |reply| Some([&frame[..], &reply[..]].concat()));
        let error = reading(Options::default(), meddle);
        assert!(matches!(failure(&error), Failure::Protocol(_)), "{what}: {error}");
    }
}
