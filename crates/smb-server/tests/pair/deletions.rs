//! A file that somebody was promised goes with its last open, however that ends: by a CLOSE, with its connection, or as a
//! CREATE that still waited.

use coherence::{AccessKinds, Caching, Identity, Instant, OpenRequest, ShareKinds};
use smb_wire::smb2::{CreateOptions, Disposition, FileHandle, LEASE_TAG, oplock};
use vfs::Backend;

use crate::util::ops::{READ, close_message, created, echo_message};
use crate::util::{Client, Message, OpenAs, Rng, World};

/// The message id of what answers nothing.
const UNSOLICITED: u64 = u64::MAX;

fn doomed() -> OpenAs {
    OpenAs::how(Disposition::Open).options(CreateOptions::DELETE_ON_CLOSE)
}

fn with_oplock(how: &OpenAs, name: &str, level: u8) -> Message {
    let mut message = how.message(name);
    message.body[3] = level;
    message
}

/// Opens the root of the share with a directory lease to read.
fn watch_root(client: &mut Client) -> FileHandle {
    let mut lease = vec![0; 52];
    lease[..16].fill(7);
    lease[16] = 3;
    let how = OpenAs::directory(Disposition::Open).access(READ);
    let how = OpenAs { contexts: vec![(LEASE_TAG.to_vec(), lease)], ..how };
    created(&client.call(with_oplock(&how, "", oplock::LEASE))).expect("the root opens").handle
}

#[test]
fn a_create_that_waits_for_others_when_its_connection_ends() {
    let world = World::new();
    world.put("f", b"content");
    let (mut holder, mut doomer, mut late) = (world.anna(), world.anna(), world.anna());
    holder.write_file("f:s", b"a stream");
    let held = created(&holder.call(with_oplock(&OpenAs::default(), "f:s", oplock::BATCH))).unwrap().handle;
    let file = doomer.create("f", &doomed());
    let id = late.send(&[OpenAs::default().message("f:s")])[0];
    assert!(late.take(id).is_none(), "it waits for the holder of the stream");
    doomer.close(file);
    holder.close(held);
    assert!(world.exists("f"), "somebody is about to open its stream");
    late.hang_up();
    assert!(!world.exists("f"), "who closed it was told that it goes");
}

#[test]
fn a_close_that_waits_for_others_when_its_connection_ends() {
    let world = World::new();
    world.put("f", b"content");
    let (mut watcher, mut doomer) = (world.anna(), world.anna());
    watch_root(&mut watcher);
    // A lease is told and not waited for; a delegation is.
    let mut wanted = OpenRequest::new(world.fs.root().id(), AccessKinds::READ, ShareKinds::all());
    wanted.identity = Identity::Client(9);
    wanted.grant.want = Caching::READ;
    let delegated = world.server.table().open(Instant(0), &wanted).unwrap().done().unwrap();
    let file = doomer.create("f", &doomed());
    let id = doomer.send(&[close_message(file)])[0];
    doomer.drive();
    assert!(doomer.take(id).is_none() && world.exists("f"), "it waits for who caches the directory");
    doomer.hang_up();
    assert!(!world.exists("f"), "it was to go with its last open, and that is closed");
    drop(delegated);
}

#[test]
fn a_create_on_a_worker_when_its_connection_ends() {
    let world = World::parking();
    world.put("f", b"content");
    let (mut doomer, mut late) = (world.anna(), world.anna());
    let file = doomer.create("f", &doomed());
    late.send(&[OpenAs::how(Disposition::Overwrite).message("f")]);
    doomer.close(file);
    late.hang_up();
    world.manual.as_ref().unwrap().run_all();
    assert!(!world.exists("f"));
}

/// One client of the interleavings: opens the file or its stream in some way, closes it, goes.
struct Actor {
    client: Client,
    asked: Option<u64>,
    handle: Option<FileHandle>,
}

impl Actor {
    fn new(world: &World) -> Self {
        let mut client = world.anna();
        client.call(Message { credits: 64, ..echo_message() }).ok();
        Self { client, asked: None, handle: None }
    }

    fn look(&mut self) {
        self.client.poll();
        while self.client.take(UNSOLICITED).is_some() {}
        let Some(answer) = self.asked.and_then(|id| self.client.take(id)) else { return };
        self.asked = None;
        self.handle = created(&answer).ok().map(|made| made.handle);
    }

    fn act(&mut self, rng: &mut Rng) {
        self.look();
        if self.asked.is_some() {
            return;
        }
        if let Some(handle) = self.handle.take() {
            self.client.send(&[close_message(handle)]);
            return;
        }
        let disposition = [Disposition::Open, Disposition::Overwrite][rng.below(2)];
        let level = [oplock::NONE, oplock::BATCH][rng.below(2)];
        let message = with_oplock(&OpenAs::how(disposition), ["f", "f:s"][rng.below(2)], level);
        self.asked = Some(self.client.send(&[message])[0]);
    }
}

#[test]
fn seeded_interleavings_lose_no_deletion() {
    for seed in 0..300 {
        let (world, mut rng) = (World::parking(), Rng::new(seed));
        let manual = world.manual.clone().unwrap();
        world.put("f", b"content");
        let mut doomer = world.anna();
        doomer.write_file("f:s", b"a stream");
        let mut file = Some(doomer.create("f", &doomed()));
        let mut actors: Vec<_> = (0..3).map(|_| Actor::new(&world)).collect();
        for _ in 0..40 {
            match rng.below(12) {
                0 => drop(file.take().map(|file| doomer.send(&[close_message(file)]))),
                1 if !actors.is_empty() => {
                    let at = rng.below(actors.len());
                    actors.swap_remove(at).client.hang_up();
                }
                2..5 => drop(manual.run_any(&mut rng)),
                5 => doomer.poll(),
                _ if !actors.is_empty() => {
                    let at = rng.below(actors.len());
                    actors[at].act(&mut rng);
                }
                _ => {}
            }
        }
        if let Some(file) = file.take() {
            doomer.send(&[close_message(file)]);
        }
        doomer.poll();
        doomer.hang_up();
        actors.into_iter().for_each(|actor| actor.client.hang_up());
        world.assert_nothing_left();
        assert!(!world.exists("f"), "seed {seed}");
    }
}
