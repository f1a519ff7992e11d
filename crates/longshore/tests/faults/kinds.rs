//! The faults, each for a path of either direction.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::line::{Answer, Ask, Line};
use super::scene::{DOCS, FILE_BYTES, NEW, OLD, SMALL_DISK, SMALL_DISK_BYTES, Scene, evict, fill};
use super::{Does, Path};

/// Requests under way at a time.
pub const REQUESTS: usize = 12;
/// How long a file is changed while it is served, at least, and how often.
const CHANGING: Duration = Duration::from_millis(60);
const CHANGES: usize = 3;
/// What is written at a time by who overwrites.
const STROKE_BYTES: usize = 64 << 10;

/// What is compared at a time.
const PART_BYTES: usize = 4096;

/// One path under one fault.
pub struct Cell<'a> {
    scene: &'a Scene,
    path: Path,
    taken_before: u64,
    old: &'static [u8],
    new: &'static [u8],
}

impl<'a> Cell<'a> {
    /// The file holds the old bytes.
    pub fn new(scene: &'a Scene, path: Path) -> Self {
        let taken_before = taken(scene, path.counter);
        let (old, new) = (&OLD[..], &NEW[..]);
        std::fs::write(scene.file(DOCS), old).unwrap();
        Self { scene, path, taken_before, old, new }
    }

    /// Whether the path that this is about was taken.
    pub fn was_taken(&self) -> bool {
        taken(self.scene, self.path.counter) > self.taken_before
    }

    fn connect(&self) -> Line {
        self.scene.connect(&self.path, DOCS)
    }

    /// Where the request of a number reads or writes. READs begin anywhere in a page.
    fn offset(&self, number: usize) -> usize {
        number * self.path.block_bytes + if self.path.does.reads() { 100 * number } else { 0 }
    }

    fn ask(&self, number: usize) -> Ask<'_> {
        let (offset, len) = (self.offset(number), self.path.block_bytes);
        if self.path.does.reads() {
            return Ask::Read { offset: offset as u64, len };
        }
        let through = self.path.does == Does::WriteThrough;
        Ask::Write { offset: offset as u64, data: &self.new[offset..offset + len], through }
    }

    /// All requests, one behind the other; which answer is whose.
    fn send_all(&self, line: &mut Line) -> Vec<u64> {
        if self.path.does == Does::ReadCold {
            evict(&self.scene.file(DOCS));
        }
        (0..REQUESTS).map(|number| line.send(&self.ask(number))).collect()
    }

    /// Takes all answers and shows each to `check` with the offset of its request.
    fn take_all(&self, line: &mut Line, asked: &[u64], check: impl Fn(usize, Answer)) {
        self.take_slowly(line, asked, 0, check);
    }

    /// The same, so many bytes of each of the first two one at a time.
    fn take_slowly(&self, line: &mut Line, asked: &[u64], bytes: usize, check: impl Fn(usize, Answer)) {
        for taken in 0..asked.len() {
            let (id, answer) = line.next(if taken < 2 { bytes } else { 0 });
            let number = asked.iter().position(|asked| *asked == id).expect("an answer to what was asked");
            check(self.offset(number), answer);
        }
    }

    /// The answer when nothing is wrong with the file.
    fn check_whole(&self, offset: usize, answer: Answer) {
        let len = self.path.block_bytes;
        let right = match &answer {
            Answer::Read(data) => self.path.does.reads() && data[..] == self.old[offset..offset + len],
            Answer::Written(count) => *count == len,
            _ => false,
        };
        assert!(right, "{} at {offset}: {}", self.path.name, outline(&answer));
    }

    /// The answer while the file changes: as many bytes as there were, each one that was there.
    fn check_changing(&self, offset: usize, answer: Answer, shrinks: bool) {
        let len = self.path.block_bytes;
        match &answer {
            Answer::Read(data) if data.len() == len || (shrinks && data.len() < len) => {
                self.assert_old_or_new(offset, data, shrinks);
            }
            Answer::Written(count) if *count == len => {}
            _ => panic!("{} at {offset}: {}", self.path.name, outline(&answer)),
        }
    }

    fn assert_old_or_new(&self, offset: usize, data: &[u8], or_nothing: bool) {
        for (part, at) in data.chunks(PART_BYTES).zip((offset..).step_by(PART_BYTES)) {
            let (old, new) = (&self.old[at..at + part.len()], &self.new[at..at + part.len()]);
            let known =
                |(byte, (old, new)): (&u8, (&u8, &u8))| byte == old || byte == new || (or_nothing && *byte == 0);
            let fine = part == old || part == new || part.iter().zip(old.iter().zip(new)).all(known);
            assert!(fine, "{} at {at}: a byte that never was there", self.path.name);
        }
    }

    /// What the requests have written is what the file holds.
    fn assert_written(&self) {
        if self.path.does.reads() {
            return;
        }
        let there = std::fs::read(self.scene.file(DOCS)).unwrap();
        let end = REQUESTS * self.path.block_bytes;
        assert!(there[..end] == self.new[..end], "{}: not what was written", self.path.name);
    }
}

/// No fault.
pub fn nothing(cell: &Cell<'_>) -> bool {
    let shares = if cell.scene.has_small_disk() { &[DOCS, SMALL_DISK][..] } else { &[DOCS] };
    fill(&cell.scene.file(SMALL_DISK), cell.old);
    for share in shares {
        let mut line = cell.scene.connect(&cell.path, share);
        let asked = cell.send_all(&mut line);
        cell.take_all(&mut line, &asked, |offset, answer| cell.check_whole(offset, answer));
    }
    true
}

/// The client takes its time: over reading what it asked for, over sending what it writes.
pub fn slow_reader(cell: &Cell<'_>) -> bool {
    let mut line = cell.connect();
    if cell.path.does == Does::ReadCold {
        evict(&cell.scene.file(DOCS));
    }
    let (asked, frames): (Vec<_>, Vec<_>) = (0..REQUESTS).map(|number| line.speaker.ask(&cell.ask(number))).unzip();
    let bytes = frames.concat();
    let (first, rest) = bytes.split_at(150);
    for byte in first {
        line.stream.write_all(&[*byte]).unwrap();
        std::thread::sleep(Duration::from_micros(300));
    }
    line.stream.write_all(rest).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    cell.take_slowly(&mut line, &asked, 100, |offset, answer| cell.check_whole(offset, answer));
    cell.assert_written();
    true
}

/// The client is gone: in the middle of an answer, before any, and in the middle of a request.
pub fn dead_client(cell: &Cell<'_>) -> bool {
    let mut line = cell.connect();
    cell.send_all(&mut line);
    let mut part = [0; 50];
    line.stream.read_exact(&mut part).unwrap();
    line.die();
    let mut line = cell.connect();
    cell.send_all(&mut line);
    line.die();
    cell.scene.left();
    let there = std::fs::read(cell.scene.file(DOCS)).unwrap();
    cell.assert_old_or_new(0, &there, false);

    fill(&cell.scene.file(DOCS), cell.old);
    let mut line = cell.connect();
    let (number, whole) = line.speaker.ask(&cell.ask(0));
    let (_, cut) = line.speaker.ask(&cell.ask(1));
    line.stream.write_all(&[&whole, &cut[..cut.len() / 2]].concat()).unwrap();
    let (answered, answer) = line.next(0);
    assert_eq!(answered, number);
    cell.check_whole(0, answer);
    line.die();
    cell.scene.left();
    let there = std::fs::read(cell.scene.file(DOCS)).unwrap();
    let behind = cell.path.block_bytes;
    assert!(there[behind..] == cell.old[behind..], "{}: half a request was carried out", cell.path.name);
    true
}

/// Somebody else cuts the file off, anywhere, and fills it again.
pub fn truncated(cell: &Cell<'_>) -> bool {
    let cut = |file: &File, round: usize| {
        file.set_len(((round * 977_777 + 4321) % FILE_BYTES) as u64).unwrap();
        std::thread::yield_now();
        file.write_all_at(if round.is_multiple_of(2) { cell.new } else { cell.old }, 0).unwrap();
    };
    while_changing(cell, &cut, true)
}

/// Somebody else writes other bytes over those that are there.
pub fn overwritten(cell: &Cell<'_>) -> bool {
    let overwrite = |file: &File, round: usize| {
        let with = if round.is_multiple_of(2) { cell.new } else { cell.old };
        for at in (0..FILE_BYTES).step_by(STROKE_BYTES) {
            file.write_all_at(&with[at..at + STROKE_BYTES], at as u64).unwrap();
        }
    };
    while_changing(cell, &overwrite, false)
}

fn while_changing(cell: &Cell<'_>, change: &(dyn Fn(&File, usize) + Sync), shrinks: bool) -> bool {
    let file = File::options().write(true).open(cell.scene.file(DOCS)).unwrap();
    let (enough, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut line = cell.connect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !enough.load(Relaxed) {
                change(&file, rounds.fetch_add(1, Relaxed));
            }
        });
        let stop = Stop(&enough);
        let began = Instant::now();
        while began.elapsed() < CHANGING || rounds.load(Relaxed) < CHANGES {
            let asked = cell.send_all(&mut line);
            // Answers are made, as many as fit, and lie in pipes and buffers while the file changes.
            std::thread::sleep(Duration::from_millis(3));
            cell.take_all(&mut line, &asked, |offset, answer| cell.check_changing(offset, answer, shrinks));
        }
        drop(stop);
    });
    let there = std::fs::read(cell.scene.file(DOCS)).unwrap();
    cell.assert_old_or_new(0, &there, shrinks);
    fill(&cell.scene.file(DOCS), cell.old);
    let asked = cell.send_all(&mut line);
    cell.take_all(&mut line, &asked, |offset, answer| cell.check_whole(offset, answer));
    cell.assert_written();
    true
}

/// Ends the changes, also when a check has failed.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Nothing more fits on the disk; then something does again.
pub fn full_disk(cell: &Cell<'_>) -> bool {
    if !cell.scene.has_small_disk() {
        eprintln!("SKIPPED {}: only root can make a disk that is full", cell.path.name);
        return false;
    }
    if cell.path.does == Does::ReadCold {
        return false; // this disk is memory
    }
    let file = cell.scene.file(SMALL_DISK);
    let filler = file.with_file_name("filler");
    fill(&file, cell.old);
    if !cell.path.does.reads() {
        File::options().write(true).truncate(true).open(&file).unwrap();
    }
    let leave_bytes = if cell.path.does.reads() { 0 } else { 4 * cell.path.block_bytes };
    fill_up(&filler, leave_bytes);
    let mut line = cell.scene.connect(&cell.path, SMALL_DISK);
    let asked = cell.send_all(&mut line);
    let full = std::cell::Cell::new(0);
    cell.take_all(&mut line, &asked, |offset, answer| match answer {
        Answer::Full if !cell.path.does.reads() => full.set(full.get() + 1),
        Answer::Written(count) => {
            let mut there = vec![0; count];
            File::open(&file).unwrap().read_exact_at(&mut there, offset as u64).unwrap();
            assert!(there == cell.new[offset..offset + count], "{}: acknowledged and lost", cell.path.name);
        }
        answer => cell.check_whole(offset, answer),
    });
    assert!(
        cell.path.does.reads() || (1..REQUESTS).contains(&full.get()),
        "{}: {full:?} found it full",
        cell.path.name
    );
    std::fs::remove_file(filler).unwrap();
    let asked = cell.send_all(&mut line);
    cell.take_all(&mut line, &asked, |offset, answer| cell.check_whole(offset, answer));
    let there = std::fs::read(&file).unwrap();
    let end = REQUESTS * cell.path.block_bytes;
    assert!(cell.path.does.reads() || there[..end] == cell.new[..end], "{}: not what was written", cell.path.name);
    true
}

/// Takes all of the small disk but so many bytes.
fn fill_up(filler: &std::path::Path, leave_bytes: usize) {
    let file = File::create(filler).unwrap();
    let block = vec![0; 4096];
    let mut at = 0;
    while at < SMALL_DISK_BYTES && file.write_all_at(&block, at as u64).is_ok() {
        at += block.len();
    }
    file.set_len((at - leave_bytes) as u64).unwrap();
}

fn taken(scene: &Scene, counter: &str) -> u64 {
    scene.status()["counters"][counter].as_u64().unwrap_or_else(|| panic!("no counter {counter}"))
}

/// An answer without its bytes.
fn outline(answer: &Answer) -> String {
    match answer {
        Answer::Read(data) => format!("{} bytes, or not those that are there", data.len()),
        other => format!("{other:?}"),
    }
}
