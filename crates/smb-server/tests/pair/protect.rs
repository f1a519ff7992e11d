//! Signing and sealing: what is good is taken, what was touched has no effect, and nothing leaves unprotected.

use smb_server::ShareOptions;
use smb_wire::NtStatus;
use smb_wire::crypto::{Cipher, SigningAlgorithm, TRANSFORM_HEADER_LEN};
use smb_wire::smb2::{
    Command, Dialect, Disposition, FileHandle, HEADER_BYTES, Header, SecurityMode, ShareFlags, TreeConnectResponse,
};

use crate::util::ops::{close_message, echo_message, read_message, write_message};
use crate::util::world::{OTHER, OTHER_PASSWORD, SHARE, share};
use crate::util::{Client, Message, OpenAs, Profile, World};

/// One client for each way of signing.
fn signers() -> Vec<(SigningAlgorithm, Profile)> {
    let newest = |algorithm| Profile { signing: vec![algorithm], ..Profile::dialect(Dialect::V3_1_1) };
    vec![
        (SigningAlgorithm::HmacSha256, Profile::dialect(Dialect::V2_0_2)),
        (SigningAlgorithm::HmacSha256, Profile::dialect(Dialect::V2_1)),
        (SigningAlgorithm::AesCmac, Profile::dialect(Dialect::V3_0)),
        (SigningAlgorithm::AesCmac, Profile { signing: vec![], ..Profile::dialect(Dialect::V3_1_1) }),
        (SigningAlgorithm::HmacSha256, newest(SigningAlgorithm::HmacSha256)),
        (SigningAlgorithm::AesCmac, newest(SigningAlgorithm::AesCmac)),
        (SigningAlgorithm::AesGmac, newest(SigningAlgorithm::AesGmac)),
    ]
}

/// One client for each way of sealing.
fn sealers() -> Vec<(Cipher, Profile)> {
    let newest = |cipher| (cipher, Profile { ciphers: vec![cipher], ..Profile::dialect(Dialect::V3_1_1) });
    let mut all: Vec<_> =
        [Cipher::Aes128Ccm, Cipher::Aes128Gcm, Cipher::Aes256Ccm, Cipher::Aes256Gcm].map(newest).into();
    all.push((Cipher::Aes128Ccm, Profile::dialect(Dialect::V3_0)));
    all.push((Cipher::Aes128Ccm, Profile::dialect(Dialect::V3_0_2)));
    all
}

fn sign_all(client: &mut Client) {
    client.sign = true;
}

#[test]
fn a_signed_request_gets_a_signed_answer_in_every_algorithm() {
    for (algorithm, profile) in signers() {
        let world = World::new();
        let mut client = world.logged_in(profile);
        assert_eq!(client.signing_algorithm(), algorithm);
        sign_all(&mut client);
        let handle = client.create("a", &OpenAs::default());
        assert!(client.call(write_message(handle, 0, b"signed")).ok().signed);
        let read = client.call(read_message(handle, 0, 6)).ok();
        assert!(read.signed);
        assert_eq!(client.read(handle, 0, 6), b"signed");
        assert!(client.call(read_message(handle, 99, 6)).expect(NtStatus::END_OF_FILE).signed, "errors too");
    }
}

#[test]
fn a_touched_request_is_denied_and_does_nothing() {
    for (algorithm, profile) in signers() {
        let world = World::new();
        let mut client = world.logged_in(profile);
        sign_all(&mut client);
        let handle = client.create("a", &OpenAs::default());
        client.write(handle, 0, b"before");
        // Signature, header and body, each changed in one bit. The command and the ids stay, so that there is an answer.
        for at in [48, 63, 56, 30 + HEADER_BYTES, 48 + HEADER_BYTES] {
            let (mut frame, ids) = client.encode(&[write_message(handle, 0, b"after!")]);
            frame[at] ^= 1;
            client.feed(&frame);
            let answer = client.take(ids[0]).unwrap();
            assert_eq!(answer.status(), NtStatus::ACCESS_DENIED, "{algorithm:?} byte {at}");
        }
        assert_eq!(world.content("a").unwrap(), b"before");
        client.write(handle, 0, b"go on.");
    }
}

#[test]
fn who_must_sign_is_not_heard_without() {
    for required_by_server in [true, false] {
        let world = World::with(|config, _| config.signing_required = required_by_server);
        let mut profile = Profile::default();
        if !required_by_server {
            profile.security_mode |= SecurityMode::SIGNING_REQUIRED;
        }
        let mut client = world.client(profile);
        client.negotiate();
        client.login();
        assert_eq!(client.try_tree_connect(SHARE).unwrap_err(), NtStatus::ACCESS_DENIED);
        sign_all(&mut client);
        client.tree_connect(SHARE);
        let handle = client.create("a", &OpenAs::default());
        client.write(handle, 0, b"signed");
        client.sign = false;
        let unsigned = client.call(write_message(handle, 0, b"forged")).expect(NtStatus::ACCESS_DENIED);
        assert!(unsigned.signed, "what a signing session gets is signed");
        assert_eq!(world.content("a").unwrap(), b"signed");
    }
}

#[test]
fn each_message_of_a_compound_is_signed_alone() {
    let world = World::new();
    let mut client = world.anna();
    sign_all(&mut client);
    let handle = client.create("a", &OpenAs::default());
    let all = client.compound(&[write_message(handle, 0, b"one"), echo_message(), read_message(handle, 0, 3)]);
    assert!(all.iter().all(|r| r.signed && r.status() == NtStatus::SUCCESS));
    // The middle one is touched: the others are good all the same.
    let (mut frame, ids) = client.encode(&[
        write_message(handle, 0, b"two"),
        write_message(handle, 0, b"BAD"),
        read_message(handle, 0, 3),
    ]);
    let second = u32::from_le_bytes(frame[20..24].try_into().unwrap()) as usize;
    frame[second + HEADER_BYTES + 48] ^= 1;
    client.feed(&frame);
    client.take(ids[0]).unwrap().ok();
    client.take(ids[1]).unwrap().expect(NtStatus::ACCESS_DENIED);
    client.take(ids[2]).unwrap().ok();
    assert_eq!(world.content("a").unwrap(), b"two");
}

#[test]
fn signed_and_unsigned_requests_mix_in_a_compound() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    let mut signed = write_message(handle, 0, b"x");
    signed.sign = Some(true);
    let all = client.compound(&[signed, read_message(handle, 0, 1), close_message(handle)]);
    assert_eq!(all.iter().map(|r| r.signed).collect::<Vec<_>>(), [true, false, false]);
    assert!(all.iter().all(|r| r.status() == NtStatus::SUCCESS));
}

#[test]
fn every_cipher_carries_everything_and_nothing_else_comes_back() {
    for (cipher, profile) in sealers() {
        let world = World::new();
        let mut client = world.logged_in(profile);
        assert_eq!(client.cipher(), Some(cipher));
        client.seal = true;
        let handle = client.create("a", &OpenAs::default());
        let content: Vec<u8> = (0..100_000u32).map(|i| (i * 7) as u8).collect();
        let written = client.call(write_message(handle, 0, &content)).ok();
        assert!(written.sealed && !written.signed);
        assert_eq!(client.read(handle, 0, 100_000), content, "{cipher:?}");
        assert!(client.call(read_message(handle, 1 << 30, 6)).expect(NtStatus::END_OF_FILE).sealed);
        assert_eq!(world.content("a").unwrap(), content);
    }
}

#[test]
fn no_nonce_is_used_twice_over_many_replies_and_a_second_login() {
    let world = World::new();
    let mut client = world.anna();
    client.seal = true;
    let handle = client.create("a", &OpenAs::default());
    client.write(handle, 0, b"x");
    for round in 0..300 {
        client.read(handle, 0, 1);
        if round == 150 {
            client.seal = false;
            client.login();
            client.seal = true;
        }
    }
}

#[test]
fn a_touched_sealed_frame_ends_the_connection() {
    for (cipher, profile) in sealers() {
        for at in [4, 20, 36, 42, TRANSFORM_HEADER_LEN, TRANSFORM_HEADER_LEN + HEADER_BYTES + 48] {
            let world = World::new();
            let mut client = world.logged_in(profile.clone());
            client.seal = true;
            let handle = client.create("a", &OpenAs::default());
            client.write(handle, 0, b"before");
            let (frame, _) = client.encode(&[write_message(handle, 0, b"after!")]);
            let mut sealed = client.seal_frame(&frame);
            sealed[at] ^= 1;
            client.feed(&sealed);
            assert!(client.conn.finished().is_some(), "{cipher:?} byte {at}");
            assert_eq!(client.collect(), 0, "not a word");
            assert_eq!(world.content("a").unwrap(), b"before");
            client.hang_up();
            world.assert_nothing_left();
        }
    }
}

#[test]
fn a_sealed_frame_may_not_speak_for_another_session() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    let (first_session, first_tree) = (client.session_id, client.tree_id);
    client.session_id = 0;
    client.signing_key = None;
    client.login();
    client.tree_connect(SHARE);
    client.seal = true;
    let mut message = write_message(handle, 0, b"x");
    (message.session_id, message.tree_id) = (Some(first_session), Some(first_tree));
    client.call(message).expect(NtStatus::ACCESS_DENIED);
    assert_eq!(world.content("a").unwrap(), b"");
}

#[test]
fn a_share_that_must_be_sealed_is() {
    let sealed_share = |config: &mut smb_server::Config, fs: &_| {
        let options = ShareOptions { encryption_required: true, ..ShareOptions::default() };
        config.shares.extend([share("vault", fs, options)]);
    };
    let world = World::with(sealed_share);
    let mut old = world.client(Profile::dialect(Dialect::V2_1));
    old.negotiate();
    old.login();
    assert_eq!(old.try_tree_connect("vault").unwrap_err(), NtStatus::ACCESS_DENIED);
    old.tree_connect(SHARE);

    let mut client = world.anna();
    let response = client.tree_connect("vault");
    assert!(TreeConnectResponse::decode(&response.bytes).unwrap().flags.contains(ShareFlags::ENCRYPT_DATA));
    assert_eq!(client.try_create("a", &OpenAs::default()).unwrap_err(), NtStatus::ACCESS_DENIED);
    client.seal = true;
    let handle = client.create("a", &OpenAs::how(Disposition::Create));
    client.write(handle, 0, b"secret");
    client.seal = false;
    assert_eq!(client.try_read(handle, 0, 6).unwrap_err(), NtStatus::ACCESS_DENIED);
}

#[test]
fn without_a_common_cipher_nothing_is_sealed() {
    let world = World::with(|config, _| config.ciphers = vec![Cipher::Aes256Gcm]);
    let mut client = world.logged_in(Profile { ciphers: vec![Cipher::Aes128Ccm], ..Profile::default() });
    assert_eq!(client.cipher(), None);
    client.write_file("a", b"plain");
    let mut forged = vec![0xfd, b'S', b'M', b'B'];
    forged.resize(200, 0);
    client.feed(&forged);
    assert!(client.conn.finished().is_some());
}

#[test]
fn a_cancel_between_does_not_let_one_session_sign_for_another() {
    let world = World::with(|config, _| config.signing_required = true);
    let mut client = world.client(Profile::default());
    client.negotiate();
    client.login();
    sign_all(&mut client);
    client.tree_connect(SHARE);
    let handle = client.create("a", &OpenAs::default());
    client.write(handle, 0, b"before");
    let annas = (client.session_id, client.tree_id, client.signing_key.take().unwrap());
    client.profile = Profile::user(OTHER, OTHER_PASSWORD);
    client.session_id = 0;
    client.sign = false;
    client.login();
    sign_all(&mut client);
    let mut read = read_message(handle, 0, 6);
    (read.session_id, read.tree_id) = (Some(annas.0), Some(annas.1));
    let cancel = Message { command: Command::Cancel as u16, ..echo_message() };
    let (mut frame, _) = client.encode(&[read, cancel, write_message(FileHandle::PREVIOUS, 0, b"after!").related()]);
    let next = Header::decode(&frame).unwrap().next_command as usize;
    annas.2.sign(&mut frame[..next]);
    client.feed(&frame);
    client.poll();
    assert!(client.conn.next_reply().is_some());
    assert_eq!(world.content("a").unwrap(), b"before");
}

#[test]
fn a_connection_takes_any_number_of_logins_one_after_the_other() {
    let world = World::with(|config, _| config.max_sessions = 2);
    let mut client = world.anna();
    for _ in 0..5 {
        client.call(Message::of(Command::Logoff, smb_wire::smb2::put_four)).ok();
        client.session_id = 0;
        client.signing_key = None;
        client.login();
    }
    assert_eq!(world.server.session_count(), 1);
}
