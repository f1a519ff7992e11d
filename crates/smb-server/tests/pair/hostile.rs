//! Clients that mean harm, or are broken: whatever they send, nothing panics, memory stays bounded, everything is given
//! back, and others are served.

use smb_wire::NtStatus;
use smb_wire::smb2::{Command, FileHandle, Header, InfoType, ReadRequest};

use crate::util::ops::{list_message, query_message, read_message, write_message};
use crate::util::{Message, OpenAs, Profile, Rng, Siege, World};

/// The most memory this process ever had, in bytes.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmPeak:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn every_request_cut_at_every_length() {
    let mut siege = Siege::new();
    let count = siege.valid_requests().len();
    for which in 0..count {
        // Cut inside of the header they are all alike.
        let first = if which == 0 { 0 } else { 64 };
        let len = 64 + siege.valid_requests()[which].body.len();
        for cut in first..len {
            let request = siege.valid_requests().swap_remove(which);
            let (frame, _) = siege.client.encode(&[request]);
            siege.attack(&frame[..cut]);
        }
    }
    siege.lift();
}

#[test]
fn every_request_with_one_byte_changed() {
    let mut siege = Siege::new();
    let mut rng = Rng::new(1);
    let count = siege.valid_requests().len();
    for which in 0..count {
        let len = 64 + siege.valid_requests()[which].body.len();
        for at in 0..len {
            let request = siege.valid_requests().swap_remove(which);
            let (mut frame, _) = siege.client.encode(&[request]);
            frame[at] ^= 1 << rng.below(8);
            siege.attack(&frame);
        }
    }
    siege.lift();
}

#[test]
fn every_16_and_32_bit_field_of_a_body_at_its_extremes() {
    let mut siege = Siege::new();
    let count = siege.valid_requests().len();
    for which in 0..count {
        let len = siege.valid_requests()[which].body.len();
        for at in (2..len.saturating_sub(4)).step_by(2) {
            for value in [0u32, u32::MAX, i32::MAX as u32, 0xffff, 0x8000_0000] {
                let mut request = siege.valid_requests().swap_remove(which);
                request.body[at..at + 4].copy_from_slice(&value.to_le_bytes());
                let (frame, _) = siege.client.encode(&[request]);
                siege.attack(&frame);
            }
        }
    }
    siege.lift();
}

#[test]
fn random_bodies_behind_good_headers() {
    let mut siege = Siege::new();
    let mut rng = Rng::new(2);
    for _ in 0..4000 {
        let command = *rng.pick(&Command::ALL);
        let len = rng.below(200);
        let mut body = rng.bytes(len);
        // The right StructureSize now and then, so that more is looked at.
        if let (true, Some(size)) = (rng.one_in(2), body.get_mut(..2)) {
            let template = siege.valid_requests().into_iter().find(|m| m.command == command as u16);
            size.copy_from_slice(template.map_or(&[4, 0][..], |t| Box::leak(t.body.into_boxed_slice())).split_at(2).0);
        }
        let (frame, _) = siege.client.encode(&[Message { credits: 2, ..Message::new(command, body) }]);
        siege.attack(&frame);
    }
    siege.lift();
}

#[test]
fn random_compounds_and_random_bytes() {
    let mut siege = Siege::new();
    let mut rng = Rng::new(3);
    for round in 0..1500 {
        let requests = siege.valid_requests();
        let count = 2 + rng.below(5);
        let mut chosen: Vec<_> = (0..count).map(|_| rng.pick(&requests).clone()).collect();
        for request in chosen.iter_mut().skip(1) {
            if rng.one_in(2) {
                *request = request.clone().related();
            }
        }
        let (mut frame, _) = siege.client.encode(&chosen);
        for _ in 0..rng.below(3) {
            let at = rng.below(frame.len());
            frame[at] = rng.next() as u8;
        }
        if rng.one_in(3) {
            frame.truncate(rng.below(frame.len()));
        }
        siege.attack(&frame);
        if round % 5 == 0 {
            let len = rng.below(300);
            let mut noise = rng.bytes(len);
            if let (true, Some(id)) = (rng.one_in(2), noise.get_mut(..4)) {
                id.copy_from_slice(&[*rng.pick(&[0xfe, 0xfd, 0xfc, 0xff]), b'S', b'M', b'B']);
            }
            siege.attack(&noise);
        }
    }
    assert!(siege.lost > 10, "the attack was one");
    siege.lift();
}

#[test]
fn strangers_with_random_bytes() {
    let world = World::new();
    let mut rng = Rng::new(4);
    for _ in 0..3000 {
        let mut stranger = world.client(Profile::default());
        if rng.one_in(2) {
            stranger.negotiate();
        }
        for _ in 0..3 {
            let command = *rng.pick(&Command::ALL);
            let len = rng.below(150);
            let body = if rng.one_in(3) {
                let token = rng.bytes(len);
                stranger.setup_message(&token).body
            } else {
                rng.bytes(len)
            };
            if stranger.credits == 0 {
                break;
            }
            let (frame, _) = stranger.encode(&[Message::new(command, body)]);
            stranger.feed(&frame);
            stranger.collect();
            assert!(world.pool.stats().used_bytes < 64 << 10);
        }
        stranger.hang_up();
    }
    world.assert_nothing_left();
}

#[test]
fn what_a_stranger_claims_to_need_is_not_set_aside() {
    let before = peak_bytes();
    for logged_in in [false, true] {
        let world = World::new();
        let mut client = if logged_in { world.anna() } else { world.client(Profile::default()) };
        if !logged_in {
            client.negotiate();
        }
        for command in [Command::Read, Command::QueryDirectory] {
            let handle = FileHandle { persistent: 1, volatile: 1 };
            let mut message = match command {
                Command::Read => {
                    let ask = ReadRequest {
                        flags: 0,
                        len_bytes: u32::MAX,
                        offset_bytes: 0,
                        handle,
                        minimum_bytes: 0,
                        channel: 0,
                    };
                    Message::of(command, |out| ask.put(out))
                }
                _ => {
                    let class = smb_wire::fscc::DirInfoClass::Names;
                    let none = smb_wire::smb2::QueryDirectoryFlags::empty();
                    Message { charge: 1, ..list_message(handle, class, none, "*", u32::MAX) }
                }
            };
            message.sign = Some(false);
            let (mut frame, _) = client.encode(&[message]);
            frame[6..8].copy_from_slice(&u16::MAX.to_le_bytes());
            client.feed(&frame);
            client.discard();
        }
    }
    assert!(peak_bytes() - before < 1 << 30, "4 GiB were set aside for a lie");
}

#[test]
fn counts_and_lengths_that_lie() {
    let mut siege = Siege::new();
    let file = siege.file;
    // 65,535 locks in a request that holds one.
    let mut locks = crate::util::ops::lock_message(file, 0, 1, smb_wire::smb2::LockFlags::SHARED);
    locks.body[2..4].copy_from_slice(&u16::MAX.to_le_bytes());
    siege.client.call(locks).expect(NtStatus::INVALID_PARAMETER);
    let mut write = write_message(file, 0, b"abc");
    write.body[4..8].copy_from_slice(&(1u32 << 30).to_le_bytes());
    siege.client.call(write).expect(NtStatus::INVALID_PARAMETER);
    let mut write = write_message(file, u64::MAX - 1, b"abc");
    siege.client.call(write.clone()).expect(NtStatus::INVALID_PARAMETER);
    write.body[8..16].copy_from_slice(&(i64::MAX as u64).to_le_bytes());
    siege.client.call(write).expect(NtStatus::INVALID_PARAMETER);
    siege.client.call(read_message(file, u64::MAX, 1)).expect(NtStatus::INVALID_PARAMETER);
    let huge = Message { charge: 1, ..query_message(file, InfoType::File, 5, 1) };
    let mut huge = huge;
    huge.body[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    siege.client.call(huge).expect(NtStatus::INVALID_PARAMETER);
    siege.lift();
}

#[test]
fn device_names_and_traversal_in_every_name_field() {
    let world = World::new();
    world.put("a", b"content");
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    for name in
        ["..\\..\\etc\\passwd", "x\\..\\..\\y", "\\..\\x", "a\0b", "d/../x", "\\\\server\\share\\x", "..", "C:\\x"]
    {
        assert!(client.try_create(name, &OpenAs::default()).is_err(), "{name:?}");
        assert!(client.rename(handle, name, true).is_err(), "{name:?}");
        let link = crate::util::ops::rename_info(name, true);
        assert!(client.set(handle, smb_wire::fscc::FileInfoClass::LINK, &link).is_err(), "{name:?}");
        assert!(client.try_tree_connect(name).is_err(), "{name:?}");
    }
    assert_eq!(client.list("", "*", 4096).unwrap(), ["a"]);
}

#[test]
fn a_client_that_never_takes_its_replies_is_not_buffered_for() {
    let world = World::new();
    world.put("a", &vec![1; 1 << 20]);
    let mut client = world.anna();
    client.call(Message { credits: 512, ..crate::util::ops::echo_message() }).ok();
    let handle = client.create("a", &OpenAs::reader());
    while client.credits > 16 && client.conn.is_ready() {
        client.send(&[read_message(handle, 0, 1 << 20)]);
    }
    assert!(!client.conn.is_ready());
    assert!(world.pool.stats().used_bytes < 8 << 20, "{:?}", world.pool.stats());
    client.drive();
    assert!(client.conn.is_ready());
    client.hang_up();
    world.assert_nothing_left();
}

#[test]
fn a_header_is_not_more_than_it_says() {
    // A header alone, of each command: a body is missing.
    let mut siege = Siege::new();
    for command in Command::ALL {
        let (frame, _) = siege.client.encode(&[Message::new(command, vec![])]);
        Header::decode(&frame).unwrap();
        siege.attack(&frame);
    }
    siege.lift();
}
