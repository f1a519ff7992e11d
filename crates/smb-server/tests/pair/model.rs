//! Several clients at once, doing by chance what clients do, with jobs finishing in any order and connections breaking:
//! every read sees what the model says, and in the end nothing is left.

use std::collections::HashMap;

use smb_wire::NtStatus;
use smb_wire::smb2::{CreateOptions, FileHandle, LockFlags, ReadResponse};

use crate::util::client::Client;
use crate::util::ops::{
    close_message, created, echo_message, flush_message, lock_message, read_message, write_message,
};
use crate::util::{Message, OpenAs, Profile, Rng, World};

const FILES: usize = 3;
const SLOTS: usize = 8;
const SLOT_BYTES: usize = 16;

type Slot = [u8; SLOT_BYTES];

/// What an answer is to be compared with.
enum Expected {
    Opened(usize),
    Read(usize, usize),
    Wrote(usize, usize),
    Temporary,
    Ok,
    /// Either way.
    Any,
}

/// One client with its own slots in every file.
struct Actor {
    client: Client,
    number: usize,
    handles: HashMap<usize, FileHandle>,
    pending: Vec<(u64, Expected)>,
    /// What each slot holds; `None` when a connection broke while it was written.
    slots: HashMap<(usize, usize), Option<Slot>>,
    /// Its connection broke while a temporary file was being made: that one may stay.
    lost_temporaries: bool,
    rng: Rng,
}

impl Actor {
    fn new(world: &World, number: usize, seed: u64) -> Self {
        let rng = Rng::new(seed << 8 | number as u64);
        let client = Self::connect(world);
        Self {
            client,
            number,
            handles: HashMap::new(),
            pending: Vec::new(),
            slots: HashMap::new(),
            lost_temporaries: false,
            rng,
        }
    }

    fn connect(world: &World) -> Client {
        let mut client = world.logged_in(Profile::default());
        client.call(Message { credits: 64, ..echo_message() }).ok();
        client
    }

    fn offset(&self, slot: usize) -> u64 {
        ((self.number * SLOTS + slot) * SLOT_BYTES) as u64
    }

    fn is_pending(&self, file: usize, slot: usize) -> bool {
        self.pending.iter().any(|(_, e)| match e {
            Expected::Read(f, s) | Expected::Wrote(f, s) => (*f, *s) == (file, slot),
            _ => false,
        })
    }

    fn uses(&self, file: usize) -> bool {
        self.pending.iter().any(|(_, e)| match e {
            Expected::Read(f, _) | Expected::Wrote(f, _) | Expected::Opened(f) => *f == file,
            Expected::Ok | Expected::Any => true,
            Expected::Temporary => false,
        })
    }

    /// Sends one request, if it may have one more under way.
    fn act(&mut self) {
        if self.pending.len() >= 6 || self.client.credits < 8 {
            return;
        }
        let file = self.rng.below(FILES);
        let Some(handle) = self.handles.get(&file).copied() else {
            if !self.uses(file) {
                self.send(OpenAs::default().message(&format!("FILE{file}")), Expected::Opened(file));
            }
            return;
        };
        let slot = self.rng.below(SLOTS);
        match self.rng.below(10) {
            0..=3 if !self.is_pending(file, slot) => {
                let data: Slot = std::array::from_fn(|_| self.rng.next() as u8);
                self.slots.insert((file, slot), Some(data));
                self.send(write_message(handle, self.offset(slot), &data), Expected::Wrote(file, slot));
            }
            4..=6 if !self.is_pending(file, slot) => {
                let message = read_message(handle, self.offset(slot), SLOT_BYTES as u32);
                self.send(message, Expected::Read(file, slot));
            }
            7 => {
                let how = OpenAs::default().options(CreateOptions::DELETE_ON_CLOSE);
                let name = format!("tmp-{}-{}", self.number, self.rng.next());
                self.send(how.message(&name), Expected::Temporary);
            }
            8 if !self.uses(file) => {
                self.handles.remove(&file);
                self.send(close_message(handle), Expected::Ok);
            }
            9 => {
                let (at, len) = (self.offset(0), (SLOTS * SLOT_BYTES) as u64);
                let message = match self.rng.below(3) {
                    0 => flush_message(handle),
                    1 => lock_message(handle, at, len, LockFlags::EXCLUSIVE),
                    _ => lock_message(handle, at, len, LockFlags::UNLOCK),
                };
                self.send(message, Expected::Any);
            }
            _ => {}
        }
    }

    fn send(&mut self, message: Message, expected: Expected) {
        let id = self.client.send(&[message])[0];
        self.pending.push((id, expected));
    }

    /// Takes the answers there are.
    fn listen(&mut self) {
        self.client.poll();
        for (id, expected) in std::mem::take(&mut self.pending) {
            let Some(response) = self.client.take(id) else {
                self.pending.push((id, expected));
                continue;
            };
            match expected {
                Expected::Opened(file) => {
                    self.handles.insert(file, created(&response).expect("all share everything").handle);
                }
                Expected::Temporary => {
                    let handle = created(&response).expect("a new file").handle;
                    self.send(close_message(handle), Expected::Ok);
                }
                Expected::Read(file, slot) => self.compare(file, slot, &response),
                Expected::Wrote(..) | Expected::Ok => drop(response.ok()),
                Expected::Any => {}
            }
        }
        assert_eq!(self.client.conn.finished(), None);
    }

    fn compare(&self, file: usize, slot: usize, response: &crate::util::Response) {
        let known = self.slots.get(&(file, slot)).copied();
        let Some(expected) = known.unwrap_or(Some([0; SLOT_BYTES])) else { return };
        match response.status() {
            NtStatus::SUCCESS => {
                let data = ReadResponse::decode(&response.bytes).unwrap().data;
                assert_eq!(data, &expected[..data.len()], "client {} file {file} slot {slot}", self.number);
            }
            // Nobody has written that far yet.
            NtStatus::END_OF_FILE => assert_eq!(known, None),
            status => panic!("{status:?}"),
        }
    }

    /// The connection breaks and a new one is made.
    fn break_off(&mut self, world: &World) {
        for (_, expected) in std::mem::take(&mut self.pending) {
            match expected {
                Expected::Wrote(file, slot) => drop(self.slots.insert((file, slot), None)),
                Expected::Temporary => self.lost_temporaries = true,
                _ => {}
            }
        }
        self.handles.clear();
        let client = Self::connect(world);
        std::mem::replace(&mut self.client, client).hang_up();
        // What it had locked is free once its opens are closed, which is a job like any other.
        world.manual.as_ref().unwrap().run_all();
    }
}

fn run(seed: u64) {
    let world = World::parking();
    let manual = world.manual.clone().unwrap();
    let mut rng = Rng::new(seed);
    let mut actors: Vec<_> = (0..4).map(|number| Actor::new(&world, number, seed)).collect();
    for _ in 0..600 {
        world.fs.block_next(rng.below(4) as u32);
        let count = actors.len();
        let actor = &mut actors[rng.below(count)];
        actor.act();
        if rng.one_in(2) {
            manual.run_any(&mut rng);
        }
        if rng.one_in(2) {
            actor.listen();
        }
        if rng.one_in(150) {
            actor.break_off(&world);
        }
    }
    while actors.iter().any(|a| !a.pending.is_empty()) {
        manual.run_any(&mut rng);
        actors.iter_mut().for_each(Actor::listen);
    }
    manual.run_all();
    for actor in &actors {
        for ((file, slot), expected) in &actor.slots {
            let Some(expected) = expected else { continue };
            let content = world.content(&format!("FILE{file}")).unwrap();
            let at = actor.offset(*slot) as usize;
            assert_eq!(content[at..at + SLOT_BYTES], *expected, "seed {seed}");
        }
    }
    let excused: Vec<_> = actors.iter().filter(|a| a.lost_temporaries).map(|a| format!("tmp-{}-", a.number)).collect();
    actors.into_iter().for_each(|a| a.client.hang_up());
    world.assert_nothing_left();
    let mut client = world.logged_in(Profile::default());
    let names = client.list("", "*", 4096).unwrap();
    let is_fine = |name: &String| name.starts_with("FILE") || excused.iter().any(|e| name.starts_with(e.as_str()));
    assert!(names.iter().all(is_fine), "seed {seed} leaves {names:?}");
}

#[test]
fn several_clients_by_chance() {
    for seed in 0..12 {
        run(seed);
    }
}
