//! What is served beside NFS and MOUNT: POSIX lists (NFSACL), the portmapper of a server that has its port, calls in
//! datagrams.

use std::net::SocketAddr;

use nfs_server::Listening;
use nfs_wire::NfsStat3;
use nfs_wire::nfs3::{Access, AccessArgs, AccessRes, MkdirArgs, Nfs3Proc, Sattr, SetattrArgs};
use nfs_wire::nfsacl::{
    AclEntry, AclMask, Acls, DEFAULT_FLAG, GROUP_OBJ, GetAclArgs, GetAclRes, MASK, OTHER, SetAclArgs, SetAclRes, USER,
    USER_OBJ,
};
use nfs_wire::portmap::{IPPROTO_TCP, IPPROTO_UDP, Mapping, PmapList, Rpcb};
use nfs_wire::rpc::{Outcome, Reply, program};
use nfs_wire::xdr::{Bounded, List, Reader, Xdr, to_vec};

use crate::world::{Client, UID, World, all, at};

fn entry(tag: u32, id: u32, permissions: u32) -> AclEntry {
    AclEntry { tag, id, permissions }
}

fn get(client: &mut Client, handle: &[u8], mask: AclMask) -> Result<(Vec<AclEntry>, Vec<AclEntry>), NfsStat3> {
    let args = to_vec(&GetAclArgs { handle: Bounded(handle), mask });
    let results = client.results(program::NFSACL, 3, 1, &args);
    let found: GetAclRes<'_> = all(&results);
    found.map(|ok| (ok.acls.access.iter().collect(), ok.acls.default.iter().collect())).map_err(|failed| failed.status)
}

fn set(client: &mut Client, handle: &[u8], access: &[AclEntry], default: &[AclEntry]) -> Result<(), NfsStat3> {
    let acls = Acls {
        mask: AclMask::all(),
        access_count: access.len() as u32,
        access: List::new(access),
        default_count: default.len() as u32,
        default: List::new(default),
    };
    let results = client.results(program::NFSACL, 3, 2, &to_vec(&SetAclArgs { handle: Bounded(handle), acls }));
    all::<SetAclRes>(&results).map(drop).map_err(|failed| failed.status)
}

#[test]
fn a_file_without_a_list_has_the_one_of_its_mode() {
    let mut client = World::new().connect();
    let root = client.root();
    let file = client.make(&root, "file");
    let of_mode = vec![entry(USER_OBJ, 0, 6), entry(GROUP_OBJ, 0, 4), entry(MASK, 0, 4), entry(OTHER, 0, 4)];
    assert_eq!(get(&mut client, &file, AclMask::all()), Ok((of_mode, vec![])));
    let count_only = get(&mut client, &file, AclMask::ACL_COUNT);
    assert_eq!(count_only, Ok((vec![], vec![])), "entries are sent when they are asked for");
    assert_eq!(get(&mut client, b"forged", AclMask::all()), Err(NfsStat3::BADHANDLE));
}

#[test]
fn lists_are_kept_in_order_and_what_says_no_more_than_a_mode_becomes_one() {
    let mut client = World::new().connect();
    let root = client.root();
    let file = client.make(&root, "file");
    let named =
        [entry(OTHER, 0, 0), entry(USER, 7, 6), entry(MASK, 0, 6), entry(USER_OBJ, 0, 6), entry(GROUP_OBJ, 0, 4)];
    set(&mut client, &file, &named, &[]).unwrap();
    let sorted =
        [entry(USER_OBJ, 0, 6), entry(USER, 7, 6), entry(GROUP_OBJ, 0, 4), entry(MASK, 0, 6), entry(OTHER, 0, 0)];
    assert_eq!(get(&mut client, &file, AclMask::all()).unwrap().0, sorted);
    let plain = [entry(USER_OBJ, 0, 7), entry(GROUP_OBJ, 0, 7), entry(MASK, 0, 5), entry(OTHER, 0, 1)];
    set(&mut client, &file, &plain, &[]).unwrap();
    assert_eq!(client.getattr(&file).unwrap().mode & 0o777, 0o751);
    for wrong in [
        vec![entry(USER_OBJ, 0, 6), entry(GROUP_OBJ, 0, 4)],
        vec![entry(USER_OBJ, 0, 8), entry(GROUP_OBJ, 0, 4), entry(OTHER, 0, 0)],
        vec![entry(USER_OBJ, 0, 6), entry(USER_OBJ, 0, 4), entry(GROUP_OBJ, 0, 4), entry(OTHER, 0, 0)],
        vec![entry(USER_OBJ, 0, 6), entry(USER, 1, 4), entry(GROUP_OBJ, 0, 4), entry(OTHER, 0, 0)],
        vec![entry(0x40, 0, 6), entry(USER_OBJ, 0, 6), entry(GROUP_OBJ, 0, 4), entry(OTHER, 0, 0)],
        vec![],
    ] {
        assert_eq!(set(&mut client, &file, &wrong, &[]), Err(NfsStat3::INVAL), "{wrong:?}");
    }
    assert_eq!(client.getattr(&file).unwrap().mode & 0o777, 0o751);
}

#[test]
fn a_directory_has_a_list_for_what_is_made_in_it_and_a_file_has_none() {
    let mut client = World::new().connect();
    let root = client.root();
    let args = MkdirArgs { at: at(&root, "dir"), attributes: Sattr::NONE };
    client.nfs(Nfs3Proc::Mkdir, &args);
    let dir = client.lookup(&root, "dir").unwrap();
    let file = client.make(&root, "file");
    let access = [entry(USER_OBJ, 0, 7), entry(GROUP_OBJ, 0, 5), entry(OTHER, 0, 5)];
    let default = access.map(|e| AclEntry { tag: e.tag | DEFAULT_FLAG, ..e });
    assert_eq!(set(&mut client, &file, &access, &default), Err(NfsStat3::INVAL));
    set(&mut client, &dir, &access, &default).unwrap();
    let shown = get(&mut client, &dir, AclMask::all()).unwrap().1;
    assert_eq!(shown.iter().map(|e| e.tag & !DEFAULT_FLAG).collect::<Vec<_>>(), [USER_OBJ, GROUP_OBJ, MASK, OTHER]);
    assert!(shown.iter().all(|e| e.tag & DEFAULT_FLAG != 0));
    set(&mut client, &dir, &access, &[]).unwrap();
    assert_eq!(get(&mut client, &dir, AclMask::all()).unwrap().1, []);
}

const LOCAL: &str = "127.0.0.1:111";

/// What comes of a call in a datagram; nothing when it is not answered.
fn datagram(world: &World, peer: &str, call: (u32, u32, u32), args: &[u8]) -> Option<Vec<u8>> {
    let record = world.connect().record(call.0, call.1, call.2, args);
    let (peer, local): (SocketAddr, SocketAddr) = (peer.parse().unwrap(), LOCAL.parse().unwrap());
    let reply = world.server.datagram(peer, local, &record)?;
    let mut r = Reader::new(&reply);
    match Reply::decode(&mut r).unwrap().outcome {
        Outcome::Success { .. } => Some(r.rest().to_vec()),
        other => Some(format!("{other:?}").into_bytes()),
    }
}

#[test]
fn the_portmapper_tells_where_everything_is_and_over_what() {
    let world = World::new();
    world.server.listens(Listening { port: 2049, udp: true, portmapper: true });
    let port = |program, version, protocol| {
        let args = to_vec(&Mapping { program, version, protocol, port: 0 });
        all::<u32>(&datagram(&world, "127.0.0.1:9", (program::PORTMAP, 2, 3), &args).unwrap())
    };
    for (program, version, tcp, udp) in [
        (program::NFS, 3, 2049, 0),
        (program::NFS, 4, 2049, 0),
        (program::MOUNT, 3, 2049, 2049),
        (program::NLM, 4, 2049, 2049),
        (program::NLM, 9, 2049, 2049),
        (program::NSM, 1, 2049, 2049),
        (program::NFSACL, 3, 2049, 0),
        (program::PORTMAP, 2, 111, 111),
        (4711, 1, 0, 0),
    ] {
        let found = (port(program, version, IPPROTO_TCP), port(program, version, IPPROTO_UDP));
        assert_eq!(found, (tcp, udp), "{program} {version}");
    }
    assert_eq!(port(program::NFS, 3, 1), 0);
    let listed = datagram(&world, "127.0.0.1:9", (program::PORTMAP, 2, 4), &[]).unwrap();
    let mut r = Reader::new(&listed);
    let listed: Vec<_> = PmapList::decode(&mut r).unwrap().iter().collect();
    assert!(listed.iter().any(|m| (m.program, m.version, m.protocol) == (program::NLM, 4, IPPROTO_UDP)));
    let asked = |netid: &'static [u8], version| {
        let asked =
            Rpcb { program: program::NLM, version, netid: Bounded(netid), address: Bounded(b""), owner: Bounded(b"") };
        to_vec(&asked)
    };
    let address = |procedure, args: Vec<u8>| datagram(&world, "127.0.0.1:9", (program::PORTMAP, 4, procedure), &args);
    assert_eq!(address(3, asked(b"udp", 4)), Some(to_vec(&&b"127.0.0.1.8.1"[..])));
    assert_eq!(address(9, asked(b"tcp", 4)), Some(to_vec(&&b"127.0.0.1.8.1"[..])));
    assert_eq!(address(9, asked(b"tcp", 2)), Some(to_vec(&&b""[..])), "that version is not there");
    assert!(address(4, vec![]).unwrap().len() > 100);
    assert!(address(11, asked(b"tcp", 4)).unwrap().len() > 40);
}

#[test]
fn a_datagram_of_a_stranger_and_one_that_is_no_call_have_no_answer() {
    let world = World::new();
    assert_eq!(datagram(&world, "192.0.2.1:9", (program::PORTMAP, 2, 0), &[]), None);
    assert_eq!(datagram(&world, "127.0.0.1:9", (program::PORTMAP, 2, 0), &[]), Some(vec![]));
    let nfs = datagram(&world, "127.0.0.1:9", (program::NFS, 3, 0), &[]).unwrap();
    assert_eq!(nfs, b"Failed(ProgUnavail)");
    let peer: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let record = world.connect().record(program::NLM, 4, 2, &[0; 64]);
    for end in 0..record.len() {
        let _ = world.server.datagram(peer, peer, &record[..end]);
    }
    assert_eq!(world.server.datagram(peer, peer, &[]), None);
}

#[test]
fn groups_are_those_the_server_knows_where_the_export_says_so() {
    for (server_groups, group, may) in [(true, UID + 30, true), (true, UID + 40, false), (false, UID + 30, false)] {
        let world = World::with(|options| options.server_groups = server_groups);
        let mut root_user = world.connect_from("127.0.0.1:700", 0);
        let root = root_user.root();
        let file = root_user.make(&root, "file");
        let attributes = Sattr { mode: Some(0o040), uid: Some(5), gid: Some(group), ..Sattr::NONE };
        let args = SetattrArgs { handle: Bounded(&file), attributes, guard_ctime: None };
        root_user.nfs(Nfs3Proc::Setattr, &args);
        let results =
            world.connect().nfs(Nfs3Proc::Access, &AccessArgs { handle: Bounded(&file), access: Access::READ });
        let access = all::<AccessRes>(&results).unwrap().access;
        assert_eq!(access.contains(Access::READ), may, "{server_groups} {group}");
    }
}
