//! Exports and Kerberos: as whom people act, which calls an export takes, and how those that it does not take are told
//! (RFC 2623 2.3, RFC 8881 2.6.3.1).

use auth::krb5::{MECHANISM, Principal};
use nfs_server::{ExportOptions, Sec, Squash};
use nfs_wire::mount::MountResult;
use nfs_wire::nfs3::{
    CreateArgs, CreateHow, CreateRes, GetattrRes, LookupRes, Nfs3Proc, ReadArgs, ReadRes, Sattr, StableHow, WriteArgs,
    WriteHead, WriteRes,
};
use nfs_wire::nfs4::{
    Attr, Bitmap, CompoundCall, CompoundResults, NfsStat4, Op, OpResult, PROC_COMPOUND, Secinfo, SecinfoStyle,
};
use nfs_wire::rpc::{Flavor, GssService, program};
use nfs_wire::xdr::{Bounded, Reader, to_vec};

use super::compounds::Results;
use super::gss::{Came, Kerberos, ticket, world};
use super::world::{Answer, UID, World, all, at};

fn only(sec: &[Sec]) -> World {
    let sec = sec.to_vec();
    world(|options: &mut ExportOptions| options.sec = sec)
}

pub fn v4(kerberos: &mut Kerberos, ops: &[Op<'_>]) -> Results {
    let mut args = Vec::new();
    let mut call = CompoundCall::begin(b"tag", 0, &mut args);
    ops.iter().for_each(|op| call.op(op, &mut args));
    call.end(&mut args);
    let results = Results(kerberos.call(program::NFS, 4, PROC_COMPOUND, &args).results());
    assert!(CompoundResults::decode(&mut Reader::new(&results.0)).is_ok());
    results
}

/// As whom somebody makes a file, by its owner and group.
fn made_by(world: &World, mut kerberos: Kerberos, name: &str) -> (u32, u32) {
    let root = world.connect().root();
    let how = CreateHow::Guarded(Sattr { mode: Some(0o644), ..Sattr::NONE });
    let results = kerberos.nfs(Nfs3Proc::Create, &CreateArgs { at: at(&root, name), how }).results();
    let made = all::<CreateRes<'_>>(&results).unwrap().attributes.unwrap();
    (made.uid, made.gid)
}

#[test]
fn people_act_as_their_accounts_and_others_as_nobody() {
    for (squash, machine) in [(Squash::Root, (65534, 65534)), (Squash::None, (0, 0)), (Squash::All, (65534, 65534))] {
        let world = world(|options| {
            options.sec = Sec::ALL.to_vec();
            options.squash = squash;
        });
        let own = if squash == Squash::All { machine } else { (UID, 100) };
        assert_eq!(made_by(&world, world.kerberos("anna", GssService::None), "own"), own);
        assert_eq!(made_by(&world, world.kerberos("bob", GssService::None), "unknown"), (65534, 65534));
        for name in ["nfs/client", "host/client", "root/client", "CLIENT$"] {
            let file = name.replace('/', "-");
            assert_eq!(made_by(&world, world.kerberos(name, GssService::None), &file), machine, "{name}");
        }
        assert_eq!(made_by(&world, world.kerberos("http/client", GssService::None), "http"), (65534, 65534));
        // Somebody of the same name, and a machine, of another realm.
        for (at, client) in
            [Principal::user("anna", "OTHER"), Principal::service("host", "client", "OTHER")].into_iter().enumerate()
        {
            let other = Kerberos::begin(world.connect(), &ticket(client, 1_700_001_000), GssService::None);
            assert_eq!(made_by(&world, other, &format!("other-{at}")), (65534, 65534));
        }
    }
}

#[test]
fn files_are_read_and_written_with_each_service() {
    let world = only(&Sec::ALL);
    let root = world.connect().root();
    for (at, service) in [GssService::None, GssService::Integrity, GssService::Privacy].into_iter().enumerate() {
        let name = format!("file-{at}");
        let file = world.connect().make(&root, &name);
        let mut kerberos = world.kerberos("anna", service);
        for len in [0, 1, 3, 4, 1000, 100_001] {
            let data: Vec<u8> = (0..len).map(|n| (n * 31 + at) as u8).collect();
            let head = WriteHead {
                handle: Bounded(&file),
                offset_bytes: 0,
                count_bytes: len as u32,
                stable: StableHow::FileSync,
            };
            let written = kerberos.nfs(Nfs3Proc::Write, &WriteArgs { head, data: &data }).results();
            assert_eq!(all::<WriteRes>(&written).unwrap().count_bytes as usize, len, "{service:?}");
            let args = ReadArgs { handle: Bounded(&file), offset_bytes: 0, count_bytes: len as u32 };
            let read = kerberos.nfs(Nfs3Proc::Read, &args).results();
            assert_eq!(all::<ReadRes<'_>>(&read).unwrap().data, data, "{service:?} {len}");
        }
    }
}

#[test]
fn a_weak_call_is_told_so_over_version_3() {
    let world = only(&[Sec::Krb5i, Sec::Krb5p]);
    let mut sys = world.connect();
    let root = sys.root();
    let results = sys.results(program::MOUNT, 3, 1, &to_vec(&&b"/data"[..]));
    let flavors: Vec<Flavor> = all::<MountResult<'_>>(&results).unwrap().flavors.iter().collect();
    assert_eq!(flavors, [Flavor::KRB5I, Flavor::KRB5P]);
    // What a mount begins with is answered to anybody.
    for procedure in [Nfs3Proc::Getattr, Nfs3Proc::Fsinfo, Nfs3Proc::Fsstat] {
        assert!(matches!(
            sys.call(program::NFS, 3, procedure as u32, &to_vec(&Bounded::<64>(&root))),
            Answer::Results(_)
        ));
    }
    let look = to_vec(&at(&root, "x"));
    let too_weak = |answer: &Answer| matches!(answer, Answer::Other(text) if text.contains("TooWeak"));
    assert!(too_weak(&sys.call(program::NFS, 3, Nfs3Proc::Lookup as u32, &look)));
    let args = CreateArgs { at: at(&root, "x"), how: CreateHow::Guarded(Sattr::NONE) };
    for _ in 0..2 {
        assert!(too_weak(&sys.call(program::NFS, 3, Nfs3Proc::Create as u32, &to_vec(&args))));
    }
    let mut plain = world.kerberos("anna", GssService::None);
    assert!(matches!(plain.nfs(Nfs3Proc::Lookup, &at(&root, "x")), Came::Denied(nfs_wire::rpc::AuthStat::TooWeak)));
    let mut signed = world.kerberos("anna", GssService::Integrity);
    let made = signed.nfs(Nfs3Proc::Create, &args).results();
    let file = all::<CreateRes<'_>>(&made).unwrap().handle.unwrap().to_vec();
    let found = signed.nfs(Nfs3Proc::Lookup, &at(&root, "x")).results();
    assert!(all::<LookupRes<'_>>(&found).is_ok());
    // Below the root nothing is told.
    assert!(too_weak(&sys.call(program::NFS, 3, Nfs3Proc::Getattr as u32, &to_vec(&Bounded::<64>(&file)))));
    let attr = signed.nfs(Nfs3Proc::Getattr, &Bounded::<64>(&file)).results();
    assert!(all::<GetattrRes>(&attr).is_ok());
}

#[test]
fn a_weak_call_is_told_so_over_version_4() {
    let world = only(&[Sec::Krb5p, Sec::Krb5]);
    let mut strong = world.kerberos("anna", GssService::Privacy);
    let get = Op::Getattr(Bitmap::of(&[Attr::Type]));
    let root = v4(&mut strong, &[Op::Putrootfh, Op::Lookup(b"data"), Op::Getfh]).handle();
    let put = Op::Putfh(Bounded(&root));
    assert_eq!(v4(&mut strong, &[put, get]).status(), NfsStat4::OK);
    let mut signed = world.kerberos("anna", GssService::Integrity);
    let mut sys = world.connect();
    let mut run = |ops: &[Op<'_>]| {
        let results = sys.v4(ops);
        assert_eq!(v4(&mut signed, ops).status(), results.status(), "as weak as AUTH_SYS here");
        (results.status(), results.all().len())
    };
    assert_eq!(run(&[Op::Putrootfh, get]), (NfsStat4::OK, 2), "the pseudo root is everybody's");
    assert_eq!(run(&[Op::Putrootfh, Op::Lookup(b"data"), get]), (NfsStat4::WRONGSEC, 2));
    // The handle is refused, or what follows it, where that can say so (RFC 8881 2.6.3.1.1).
    for (ops, at) in [
        (&[put, get][..], 1),
        (&[put, Op::Getfh], 1),
        (&[put, Op::Remove(b"x")], 1),
        (&[put, Op::Lookup(b"x")], 2),
        (&[put, Op::Savefh, Op::Putrootfh, Op::Restorefh, get], 4),
        (&[put, Op::Savefh, get], 3),
        (&[put, put, get], 2),
    ] {
        assert_eq!(run(ops), (NfsStat4::WRONGSEC, at), "{ops:?}");
    }
    assert_eq!(run(&[put]), (NfsStat4::OK, 1));
    assert_eq!(run(&[put, Op::Lookupp, get]), (NfsStat4::OK, 3), "out of it");
    // SECINFO is for those who have come in the wrong way.
    let wanted = [GssService::Privacy, GssService::None].map(|service| service as u32);
    for ops in [&[Op::Putrootfh, Op::Secinfo(b"data")][..], &[put, Op::Secinfo(b"whatever")]] {
        let results = sys.v4(ops);
        let OpResult::Secinfo(Ok(list)) = results.last() else { panic!("{:?}", results.status()) };
        let services: Vec<u32> = list
            .iter()
            .map(|way| match way {
                Secinfo::Gss(info) if info.oid == MECHANISM && info.qop == 0 => info.service,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(services, wanted);
    }
    let mut session = sys.session(1);
    let asked = [put, Op::SecinfoNoName(SecinfoStyle::CurrentFh)];
    assert_eq!(sys.within(&mut session, 1, &asked).status(), NfsStat4::OK);
    assert_eq!(sys.within(&mut session, 1, &[put, get]).status(), NfsStat4::WRONGSEC);
}

#[test]
fn who_shows_who_it_is_may_come_from_any_port() {
    let world = only(&[Sec::Sys, Sec::Krb5]);
    let root = world.connect().root();
    let mut sys = world.connect_from("127.0.0.1:5000", UID);
    assert_eq!(sys.getattr(&root), Err(nfs_wire::NfsStat3::ACCES));
    let client = world.connect_from("127.0.0.1:5000", UID);
    let anna = ticket(Principal::user("anna", "TEST"), 1_700_001_000);
    let mut kerberos = Kerberos::begin(client, &anna, GssService::None);
    let attr = kerberos.nfs(Nfs3Proc::Getattr, &Bounded::<64>(&root)).results();
    assert!(all::<GetattrRes>(&attr).is_ok());
}

#[test]
fn a_client_id_is_its_principals() {
    use nfs_wire::nfs4::{NetAddr, SetclientidArgs};
    let world = only(&Sec::ALL);
    let args = SetclientidArgs {
        verifier: [1; 8],
        id: Bounded(b"client"),
        callback_program: 1,
        callback_address: NetAddr { netid: b"tcp", address: b"127.0.0.1.0.0" },
        callback_ident: 1,
    };
    let mut anna = world.kerberos("anna", GssService::Integrity);
    let set = v4(&mut anna, &[Op::Setclientid(args)]);
    let OpResult::Setclientid(Ok(ok)) = set.last() else { panic!("{:?}", set.status()) };
    // A user of that number, somebody else with Kerberos, and she herself.
    let confirm = [Op::SetclientidConfirm(ok)];
    assert_eq!(world.connect().v4(&confirm).status(), NfsStat4::CLID_INUSE);
    let mut bob = world.kerberos("bob", GssService::Integrity);
    assert_eq!(v4(&mut bob, &confirm).status(), NfsStat4::CLID_INUSE);
    let mut again = world.kerberos("anna", GssService::Privacy);
    assert_eq!(v4(&mut again, &confirm).status(), NfsStat4::OK);
}
