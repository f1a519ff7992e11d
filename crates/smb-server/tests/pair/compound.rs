//! Compounds, credits and the frame around them (MS-SMB2 3.3.5.2.3, 3.3.5.2.5, 3.3.5.2.7).

use smb_wire::NtStatus;
use smb_wire::smb2::{Command, Dialect, Disposition, FileHandle, Flags, HEADER_BYTES, set_next_command};

use crate::util::ops::{close_message, created, echo_message, query_message, read_message, write_message};
use crate::util::world::SHARE;
use crate::util::{Message, OpenAs, Profile, World};

const PREVIOUS: FileHandle = FileHandle::PREVIOUS;

#[test]
fn create_read_close_in_one_frame() {
    let world = World::new();
    world.put("a", b"content");
    let mut client = world.anna();
    let all = client.compound(&[
        OpenAs::reader().message("a"),
        read_message(PREVIOUS, 0, 7).related(),
        close_message(PREVIOUS).related(),
    ]);
    assert!(all.iter().all(|r| r.status() == NtStatus::SUCCESS));
    assert_eq!(smb_wire::smb2::ReadResponse::decode(&all[1].bytes).unwrap().data, b"content");
    assert_eq!(world.server.open_count(), 0);
    assert!(all[1].header.flags.contains(Flags::RELATED));
}

#[test]
fn the_answers_come_in_one_frame_padded_to_eight() {
    let world = World::new();
    world.put("a", b"12345");
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::reader());
    client.send(&[read_message(handle, 0, 5), echo_message(), read_message(handle, 0, 3)]);
    let frame = client.conn.next_reply().unwrap().head.to_vec();
    assert!(client.conn.next_reply().is_none());
    let responses = client.take_apart(frame);
    assert_eq!(responses.len(), 3);
    assert!(responses.iter().all(|response| response.bytes.len() % 8 == 0), "the last one too");
    let alone = client.call(read_message(handle, 0, 3));
    assert_eq!(alone.bytes.len(), HEADER_BYTES + 16 + 3, "one alone is not padded");
    assert_eq!(responses[2].header.next_command, 0);
}

#[test]
fn a_failed_create_fails_what_relies_on_it() {
    let world = World::new();
    let mut client = world.anna();
    let all = client.compound(&[
        OpenAs::reader().message("missing"),
        read_message(PREVIOUS, 0, 7).related(),
        close_message(PREVIOUS).related(),
    ]);
    assert!(all.iter().all(|r| r.status() == NtStatus::OBJECT_NAME_NOT_FOUND));
}

#[test]
fn a_failed_read_does_not_keep_the_close_from_closing() {
    let world = World::new();
    let mut client = world.anna();
    let all = client.compound(&[
        OpenAs::default().message("empty"),
        read_message(PREVIOUS, 0, 7).related(),
        close_message(PREVIOUS).related(),
    ]);
    let statuses: Vec<_> = all.iter().map(|r| r.status()).collect();
    assert_eq!(statuses, [NtStatus::SUCCESS, NtStatus::END_OF_FILE, NtStatus::SUCCESS]);
    assert_eq!(world.server.open_count(), 0);
}

#[test]
fn a_related_request_may_not_come_first() {
    let world = World::new();
    let mut client = world.anna();
    client.call(OpenAs::default().message("a").related()).expect(NtStatus::INVALID_PARAMETER);
    assert!(!world.exists("a"));
}

#[test]
fn related_requests_take_session_and_tree_from_before() {
    let world = World::new();
    let mut client = world.anna();
    let mut read = query_message(PREVIOUS, smb_wire::smb2::InfoType::File, 5, 24).related();
    (read.session_id, read.tree_id) = (Some(u64::MAX), Some(u32::MAX));
    let all = client.compound(&[OpenAs::default().message("a"), read]);
    assert_eq!(all[1].status(), NtStatus::SUCCESS);
    assert_eq!((all[1].header.session_id, all[1].header.tree_id), (client.session_id, client.tree_id));
}

#[test]
fn unrelated_requests_stand_each_for_itself() {
    let world = World::new();
    world.put("a", b"A");
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::reader());
    let all = client.compound(&[
        OpenAs::reader().message("missing"),
        read_message(handle, 0, 1),
        close_message(PREVIOUS),
        close_message(handle),
    ]);
    let statuses: Vec<_> = all.iter().map(|r| r.status()).collect();
    let (missing, ok) = (NtStatus::OBJECT_NAME_NOT_FOUND, NtStatus::SUCCESS);
    assert_eq!(statuses, [missing, ok, NtStatus::FILE_CLOSED, ok]);
}

#[test]
fn a_handle_named_outright_becomes_the_previous_one() {
    let world = World::new();
    world.put("a", b"A");
    world.put("b", b"B");
    let mut client = world.anna();
    let b = client.create("b", &OpenAs::reader());
    let all = client.compound(&[
        OpenAs::reader().message("a"),
        read_message(b, 0, 1).related(),
        read_message(PREVIOUS, 0, 1).related(),
    ]);
    assert_eq!(smb_wire::smb2::ReadResponse::decode(&all[2].bytes).unwrap().data, b"B");
}

#[test]
fn a_closed_handle_in_a_related_request_stands_for_the_previous_one() {
    let world = World::new();
    world.put("a", b"A");
    let mut client = world.anna();
    let stale = client.create("a", &OpenAs::reader());
    client.close(stale);
    let all = client.compound(&[OpenAs::reader().message("a"), read_message(stale, 0, 1).related()]);
    assert_eq!(smb_wire::smb2::ReadResponse::decode(&all[1].bytes).unwrap().data, b"A");
    client.call(read_message(stale, 0, 1)).expect(NtStatus::FILE_CLOSED);
}

#[test]
fn login_and_tree_connect_and_create_after_another() {
    let world = World::new();
    let mut client = world.anna();
    let first = created(&client.call(OpenAs::default().message("a"))).unwrap();
    // A CREATE in the middle replaces the previous handle.
    let all = client.compound(&[
        write_message(first.handle, 0, b"first"),
        OpenAs::default().message("b").related(),
        write_message(PREVIOUS, 0, b"second").related(),
    ]);
    assert!(all.iter().all(|r| r.status() == NtStatus::SUCCESS));
    assert_eq!((world.content("a").unwrap(), world.content("b").unwrap()), (b"first".to_vec(), b"second".to_vec()));
}

#[test]
fn a_compound_that_does_not_add_up_ends_the_connection() {
    for next in [1, 8, 60, 68, 71, 73, 1 << 20, u32::MAX] {
        let world = World::new();
        let mut client = world.anna();
        let (mut frame, _) = client.encode(&[echo_message(), echo_message()]);
        set_next_command(&mut frame, next);
        client.feed(&frame);
        assert!(client.conn.finished().is_some(), "NextCommand {next}");
        client.hang_up();
        world.assert_nothing_left();
    }
}

#[test]
fn a_compound_whose_last_element_is_cut_has_no_effect_beyond_the_cut() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    let (frame, _) = client.encode(&[write_message(handle, 0, b"first"), write_message(handle, 0, b"SECOND")]);
    client.feed(&frame[..frame.len() - 3]);
    assert_eq!(world.content("a").unwrap(), b"first");
}

#[test]
fn a_message_id_is_used_once() {
    let world = World::new();
    let mut client = world.anna();
    client.call(echo_message()).ok();
    client.next_id -= 1;
    client.credits += 1;
    client.call_and_end(echo_message());
}

#[test]
fn a_message_id_beyond_the_window_ends_the_connection() {
    for id in [u64::MAX, u64::MAX - 1, 1 << 40] {
        let world = World::new();
        let mut client = world.anna();
        client.next_id = id - 1;
        client.call_and_end(echo_message());
    }
}

#[test]
fn credits_are_granted_as_asked_within_the_bound() {
    let world = World::with(|config, _| config.max_credits = 64);
    let mut client = world.client(Profile::default());
    client.negotiate();
    assert_eq!(client.credits, 16);
    let hungry = Message { credits: u16::MAX, ..echo_message() };
    client.call(hungry.clone()).ok();
    assert_eq!(client.credits, 64);
    let response = client.call(hungry).ok();
    assert_eq!((response.header.credits, client.credits), (1, 64));
    // Whoever asks for none still never runs dry.
    for _ in 0..200 {
        client.call(Message { credits: 0, ..echo_message() }).ok();
        assert!(client.credits > 0);
    }
}

#[test]
fn ids_may_be_used_in_any_order() {
    let world = World::new();
    let mut client = world.anna();
    client.call(Message { credits: 64, ..echo_message() }).ok();
    let base = client.next_id;
    for id in (0..20).rev() {
        client.next_id = base + id;
        client.call(echo_message()).ok();
    }
    client.next_id = base;
    client.call_and_end(echo_message());
}

#[test]
fn large_transfers_must_be_paid_for() {
    let world = World::new();
    world.put("a", &vec![1; 300_000]);
    let mut client = world.anna();
    client.call(Message { credits: 64, ..echo_message() }).ok();
    let handle = client.create("a", &OpenAs::default());
    assert_eq!(client.read(handle, 0, 300_000).len(), 300_000);
    for (len, charge, ok) in
        [(65536, 1, true), (65537, 1, false), (65537, 2, true), (300_000, 4, false), (65536, 0, true)]
    {
        let status = client.call(Message { charge, ..read_message(handle, 0, len) }).status();
        assert_eq!(status == NtStatus::SUCCESS, ok, "{len} bytes for {charge}: {status:?}");
    }
    let data = vec![2; 65537];
    let cheap = Message { charge: 1, ..write_message(handle, 0, &data) };
    client.call(cheap).expect(NtStatus::INVALID_PARAMETER);
    assert_eq!(world.content("a").unwrap()[0], 1);
    client.call(write_message(handle, 0, &data)).ok();
}

#[test]
fn the_oldest_dialect_has_small_transfers_only() {
    let world = World::new();
    world.put("a", &vec![1; 70_000]);
    let mut client = world.logged_in(Profile::dialect(Dialect::V2_0_2));
    assert_eq!(client.negotiated.as_ref().unwrap().max_read_bytes, 65536);
    let handle = client.create("a", &OpenAs::reader());
    client.call(Message { charge: 1, ..read_message(handle, 0, 65536) }).ok();
    client.call(Message { charge: 1, ..read_message(handle, 0, 65537) }).expect(NtStatus::INVALID_PARAMETER);
}

#[test]
fn what_was_negotiated_bounds_every_transfer() {
    let world = World::with(|config, _| (config.max_read_bytes, config.max_write_bytes) = (128 << 10, 128 << 10));
    let mut client = world.anna();
    client.call(Message { credits: 64, ..echo_message() }).ok();
    let handle = client.create("a", &OpenAs::default());
    client.call(read_message(handle, 0, (128 << 10) + 1)).expect(NtStatus::INVALID_PARAMETER);
    client.call(write_message(handle, 0, &vec![0; (128 << 10) + 1])).expect(NtStatus::INVALID_PARAMETER);
    client.call(write_message(handle, 0, &vec![7; 128 << 10])).ok();
    assert_eq!(client.read(handle, 0, 128 << 10), vec![7; 128 << 10]);
}

#[test]
fn frames_are_bounded_before_and_after_login() {
    let world = World::new();
    let mut client = world.client(Profile::default());
    let prefix = |len: u32| len.to_be_bytes();
    assert_eq!(client.conn.framing(&[0, 0, 1]), Ok(None));
    assert_eq!(client.conn.framing(&prefix(100)).unwrap().unwrap().0, 104);
    client.conn.framing(&prefix(16 << 20 >> 1)).unwrap_err();
    client.conn.framing(&prefix(65537)).unwrap_err();
    client.conn.framing(&[0x81, 0, 0, 68]).unwrap_err();
    client.negotiate();
    client.conn.framing(&prefix(65537)).unwrap_err();
    client.login();
    assert_eq!(client.conn.framing(&prefix(8 << 20)).unwrap().unwrap().0, (8 << 20) + 4);
    client.conn.framing(&prefix(0xff_ffff)).unwrap_err();
}

#[test]
fn unknown_commands_and_responses_from_a_client() {
    let world = World::new();
    let mut client = world.anna();
    let mut unknown = echo_message();
    unknown.command = 0x77;
    client.call(unknown).expect(NtStatus::INVALID_PARAMETER);
    let (mut frame, _) = client.encode(&[echo_message()]);
    frame[16] |= 1;
    client.feed(&frame);
    assert!(client.conn.finished().is_some());
}

#[test]
fn cancel_is_never_answered() {
    let world = World::new();
    let mut client = world.anna();
    let id = client.next_id;
    let (frame, _) = client.encode(&[Message::of(Command::Cancel, smb_wire::smb2::put_four)]);
    client.feed(&frame);
    assert_eq!(client.collect(), 0);
    // It used no credit: the id is still good.
    client.next_id = id;
    client.credits += 1;
    client.call(echo_message()).ok();
}

#[test]
fn requests_at_the_wrong_time() {
    let world = World::new();
    let mut before = world.client(Profile::default());
    before.call_and_end(echo_message());
    let mut before = world.client(Profile::default());
    before.call_and_end(OpenAs::default().message("a"));

    let mut stranger = world.client(Profile::default());
    stranger.negotiate();
    stranger.session_id = 77;
    for message in [OpenAs::default().message("a"), close_message(PREVIOUS), read_message(PREVIOUS, 0, 1)] {
        stranger.call(message).expect(NtStatus::USER_SESSION_DELETED);
    }
    assert_eq!(stranger.try_tree_connect(SHARE).unwrap_err(), NtStatus::USER_SESSION_DELETED);

    let mut homeless = world.client(Profile::default());
    homeless.negotiate();
    homeless.login();
    homeless.call(OpenAs::how(Disposition::Create).message("a")).expect(NtStatus::NETWORK_NAME_DELETED);
    assert_eq!(homeless.try_tree_connect("nowhere").unwrap_err(), NtStatus::BAD_NETWORK_NAME);
    assert!(!world.exists("a"));
}

#[test]
fn a_frame_too_short_for_a_header() {
    for len in 0..HEADER_BYTES {
        let world = World::new();
        let mut client = world.anna();
        let (frame, _) = client.encode(&[echo_message()]);
        client.feed(&frame[..len]);
        assert!(client.conn.finished().is_some(), "{len} bytes");
    }
}

#[test]
fn a_handle_belongs_to_its_tree_connect() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    let first = client.tree_id;
    client.tree_connect(SHARE);
    assert_ne!(client.tree_id, first);
    assert_eq!(client.try_close(handle).unwrap_err(), NtStatus::FILE_CLOSED);
    let other = FileHandle { persistent: handle.persistent + 1, ..handle };
    client.tree_id = first;
    assert_eq!(client.try_close(other).unwrap_err(), NtStatus::FILE_CLOSED);
    client.call(Message::of(Command::TreeDisconnect, smb_wire::smb2::put_four)).ok();
    assert_eq!(client.try_close(handle).unwrap_err(), NtStatus::NETWORK_NAME_DELETED);
    assert_eq!(world.server.open_count(), 0);
}

#[test]
fn a_compound_is_never_answered_with_more_than_one_frame_holds() {
    const LEN: u32 = 8 << 20;
    let world = World::new();
    world.put("a", &vec![7; LEN as usize]);
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::reader());
    client.call(Message { credits: 512, ..echo_message() });
    let all = client.compound(&[
        read_message(handle, 0, LEN),
        read_message(handle, 0, LEN),
        read_message(handle, 0, LEN),
        close_message(handle),
    ]);
    let statuses: Vec<_> = all.iter().map(|r| r.status()).collect();
    let (ok, too_much) = (NtStatus::SUCCESS, NtStatus::INSUFFICIENT_RESOURCES);
    assert_eq!(statuses, [ok, too_much, too_much, ok]);
}

#[test]
fn what_a_compound_is_granted_is_not_for_its_own_requests() {
    let world = World::new();
    let mut client = world.anna();
    let in_hand = client.credits as usize;
    client.credits = 10_000;
    let all = vec![Message { credits: 512, ..echo_message() }; in_hand + 1];
    assert_eq!(client.try_compound(&all).err(), Some("a message id that was not granted"));
}
