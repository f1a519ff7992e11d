//! Sessions used on several connections (MS-SMB2 3.3.5.5, 3.3.5.5.3, 3.3.5.2.10): who may bind one, what each channel can
//! do, and what happens when one of them fails.

use smb_wire::NtStatus;
use smb_wire::crypto::{Cipher, SigningAlgorithm};
use smb_wire::fscc::AccessMask;
use smb_wire::smb2::{
    ChangeNotifyRequest, Command, DURABLE_V2_REQUEST_TAG, Dialect, Disposition, DurableV2Request, FileHandle, Flags,
    OplockBreak, fsctl, oplock,
};

use crate::util::client::Profile;
use crate::util::ops::{created, echo_message, ioctl_message, read_message, write_message};
use crate::util::world::{OTHER, OTHER_PASSWORD, PASSWORD, SHARE, USER};
use crate::util::{Client, Message, OpenAs, World};

/// The message id of what answers nothing.
const UNSOLICITED: u64 = u64::MAX;

fn unbound(world: &World, profile: Profile) -> Client {
    let mut client = world.client(profile);
    client.negotiate();
    client
}

fn bound(world: &World, first: &Client) -> Client {
    let mut client = unbound(world, first.profile.clone());
    client.try_bind(first).expect("the connection is bound");
    client
}

/// Opens a file with a batch oplock.
fn open_batch(client: &mut Client, name: &str) -> FileHandle {
    let mut message = OpenAs::default().message(name);
    message.body[3] = oplock::BATCH;
    created(&client.call(message)).expect("the file opens").handle
}

#[test]
fn any_channel_serves_the_session_with_a_key_of_its_own() {
    for dialect in [Dialect::V3_0, Dialect::V3_0_2, Dialect::V3_1_1] {
        let world = World::new();
        let mut first = world.logged_in(Profile::dialect(dialect));
        first.tree_connect(SHARE);
        let mut second = bound(&world, &first);
        (first.sign, second.sign) = (true, true);
        let file = first.create("f", &OpenAs::default());
        second.write(file, 0, b"by the second");
        assert_eq!(first.read(file, 0, 100), b"by the second");
        second.close(file);
        assert_eq!(first.try_close(file), Err(NtStatus::FILE_CLOSED));
        let keys = (first.signing_key.take(), second.signing_key.clone());
        assert!(keys.0.is_some() && keys.1.is_some());
        first.signing_key = keys.1;
        first.sign = true;
        let status = first.send(&[read_message(file, 0, 1)]);
        first.signing_key = None;
        first.drive();
        assert_eq!(first.take(status[0]).unwrap().status(), NtStatus::ACCESS_DENIED, "the other channel's key");
    }
}

#[test]
fn who_may_not_bind_is_told_by_the_book_and_the_session_goes_on() {
    let world = World::new();
    let mut first = world.anna();
    let refused = |profile: Profile| unbound(&world, profile).try_bind(&first).unwrap_err();
    assert_eq!(refused(Profile::dialect(Dialect::V2_1)), NtStatus::REQUEST_OUT_OF_SEQUENCE, "the session has GMAC");
    assert_eq!(refused(Profile::dialect(Dialect::V3_0_2)), NtStatus::REQUEST_OUT_OF_SEQUENCE);
    let ccm = Profile { ciphers: vec![Cipher::Aes128Ccm], ..Profile::default() };
    assert_eq!(refused(ccm), NtStatus::INVALID_PARAMETER);
    assert_eq!(refused(Profile::user(USER, "guess")), NtStatus::LOGON_FAILURE);
    assert_eq!(refused(Profile::user(OTHER, OTHER_PASSWORD)), NtStatus::ACCESS_DENIED);

    let mut unsigned = unbound(&world, Profile::default());
    unsigned.session_id = first.session_id;
    unsigned.binds = true;
    let token = unsigned.first_token();
    let message = unsigned.setup_message(&token);
    unsigned.call(message).expect(NtStatus::INVALID_PARAMETER);

    let mut bound = bound(&world, &first);
    bound.binds = true;
    let message = bound.setup_message(&token);
    assert!(bound.call(message).expect(NtStatus::REQUEST_NOT_ACCEPTED).signed, "it is a channel already");
    first.write_file("f", b"goes on");
}

#[test]
fn terms_of_older_sessions() {
    let world = World::new();
    let cmac = Profile { signing: vec![SigningAlgorithm::AesCmac], ..Profile::default() };
    let first = world.logged_in(cmac.clone());
    let refused = |profile: Profile| unbound(&world, profile).try_bind(&first).unwrap_err();
    assert_eq!(refused(Profile::default()), NtStatus::NOT_SUPPORTED, "the connection has GMAC");
    assert_eq!(refused(Profile::dialect(Dialect::V3_0)), NtStatus::INVALID_PARAMETER);
    assert_eq!(refused(Profile::dialect(Dialect::V2_0_2)), NtStatus::REQUEST_NOT_ACCEPTED);
    let hmac = Profile { signing: vec![SigningAlgorithm::HmacSha256], ..Profile::default() };
    unbound(&world, hmac).try_bind(&first).expect("both sign with what the other has too");
    let old = world.logged_in(Profile::dialect(Dialect::V2_1));
    let status = unbound(&world, Profile::dialect(Dialect::V2_1)).try_bind(&old).unwrap_err();
    assert_eq!(status, NtStatus::REQUEST_NOT_ACCEPTED);
}

#[test]
fn a_session_lives_as_long_as_one_of_its_channels() {
    let world = World::new();
    let mut first = world.anna();
    let second = bound(&world, &first);
    let mut third = bound(&world, &first);
    let file = first.create("f", &OpenAs::default());
    first.hang_up();
    second.hang_up();
    third.write(file, 0, b"still open");
    assert_eq!(world.server.session_count(), 1);
    third.hang_up();
    world.assert_nothing_left();
}

#[test]
fn a_break_goes_to_another_channel_when_its_own_has_failed() {
    let world = World::new();
    let mut first = world.anna();
    let mut second = bound(&world, &first);
    let file = open_batch(&mut first, "f");
    first.hang_up();
    let mut other = world.anna();
    let id = other.send(&[OpenAs::default().message("f")])[0];
    other.drive();
    assert!(other.take(id).is_none(), "it waits for the holder");
    second.drive();
    let told = second.take(UNSOLICITED).expect("the break comes on the other channel");
    let told = OplockBreak::decode(&told.bytes).unwrap();
    assert_eq!(told, OplockBreak { level: oplock::LEVEL_II, handle: file });
    second.call(Message::of(Command::OplockBreak, |out| told.put(out))).ok();
    other.drive();
    assert_eq!(other.take(id).expect("an answer").status(), NtStatus::SUCCESS);
}

#[test]
fn a_break_goes_out_before_the_answer_to_the_next_request() {
    let world = World::new();
    let mut client = world.anna();
    open_batch(&mut client, "f");
    // Both are there before the server has looked at either.
    client.send(&[OpenAs::default().message("f")]);
    client.send(&[echo_message()]);
    client.poll();
    let mut order = Vec::new();
    while let Some(reply) = client.conn.next_reply() {
        order.extend(client.take_apart(reply.head.to_vec()).iter().map(|r| (r.header.command, r.header.message_id)));
    }
    let kinds: Vec<_> = order.iter().map(|(command, id)| (Command::from_u16(*command), *id == UNSOLICITED)).collect();
    let (create, told) = ((Some(Command::Create), false), (Some(Command::OplockBreak), true));
    assert_eq!(kinds, [create, told, (Some(Command::Echo), false)], "the interim response, the break, the echo");
}

#[test]
fn what_ends_on_one_channel_ends_waits_on_the_others() {
    let world = World::new();
    let mut first = world.anna();
    let mut second = bound(&world, &first);
    let how = OpenAs::directory(Disposition::OpenIf).access(AccessMask::from_bits_retain(0x0012_0089));
    let watch = |client: &mut Client, handle| {
        let asked = ChangeNotifyRequest { recursive: false, output_bytes: 1000, handle, filter: 3 };
        let id = client.send(&[Message::of(Command::ChangeNotify, |out| asked.put(out))])[0];
        client.drive();
        assert!(client.take(id).is_none(), "it waits");
        id
    };
    let dir = first.create("d", &how);
    let id = watch(&mut first, dir);
    second.close(dir);
    first.drive();
    assert_eq!(first.take(id).expect("an answer").status(), NtStatus::NOTIFY_CLEANUP);

    let dir = first.create("d", &how);
    let id = watch(&mut first, dir);
    second.call(Message::of(Command::Logoff, smb_wire::smb2::put_four)).ok();
    first.drive();
    assert_eq!(first.take(id).expect("an answer").status(), NtStatus::NOTIFY_CLEANUP);
    assert_eq!(first.try_create("x", &OpenAs::default()).unwrap_err(), NtStatus::USER_SESSION_DELETED);
}

/// A CREATE that may be told again, asking for a batch oplock.
fn repeatable(name: &str) -> Message {
    let mut data = Vec::new();
    DurableV2Request { timeout_ms: 0, flags: 0, create_guid: [9; 16] }.put(&mut data);
    let how = OpenAs { contexts: vec![(DURABLE_V2_REQUEST_TAG.to_vec(), data)], ..OpenAs::default() };
    let mut message = how.message(name);
    message.body[3] = oplock::BATCH;
    message
}

fn told_again(name: &str) -> Message {
    let mut message = repeatable(name);
    message.flags |= Flags::REPLAY;
    message.channel_sequence = 1;
    message
}

#[test]
fn a_create_that_can_be_told_again_goes_on_without_its_connection() {
    let world = World::new();
    let mut holder = world.anna();
    let held = open_batch(&mut holder, "f");
    let mut first = world.anna();
    let mut second = bound(&world, &first);
    let how = OpenAs::directory(Disposition::OpenIf).access(AccessMask::from_bits_retain(0x0012_0089));
    let dir = first.create("d", &how);
    let asked = ChangeNotifyRequest { recursive: false, output_bytes: 1000, handle: dir, filter: 3 };
    first.send(&[repeatable("f")]);
    first.send(&[Message::of(Command::ChangeNotify, |out| asked.put(out))]);
    first.drive();
    first.conn.closed("the cable is cut");
    first.poll();
    assert!(first.conn.is_lingering());
    second.call(told_again("f")).expect(NtStatus::FILE_NOT_AVAILABLE);
    holder.close(held);
    first.poll();
    assert!(!first.conn.is_lingering() && first.conn.next_reply().is_none(), "done, and nobody is told");
    let file = created(&second.call(told_again("f"))).expect("the open it made").handle;
    second.write(file, 0, b"once");
    assert_eq!(world.content("f").unwrap(), b"once");
    assert_eq!(world.server.open_count(), 2, "the file once and the directory");
    drop(first);
    second.hang_up();
    holder.hang_up();
    world.clock.advance(std::time::Duration::from_secs(400));
    world.server.tick();
    world.assert_nothing_left();
}

#[test]
fn what_goes_on_without_a_connection_ends_with_the_session() {
    let world = World::new();
    let mut holder = world.anna();
    let held = open_batch(&mut holder, "f");
    let mut first = world.anna();
    first.send(&[repeatable("f")]);
    first.drive();
    let second = bound(&world, &first);
    first.conn.closed("the cable is cut");
    second.hang_up();
    holder.close(held);
    first.poll();
    assert!(!first.conn.is_lingering());
    drop(first);
    // Without another channel nothing goes on.
    assert!(holder.take(UNSOLICITED).is_some());
    let held = open_batch(&mut holder, "f");
    let mut alone = world.anna();
    alone.send(&[repeatable("f")]);
    alone.drive();
    alone.conn.closed("the cable is cut");
    assert!(!alone.conn.is_lingering());
    drop(alone);
    holder.close(held);
    holder.hang_up();
    world.assert_nothing_left();
}

#[test]
fn there_are_only_so_many_channels() {
    let world = World::new();
    let first = world.anna();
    let _channels: Vec<_> = (1..32).map(|_| bound(&world, &first)).collect();
    let status = unbound(&world, Profile::user(USER, PASSWORD)).try_bind(&first).unwrap_err();
    assert_eq!(status, NtStatus::INSUFFICIENT_RESOURCES);
}

#[test]
fn what_comes_from_before_a_failure_changes_nothing() {
    let world = World::new();
    let mut client = world.anna();
    let file = client.create("f", &OpenAs::default());
    let write = |sequence, flags| {
        let mut message = write_message(file, 0, b"x");
        message.channel_sequence = sequence;
        message.flags |= flags;
        message
    };
    client.call(write(1, Flags::empty())).ok();
    client.call(write(0, Flags::empty())).expect(NtStatus::FILE_NOT_AVAILABLE);
    client.call(write(2, Flags::REPLAY)).ok();
    client.call(write(1, Flags::REPLAY)).expect(NtStatus::FILE_NOT_AVAILABLE);
    let mut read = read_message(file, 0, 1);
    read.channel_sequence = 1;
    client.call(read).ok();
    let mut old = world.logged_in(Profile::dialect(Dialect::V2_1));
    old.tree_connect(SHARE);
    let file = old.create("g", &OpenAs::default());
    let mut message = write_message(file, 0, b"x");
    for sequence in [5, 1] {
        message.channel_sequence = sequence;
        old.call(message.clone()).ok();
    }
}

#[test]
fn interfaces_are_listed_for_those_who_can_use_them() {
    let world = World::new();
    let ask = |handle, room| ioctl_message(handle, fsctl::QUERY_NETWORK_INTERFACE_INFO, &[], room);
    let mut client = world.anna();
    let answer = client.call(ask(FileHandle::PREVIOUS, 4096)).ok();
    assert!(answer.bytes.windows(4).any(|w| w == [192, 0, 2, 1]));
    client.call(ask(FileHandle::PREVIOUS, 100)).expect(NtStatus::BUFFER_TOO_SMALL);
    client.call(ask(FileHandle { persistent: 1, volatile: 1 }, 4096)).expect(NtStatus::INVALID_PARAMETER);
    let mut old = world.logged_in(Profile::dialect(Dialect::V2_1));
    old.tree_connect(SHARE);
    old.call(ask(FileHandle::PREVIOUS, 4096)).expect(NtStatus::NOT_SUPPORTED);
}

#[test]
fn an_acknowledgement_names_a_tree_connect() {
    let world = World::new();
    let (mut holder, mut other) = (world.anna(), world.anna());
    let file = open_batch(&mut holder, "f");
    let id = other.send(&[OpenAs::default().message("f")])[0];
    holder.drive();
    let told = OplockBreak::decode(&holder.take(UNSOLICITED).unwrap().bytes).unwrap();
    let acknowledge = || Message::of(Command::OplockBreak, |out| told.put(out));
    let nowhere = Message { tree_id: Some(u32::MAX), ..acknowledge() };
    holder.call(nowhere).expect(NtStatus::NETWORK_NAME_DELETED);
    assert!(other.take(id).is_none(), "it is none");
    holder.call(acknowledge()).ok();
    other.drive();
    other.take(id).unwrap().ok();
    holder.close(file);
}

#[test]
fn a_resilient_open_whose_client_is_away_stays_when_others_come() {
    let world = World::new();
    let mut holder = world.anna();
    let file = open_batch(&mut holder, "f");
    let minute = [60_000u32.to_le_bytes(), [0; 4]].concat();
    holder.call(ioctl_message(file, fsctl::LMR_REQUEST_RESILIENCY, &minute, 0)).ok();
    holder.write(file, 0, b"before");
    holder.hang_up();
    let mut other = world.anna();
    let id = other.send(&[OpenAs::default().message("f")])[0];
    other.drive();
    let second = created(&other.take(id).expect("nobody is waited for")).unwrap().handle;
    let mut holder = world.anna();
    let mut back = file.persistent.to_le_bytes().to_vec();
    back.extend(file.volatile.to_le_bytes());
    let contexts = vec![(smb_wire::smb2::DURABLE_RECONNECT_TAG.to_vec(), back)];
    let how = OpenAs { contexts, ..OpenAs::how(Disposition::Open) };
    let file = created(&holder.call(how.message("f"))).expect("it is still there").handle;
    assert_eq!(holder.read(file, 0, 6), b"before");
    other.close(second);
}
