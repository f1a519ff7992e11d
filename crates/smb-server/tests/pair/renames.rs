//! Renaming directories while things are open: below them, elsewhere, and in great number.

use std::time::{Duration, Instant};

use smb_wire::NtStatus;
use smb_wire::smb2::Disposition;

use crate::util::world::{OTHER, OTHER_PASSWORD, PASSWORD, USER};
use crate::util::{Client, Message, OpenAs, Profile, World, ops::echo_message};

fn rename(client: &mut Client, from: &str, to: &str) -> Result<(), NtStatus> {
    let directory = client.create(from, &OpenAs::directory(Disposition::Open));
    let done = client.rename(directory, to, false);
    client.close(directory);
    done
}

fn world_with(directories: &[&str]) -> World {
    let world = World::new();
    directories.iter().for_each(|directory| world.mkdir(directory));
    world
}

#[test]
fn a_directory_does_not_move_while_anything_below_it_is_open() {
    let world = world_with(&["a", "a/b", "a-b"]);
    let mut anna = world.logged_in(Profile::user(USER, PASSWORD));
    let mut boris = world.logged_in(Profile::user(OTHER, OTHER_PASSWORD));
    anna.write_file("a\\b\\f", b"");
    let beside = anna.create("a-b", &OpenAs::directory(Disposition::Open));
    for (name, how) in
        [("a\\b\\f", OpenAs::reader()), ("a\\b", OpenAs::directory(Disposition::Open).access(crate::util::ops::READ))]
    {
        let open = boris.create(name, &how);
        assert_eq!(rename(&mut anna, "a", "c"), Err(NtStatus::ACCESS_DENIED), "{name}");
        boris.close(open);
        rename(&mut anna, "a", "c").expect(name);
        rename(&mut anna, "c", "a").expect(name);
    }
    let open = boris.create("a\\b\\f", &OpenAs::reader());
    assert_eq!(rename(&mut anna, "a", "c"), Err(NtStatus::ACCESS_DENIED));
    boris.hang_up();
    rename(&mut anna, "a", "c").expect("whoever had it open is gone");
    anna.close(beside);
    let _ = open;
}

#[test]
fn what_was_renamed_is_looked_for_where_it_is() {
    let world = world_with(&["from", "to", "to/deep"]);
    let mut client = world.anna();
    client.write_file("from\\f", b"");
    // Two opens, one of which renames the file.
    let (one, other) = (client.create("from\\f", &OpenAs::default()), client.create("from\\f", &OpenAs::default()));
    assert_eq!(rename(&mut client, "from", "gone"), Err(NtStatus::ACCESS_DENIED));
    client.rename(one, "to\\deep\\g", false).unwrap();
    client.close(one);
    rename(&mut client, "from", "gone").expect("nothing is open in it any more");
    assert_eq!(rename(&mut client, "to", "other"), Err(NtStatus::ACCESS_DENIED));
    client.close(other);
    rename(&mut client, "to", "other").expect("nothing is open any more");
}

#[test]
fn what_others_moved_away_is_in_nobodys_way() {
    let world = world_with(&["from", "to"]);
    let mut client = world.anna();
    client.write_file("from\\f", b"");
    let open = client.create("from\\f", &OpenAs::default());
    world.moves("from/f", "to/f");
    rename(&mut client, "from", "gone").expect("another program took it out");
    client.close(open);
}

/// The least time of some renames, of a directory that nothing is open below.
fn least(client: &mut Client) -> Duration {
    let time = |client: &mut Client| {
        let begun = Instant::now();
        rename(client, "empty", "moved").unwrap();
        rename(client, "moved", "empty").unwrap();
        begun.elapsed()
    };
    (0..10).map(|_| time(client)).min().unwrap()
}

#[test]
fn what_is_open_elsewhere_costs_a_rename_nothing() {
    let world = World::with(|config, _| config.max_opens = 1 << 20);
    ["empty", "full"].into_iter().for_each(|directory| world.mkdir(directory));
    let mut client = world.anna();
    client.call(Message { credits: 64, ..echo_message() }).ok();
    world.put("full/f", b"");
    let alone = least(&mut client);
    for _ in 0..5_000 {
        client.create("full\\f", &OpenAs::reader());
    }
    let beside = least(&mut client);
    // Looking at each would cost a hundred times as much and more.
    assert!(beside < alone * 20, "{alone:?} alone, {beside:?} beside 5,000 opens");
}
