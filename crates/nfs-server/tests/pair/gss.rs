//! A client with Kerberos, made of the initiator's half and a ticket from a KDC of the tests' own: contexts begun, used
//! and ended, and what is answered to calls that nobody honest sends (RFC 2203 5.3.3).

use std::sync::Arc;

use auth::krb5::{Context, Etype, Initiator, Key, Keytab, Principal, Ticket};
use nfs_server::ExportOptions;
use nfs_wire::nfs3::Nfs3Proc;
use nfs_wire::rpc::{
    AcceptStat, AuthStat, Call, Flavor, GssCred, GssInitRes, GssIntegrity, GssProc, GssService, MAX_GSS_SEQUENCE,
    OpaqueAuth, Outcome, Reply, program,
};
use nfs_wire::xdr::{Bounded, Put, Reader, Xdr, to_vec};
use vfs::Cred;

use super::world::{Client, UID, World, all};

const REALM: &str = "TEST";
/// When worlds begin.
const NOW: i64 = 1_700_000_000;
const ALL: [GssService; 3] = [GssService::None, GssService::Integrity, GssService::Privacy];

/// Accounts here: `anna`, and nobody else.
pub struct People;

impl nfs_server::Accounts for People {
    fn account(&self, name: &str) -> Result<Option<Cred>, String> {
        Ok((name == "anna").then(|| Cred { uid: UID, gid: 100, groups: [100, 200].into() }))
    }
}

fn service() -> Principal {
    Principal::service("nfs", "server", REALM)
}

fn key() -> Key {
    Key::new(Etype::Aes256Sha1, &[5; 32]).unwrap()
}

pub fn keytab() -> Keytab {
    let mut keytab = Keytab::default();
    keytab.add(service(), 1, key());
    keytab
}

/// Differs from call to call.
fn chance(bytes: &mut [u8]) {
    use std::sync::atomic::{AtomicU8, Ordering};
    static NEXT: AtomicU8 = AtomicU8::new(1);
    bytes.iter_mut().for_each(|byte| *byte = NEXT.fetch_add(1, Ordering::Relaxed));
}

pub fn ticket(client: Principal, ends: i64) -> Ticket {
    let session = Key::random(Etype::Aes256Sha1, &chance);
    Ticket::issue(client, &service(), (&key(), 1), session, (NOW - 10, ends), &chance)
}

/// A client with a context.
pub struct Kerberos {
    pub client: Client,
    context: Context,
    handle: Vec<u8>,
    sequence: u32,
    pub service: GssService,
}

/// What came of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Came {
    Results(Vec<u8>),
    Nothing,
    Failed(AcceptStat),
    Denied(AuthStat),
}

/// A world with keys.
pub fn world(change: impl FnOnce(&mut ExportOptions)) -> World {
    World::with_kerberos((Some(Arc::new(keytab())), Some(Arc::new(People))), change)
}

impl World {
    pub fn kerberos(&self, name: &str, service: GssService) -> Kerberos {
        let principal = match name.split_once('/') {
            Some((service, host)) => Principal::service(service, host, REALM),
            None => Principal::user(name, REALM),
        };
        Kerberos::begin(self.connect(), &ticket(principal, NOW + 3600), service)
    }
}

/// The reply to a token.
fn init(client: &mut Client, token: &[u8]) -> (Vec<u8>, OwnedInit) {
    let cred = GssCred { procedure: GssProc::Init, sequence: 0, service: 0, handle: Bounded(b"") };
    let reply = send(client, &cred, OpaqueAuth::NONE, &to_vec(&token)).expect("an answer");
    let mut r = Reader::new(&reply);
    let Outcome::Success { verifier } = Reply::decode(&mut r).unwrap().outcome else { panic!("not accepted") };
    let res: GssInitRes<'_> = all(r.rest());
    let owned =
        OwnedInit { handle: res.handle.to_vec(), major: res.major, window: res.window, token: res.token.to_vec() };
    (verifier.body.to_vec(), owned)
}

struct OwnedInit {
    handle: Vec<u8>,
    major: u32,
    window: u32,
    token: Vec<u8>,
}

/// Sends a call of NULL.
fn send(client: &mut Client, cred: &GssCred<'_>, verifier: OpaqueAuth<'_>, args: &[u8]) -> Option<Vec<u8>> {
    client.xid += 1;
    let body = to_vec(cred);
    let credential = OpaqueAuth { flavor: Flavor::GSS, body: Bounded(&body) };
    let call = Call { xid: client.xid, program: program::NFS, version: 3, procedure: 0, credential, verifier };
    let mut record = Vec::new();
    call.put(&mut record);
    record.extend(args);
    assert!(client.send_fragment(&record, true));
    client.reply()
}

impl Kerberos {
    pub fn begin(mut client: Client, ticket: &Ticket, service: GssService) -> Self {
        let (initiator, token) = Initiator::begin(ticket, (NOW, 0), true, &chance);
        let (verifier, res) = init(&mut client, &token);
        assert_eq!(res.major, 0);
        let context = initiator.finish(Some(&res.token)).unwrap();
        context.verify(&[&res.window.to_be_bytes()], &verifier).unwrap();
        Self { client, context, handle: res.handle, sequence: 0, service }
    }

    /// The same context on another connection.
    fn on(mut self, client: Client) -> Self {
        self.client = client;
        self
    }

    fn cred(&self, procedure: GssProc) -> GssCred<'_> {
        GssCred { procedure, sequence: self.sequence, service: self.service as u32, handle: Bounded(&self.handle) }
    }

    /// The record of a call, its header signed and its arguments protected; `change` may spoil the credential first.
    fn record(&mut self, target: (u32, u32, u32), args: &[u8], change: impl FnOnce(&mut GssCred<'_>)) -> Vec<u8> {
        let mut cred = self.cred(GssProc::Data);
        change(&mut cred);
        let body = to_vec(&cred);
        let (program, version, procedure) = target;
        let credential = OpaqueAuth { flavor: Flavor::GSS, body: Bounded(&body) };
        let head = Call { xid: self.client.xid, program, version, procedure, credential, verifier: OpaqueAuth::NONE };
        let mut record = Vec::new();
        head.put(&mut record);
        record.truncate(record.len() - 8);
        let mic = self.context.sign(&[&record]);
        OpaqueAuth { flavor: Flavor::GSS, body: Bounded(&mic) }.put(&mut record);
        record.extend(self.protect(args));
        record
    }

    fn protect(&self, args: &[u8]) -> Vec<u8> {
        let body = [&self.sequence.to_be_bytes()[..], args].concat();
        match self.service {
            GssService::None => args.to_vec(),
            GssService::Integrity => to_vec(&GssIntegrity { body: &body, checksum: &self.context.sign(&[&body]) }),
            GssService::Privacy => {
                let mut sealed = Vec::new();
                self.context.seal(&[&body], [9; 16], &mut sealed);
                assert!(!sealed.windows(8).any(|w| args.len() >= 8 && w == &args[..8]), "it can be read");
                to_vec(&&sealed[..])
            }
        }
    }

    fn next(&mut self) {
        self.client.xid += 1;
        self.sequence += 1;
    }

    fn exchange(&mut self, record: &[u8]) -> Came {
        assert!(self.client.send_fragment(record, true));
        let Some(reply) = self.client.reply() else { return Came::Nothing };
        let mut r = Reader::new(&reply);
        let header = Reply::decode(&mut r).unwrap();
        assert_eq!(header.xid, self.client.xid);
        match header.outcome {
            Outcome::Success { verifier } => {
                self.context.verify(&[&self.sequence.to_be_bytes()], &verifier.body).expect("the server's signature");
                Came::Results(self.unprotect(r.rest()))
            }
            Outcome::Failed(stat) => Came::Failed(stat),
            Outcome::AuthError(stat) => Came::Denied(stat),
            other => panic!("{other:?}"),
        }
    }

    fn unprotect(&self, results: &[u8]) -> Vec<u8> {
        let body = match self.service {
            GssService::None => return results.to_vec(),
            GssService::Integrity => {
                let signed: GssIntegrity<'_> = all(results);
                self.context.verify(&[signed.body], signed.checksum).unwrap();
                signed.body.to_vec()
            }
            GssService::Privacy => {
                let opened = self.context.unwrap(all::<&[u8]>(results)).unwrap();
                assert!(opened.sealed);
                opened.to_vec()
            }
        };
        let (number, results) = body.split_first_chunk::<4>().unwrap();
        assert_eq!(*number, self.sequence.to_be_bytes());
        results.to_vec()
    }

    pub fn call(&mut self, program: u32, version: u32, procedure: u32, args: &[u8]) -> Came {
        self.next();
        let record = self.record((program, version, procedure), args, |_| {});
        self.exchange(&record)
    }

    pub fn nfs<'a>(&mut self, procedure: Nfs3Proc, args: &impl Xdr<'a>) -> Came {
        self.call(program::NFS, 3, procedure as u32, &to_vec(args))
    }

    fn null(&mut self, change: impl FnOnce(&mut GssCred<'_>)) -> Came {
        self.next();
        let record = self.record((program::NFS, 3, 0), &[], change);
        self.exchange(&record)
    }
}

impl Came {
    pub fn results(self) -> Vec<u8> {
        match self {
            Self::Results(results) => results,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn calls_with_each_service_on_any_connection() {
    for service in ALL {
        let world = world(|_| {});
        let mut kerberos = world.kerberos("anna", service);
        for _ in 0..3 {
            assert_eq!(kerberos.null(|_| {}), Came::Results(Vec::new()));
        }
        assert_eq!(kerberos.call(program::NFS, 3, 99, &[]), Came::Failed(AcceptStat::ProcUnavail));
        assert_eq!(kerberos.call(program::NFS, 3, 1, &[1]), Came::Failed(AcceptStat::GarbageArgs));
        let mut kerberos = kerberos.on(world.connect_from("127.0.0.1:5000", 1));
        assert_eq!(kerberos.null(|_| {}), Came::Results(Vec::new()), "on another connection");
    }
}

#[test]
fn numbers_count_once_and_have_an_end() {
    let world = world(|_| {});
    let mut kerberos = world.kerberos("anna", GssService::Integrity);
    kerberos.next();
    let record = kerberos.record((program::NFS, 3, 0), &[], |_| {});
    assert_eq!(kerberos.exchange(&record), Came::Results(Vec::new()));
    assert_eq!(kerberos.exchange(&record), Came::Nothing, "it was here before");
    kerberos.sequence = 5000;
    assert_eq!(kerberos.null(|_| {}), Came::Results(Vec::new()));
    kerberos.sequence = 10;
    assert_eq!(kerberos.null(|_| {}), Came::Nothing, "too old to be told from what was here");
    kerberos.sequence = 4990;
    assert_eq!(kerberos.null(|_| {}), Came::Results(Vec::new()), "late, and new");
    kerberos.sequence = MAX_GSS_SEQUENCE;
    assert_eq!(kerberos.null(|_| {}), Came::Denied(AuthStat::GssCtxProblem));
}

#[test]
fn a_credential_that_is_none_is_told() {
    let world = world(|_| {});
    let mut kerberos = world.kerberos("anna", GssService::Integrity);
    for service in [0, 4, 1024] {
        assert_eq!(kerberos.null(|cred| cred.service = service), Came::Denied(AuthStat::BadCred));
    }
    assert_eq!(
        kerberos.null(|cred| cred.handle = Bounded(b"no such handle..")),
        Came::Denied(AuthStat::GssCredProblem)
    );
    assert_eq!(kerberos.null(|cred| cred.handle = Bounded(b"")), Came::Denied(AuthStat::GssCredProblem));
    assert_eq!(kerberos.null(|_| {}), Came::Results(Vec::new()));
    // Versions and procedures that there are not.
    for (at, value) in [(0, 0), (0, 2), (1, 4), (1, 1024)] {
        kerberos.next();
        let mut record = kerberos.record((program::NFS, 3, 0), &[], |_| {});
        record.patch_u32(32 + 4 * at, value);
        assert_eq!(kerberos.exchange(&record), Came::Denied(AuthStat::BadCred), "word {at} {value}");
    }
}

#[test]
fn what_was_changed_on_the_way_is_refused() {
    let world = world(|_| {});
    for service in ALL {
        let mut kerberos = world.kerberos("anna", service);
        kerberos.next();
        let good = kerberos.record((program::NFS, 3, 1), &[7; 12], |_| {});
        let header = 32 + 36;
        for at in [0, 20, 40, header - 1, header + 8, header + 30] {
            let mut record = good.clone();
            record[at] ^= 1;
            let came = kerberos.client.send_fragment(&record, true).then(|| kerberos.client.reply()).unwrap().unwrap();
            let outcome = Reply::decode(&mut Reader::new(&came)).unwrap().outcome;
            assert!(matches!(outcome, Outcome::AuthError(_)), "{service:?} byte {at}: {outcome:?}");
        }
        if service == GssService::None {
            continue;
        }
        let mut record = good.clone();
        *record.last_mut().unwrap() ^= 1;
        let spoiled = if record.len() % 4 == 0 { record.len() - 5 } else { record.len() - 1 };
        record[spoiled] ^= 1;
        assert_eq!(kerberos.exchange(&record), Came::Failed(AcceptStat::GarbageArgs), "{service:?}");
        // Arguments of another number, rightly signed.
        kerberos.next();
        let head = kerberos.record((program::NFS, 3, 0), &[], |_| {});
        let body_at = head.len() - kerberos.protect(&[]).len();
        kerberos.sequence += 1;
        let mixed = [&head[..body_at], &kerberos.protect(&[])].concat();
        kerberos.sequence -= 1;
        assert_eq!(kerberos.exchange(&mixed), Came::Failed(AcceptStat::GarbageArgs), "{service:?}");
        for cut in 1..=kerberos.protect(&[]).len() / 4 {
            kerberos.next();
            let record = kerberos.record((program::NFS, 3, 0), &[], |_| {});
            assert_eq!(kerberos.exchange(&record[..record.len() - 4 * cut]), Came::Failed(AcceptStat::GarbageArgs));
        }
    }
}

#[test]
fn a_context_ends_when_its_user_says_so_or_its_ticket_does() {
    let world = world(|_| {});
    let mut kerberos = world.kerberos("anna", GssService::None);
    assert_eq!(kerberos.null(|cred| cred.procedure = GssProc::Destroy), Came::Results(Vec::new()));
    assert_eq!(kerberos.null(|_| {}), Came::Denied(AuthStat::GssCredProblem));
    let ends = NOW + 100;
    let mut kerberos =
        Kerberos::begin(world.connect(), &ticket(Principal::user("anna", REALM), ends), GssService::Privacy);
    assert_eq!(kerberos.null(|_| {}), Came::Results(Vec::new()));
    world.clock.advance(std::time::Duration::from_secs(101));
    assert_eq!(kerberos.null(|_| {}), Came::Denied(AuthStat::GssCredProblem));
}

#[test]
fn only_a_good_ticket_begins_a_context() {
    let world = world(|_| {});
    let mut client = world.connect();
    let good = ticket(Principal::user("anna", REALM), NOW + 100);
    let (_, token) = Initiator::begin(&good, (NOW, 0), true, &chance);
    let (_, res) = init(&mut client, &token);
    assert_eq!((res.major, res.handle.len()), (0, 16));
    let refused = |client: &mut Client, token: &[u8]| {
        let (verifier, res) = init(client, token);
        assert_eq!((verifier.len(), res.handle.len(), res.window, res.token.len()), (0, 0, 0, 0));
        res.major
    };
    assert_eq!(refused(&mut client, &token), 2 | 13 << 16, "a second time");
    assert_eq!(refused(&mut client, b"nonsense"), 9 << 16);
    assert_eq!(refused(&mut client, &[]), 9 << 16);
    let (_, skewed) = Initiator::begin(&good, (NOW - 400, 0), true, &chance);
    assert_eq!(refused(&mut client, &skewed), 13 << 16);
    let (_, late) = Initiator::begin(&ticket(Principal::user("anna", REALM), NOW - 400), (NOW, 0), true, &chance);
    assert_eq!(refused(&mut client, &late), 11 << 16);
    for end in 0..token.len() {
        assert_ne!(refused(&mut client, &token[..end]), 0, "cut at {end}");
    }
    let cred = GssCred { procedure: GssProc::ContinueInit, sequence: 0, service: 1, handle: Bounded(b"h") };
    let reply = send(&mut client, &cred, OpaqueAuth::NONE, &to_vec(&&token[..])).unwrap();
    let outcome = Reply::decode(&mut Reader::new(&reply)).unwrap().outcome;
    assert_eq!(outcome, Outcome::AuthError(AuthStat::GssCredProblem), "there is nothing to go on with");
}

#[test]
fn a_stranger_begins_nothing() {
    let world = world(|_| {});
    let mut client = world.connect_from("192.0.2.1:700", 1);
    let cred = GssCred { procedure: GssProc::Init, sequence: 0, service: 0, handle: Bounded(b"") };
    let reply = send(&mut client, &cred, OpaqueAuth::NONE, &to_vec(&&b"token"[..])).unwrap();
    let outcome = Reply::decode(&mut Reader::new(&reply)).unwrap().outcome;
    assert_eq!(outcome, Outcome::AuthError(AuthStat::BadCred));
}
