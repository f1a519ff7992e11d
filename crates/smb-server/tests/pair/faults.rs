//! Devices that are full, broken or slow, and the pipes of IPC$.

use smb_server::{Access, ShareOptions};
use smb_wire::NtStatus;
use smb_wire::dcerpc::{
    Bind, Context, Header as RpcHeader, ResponseHead, SHARE_ENUM, Srvsvc, Syntax, encode_bind, encode_request,
    share_enum_request, share_enum_response,
};
use smb_wire::fscc::FileInfoClass;
use smb_wire::smb2::{Command, Disposition, FileHandle, IoctlResponse, QueryDirectoryFlags, fsctl};
use vfs::VfsError;
use vfs::memfs::Op;

use crate::util::client::Client;
use crate::util::ops::{echo_message, flush_message, ioctl_message, read_message, write_message};
use crate::util::world::{OTHER, share};
use crate::util::{Message, OpenAs, Profile, Rng, World};

#[test]
fn a_full_device_says_so_and_keeps_what_was_acknowledged() {
    let world = World::new();
    world.fs.set_space(10);
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    client.write(handle, 0, b"0123456789");
    client.flush(handle).unwrap();
    assert_eq!(client.try_write(handle, 10, b"x"), Err(NtStatus::DISK_FULL));
    assert_eq!(client.set_len(handle, 11), Err(NtStatus::DISK_FULL));
    assert_eq!(world.content("a").unwrap(), b"0123456789");
    world.fs.set_space(20);
    client.write(handle, 10, b"x");
}

#[test]
fn failures_of_the_device_reach_the_client() {
    let io = VfsError::Io(5);
    let world = World::new();
    world.put("a", b"content");
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    let dir = client.create("", &OpenAs::directory(Disposition::Open).access(crate::util::ops::READ));
    let error = NtStatus::UNEXPECTED_IO_ERROR;
    let fail = |op| world.fs.fail_next(op, io);
    fail(Op::Read);
    assert_eq!(client.try_read(handle, 0, 7), Err(error));
    fail(Op::Write);
    assert_eq!(client.try_write(handle, 0, b"x"), Err(error));
    fail(Op::Sync);
    assert_eq!(client.flush(handle), Err(error));
    fail(Op::SetAttr);
    assert_eq!(client.set_len(handle, 1), Err(error));
    fail(Op::Attr);
    assert_eq!(client.query(handle, FileInfoClass::BASIC, 40).0, error);
    fail(Op::Rename);
    assert_eq!(client.rename(handle, "b", false), Err(error));
    fail(Op::Open);
    assert_eq!(client.try_create("a", &OpenAs::reader()).map(drop), Err(error));
    fail(Op::ReadDir);
    let none = QueryDirectoryFlags::empty();
    assert_eq!(client.list_once(dir, none, "*", 4096), Err(error));
    assert_eq!(client.list_once(dir, none, "*", 4096).unwrap(), [".", "..", "a"], "none is skipped");
    // Nothing of that did anything, and everything works again.
    assert_eq!(world.content("a").unwrap(), b"content");
    client.flush(handle).unwrap();
    client.write(handle, 0, b"CONTENT");
    assert_eq!(client.read(handle, 0, 7), b"CONTENT");
}

#[test]
fn every_refusal_of_a_backend_has_its_status() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    for (error, status) in [
        (VfsError::NoSpace, NtStatus::DISK_FULL),
        (VfsError::QuotaExceeded, NtStatus::DISK_FULL),
        (VfsError::ReadOnly, NtStatus::MEDIA_WRITE_PROTECTED),
        (VfsError::AccessDenied, NtStatus::ACCESS_DENIED),
        (VfsError::NotPermitted, NtStatus::ACCESS_DENIED),
        (VfsError::OutOfResources, NtStatus::INSUFFICIENT_RESOURCES),
        (VfsError::Stale, NtStatus::FILE_CLOSED),
        (VfsError::Io(5), NtStatus::UNEXPECTED_IO_ERROR),
    ] {
        world.fs.fail_next(Op::Write, error);
        assert_eq!(client.try_write(handle, 0, b"x"), Err(status), "{error:?}");
    }
}

#[test]
fn a_deletion_that_fails_is_told_at_close() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    client.dispose(handle, true).unwrap();
    world.fs.fail_next(Op::Remove, VfsError::Io(5));
    assert_eq!(client.try_close(handle), Err(NtStatus::UNEXPECTED_IO_ERROR));
    assert!(world.exists("a"));
    assert_eq!(world.server.open_count(), 0);
    client.create("a", &OpenAs::default());
}

#[test]
fn a_create_that_fails_late_leaves_no_claim() {
    for op in [Op::Attr, Op::SetXattr, Op::SetAttr, Op::Xattr] {
        let world = World::new();
        world.put("a", b"content");
        let mut client = world.anna();
        world.fs.fail_next(op, VfsError::Io(5));
        let how = OpenAs::how(Disposition::OverwriteIf).share(0);
        if client.try_create("a", &how).is_err() {
            assert_eq!(world.server.claims().opens, 0, "{op:?}");
            client.create("a", &how);
        }
        client.hang_up();
        world.assert_nothing_left();
    }
}

#[test]
fn what_would_wait_is_done_on_a_worker_with_the_same_result() {
    for calls in 1..12 {
        let world = World::new();
        world.put("dir-not", b"");
        world.put("A", b"content");
        let mut client = world.anna();
        world.fs.block_next(calls);
        assert_eq!(client.read_file("a").unwrap(), b"content", "{calls} calls would wait");
        world.fs.block_next(calls);
        assert_eq!(client.read_file("none").unwrap_err(), NtStatus::OBJECT_NAME_NOT_FOUND);
        world.fs.block_next(calls);
        client.write_file("new", b"fresh");
        world.fs.block_next(0);
        assert_eq!(world.content("new").unwrap(), b"fresh");
    }
}

#[test]
fn parked_requests_are_answered_each_with_its_own_answer() {
    for seed in 0..30 {
        let world = World::parking();
        let manual = world.manual.clone().unwrap();
        (0..10).for_each(|i| world.put(&format!("f{i}"), &[i; 10]));
        let mut client = world.anna();
        client.call(Message { credits: 64, ..echo_message() }).ok();
        let handles: Vec<_> = (0..10).map(|i| client.create(&format!("f{i}"), &OpenAs::default())).collect();
        world.fs.block_next(10);
        let ids: Vec<_> = handles.iter().map(|h| client.send(&[read_message(*h, 0, 10)])[0]).collect();
        assert_eq!(manual.len(), 10, "all wait");
        assert!(client.conn.is_busy());
        // The connection goes on meanwhile.
        client.call_while_parked(echo_message());
        let mut rng = Rng::new(seed);
        while manual.run_any(&mut rng) {
            client.poll();
        }
        for (i, id) in ids.into_iter().enumerate() {
            let response = client.take(id).unwrap().ok();
            let data = smb_wire::smb2::ReadResponse::decode(&response.bytes).unwrap().data.to_vec();
            assert_eq!(data, [i as u8; 10]);
        }
        assert!(!client.conn.is_busy());
        client.hang_up();
        world.assert_nothing_left();
    }
}

#[test]
fn a_job_done_wakes_the_connection() {
    let world = World::parking();
    let manual = world.manual.clone().unwrap();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    client.poll();
    let id = client.send(&[flush_message(handle)])[0];
    client.poll();
    let before = client.woken.0.load(std::sync::atomic::Ordering::Relaxed);
    manual.run_all();
    assert!(client.woken.0.load(std::sync::atomic::Ordering::Relaxed) > before, "nobody would poll it");
    client.poll();
    client.take(id).unwrap().ok();
}

#[test]
fn a_connection_that_breaks_with_requests_parked_leaves_nothing() {
    let world = World::parking();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    let id = client.send(&[flush_message(handle), write_message(handle, 0, b"x")])[0];
    assert!(client.take(id).is_none());
    client.hang_up();
    world.assert_nothing_left();
}

/// A CREATE is parked; meanwhile `end` takes away what it is made in. The open must not come to be.
fn create_that_comes_too_late(end: impl FnOnce(&World, &mut Client)) -> NtStatus {
    let world = World::parking();
    let manual = world.manual.clone().unwrap();
    let mut client = world.anna();
    world.fs.block_next(1);
    let how = OpenAs::default().share(0).options(smb_wire::smb2::CreateOptions::DELETE_ON_CLOSE);
    let id = client.send(&[how.message("late")])[0];
    assert_eq!(manual.len(), 1);
    end(&world, &mut client);
    manual.run_all();
    client.poll();
    let status = client.take(id).unwrap().status();
    manual.run_all();
    assert_eq!(world.server.claims().opens, 0, "nobody can close it any more");
    assert!(!world.exists("late"), "it was to go when it is closed");
    client.hang_up();
    manual.run_all();
    assert_eq!(world.server.open_count(), 0);
    status
}

#[test]
fn a_create_that_is_overtaken_by_the_end_of_its_session_or_tree() {
    let four = |command| Message::of(command, smb_wire::smb2::put_four);
    let status = create_that_comes_too_late(|_, client| client.call_while_parked(four(Command::Logoff)));
    assert_eq!(status, NtStatus::USER_SESSION_DELETED);
    let status = create_that_comes_too_late(|_, client| client.call_while_parked(four(Command::TreeDisconnect)));
    assert_eq!(status, NtStatus::NETWORK_NAME_DELETED);
    let status = create_that_comes_too_late(|world, client| {
        let mut new = world.client(Profile { previous_session_id: client.session_id, ..Profile::default() });
        new.negotiate();
        new.login();
        new.hang_up();
    });
    assert_eq!(status, NtStatus::USER_SESSION_DELETED);
}

#[test]
fn a_handle_closed_while_its_request_is_parked() {
    let world = World::parking();
    let manual = world.manual.clone().unwrap();
    world.put("a", b"content");
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    world.fs.block_next(1);
    let id = client.send(&[read_message(handle, 0, 7)])[0];
    client.call_while_parked(crate::util::ops::close_message(handle));
    manual.run_all();
    client.poll();
    client.take(id).unwrap().ok();
    client.hang_up();
    world.assert_nothing_left();
}

impl Client {
    /// A request that need not wait, while others are parked.
    fn call_while_parked(&mut self, message: Message) {
        let id = self.send(&[message])[0];
        self.take(id).expect("an answer at once").ok();
    }
}

fn enumerate(client: &mut Client) -> Vec<String> {
    client.tree_connect("IPC$");
    let pipe = client.create("srvsvc", &OpenAs::default());
    let context = Context { id: 0, interface: Srvsvc::SYNTAX, transfers: vec![Syntax::NDR] };
    let bind = Bind { max_xmit_frag: 4280, max_recv_frag: 4280, assoc_group: 0, contexts: vec![context] };
    client.write(pipe, 0, &encode_bind(1, &bind));
    assert!(client.read(pipe, 0, 4280).len() > 24);
    let request = encode_request(2, 0, SHARE_ENUM, &share_enum_request("\\\\LONGSHORE"));
    let response = client.call(ioctl_message(pipe, fsctl::PIPE_TRANSCEIVE, &request, 4280)).ok();
    let output = IoctlResponse::decode(&response.bytes).unwrap().output.to_vec();
    let header_len = smb_wire::dcerpc::HEADER_LEN;
    RpcHeader::decode(&output).unwrap();
    let (_, stub) = ResponseHead::decode(&output[header_len..]).unwrap();
    let (shares, result) = share_enum_response(stub).unwrap();
    assert_eq!(result, 0);
    client.close(pipe);
    shares.into_iter().map(|s| s.name).collect()
}

#[test]
fn browsing_shows_what_one_may_connect_to() {
    let world = World::with(|config, fs| {
        let his = Access { users: vec![OTHER.into()], ..Access::default() };
        config.shares.extend([
            share("his", fs, ShareOptions { access: his, ..ShareOptions::default() }),
            share("secret", fs, ShareOptions { hidden: true, ..ShareOptions::default() }),
            share("Zoo", fs, ShareOptions::default()),
        ]);
    });
    let mut client = world.anna();
    assert_eq!(enumerate(&mut client), ["Zoo", "data", "IPC$"]);
    client.tree_connect("secret");
    client.write_file("a", b"hidden, not closed");
}

#[test]
fn pipes_are_no_files() {
    let world = World::new();
    let mut client = world.anna();
    client.tree_connect("ipc$");
    assert_eq!(client.try_create("nopipe", &OpenAs::default()).map(drop), Err(NtStatus::OBJECT_NAME_NOT_FOUND));
    let pipe = client.create("\\srvsvc", &OpenAs::default());
    assert_eq!(client.try_read(pipe, 0, 100), Err(NtStatus::PIPE_EMPTY));
    assert!(client.try_write(pipe, 0, b"no DCERPC at all, but some bytes of it").is_err());
    assert!(client.dispose(pipe, true).is_err());
    assert!(client.lock(pipe, 0, 1, smb_wire::smb2::LockFlags::EXCLUSIVE).is_err());
    assert!(client.list_once(pipe, QueryDirectoryFlags::empty(), "*", 4096).is_err());
    let gone = FileHandle { persistent: 1, volatile: 99 };
    let message = ioctl_message(gone, fsctl::PIPE_TRANSCEIVE, b"", 100);
    client.call(message).expect(NtStatus::FILE_CLOSED);
    client.close(pipe);
    client.hang_up();
    world.assert_nothing_left();
}

#[test]
fn what_a_lost_client_held_is_free_before_any_worker_has_time() {
    let world = World::parking();
    let mut client = world.anna();
    client.create("a", &OpenAs::default().share(0));
    client.hang_up();
    assert_eq!(world.server.claims(), coherence::Stats::default());
    let mut client = world.anna();
    let tree = client.tree_id;
    client.create("a", &OpenAs::default().share(0));
    client.tree_connect(crate::util::world::SHARE);
    let disconnect = Message { tree_id: Some(tree), ..Message::of(Command::TreeDisconnect, smb_wire::smb2::put_four) };
    client.send(&[disconnect]);
    assert_eq!(world.server.claims(), coherence::Stats::default());
    client.hang_up();
    world.assert_nothing_left();
}

#[test]
fn a_create_that_fails_leaves_nothing_behind() {
    let world = World::new();
    world.fs.set_space(10);
    let mut client = world.anna();
    let space = (smb_wire::smb2::ALLOCATION_TAG.to_vec(), (1u64 << 20).to_le_bytes().to_vec());
    let how = OpenAs { contexts: vec![space], ..OpenAs::how(Disposition::Create) };
    assert_eq!(client.try_create("a", &how).map(drop), Err(NtStatus::DISK_FULL));
    assert!(!world.exists("a"));
    world.fs.fail_next(Op::SetXattr, VfsError::NoSpace);
    assert_eq!(client.try_create("b", &OpenAs::how(Disposition::Create)).map(drop), Err(NtStatus::DISK_FULL));
    assert!(!world.exists("b"));
    client.hang_up();
    world.assert_nothing_left();
}
