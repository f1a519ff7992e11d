//! From NEGOTIATE to LOGOFF: dialects, who gets in and who does not, sessions that end, renew and replace one another.

use smb_server::Encryption;
use smb_wire::NtStatus;
use smb_wire::smb2::{Capabilities, FileHandle};
use smb_wire::smb2::{
    Command, Dialect, NegotiateContext, NegotiateResponse, SecurityMode, SessionFlags, SessionSetupResponse,
    ValidateNegotiate, fsctl, put_four,
};

use crate::util::client::CLIENT_GUID;
use crate::util::ops::{echo_message, ioctl_message};
use crate::util::world::{OTHER, OTHER_PASSWORD, PASSWORD, SHARE, USER};
use crate::util::{Client, Message, OpenAs, Profile, World};

fn logoff() -> Message {
    Message::of(Command::Logoff, put_four)
}

/// A multi-protocol NEGOTIATE of SMB1 that offers `dialects`.
fn smb1(dialects: &[&str]) -> Vec<u8> {
    let mut bytes = b"\xffSMB\x72".to_vec();
    bytes.resize(32, 0);
    bytes.push(0);
    let list: Vec<u8> = dialects.iter().flat_map(|d| [b"\x02", d.as_bytes(), b"\0"].concat()).collect();
    bytes.extend((list.len() as u16).to_le_bytes());
    bytes.extend(list);
    bytes
}

#[test]
fn every_dialect_logs_in_and_reads_what_it_wrote() {
    for dialect in Dialect::ALL {
        for spnego in [true, false] {
            let world = World::new();
            let mut client = world.logged_in(Profile { spnego, ..Profile::dialect(dialect) });
            assert_eq!(client.dialect, Some(dialect));
            client.write_file("hello", b"the words");
            assert_eq!(client.read_file("hello").unwrap(), b"the words", "{dialect}");
            assert_eq!(world.content("hello").unwrap(), b"the words");
            client.call(logoff()).ok();
            client.hang_up();
            world.assert_nothing_left();
        }
    }
}

#[test]
fn the_newest_common_dialect_is_spoken() {
    let world = World::with(|config, _| config.max_dialect = Dialect::V3_0);
    let mut client = world.client(Profile::default());
    assert_eq!(client.negotiate().dialect, Dialect::V3_0 as u16);
    let mut old = world.client(Profile::dialect(Dialect::V3_1_1));
    let request = old.negotiate_request();
    old.call(Message::of(Command::Negotiate, |out| request.put(out))).expect(NtStatus::NOT_SUPPORTED);
}

#[test]
fn a_client_of_both_protocols_is_led_to_smb2() {
    let world = World::new();
    let mut client = world.client(Profile::default());
    client.feed(&smb1(&["NT LM 0.12", "SMB 2.002", "SMB 2.???"]));
    let reply = client.take(0).unwrap().ok();
    assert_eq!(NegotiateResponse::decode(&reply.bytes).unwrap().dialect, Dialect::WILDCARD);
    client.next_id = 1;
    client.credits = 1;
    client.negotiate();
    client.login();
    client.tree_connect(SHARE);
    client.write_file("a", b"1");

    let mut plain = world.client(Profile::dialect(Dialect::V2_0_2));
    plain.feed(&smb1(&["NT LM 0.12", "SMB 2.002"]));
    let reply = plain.take(0).unwrap().ok();
    let decoded = NegotiateResponse::decode(&reply.bytes).unwrap();
    assert_eq!(decoded.dialect, Dialect::V2_0_2 as u16);
    plain.dialect = Some(Dialect::V2_0_2);
    plain.negotiated = Some(decoded);
    (plain.next_id, plain.credits) = (1, 1);
    plain.login();
    plain.tree_connect(SHARE);
    assert_eq!(plain.read_file("a").unwrap(), b"1");
}

#[test]
fn smb1_alone_or_too_late_is_refused() {
    let world = World::new();
    let mut client = world.client(Profile::default());
    client.feed(&smb1(&["NT LM 0.12"]));
    assert!(client.conn.finished().is_some());
    let mut late = world.client(Profile::default());
    late.negotiate();
    late.feed(&smb1(&["SMB 2.???"]));
    assert!(late.conn.finished().is_some());
}

#[test]
fn a_second_negotiate_ends_the_connection() {
    let world = World::new();
    let mut client = world.client(Profile::default());
    client.negotiate();
    let request = client.negotiate_request();
    client.call_and_end(Message::of(Command::Negotiate, |out| request.put(out)));
}

#[test]
fn negotiate_contexts_are_checked() {
    let world = World::new();
    let try_with = |change: &dyn Fn(&mut Vec<NegotiateContext>)| {
        let mut client = world.client(Profile::default());
        let mut request = client.negotiate_request();
        change(&mut request.contexts);
        client.call(Message::of(Command::Negotiate, |out| request.put(out))).status()
    };
    assert_eq!(
        try_with(&|c| c.retain(|c| !matches!(c, NegotiateContext::Preauth { .. }))),
        NtStatus::INVALID_PARAMETER
    );
    assert_eq!(try_with(&|c| c.push(c[0].clone())), NtStatus::INVALID_PARAMETER);
    assert_eq!(try_with(&|c| c.push(c[1].clone())), NtStatus::INVALID_PARAMETER);
    let other_hash = NegotiateContext::Preauth { hashes: vec![9], salt: vec![] };
    let no_overlap = NtStatus::SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP;
    assert_eq!(try_with(&|c| c[0] = other_hash.clone()), no_overlap);
    assert_eq!(try_with(&|c| c.push(NegotiateContext::Encryption(vec![]))), NtStatus::INVALID_PARAMETER);
    assert_eq!(try_with(&|c| c.push(NegotiateContext::NetName(b"x\0".to_vec()))), NtStatus::SUCCESS);
}

#[test]
fn an_unknown_user_and_a_wrong_password_look_the_same() {
    let world = World::new();
    let answer = |user: &str, password: &str| {
        let mut client = world.client(Profile::user(user, password));
        client.negotiate();
        let status = client.try_login().unwrap_err();
        assert!(!client.conn.is_established());
        (status, client.conn.finished())
    };
    let wrong = answer(USER, "guess");
    assert_eq!(wrong, answer("nobody-here", "guess"));
    assert_eq!(wrong, answer("", ""));
    assert_eq!(wrong.0, NtStatus::LOGON_FAILURE);
    assert_eq!(world.server.session_count(), 0);
}

#[test]
fn names_are_compared_without_case() {
    let world = World::new();
    let mut client = world.client(Profile::user("ANNA", PASSWORD));
    client.negotiate();
    client.login();
}

#[test]
fn after_a_failed_login_one_may_try_again() {
    let world = World::new();
    let mut client = world.client(Profile::user(USER, "guess"));
    client.negotiate();
    assert_eq!(client.try_login().unwrap_err(), NtStatus::LOGON_FAILURE);
    client.profile.password = PASSWORD.into();
    client.session_id = 0;
    client.login();
    client.tree_connect(SHARE);
    client.write_file("a", b"1");
}

#[test]
fn a_session_is_of_no_use_on_another_connection() {
    let world = World::new();
    let first = world.anna();
    let mut thief = world.client(Profile::default());
    thief.negotiate();
    (thief.session_id, thief.tree_id) = (first.session_id, first.tree_id);
    assert_eq!(thief.try_create("a", &OpenAs::default()).unwrap_err(), NtStatus::USER_SESSION_DELETED);
    assert!(!world.exists("a"));
}

#[test]
fn logging_in_again_keeps_session_keys_and_opens() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    let id = client.session_id;
    client.sign = true;
    client.login();
    assert_eq!(client.session_id, id);
    client.write(handle, 0, b"still mine");
    assert_eq!(world.server.session_count(), 1);
}

#[test]
fn a_failed_second_login_ends_nothing_of_others() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    client.profile.password = "guess".into();
    assert_eq!(client.try_login().unwrap_err(), NtStatus::LOGON_FAILURE);
    // Whatever became of the session, it is not somebody else's now.
    let _ = client.try_write(handle, 0, b"x");
    client.hang_up();
    world.assert_nothing_left();
}

#[test]
fn a_client_that_comes_back_ends_its_old_session() {
    let world = World::new();
    let mut old = world.anna();
    let handle = old.create("a", &OpenAs::default().share(0));
    let mut new = world.client(Profile { previous_session_id: old.session_id, ..Profile::default() });
    new.negotiate();
    new.login();
    new.tree_connect(SHARE);
    let again = new.create("a", &OpenAs::default().share(0));
    new.write(again, 0, b"mine");
    assert_eq!(old.try_write(handle, 0, b"x").unwrap_err(), NtStatus::USER_SESSION_DELETED);
    assert_eq!((world.server.session_count(), world.server.open_count()), (1, 1));
    old.hang_up();
    assert_eq!(world.server.session_count(), 1);
    new.hang_up();
    world.assert_nothing_left();
}

#[test]
fn nobody_ends_the_session_of_another_user() {
    let world = World::new();
    let mut anna = world.anna();
    let profile = Profile { previous_session_id: anna.session_id, ..Profile::user(OTHER, OTHER_PASSWORD) };
    let boris = world.logged_in(profile);
    anna.write_file("a", b"still here");
    assert_eq!(world.server.session_count(), 2);
    drop(boris);
}

#[test]
fn logoff_closes_everything_of_the_session() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    client.call(logoff()).ok();
    assert_eq!((world.server.session_count(), world.server.open_count()), (0, 0));
    assert_eq!(client.try_read(handle, 0, 1).unwrap_err(), NtStatus::USER_SESSION_DELETED);
    assert_eq!(client.call(logoff()).status(), NtStatus::USER_SESSION_DELETED);
}

#[test]
fn a_broken_connection_ends_its_sessions() {
    let world = World::new();
    let mut client = world.anna();
    client.create("a", &OpenAs::default());
    client.hang_up();
    world.assert_nothing_left();
}

#[test]
fn sessions_of_one_connection_are_counted() {
    let world = World::with(|config, _| config.max_sessions = 2);
    let mut client = world.anna();
    client.session_id = 0;
    client.signing_key = None;
    client.login();
    client.session_id = 0;
    assert_eq!(client.try_login().unwrap_err(), NtStatus::INSUFFICIENT_RESOURCES);
}

#[test]
fn a_login_that_goes_wrong_halfway_leaves_no_place_taken() {
    let world = World::with(|config, _| config.max_sessions = 2);
    let mut client = world.client(Profile::default());
    client.negotiate();
    for _ in 0..10 {
        client.session_id = 0;
        client.profile.password = "guess".into();
        assert_eq!(client.try_login().unwrap_err(), NtStatus::LOGON_FAILURE);
    }
    client.profile.password = PASSWORD.into();
    client.session_id = 0;
    client.login();
}

#[test]
fn two_logins_under_way_do_not_mix() {
    let world = World::new();
    let mut client = world.client(Profile::default());
    client.negotiate();
    let (one, two) = (client.first_token(), client.first_token());
    let more = NtStatus::MORE_PROCESSING_REQUIRED;
    let first = client.setup_message(&one);
    let first = client.call(first).expect(more).header.session_id;
    let second = client.setup_message(&two);
    let second = client.call(second).expect(more).header.session_id;
    assert_ne!(first, second);
    // The first login goes on with a token of nobody: it fails, and the other one is untouched.
    client.session_id = first;
    let bad = client.setup_message(b"rubbish");
    assert!(client.call(bad).status().is_error());
    client.session_id = 0;
    client.login();
    client.tree_connect(SHARE);
    client.write_file("a", b"1");
}

#[test]
fn a_required_encryption_shuts_out_who_cannot() {
    let world = World::with(|config, _| config.encryption = Encryption::Required);
    let mut old = world.client(Profile::dialect(Dialect::V2_1));
    old.negotiate();
    assert_eq!(old.try_login().unwrap_err(), NtStatus::ACCESS_DENIED);
    let mut new = world.client(Profile::default());
    new.negotiate();
    let response = new.login();
    let setup = SessionSetupResponse::decode(&response.bytes).unwrap();
    assert_eq!(setup.flags, SessionFlags::ENCRYPT_DATA);
    assert_eq!(new.try_tree_connect(SHARE).unwrap_err(), NtStatus::ACCESS_DENIED, "not encrypted");
    new.seal = true;
    new.tree_connect(SHARE);
    new.write_file("a", b"1");
}

fn validate(client: &mut Client, change: impl FnOnce(&mut ValidateNegotiate)) -> Result<Vec<u8>, &'static str> {
    let mut claim = ValidateNegotiate {
        capabilities: (Capabilities::LARGE_MTU | Capabilities::ENCRYPTION).bits(),
        guid: CLIENT_GUID,
        security_mode: client.profile.security_mode,
        dialects: client.profile.dialects.iter().map(|d| *d as u16).collect(),
    };
    change(&mut claim);
    let mut input = Vec::new();
    claim.put_request(&mut input);
    let message = ioctl_message(FileHandle::PREVIOUS, fsctl::VALIDATE_NEGOTIATE_INFO, &input, 24);
    let message = Message { sign: Some(true), ..message };
    let response = client.try_compound(&[message])?.remove(0).ok();
    assert!(response.signed, "an answer nobody signed proves nothing");
    Ok(smb_wire::smb2::IoctlResponse::decode(&response.bytes).unwrap().output.to_vec())
}

#[test]
fn what_was_negotiated_is_confirmed_and_a_lie_ends_the_connection() {
    for dialect in [Dialect::V3_0, Dialect::V3_0_2] {
        let world = World::new();
        let profile = Profile { dialects: vec![Dialect::V2_1, dialect], ..Profile::default() };
        let mut client = world.logged_in(profile.clone());
        let output = validate(&mut client, |_| {}).unwrap();
        let negotiated = client.negotiated.clone().unwrap();
        assert_eq!(output[..4], negotiated.capabilities.bits().to_le_bytes());
        assert_eq!(output[4..20], negotiated.server_guid);
        assert_eq!(output[20..22], negotiated.security_mode.bits().to_le_bytes());
        assert_eq!(output[22..], (dialect as u16).to_le_bytes());
        let lies: [&dyn Fn(&mut ValidateNegotiate); 4] = [
            &|c| c.capabilities ^= 1,
            &|c| c.guid[3] ^= 1,
            &|c| c.security_mode = SecurityMode::SIGNING_REQUIRED,
            &|c| c.dialects.push(0x0311),
        ];
        for lie in lies {
            let mut client = world.logged_in(profile.clone());
            validate(&mut client, lie).unwrap_err();
        }
    }
}

#[test]
fn echo_needs_no_session() {
    let world = World::new();
    let mut client = world.client(Profile::default());
    client.negotiate();
    client.call(echo_message()).ok();
}
