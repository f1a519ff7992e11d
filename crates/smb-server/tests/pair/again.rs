//! Logging in again as somebody else (MS-SMB2 3.3.5.5.2, 3.3.5.5.3): the session goes on with its keys, what is open stays
//! whose it was, and what is asked for from then on is asked for by the new user.

use smb_server::{Access, ShareOptions};
use smb_wire::NtStatus;
use smb_wire::smb2::{DURABLE_RECONNECT_TAG, DURABLE_REQUEST_TAG, Disposition, FileHandle, oplock};
use vfs::{Backend, Wait};

use crate::util::ops::created;
use crate::util::world::{OTHER, OTHER_PASSWORD, SHARE, USER, cred_of, share, to_path};
use crate::util::{Client, Message, OpenAs, Profile, World};

fn become_boris(client: &mut Client) {
    client.profile = Profile::user(OTHER, OTHER_PASSWORD);
    client.login();
}

fn owner(world: &World, path: &str) -> u32 {
    world.fs.attr_at(&cred_of(USER), &*world.fs.root(), &to_path(path), Wait::Allowed).unwrap().uid
}

#[test]
fn what_is_made_afterwards_is_the_new_users() {
    let world = World::new();
    let mut client = world.anna();
    (client.sign, client.seal) = (true, true);
    let hers = client.create("hers", &OpenAs::default());
    become_boris(&mut client);
    client.write(hers, 0, b"opened before");
    client.write_file("his", b"made after");
    assert_eq!((owner(&world, "hers"), owner(&world, "his")), (cred_of(USER).uid, cred_of(OTHER).uid));
    client.tree_connect(SHARE);
    client.write_file("another", b"");
    assert_eq!(owner(&world, "another"), cred_of(OTHER).uid);
    client.hang_up();
    world.assert_nothing_left();
}

#[test]
fn a_share_that_does_not_admit_the_new_user_gives_nothing_more() {
    let world = World::with(|config, fs| {
        let access = Access { users: vec![USER.into()], ..Access::default() };
        config.shares.extend([share("hers", fs, ShareOptions { access, ..ShareOptions::default() })]);
    });
    let mut client = world.anna();
    client.tree_connect("hers");
    let open = client.create("f", &OpenAs::default());
    become_boris(&mut client);
    for how in
        [OpenAs::default(), OpenAs::reader(), OpenAs::default().access(smb_wire::fscc::AccessMask::MAXIMUM_ALLOWED)]
    {
        assert_eq!(client.try_create("f", &how).map(drop), Err(NtStatus::ACCESS_DENIED));
    }
    client.write(open, 0, b"it was opened by her");
    client.close(open);
    client.profile = Profile::default();
    client.login();
    assert_eq!(client.read_file("f").unwrap(), b"it was opened by her");
    client.hang_up();
    world.assert_nothing_left();
}

fn durable(name: &str) -> Message {
    let contexts = vec![(DURABLE_REQUEST_TAG.to_vec(), vec![0; 16])];
    let mut message = OpenAs { contexts, ..OpenAs::default() }.message(name);
    message.body[3] = oplock::BATCH;
    message
}

fn back(handle: FileHandle, name: &str) -> Message {
    let mut data = handle.persistent.to_le_bytes().to_vec();
    data.extend(handle.volatile.to_le_bytes());
    let contexts = vec![(DURABLE_RECONNECT_TAG.to_vec(), data)];
    OpenAs { contexts, ..OpenAs::how(Disposition::Open) }.message(name)
}

#[test]
fn a_durable_open_goes_back_to_who_opened_it() {
    let world = World::new();
    let mut client = world.anna();
    let handle = created(&client.call(durable("f"))).unwrap().handle;
    become_boris(&mut client);
    client.hang_up();
    let mut boris = world.logged_in(Profile::user(OTHER, OTHER_PASSWORD));
    boris.call(back(handle, "f")).expect(NtStatus::ACCESS_DENIED);
    let mut anna = world.anna();
    let again = created(&anna.call(back(handle, "f"))).unwrap().handle;
    anna.write(again, 0, b"hers");
    boris.hang_up();
    anna.hang_up();
}
