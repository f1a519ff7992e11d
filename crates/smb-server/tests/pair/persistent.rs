//! Persistent handles (MS-SMB2 3.3.5.9.10, .12): a server dies, another one comes up on the same store, and the client
//! has its open, its ranges and its lease again.

use std::sync::atomic::Ordering::Relaxed;

use smb_wire::NtStatus;
use smb_wire::smb2::{
    CreateResponse, DURABLE_PERSISTENT, DURABLE_V2_RECONNECT_TAG, DURABLE_V2_REQUEST_TAG, Dialect, Disposition,
    DurableV2Reconnect, DurableV2Request, DurableV2Response, FileHandle, Flags, LEASE_TAG, LeaseContext, LeaseFlags,
    LeaseV2, LockFlags, TreeConnectResponse, oplock,
};

use vfs::Backend;

use crate::util::ops::created;
use crate::util::world::{BESIDE, OTHER, OTHER_PASSWORD, SHARE, USER, World, cred_of, to_path};
use crate::util::{Message, OpenAs, Profile, Response};

const GUID: [u8; 16] = [0x61; 16];
const KEY: [u8; 16] = [0x1e; 16];
const RWH: u32 = 7;
const EXCLUSIVE: LockFlags = LockFlags::EXCLUSIVE.union(LockFlags::FAIL_IMMEDIATELY);

fn persistent() -> OpenAs {
    let mut data = Vec::new();
    DurableV2Request { timeout_ms: 0, flags: DURABLE_PERSISTENT, create_guid: GUID }.put(&mut data);
    OpenAs { contexts: vec![(DURABLE_V2_REQUEST_TAG.to_vec(), data)], ..OpenAs::default() }
}

fn back(handle: FileHandle, flags: u32) -> OpenAs {
    let mut data = Vec::new();
    DurableV2Reconnect { handle, create_guid: GUID, flags }.put(&mut data);
    OpenAs { contexts: vec![(DURABLE_V2_RECONNECT_TAG.to_vec(), data)], ..OpenAs::default() }
}

fn leased(how: &OpenAs, state: u32, epoch: u16, name: &str) -> Message {
    let mut data = Vec::new();
    let v2 = Some(LeaseV2 { epoch, parent_key: [0; 16] });
    LeaseContext { key: KEY, state, flags: LeaseFlags::empty(), v2 }.put(&mut data);
    let mut how = how.clone();
    how.contexts.push((LEASE_TAG.to_vec(), data));
    let mut message = how.message(name);
    message.body[3] = oplock::LEASE;
    message
}

/// The flags of the answer, if the open was made durable.
fn durable(response: &Response) -> Option<u32> {
    let answer = CreateResponse::decode(&response.bytes).unwrap();
    answer.contexts.get(DURABLE_V2_REQUEST_TAG).map(|data| DurableV2Response::decode(data).unwrap().flags)
}

fn lease(response: &Response) -> LeaseContext {
    let answer = CreateResponse::decode(&response.bytes).unwrap();
    LeaseContext::decode(answer.contexts.get(LEASE_TAG).unwrap()).unwrap()
}

#[test]
fn everything_is_there_again_after_the_server_died() {
    let mut world = World::available();
    let mut anna = world.anna();
    let first = anna.call(leased(&persistent(), RWH, 5, "f")).ok();
    assert_eq!(durable(&first), Some(DURABLE_PERSISTENT));
    let before = lease(&first);
    assert_eq!(before.state, RWH);
    let handle = created(&first).unwrap().handle;
    anna.write(handle, 0, b"before");
    anna.lock(handle, 10, 5, EXCLUSIVE).unwrap();
    anna.lock(handle, 20, 5, EXCLUSIVE).unwrap();
    anna.lock(handle, 20, 5, LockFlags::UNLOCK).unwrap();
    let store = world.store.clone().unwrap();
    assert_eq!(store.len(), 1);
    world.restart();
    drop(anna);
    assert_eq!(world.server.open_count(), 1);

    let mut anna = world.anna();
    let again = anna.call(leased(&back(handle, DURABLE_PERSISTENT), RWH, 5, "f")).ok();
    assert_eq!(created(&again).unwrap().handle.persistent, handle.persistent);
    assert_eq!((lease(&again).state, lease(&again).v2), (RWH, before.v2));
    let handle = created(&again).unwrap().handle;
    assert_eq!(anna.read(handle, 0, 6), b"before");
    let mut boris = world.logged_in(Profile::user(OTHER, OTHER_PASSWORD));
    drop(boris.call(OpenAs::reader().message("nothing-here")));
    // The range is the open's own: locked as it was, and unlocked as it was.
    assert_eq!(anna.lock(handle, 10, 5, EXCLUSIVE), Err(NtStatus::LOCK_NOT_GRANTED));
    anna.lock(handle, 10, 5, LockFlags::UNLOCK).unwrap();
    assert_eq!(anna.lock(handle, 20, 5, LockFlags::UNLOCK), Err(NtStatus::RANGE_NOT_LOCKED));
    anna.close(handle);
    assert_eq!(store.len(), 0, "a closed handle is kept");
    anna.hang_up();
    boris.hang_up();
    world.assert_nothing_left();
}

#[test]
fn nobody_gets_the_file_until_the_client_is_late() {
    let mut world = World::available();
    let mut anna = world.anna();
    let handle = created(&anna.call(leased(&persistent(), RWH, 0, "f")).ok()).unwrap().handle;
    world.restart();
    drop(anna);
    let mut boris = world.logged_in(Profile::user(OTHER, OTHER_PASSWORD));
    assert_eq!(boris.try_create("f", &OpenAs::reader()).unwrap_err(), NtStatus::FILE_NOT_AVAILABLE);
    // Nor by naming the handle, nor as anything but persistent.
    let claimed = boris.call(leased(&back(handle, DURABLE_PERSISTENT), RWH, 0, "f"));
    assert_eq!(claimed.status(), NtStatus::ACCESS_DENIED);
    let mut anna = world.anna();
    let claimed = anna.call(leased(&back(handle, 0), RWH, 0, "f"));
    assert_eq!(claimed.status(), NtStatus::OBJECT_NAME_NOT_FOUND);
    world.clock.advance(std::time::Duration::from_secs(61));
    world.server.tick();
    assert_eq!(world.server.open_count(), 0);
    assert_eq!(world.store.as_ref().unwrap().len(), 0);
    let reader = boris.create("f", &OpenAs::reader());
    boris.close(reader);
}

#[test]
fn a_create_told_again_to_another_server_makes_nothing_new() {
    let mut world = World::available();
    let mut anna = world.anna();
    let how = OpenAs { disposition: Disposition::Create, ..persistent() };
    let first = anna.call(leased(&how, RWH, 0, "f")).ok();
    world.restart();
    drop(anna);
    let mut anna = world.anna();
    let plain = anna.call(leased(&how, RWH, 0, "f"));
    assert_eq!(plain.status(), NtStatus::DUPLICATE_OBJECTID);
    let mut again = leased(&how, RWH, 0, "f");
    again.flags |= Flags::REPLAY;
    let again = anna.call(again).ok();
    let (one, other) = (created(&first).unwrap(), created(&again).unwrap());
    assert_eq!((one.handle.persistent, one.action), (other.handle.persistent, other.action));
    assert_eq!(durable(&again), Some(DURABLE_PERSISTENT));
    anna.write(other.handle, 0, b"x");
    anna.close(other.handle);
    anna.hang_up();
    world.assert_nothing_left();
}

#[test]
fn delete_on_close_and_a_new_name_survive() {
    let mut world = World::available();
    let mut anna = world.anna();
    let handle = anna.create("f", &persistent());
    anna.rename(handle, "g", false).unwrap();
    anna.dispose(handle, true).unwrap();
    world.restart();
    drop(anna);
    assert!(world.exists("g"));
    let mut anna = world.anna();
    let handle = created(&anna.call(back(handle, DURABLE_PERSISTENT).message("g")).ok()).unwrap().handle;
    anna.close(handle);
    assert!(!world.exists("g"));
    assert_eq!(world.store.as_ref().unwrap().len(), 0);
}

#[test]
fn what_cannot_be_taken_up_is_let_go() {
    let mut world = World::available();
    let mut anna = world.anna();
    anna.create("replaced", &persistent());
    world.fs.remove(&cred_of(USER), &*world.fs.root(), &to_path("replaced"), None).unwrap();
    world.put("replaced", b"another file");
    world.restart();
    drop(anna);
    assert_eq!((world.server.open_count(), world.store.as_ref().unwrap().len()), (0, 0));
    let mut anna = world.anna();
    anna.create("damaged", &persistent());
    world.store.as_ref().unwrap().damage();
    world.restart();
    drop(anna);
    assert_eq!((world.server.open_count(), world.store.as_ref().unwrap().len()), (0, 0));
}

#[test]
fn a_store_that_fails_makes_no_promises() {
    let world = World::available();
    let mut anna = world.anna();
    world.store.as_ref().unwrap().fails.store(true, Relaxed);
    let plain = anna.call(persistent().message("f")).ok();
    assert_eq!(durable(&plain), None);
    let cached = anna.call(leased(&persistent(), RWH, 0, "g"));
    // The guid is the one of the open that is there still.
    assert_eq!(cached.status(), NtStatus::DUPLICATE_OBJECTID);
    anna.close(created(&plain).unwrap().handle);
    let cached = anna.call(leased(&persistent(), RWH, 0, "g")).ok();
    assert_eq!(durable(&cached), Some(0), "durable it can be");
}

#[test]
fn only_dialect_3_and_a_continuously_available_share_have_them() {
    use smb_wire::smb2::{Capabilities, ShareCapabilities};
    let tell = |world: &World, dialect| {
        let mut client = world.client(Profile::dialect(dialect));
        let capabilities = client.negotiate().capabilities;
        client.login();
        let share = client.tree_connect(SHARE);
        let share = TreeConnectResponse::decode(&share.bytes).unwrap().capabilities;
        (
            capabilities.contains(Capabilities::PERSISTENT_HANDLES),
            share.contains(ShareCapabilities::CONTINUOUS_AVAILABILITY),
        )
    };
    let available = World::available();
    assert_eq!(tell(&available, Dialect::V3_1_1), (true, true));
    assert_eq!(tell(&available, Dialect::V3_0), (true, true));
    assert_eq!(tell(&available, Dialect::V2_1), (false, false));
    let plain = World::new();
    assert_eq!(tell(&plain, Dialect::V3_1_1), (false, false));
    let mut anna = plain.anna();
    assert_eq!(durable(&anna.call(persistent().message("f")).ok()), None);
}

/// A persistent handle with content, whose server has died.
fn lost(world: &mut World) -> FileHandle {
    let mut anna = world.anna();
    let handle = created(&anna.call(leased(&persistent(), RWH, 0, "f")).ok()).unwrap().handle;
    anna.write(handle, 0, b"before");
    world.restart();
    handle
}

#[test]
fn a_request_that_names_a_handle_of_before_brings_it_back() {
    let mut world = World::available();
    let handle = lost(&mut world);
    let mut anna = world.anna();
    anna.set_len(handle, 3).unwrap();
    assert_eq!(anna.read(handle, 0, 9), b"bef");
    // The CREATE that asks for it comes late, and gets it as it is: once.
    let again = anna.call(leased(&back(handle, DURABLE_PERSISTENT), RWH, 0, "f")).ok();
    assert_eq!((created(&again).unwrap().handle, lease(&again).state), (handle, RWH));
    let third = anna.call(leased(&back(handle, DURABLE_PERSISTENT), RWH, 0, "f"));
    assert_eq!(third.status(), NtStatus::OBJECT_NAME_NOT_FOUND, "it is connected");
    anna.write(handle, 0, b"after");
    assert_eq!(world.server.open_count(), 1);
    anna.close(handle);
    assert_eq!(anna.try_read(handle, 0, 1), Err(NtStatus::FILE_CLOSED));
    assert_eq!(world.store.as_ref().unwrap().len(), 0);
    anna.hang_up();
    world.assert_nothing_left();
}

#[test]
fn a_handle_asked_for_by_its_client_keeps_its_name() {
    let mut world = World::available();
    let handle = lost(&mut world);
    let mut anna = world.anna();
    // What the session opened meanwhile may have the same FileId.Volatile.
    let others: Vec<_> = (0..4).map(|n| anna.create(&format!("g{n}"), &OpenAs::default())).collect();
    assert!(others.iter().any(|other| other.volatile == handle.volatile));
    let again = anna.call(leased(&back(handle, DURABLE_PERSISTENT), RWH, 0, "f")).ok();
    assert_eq!(created(&again).unwrap().handle, handle);
    assert_eq!(anna.read(handle, 0, 9), b"before");
    others.into_iter().for_each(|other| anna.close(other));
    anna.close(handle);
    anna.hang_up();
    world.assert_nothing_left();
}

#[test]
fn closing_a_handle_of_before_closes_it() {
    let mut world = World::available();
    let handle = lost(&mut world);
    let mut anna = world.anna();
    anna.close(handle);
    assert_eq!((world.server.open_count(), world.store.as_ref().unwrap().len()), (0, 0));
}

#[test]
fn it_comes_back_to_a_server_that_lives_too_and_again() {
    let mut world = World::available();
    let mut anna = world.anna();
    let handle = created(&anna.call(leased(&persistent(), RWH, 0, "f")).ok()).unwrap().handle;
    anna.hang_up();
    let mut anna = world.anna();
    anna.write(handle, 0, b"one");
    world.restart();
    let mut anna = world.anna();
    anna.write(handle, 3, b"two");
    anna.hang_up();
    let mut anna = world.anna();
    assert_eq!(anna.read(handle, 0, 9), b"onetwo");
    anna.close(handle);
    anna.hang_up();
    world.assert_nothing_left();
}

#[test]
fn nobody_else_gets_a_handle_by_naming_it() {
    let mut world = World::available();
    let handle = lost(&mut world);
    let refused = |mut client: crate::util::Client, handle| {
        assert_eq!(client.try_read(handle, 0, 1), Err(NtStatus::FILE_CLOSED));
        assert_eq!(client.set_len(handle, 0), Err(NtStatus::FILE_CLOSED));
        assert_eq!(client.try_close(handle), Err(NtStatus::FILE_CLOSED));
    };
    refused(world.logged_in(Profile::user(OTHER, OTHER_PASSWORD)), handle);
    refused(world.logged_in(Profile { client_guid: [0xc2; 16], ..Profile::default() }), handle);
    refused(world.logged_in(Profile::dialect(Dialect::V2_1)), handle);
    let mut beside = world.client(Profile::default());
    beside.negotiate();
    beside.login();
    beside.tree_connect(BESIDE);
    refused(beside, handle);
    refused(world.anna(), FileHandle { volatile: handle.volatile + 1, ..handle });
    refused(world.anna(), FileHandle { persistent: handle.persistent + 1, ..handle });
    // The client that is late finds nothing, whether the server has looked yet or not.
    world.clock.advance(std::time::Duration::from_secs(61));
    refused(world.anna(), handle);
    assert_eq!(world.server.open_count(), 1, "it waits");
    world.server.tick();
    assert_eq!(world.server.open_count(), 0);
}

#[test]
fn only_a_persistent_handle_comes_back_unasked() {
    let world = World::available();
    let mut anna = world.anna();
    let mut how = persistent();
    how.contexts[0].1.clear();
    DurableV2Request { timeout_ms: 0, flags: 0, create_guid: GUID }.put(&mut how.contexts[0].1);
    let plain = anna.call(leased(&how, RWH, 0, "f")).ok();
    assert_eq!(durable(&plain), Some(0));
    let handle = created(&plain).unwrap().handle;
    anna.hang_up();
    assert_eq!(world.server.open_count(), 1);
    let mut anna = world.anna();
    assert_eq!(anna.try_read(handle, 0, 1), Err(NtStatus::FILE_CLOSED));
    let again = anna.call(leased(&back(handle, 0), RWH, 0, "f")).ok();
    assert_eq!(created(&again).unwrap().handle.persistent, handle.persistent);
}

#[test]
fn a_reconnect_of_what_came_back_must_be_right_too() {
    let mut world = World::available();
    let handle = lost(&mut world);
    let mut anna = world.anna();
    anna.write(handle, 0, b"x");
    let other_lease = anna.call(back(handle, DURABLE_PERSISTENT).message("f"));
    assert_eq!(other_lease.status(), NtStatus::OBJECT_NAME_NOT_FOUND);
    let other_name = anna.call(leased(&back(handle, DURABLE_PERSISTENT), RWH, 0, "g"));
    assert_eq!(other_name.status(), NtStatus::INVALID_PARAMETER);
    let mut boris = world.logged_in(Profile::user(OTHER, OTHER_PASSWORD));
    let his = boris.call(leased(&back(handle, DURABLE_PERSISTENT), RWH, 0, "f"));
    assert_eq!(his.status(), NtStatus::OBJECT_NAME_NOT_FOUND);
    let hers = anna.call(leased(&back(handle, DURABLE_PERSISTENT), RWH, 0, "f")).ok();
    assert_eq!(created(&hers).unwrap().handle, handle);
}
