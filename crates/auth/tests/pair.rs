//! A client and a server joined in memory: every way the two can be set up, and what happens to a token in between.

use std::collections::HashMap;

use auth::{
    Acceptor, AcceptorConfig, AuthError, Authenticated, InitStep, Initiator, InitiatorConfig, InitiatorSeed, LoginKind,
    MechStep, Mechanism, NtHash, Outcome, SessionKey, Step, UserLookup,
};
use smb_wire::spnego::{
    NegState, NegTokenInit, NegTokenResp, OID_KERBEROS, OID_MS_KERBEROS, OID_NEGOEX, OID_NTLMSSP, Oid, Token,
};

const NOW: u64 = 0x01d0_baae_cdf5_a1a1;
const CHOSEN_KEY: [u8; 16] = [0x77; 16];

struct Users(HashMap<&'static str, NtHash>);

impl UserLookup for Users {
    fn nt_hash(&self, _domain: &str, user: &str) -> Option<NtHash> {
        self.0.get(user.to_lowercase().as_str()).cloned()
    }
}

fn users() -> Users {
    Users(HashMap::from([("anna", NtHash::of_password("secret"))]))
}

fn server() -> AcceptorConfig {
    AcceptorConfig {
        netbios_name: "LONGSHORE".into(),
        netbios_domain: "WORKGROUP".into(),
        dns_name: "longshore.example.org".into(),
        dns_domain: "example.org".into(),
        ..AcceptorConfig::default()
    }
}

fn client() -> InitiatorConfig {
    InitiatorConfig::new("Anna", "WORKGROUP", NtHash::of_password("secret"))
}

fn seed() -> InitiatorSeed {
    InitiatorSeed { client_challenge: [0xc1; 8], session_key: CHOSEN_KEY, now: NOW }
}

fn acceptor(config: &AcceptorConfig) -> Acceptor {
    Acceptor::new(config, [0x5e; 8], NOW)
}

struct Login {
    who: Authenticated,
    key: [u8; 16],
    client_key: [u8; 16],
}

/// Runs an exchange to its end; `meddle` sees each token on its way, numbered from 0.
fn exchange(
    server: &mut Acceptor,
    client: &mut Initiator,
    mut meddle: impl FnMut(usize, Vec<u8>) -> Vec<u8>,
) -> Result<Login, AuthError> {
    let users = users();
    let mut to_server = client.first_token();
    for round in 0..10 {
        let step = server.step(&meddle(round * 2, to_server), &users)?;
        let (to_client, done) = match step {
            Step::Continue(token) => (token, None),
            Step::Done { who, session_key, token } => (token, Some((who, session_key))),
        };
        let answer = client.step(&meddle(round * 2 + 1, to_client))?;
        match (answer, done) {
            (InitStep::Continue(token), None) => to_server = token,
            (InitStep::Done, Some((who, key))) => {
                let client_key = client.session_key().expect("a client that is done has a key").first_16();
                return Ok(Login { who, key: key.first_16(), client_key });
            }
            (answer, done) => panic!("one side is done and the other is not: {answer:?}, {done:?}"),
        }
    }
    panic!("the exchange does not end");
}

fn login(server: &AcceptorConfig, client: &InitiatorConfig) -> Result<Login, AuthError> {
    exchange(&mut acceptor(server), &mut Initiator::new(client, seed()), |_, token| token)
}

fn mech_lists() -> [Vec<Oid<'static>>; 3] {
    [
        vec![OID_NTLMSSP],
        vec![OID_MS_KERBEROS, OID_KERBEROS, OID_NEGOEX, OID_NTLMSSP],
        vec![OID_NTLMSSP, OID_MS_KERBEROS],
    ]
}

/// Every setup of a client.
fn clients() -> Vec<InitiatorConfig> {
    let mut all = Vec::new();
    for spnego in [true, false] {
        for mech_types in mech_lists() {
            for mic in [true, false] {
                for key_exchange in [true, false] {
                    for ntlmv1 in [true, false] {
                        let mech_types = mech_types.clone();
                        all.push(InitiatorConfig { spnego, mech_types, mic, key_exchange, ntlmv1, ..client() });
                    }
                }
            }
        }
    }
    all
}

#[test]
fn every_setup_logs_in_and_ends_with_the_same_key() {
    let server = AcceptorConfig { allow_ntlmv1: true, ..server() };
    for config in clients() {
        let login = login(&server, &config).unwrap_or_else(|error| panic!("{error} with {config:?}"));
        assert_eq!((login.who.name.as_str(), login.who.kind), ("Anna", LoginKind::User));
        assert_eq!(login.key, login.client_key, "{config:?}");
        assert_eq!(login.key == CHOSEN_KEY, config.key_exchange, "{config:?}");
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_the_same_error_in_every_setup() {
    for lax in [true, false] {
        let server = AcceptorConfig { allow_ntlmv1: lax, allow_anonymous: lax, ..server() };
        for config in clients() {
            let wrong = InitiatorConfig { secret: NtHash::of_password("Secret"), ..config.clone() };
            let unknown = InitiatorConfig { user: "bert".into(), ..config };
            assert_eq!(login(&server, &wrong).err(), Some(AuthError::Refused), "{wrong:?}");
            assert_eq!(login(&server, &unknown).err(), Some(AuthError::Refused), "{unknown:?}");
        }
    }
}

#[test]
fn ntlmv1_is_refused_unless_allowed() {
    for config in clients().into_iter().filter(|config| config.ntlmv1) {
        assert_eq!(login(&server(), &config).err(), Some(AuthError::Refused), "{config:?}");
    }
}

#[test]
fn anonymous_is_refused_unless_allowed_and_has_no_secret_key() {
    let nobody = InitiatorConfig { user: String::new(), domain: String::new(), ..client() };
    assert_eq!(login(&server(), &nobody).err(), Some(AuthError::Refused));
    let guests_only = AcceptorConfig { allow_guest: true, ..server() };
    assert_eq!(login(&guests_only, &nobody).err(), Some(AuthError::Refused), "a guest has a name");
    let open = AcceptorConfig { allow_anonymous: true, ..server() };
    for spnego in [true, false] {
        let login = login(&open, &InitiatorConfig { spnego, ..nobody.clone() }).unwrap();
        assert_eq!((login.who.kind, login.who.is_user()), (LoginKind::Anonymous, false));
    }
}

#[test]
fn a_guest_is_an_unknown_user_never_a_known_one() {
    let open = AcceptorConfig { allow_guest: true, ..server() };
    let stranger = InitiatorConfig { user: "bert".into(), ..client() };
    let guest = login(&open, &stranger).unwrap();
    assert_eq!((guest.who.kind, guest.who.name.as_str(), guest.key), (LoginKind::Guest, "bert", [0; 16]));
    let liar = InitiatorConfig { secret: NtHash::of_password("guess"), ..client() };
    assert_eq!(login(&open, &liar).err(), Some(AuthError::Refused));
}

#[test]
fn extended_protection_reaches_the_server() {
    let config = InitiatorConfig {
        target_name: Some("cifs/longshore".into()),
        channel_bindings: Some([9; 16]),
        workstation: "DESK".into(),
        ..client()
    };
    let who = login(&server(), &config).unwrap().who;
    assert_eq!(who.target_name.as_deref(), Some("cifs/longshore"));
    assert_eq!((who.channel_bindings, who.workstation.as_str()), (Some([9; 16]), "DESK"));
    let plain = login(&server(), &client()).unwrap().who;
    assert_eq!((plain.target_name, plain.channel_bindings), (None, None));
}

/// The whole point of the MICs: whoever sits in between cannot change a byte of NTLM, nor the list of mechanisms.
#[test]
fn a_token_changed_on_the_way_does_no_harm() {
    for spnego in [true, false] {
        let config = InitiatorConfig { spnego, ..client() };
        let lengths = token_lengths(&config);
        for (number, len) in lengths.iter().enumerate() {
            for at in 0..*len {
                let mut changed = Vec::new();
                let login =
                    exchange(&mut acceptor(&server()), &mut Initiator::new(&config, seed()), |this, mut token| {
                        if this == number {
                            token[at] ^= 0x20;
                            changed = token.clone();
                        }
                        token
                    });
                // NTLM is covered to the last byte; some of SPNEGO's framing means nothing.
                if let Ok(login) = login {
                    assert!(spnego, "token {number} byte {at}: {changed:02x?}");
                    assert_eq!(login.key, login.client_key, "token {number} byte {at}: {changed:02x?}");
                    assert_eq!(login.who.name, "Anna");
                }
            }
        }
    }
}

fn token_lengths(config: &InitiatorConfig) -> Vec<usize> {
    let mut lengths = Vec::new();
    exchange(&mut acceptor(&server()), &mut Initiator::new(config, seed()), |_, token| {
        lengths.push(token.len());
        token
    })
    .unwrap();
    lengths
}

#[test]
fn a_cut_token_never_panics_and_never_logs_in() {
    for spnego in [true, false] {
        for mech_types in mech_lists() {
            let config = InitiatorConfig { spnego, mech_types, ..client() };
            for (number, len) in token_lengths(&config).into_iter().enumerate() {
                for keep in 0..len {
                    let login =
                        exchange(&mut acceptor(&server()), &mut Initiator::new(&config, seed()), |this, token| {
                            if this == number { token[..keep].to_vec() } else { token }
                        });
                    // A bare NEGOTIATE may end after its flags; only its MIC notices.
                    assert!(login.is_err(), "token {number} cut to {keep} of {len}");
                }
            }
        }
    }
}

fn init(token: &[u8]) -> NegTokenInit<'_> {
    match Token::decode(token).unwrap() {
        Token::Init(init) => init,
        Token::Resp(_) => panic!("an init token"),
    }
}

fn resp(token: &[u8]) -> NegTokenResp<'_> {
    match Token::decode(token).unwrap() {
        Token::Resp(resp) => resp,
        Token::Init(_) => panic!("a response"),
    }
}

fn continued(step: Step) -> Vec<u8> {
    match step {
        Step::Continue(token) => token,
        Step::Done { .. } => panic!("not done yet"),
    }
}

#[test]
fn the_hint_names_ntlmssp() {
    assert_eq!(init(&acceptor(&server()).initial_token()).mech_types, [OID_NTLMSSP]);
}

#[test]
fn a_token_for_a_mechanism_we_lack_is_answered_with_ours_and_a_mic_is_asked_for() {
    let offer = NegTokenInit {
        mech_types: vec![OID_MS_KERBEROS, OID_NTLMSSP],
        mech_token: Some(b"\x60\x10 a Kerberos token"),
        ..NegTokenInit::default()
    };
    let reply = continued(acceptor(&server()).step(&offer.encode(), &users()).unwrap());
    let expected = NegTokenResp {
        state: Some(NegState::RequestMic),
        supported_mech: Some(OID_NTLMSSP),
        response_token: None,
        mech_list_mic: None,
    };
    assert_eq!(resp(&reply), expected);
}

#[test]
fn a_client_without_ntlmssp_has_nothing_in_common_with_us() {
    let offer = NegTokenInit { mech_types: vec![OID_KERBEROS], ..NegTokenInit::default() };
    assert_eq!(acceptor(&server()).step(&offer.encode(), &users()).unwrap_err(), AuthError::NoMechanism);
    let empty = NegTokenInit::default();
    assert_eq!(acceptor(&server()).step(&empty.encode(), &users()).unwrap_err(), AuthError::NoMechanism);
}

/// Someone strikes Kerberos from the client's list to have the weaker mechanism.
#[test]
fn a_list_changed_on_the_way_is_noticed() {
    let config = InitiatorConfig { mech_types: vec![OID_NTLMSSP, OID_KERBEROS], ..client() };
    let login = exchange(&mut acceptor(&server()), &mut Initiator::new(&config, seed()), |number, token| {
        if number == 0 { NegTokenInit { mech_types: vec![OID_NTLMSSP], ..init(&token) }.encode() } else { token }
    });
    assert_eq!(login.err(), Some(AuthError::Refused));
}

#[test]
fn a_mic_that_is_required_cannot_be_left_out() {
    let config = InitiatorConfig { mech_types: vec![OID_KERBEROS, OID_NTLMSSP], ..client() };
    let stripped_by = |direction: usize| {
        exchange(&mut acceptor(&server()), &mut Initiator::new(&config, seed()), |number, token| match number {
            0 => token,
            _ if number % 2 == direction => NegTokenResp { mech_list_mic: None, ..resp(&token) }.encode(),
            _ => token,
        })
    };
    assert_eq!(stripped_by(0).err(), Some(AuthError::Refused), "the client's");
    assert_eq!(stripped_by(1).err(), Some(AuthError::Refused), "the server's");
}

/// Where it is not required, as when the one mechanism both want was first, it is answered only if it was sent.
#[test]
fn a_mic_that_is_not_required_may_be_left_out() {
    let mut last = Vec::new();
    let login = exchange(&mut acceptor(&server()), &mut Initiator::new(&client(), seed()), |number, token| {
        last = token.clone();
        if number == 2 { NegTokenResp { mech_list_mic: None, ..resp(&token) }.encode() } else { token }
    });
    assert!(login.is_ok());
    assert_eq!(resp(&last).mech_list_mic, None);
}

#[test]
fn tokens_out_of_order_end_the_exchange() {
    let users = users();
    let first = Initiator::new(&client(), seed()).first_token();

    let mut server_side = acceptor(&server());
    let challenge = continued(server_side.step(&first, &users).unwrap());
    assert_eq!(server_side.step(&first, &users).unwrap_err(), AuthError::OutOfOrder, "an init token again");
    assert_eq!(server_side.step(&first, &users).unwrap_err(), AuthError::OutOfOrder, "and after the end");
    assert_eq!(acceptor(&server()).step(&challenge, &users).unwrap_err(), AuthError::OutOfOrder, "a response first");

    let mut client_side = Initiator::new(&client(), seed());
    assert_eq!(client_side.step(&first).unwrap_err(), AuthError::OutOfOrder);
    let rejection = NegTokenResp { state: Some(NegState::Reject), ..NegTokenResp::default() };
    assert_eq!(Initiator::new(&client(), seed()).step(&rejection.encode()).unwrap_err(), AuthError::Refused);
}

#[test]
fn a_used_exchange_accepts_nothing_more() {
    let users = users();
    let bare = InitiatorConfig { spnego: false, ..client() };
    let (mut server_side, mut client_side) = (acceptor(&server()), Initiator::new(&bare, seed()));
    let challenge = continued(server_side.step(&client_side.first_token(), &users).unwrap());
    let InitStep::Continue(answer) = client_side.step(&challenge).unwrap() else { panic!("an answer") };
    assert!(matches!(server_side.step(&answer, &users), Ok(Step::Done { .. })));
    assert_eq!(server_side.step(&answer, &users).unwrap_err(), AuthError::OutOfOrder, "replayed");

    let mut other = Acceptor::new(&server(), [0x5f; 8], NOW);
    continued(other.step(&Initiator::new(&bare, seed()).first_token(), &users).unwrap());
    assert_eq!(other.step(&answer, &users).unwrap_err(), AuthError::Refused, "replayed against another challenge");
}

/// A mechanism of one token, as Kerberos has: what the seam is for.
struct OneToken;

impl Mechanism for OneToken {
    fn oids(&self) -> &'static [Oid<'static>] {
        &[OID_KERBEROS, OID_MS_KERBEROS]
    }

    fn step(&mut self, token: &[u8], _users: &dyn UserLookup) -> Result<MechStep, AuthError> {
        let who = Authenticated {
            name: String::from_utf8_lossy(token).into(),
            domain: "EXAMPLE.ORG".into(),
            workstation: String::new(),
            kind: LoginKind::User,
            target_name: None,
            channel_bindings: None,
        };
        let token = Some(b"reply".to_vec());
        Ok(MechStep::Done(Outcome { who, session_key: SessionKey::new(&[1; 32]), token }))
    }

    fn make_mic(&mut self, data: &[u8]) -> Option<Vec<u8>> {
        Some(data.iter().rev().copied().collect())
    }

    fn verify_mic(&mut self, data: &[u8], mic: &[u8]) -> bool {
        data == mic
    }
}

#[test]
fn another_mechanism_joins_by_the_seam() {
    let mut server_side = acceptor(&server()).with_mechanism(Box::new(OneToken));
    assert_eq!(init(&server_side.initial_token()).mech_types, [OID_KERBEROS, OID_MS_KERBEROS, OID_NTLMSSP]);
    let offer = NegTokenInit {
        mech_types: vec![OID_MS_KERBEROS, OID_NTLMSSP],
        mech_token: Some(b"anna"),
        ..NegTokenInit::default()
    };
    let Step::Done { who, session_key, token } = server_side.step(&offer.encode(), &users()).unwrap() else {
        panic!("one token is enough")
    };
    assert_eq!((who.name.as_str(), session_key.full(), session_key.first_16()), ("anna", &[1; 32][..], [1; 16]));
    let reply = resp(&token);
    assert_eq!((reply.supported_mech, reply.response_token), (Some(OID_MS_KERBEROS), Some(&b"reply"[..])));
    assert_eq!(reply.state, Some(NegState::AcceptCompleted));

    // The same server still speaks NTLM, wrapped and bare.
    for spnego in [true, false] {
        let config = InitiatorConfig { spnego, ..client() };
        let mut server_side = acceptor(&server()).with_mechanism(Box::new(OneToken));
        let login = exchange(&mut server_side, &mut Initiator::new(&config, seed()), |_, token| token).unwrap();
        assert_eq!(login.key, CHOSEN_KEY);
    }
}

#[test]
fn nothing_printable_holds_a_secret() {
    let config = client();
    let mut client_side = Initiator::new(&config, seed());
    let mut server_side = acceptor(&server());
    exchange(&mut server_side, &mut client_side, |_, token| token).unwrap();
    let printed = format!("{config:?} {client_side:?} {server_side:?} {:?} {:?}", seed(), SessionKey::new(&[0x77; 16]));
    // The key's bytes in decimal and hexadecimal, and the beginning of the hash.
    assert!(!["119", "77, 77", "7777"].iter().any(|bytes| printed.contains(bytes)), "{printed}");
    assert!(!printed.contains("NtHash(["), "{printed}");
}
