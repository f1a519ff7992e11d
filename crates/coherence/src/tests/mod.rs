//! Tests of the table as a whole: stories, rules as tables, seeded interleavings against straightforward models.

mod grants;
mod locks;
mod model;
mod opens;
mod threads;
mod ways;

use std::sync::Arc;

use parking_lot::Mutex;
use vfs::FileId;

use crate::{
    AccessKinds, Deletion, Denied, Effect, EffectSink, Instant, Limits, OpenClaim, OpenRequest, Opened, Outcome,
    ShareKinds, Table, Ticket,
};

const NOW: Instant = Instant(1_000);
const ALL: ShareKinds = ShareKinds::all();
const R: AccessKinds = AccessKinds::READ;
const W: AccessKinds = AccessKinds::WRITE;
const D: AccessKinds = AccessKinds::DELETE;

fn file(ino: u64) -> FileId {
    FileId { dev: 7, ino, generation: 0 }
}

/// Keeps effects, and deletions that are left over, until asked.
#[derive(Default)]
struct Kept(Mutex<Vec<Effect>>, Mutex<Vec<Deletion>>);

impl EffectSink for Kept {
    fn effect(&self, effect: Effect) {
        self.0.lock().push(effect);
    }

    fn orphaned(&self, deletion: Deletion) {
        self.1.lock().push(deletion);
    }
}

impl Kept {
    fn take(&self) -> Vec<Effect> {
        std::mem::take(&mut self.0.lock())
    }

    fn orphans(&self) -> Vec<Deletion> {
        std::mem::take(&mut self.1.lock())
    }
}

fn table() -> (Table, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    (Table::with_sink(Limits::default(), Arc::clone(&kept) as Arc<dyn EffectSink>), kept)
}

fn request(access: AccessKinds, share: ShareKinds) -> OpenRequest {
    OpenRequest::new(file(1), access, share)
}

fn open(table: &Table, access: AccessKinds, share: ShareKinds) -> Result<OpenClaim, Denied> {
    table.open(NOW, &request(access, share)).map(|outcome| outcome.done().expect("nobody to wait for").claim)
}

fn done(outcome: Result<Outcome<Opened>, Denied>) -> Opened {
    outcome.expect("let in").done().expect("not waiting")
}

fn waits<T>(outcome: Result<Outcome<T>, Denied>) -> Ticket {
    match outcome {
        Ok(Outcome::Wait(ticket)) => ticket,
        Ok(Outcome::Done(_)) => panic!("done at once"),
        Err(denied) => panic!("{denied:?}"),
    }
}

/// A small generator of numbers that look random and are the same each run (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound as u64) as usize
    }
}
