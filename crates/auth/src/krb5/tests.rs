//! Both halves joined: a ticket from a KDC of the tests' own, contexts under it, and tokens that nobody honest sends. An
//! implementation that nobody here wrote (picky-krb) reads the messages, and decrypts them.

use super::*;
use picky_krb::crypto::CipherSuite;
use picky_krb::data_types as picky;
use picky_krb::messages as picky_messages;

const NOW: i64 = 1_700_000_000;
const ALL: [Etype; 4] = [Etype::Aes128Sha1, Etype::Aes256Sha1, Etype::Aes128Sha2, Etype::Aes256Sha2];

pub(super) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Bytes that differ from call to call.
fn chance(bytes: &mut [u8]) {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static STATE: AtomicU64 = AtomicU64::new(1);
    for byte in bytes {
        let state = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
        *byte = (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes()[0];
    }
}

fn nfs() -> Principal {
    Principal::service("nfs", "server.test", "TEST")
}

fn service_key(etype: Etype) -> Key {
    Key::new(etype, &vec![5; etype.key_bytes()]).unwrap()
}

fn keytab() -> Keytab {
    let mut keytab = Keytab::default();
    ALL.into_iter().for_each(|etype| keytab.add(nfs(), 3, service_key(etype)));
    keytab
}

struct Asked {
    service: Principal,
    etype: Etype,
    times: (i64, i64),
    key: Option<Key>,
}

impl Default for Asked {
    fn default() -> Self {
        Self { service: nfs(), etype: Etype::Aes256Sha1, times: (NOW - 10, NOW + 3600), key: None }
    }
}

fn ticket(asked: &Asked) -> Ticket {
    let key = asked.key.clone().unwrap_or_else(|| service_key(asked.etype));
    let session = Key::random(asked.etype, &chance);
    Ticket::issue(Principal::user("anna", "TEST"), &asked.service, (&key, 3), session, asked.times, &chance)
}

fn acceptor() -> Acceptor {
    Acceptor::new("nfs", NOW - 1000)
}

fn accept(token: &[u8]) -> Result<Accepted, Refused> {
    acceptor().accept(&keytab(), token, NOW, &chance)
}

fn refused(asked: &Asked) -> Refused {
    let (_, token) = Initiator::begin(&ticket(asked), (NOW, 7), true, &chance);
    accept(&token).unwrap_err()
}

fn contexts(etype: Etype, mutual: bool) -> (Context, Context) {
    let (initiator, token) = Initiator::begin(&ticket(&Asked { etype, ..Asked::default() }), (NOW, 7), mutual, &chance);
    let accepted = accept(&token).unwrap();
    assert_eq!(accepted.client.to_string(), "anna@TEST");
    assert_eq!(accepted.expires, NOW + 3600);
    assert_eq!(accepted.reply.is_empty(), !mutual);
    (initiator.finish(mutual.then_some(&*accepted.reply)).unwrap(), accepted.context)
}

#[test]
fn both_ends_sign_and_seal_for_each_other() {
    for (etype, mutual) in ALL.into_iter().flat_map(|etype| [(etype, true), (etype, false)]) {
        let (client, server) = contexts(etype, mutual);
        for (from, to) in [(&client, &server), (&server, &client)] {
            let mic = from.sign(&[b"some", b"thing"]);
            assert_eq!(to.verify(&[b"something"], &mic), Ok(()));
            assert_eq!(to.verify(&[b"anything"], &mic), Err(BadToken));
            assert_eq!(from.verify(&[b"something"], &mic), Err(BadToken), "it does not come back to its sender");
            assert_ne!(mic, from.sign(&[b"something"]), "tokens are numbered");
            let mut sealed = b"before".to_vec();
            from.seal(&[b"some", b"thing"], [7; 16], &mut sealed);
            sealed.drain(..6);
            assert_eq!(sealed.len(), 9 + from.sealing_overhead());
            let opened = to.unwrap(&sealed).unwrap();
            assert!(opened.sealed && *opened == *b"something");
            assert!(from.unwrap(&sealed).is_err());
            assert!(to.unwrap(&mic).is_err() && to.verify(&[b"something"], &sealed).is_err());
        }
    }
}

#[test]
fn no_bit_of_a_token_may_change_and_none_be_missing() {
    let (client, server) = contexts(Etype::Aes128Sha2, true);
    let mic = client.sign(&[b"something"]);
    let mut sealed = Vec::new();
    client.seal(&[b"something"], [7; 16], &mut sealed);
    for at in 0..mic.len() {
        let mut changed = mic.clone();
        changed[at] ^= 1;
        assert_eq!(server.verify(&[b"something"], &changed), Err(BadToken), "byte {at}");
        assert_eq!(server.verify(&[b"something"], &mic[..at]), Err(BadToken), "cut at {at}");
    }
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(server.unwrap(&changed).is_err(), "byte {at}");
        assert!(server.unwrap(&sealed[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn what_was_turned_is_turned_back() {
    let (client, server) = contexts(Etype::Aes256Sha1, true);
    let mut sealed = Vec::new();
    client.seal(&[b"something"], [7; 16], &mut sealed);
    for by in [1usize, 28, 44, 60, 1000, 0xffff] {
        let mut turned = sealed.clone();
        turned[6..8].copy_from_slice(&(by as u16).to_be_bytes());
        let len = turned.len() - 16;
        turned[16..].rotate_right(by % len);
        assert_eq!(*server.unwrap(&turned).unwrap(), *b"something", "by {by}");
    }
}

#[test]
fn what_is_wrapped_and_not_sealed_is_told_apart() {
    let key = service_key(Etype::Aes256Sha1);
    let server = context::Context::new(context::Side::Acceptor, &key, true, 0);
    let header = [5, 4, 4, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let tag = seal::Signing::new(&key, 24).sign(&[b"open", &header]);
    let mut token = [&header[..], b"open", &tag].concat();
    token[5] = tag.len() as u8;
    let opened = server.unwrap(&token).unwrap();
    assert!(!opened.sealed && *opened == *b"open");
    token[16] ^= 1;
    assert!(server.unwrap(&token).is_err());
}

#[test]
fn a_ticket_must_be_for_this_service_and_its_time() {
    let asked = Asked::default;
    assert_eq!(refused(&Asked { service: Principal::service("nfs", "other.test", "TEST"), ..asked() }), Refused::NotUs);
    assert_eq!(
        refused(&Asked { service: Principal::service("nfs", "server.test", "WRONG"), ..asked() }),
        Refused::NotUs
    );
    assert_eq!(
        refused(&Asked { service: Principal::service("host", "server.test", "TEST"), ..asked() }),
        Refused::NotUs
    );
    assert_eq!(refused(&Asked { times: (NOW - 9000, NOW - 301), ..asked() }), Refused::Expired);
    assert_eq!(refused(&Asked { times: (NOW + 301, NOW + 9000), ..asked() }), Refused::NotYetValid);
    for times in [(NOW - 9000, NOW - 299), (NOW + 299, NOW + 9000)] {
        let (_, token) = Initiator::begin(&ticket(&Asked { times, ..asked() }), (NOW, 7), true, &chance);
        assert!(accept(&token).unwrap().expires > NOW, "within what clocks may be apart");
    }
    let mut others = Keytab::default();
    others.add(nfs(), 3, service_key(Etype::Aes128Sha2));
    let (_, token) = Initiator::begin(&ticket(&asked()), (NOW, 7), true, &chance);
    assert_eq!(acceptor().accept(&others, &token, NOW, &chance).unwrap_err(), Refused::NoKey);
    let other = Key::new(Etype::Aes256Sha1, &[6; 32]).unwrap();
    assert_eq!(refused(&Asked { key: Some(other), ..asked() }), Refused::BadIntegrity);
}

#[test]
fn clocks_may_be_five_minutes_apart() {
    for (made, outcome) in [(-301, Some(Refused::Skew)), (-300, None), (300, None), (301, Some(Refused::Skew))] {
        let (_, token) = Initiator::begin(&ticket(&Asked::default()), (NOW + made, 0), true, &chance);
        assert_eq!(accept(&token).err(), outcome, "{made}");
    }
}

#[test]
fn a_request_counts_once() {
    let acceptor = acceptor();
    let keytab = keytab();
    for mutual in [true, false] {
        let (_, token) = Initiator::begin(&ticket(&Asked::default()), (NOW, 7), mutual, &chance);
        assert!(acceptor.accept(&keytab, &token, NOW, &chance).is_ok());
        assert_eq!(acceptor.accept(&keytab, &token, NOW + 200, &chance).unwrap_err(), Refused::Repeat);
    }
    // Before this acceptor was there, another may have taken it.
    let (_, token) = Initiator::begin(&ticket(&Asked::default()), (NOW, 7), false, &chance);
    let young = Acceptor::new("nfs", NOW + 1);
    assert_eq!(young.accept(&keytab, &token, NOW + 2, &chance).unwrap_err(), Refused::Repeat);
    let (_, token) = Initiator::begin(&ticket(&Asked::default()), (NOW, 7), true, &chance);
    assert!(young.accept(&keytab, &token, NOW + 2, &chance).is_ok());
}

#[test]
fn a_ticket_with_somebody_elses_authenticator_is_refused() {
    let mut stolen = ticket(&Asked::default());
    stolen.client = Principal::user("root", "TEST");
    let (_, token) = Initiator::begin(&stolen, (NOW, 7), true, &chance);
    assert_eq!(accept(&token).unwrap_err(), Refused::BadMatch);
}

#[test]
fn the_initiator_sees_that_the_acceptor_has_the_key() {
    let (initiator, token) = Initiator::begin(&ticket(&Asked::default()), (NOW, 7), true, &chance);
    let (other, _) = Initiator::begin(&ticket(&Asked::default()), (NOW, 7), true, &chance);
    let mut reply = accept(&token).unwrap().reply;
    assert_eq!(other.finish(Some(&reply)).unwrap_err(), Refused::BadIntegrity);
    *reply.last_mut().unwrap() ^= 1;
    assert_eq!(initiator.finish(Some(&reply)).unwrap_err(), Refused::BadIntegrity);
}

#[test]
fn tokens_nobody_honest_sends() {
    let (_, token) = Initiator::begin(&ticket(&Asked::default()), (NOW, 7), true, &chance);
    for end in 0..token.len() {
        assert!(accept(&token[..end]).is_err(), "cut at {end}");
    }
    for at in 0..token.len() {
        for value in [0, 1, 0x7f, 0x80, 0x84, 0xff] {
            let mut changed = token.clone();
            if changed[at] == value {
                continue;
            }
            changed[at] = value;
            // Only what nobody depends on may be another: the name's type, the key's version, options of no meaning here.
            if let Ok(accepted) = accept(&changed) {
                assert_eq!(accepted.client.to_string(), "anna@TEST");
            }
        }
    }
    assert_eq!(accept(&vec![0x60; 70_000]).unwrap_err(), Refused::Malformed);
    let mut spnego = token.clone();
    let at = spnego.windows(MECHANISM.len()).position(|w| w == MECHANISM).unwrap();
    spnego[at + 8] = 9;
    assert_eq!(accept(&spnego).unwrap_err(), Refused::OtherMechanism);
}

#[test]
fn what_a_refusal_is_called() {
    assert_eq!(Refused::Skew.major(), 13 << 16);
    assert_eq!(Refused::Skew.minor() as i32, -1_765_328_384 + 37);
    assert_eq!(Refused::Expired.minor() as i32, -1_765_328_384 + 32);
}

/// The value picky-krb reads, written again by it, must be the same bytes.
fn read_by_picky<T: serde_like::Both>(bytes: &[u8]) -> T {
    let value: T = T::read(bytes);
    assert_eq!(value.written(), bytes);
    value
}

mod serde_like {
    //! Reading and writing, for the types the test needs.

    pub trait Both: Sized {
        fn read(bytes: &[u8]) -> Self;
        fn written(&self) -> Vec<u8>;
    }

    macro_rules! both {
        ($($type:ty),*) => {$(
            impl Both for $type {
                fn read(bytes: &[u8]) -> Self {
                    picky_asn1_der::from_bytes(bytes).unwrap()
                }

                fn written(&self) -> Vec<u8> {
                    picky_asn1_der::to_vec(self).unwrap()
                }
            }
        )*};
    }

    use super::{picky, picky_messages};
    both!(
        picky_messages::ApReq,
        picky_messages::ApRep,
        picky::EncTicketPart,
        picky::Authenticator,
        picky::EncApRepPart
    );
}

#[test]
fn another_implementation_reads_and_decrypts_the_messages() {
    for (etype, suite) in
        [(Etype::Aes128Sha1, CipherSuite::Aes128CtsHmacSha196), (Etype::Aes256Sha1, CipherSuite::Aes256CtsHmacSha196)]
    {
        let cipher = suite.cipher();
        let ticket = ticket(&Asked { etype, ..Asked::default() });
        let (_, token) = Initiator::begin(&ticket, (NOW, 7), true, &chance);
        let request: picky_messages::ApReq = read_by_picky(token::unframe(&token, token::AP_REQ).unwrap());
        let part = &request.0.ticket.0.0.enc_part.0.cipher.0.0;
        let plain = cipher.decrypt(service_key(etype).bytes(), 2, part).unwrap();
        let inner: picky::EncTicketPart = read_by_picky(&plain);
        assert_eq!(inner.0.key.0.key_value.0.0, ticket.session.bytes());
        assert_eq!(inner.0.endtime.0.0.year(), 2023);
        let plain = cipher.decrypt(ticket.session.bytes(), 11, &request.0.authenticator.0.cipher.0.0).unwrap();
        let authenticator: picky::Authenticator = read_by_picky(&plain);
        assert_eq!(authenticator.0.cusec.0.0, [7]);
        let reply = accept(&token).unwrap().reply;
        let reply: picky_messages::ApRep = read_by_picky(token::unframe(&reply, token::AP_REP).unwrap());
        let plain = cipher.decrypt(ticket.session.bytes(), 12, &reply.0.enc_part.0.cipher.0.0).unwrap();
        let part: picky::EncApRepPart = read_by_picky(&plain);
        assert!(part.0.subkey.0.is_some() && *part.0.ctime == *authenticator.0.ctime);
        // And the other way: what it encrypts is opened here.
        let sealed = cipher.encrypt(ticket.session.bytes(), 24, b"something of some length").unwrap();
        assert_eq!(*seal::open(&ticket.session, 24, &sealed).unwrap(), *b"something of some length");
    }
}
