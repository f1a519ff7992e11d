//! Requests of one open that are sent without waiting for answers: a FLUSH and a CLOSE find done what came before them,
//! also what is done on a worker (MS-SMB2 3.3.5.10, 3.3.5.11).

use smb_wire::NtStatus;
use smb_wire::fscc::{DispositionInfo, FileInfoClass};
use smb_wire::smb2::{CloseRequest, CloseResponse, Command, CreateOptions, Disposition, FileHandle};

use crate::util::ops::{close_message, echo_message, flush_message, set_message, write_message};
use crate::util::{Client, Message, OpenAs, Rng, World};

/// An open whose WRITEs all go to workers.
fn open_through(client: &mut Client, name: &str) -> FileHandle {
    client.create(name, &OpenAs::default().options(CreateOptions::WRITE_THROUGH))
}

fn parking() -> (World, Client) {
    let world = World::parking();
    let mut client = world.anna();
    client.call(Message { credits: 64, ..echo_message() }).ok();
    (world, client)
}

fn send(client: &mut Client, message: Message) -> u64 {
    let id = client.send(&[message])[0];
    client.poll();
    id
}

#[test]
fn a_close_is_answered_after_the_writes_before_it() {
    let (world, mut client) = parking();
    let manual = world.manual.clone().unwrap();
    let file = open_through(&mut client, "f");
    let write = send(&mut client, write_message(file, 0, b"0123456789"));
    let close = Message::of(Command::Close, |out| CloseRequest { post_query: true, handle: file }.put(out));
    let close = send(&mut client, close);
    let late = send(&mut client, write_message(file, 0, b"too late"));
    assert_eq!(client.take(late).unwrap().status(), NtStatus::FILE_CLOSED);
    assert!(client.take(close).is_none(), "the WRITE is on a worker");
    manual.run_at(0);
    client.poll();
    client.take(write).unwrap().ok();
    let closed = client.take(close).unwrap().ok();
    assert_eq!(CloseResponse::decode(&closed.bytes).unwrap().end_of_file, 10);
    client.hang_up();
    world.assert_nothing_left();
}

#[test]
fn a_close_finds_the_deletion_that_was_asked_for_before_it() {
    let (world, mut client) = parking();
    let file = client.create("f", &OpenAs::how(Disposition::Create));
    let mut info = Vec::new();
    DispositionInfo { delete: true }.encode(&mut info);
    let disposed = send(&mut client, set_message(file, FileInfoClass::DISPOSITION, &info));
    let closed = send(&mut client, close_message(file));
    client.drive();
    client.take(disposed).unwrap().ok();
    client.take(closed).unwrap().ok();
    assert!(!world.exists("f"));
    client.hang_up();
    world.assert_nothing_left();
}

#[test]
fn a_flush_covers_what_came_before_it_and_waits_for_nothing_else() {
    let (world, mut client) = parking();
    let manual = world.manual.clone().unwrap();
    let file = open_through(&mut client, "f");
    send(&mut client, write_message(file, 0, b"first"));
    let flush = send(&mut client, flush_message(file));
    send(&mut client, write_message(file, 10, b"second"));
    assert_eq!(manual.len(), 2, "what is written is not synced before it is there");
    manual.run_at(0);
    client.poll();
    assert_eq!(manual.len(), 2, "the second WRITE, and the sync");
    manual.run_at(1);
    client.poll();
    client.take(flush).unwrap().ok();
    client.hang_up();
    world.assert_nothing_left();
}

#[test]
fn a_close_whose_connection_ends_while_it_waits_closes_the_file() {
    let (world, mut client) = parking();
    let file = open_through(&mut client, "f");
    send(&mut client, write_message(file, 0, b"content"));
    send(&mut client, close_message(file));
    client.hang_up();
    assert_eq!(world.server.claims().opens, 0);
    world.assert_nothing_left();
    assert_eq!(world.content("f").unwrap(), b"content", "what was taken in is written");
}

#[test]
fn seeded_interleavings_keep_the_order() {
    for seed in 0..200 {
        let (world, mut client) = parking();
        let (manual, mut rng) = (world.manual.clone().unwrap(), Rng::new(seed));
        let file = open_through(&mut client, "f");
        // How many bytes were sent to be written when each FLUSH, and the CLOSE, was.
        let (mut sent, mut promised) = (0, Vec::new());
        for step in 0..40 {
            match rng.below(6) {
                0 | 1 if step < 30 => {
                    send(&mut client, write_message(file, sent, &[sent as u8 + 1]));
                    sent += 1;
                }
                2 if step < 30 => promised.push((sent, send(&mut client, flush_message(file)))),
                _ if step == 30 => promised.push((sent, send(&mut client, close_message(file)))),
                _ => drop(manual.run_any(&mut rng)),
            }
            client.poll();
            check(&world, &mut client, &mut promised, seed);
        }
        while manual.run_any(&mut rng) {
            client.poll();
            check(&world, &mut client, &mut promised, seed);
        }
        assert!(promised.is_empty(), "seed {seed}");
        client.hang_up();
        world.assert_nothing_left();
    }
}

/// Whatever was answered had all before it written.
fn check(world: &World, client: &mut Client, promised: &mut Vec<(u64, u64)>, seed: u64) {
    promised.retain(|(sent, id)| {
        let Some(answer) = client.take(*id) else { return true };
        answer.ok();
        let content = world.content("f").unwrap();
        let written = content.iter().enumerate().filter(|(at, byte)| **byte == *at as u8 + 1).count();
        let head = content.len() as u64 >= *sent && content[..*sent as usize].iter().all(|byte| *byte != 0);
        assert!(head, "seed {seed}: {sent} were sent before, {written} are there");
        false
    });
}

#[test]
fn who_asks_for_much_at_once_is_answered_in_parts() {
    let world = World::new();
    let mut client = world.anna();
    client.call(Message { credits: 256, ..echo_message() }).ok();
    let ids: Vec<_> = (0..150).map(|_| client.send(&[echo_message()])[0]).collect();
    let mut parts = vec![client.collect()];
    while client.conn.is_stalled() {
        assert!(!client.conn.is_ready(), "it takes no more meanwhile");
        client.poll();
        parts.push(client.collect());
    }
    assert_eq!(parts, [64, 64, 22], "between two parts other connections have their turn");
    ids.into_iter().for_each(|id| drop(client.take(id).unwrap().ok()));
}
