//! Where objects were seen last, for handles where the kernel's own cannot be used: each object's directory and name, in
//! memory and, so that handles outlive the process, in a file that is only ever appended to and written afresh when it is
//! opened. `handles.rs` asks and tells. What is remembered is a hint: whoever follows it checks what it finds.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use parking_lot::Mutex;

/// An object's number and birth, as its handle has them.
pub type Key = [u8; 24];

/// Objects remembered at most; about 150 bytes each. Beyond, those that nobody has asked about go first.
const MAX_HINTS: usize = 1_000_000;
/// Records kept in memory until they are written together.
const WRITE_BYTES: usize = 16 << 10;
/// The fixed part of a record: key, parent's key, the name's length.
const RECORD_BYTES: usize = 24 + 24 + 1;

/// The hints of one backend.
#[derive(Default)]
pub struct Hints(Mutex<State>);

#[derive(Default)]
struct State {
    seen: HashMap<Key, Hint>,
    file: Option<File>,
    unwritten: Vec<u8>,
}

struct Hint {
    parent: Key,
    name: Box<[u8]>,
    asked: bool,
}

impl Hints {
    /// Takes in what the file holds and keeps what is remembered from now on in it.
    pub fn keep_in(&self, path: &Path) -> io::Result<()> {
        let mut seen = HashMap::new();
        match File::open(path) {
            Ok(file) => read_records(&mut BufReader::new(file), &mut seen),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let fresh = path.with_extension("new");
        let mut file = File::create(&fresh)?;
        let records: Vec<u8> = seen.iter().flat_map(|(key, hint)| record(key, hint)).collect();
        file.write_all(&records)?;
        std::fs::rename(&fresh, path)?;
        let mut state = self.0.lock();
        seen.extend(std::mem::take(&mut state.seen));
        *state = State { seen, file: Some(file), unwritten: Vec::new() };
        Ok(())
    }

    /// The object `key` is `name` in the directory `parent`.
    pub fn remember(&self, key: Key, parent: Key, name: &[u8]) {
        if key == parent || name.is_empty() || name.len() > 255 {
            return;
        }
        let mut state = self.0.lock();
        if state.seen.get(&key).is_some_and(|hint| hint.parent == parent && *hint.name == *name) {
            return;
        }
        if state.seen.len() >= MAX_HINTS {
            state.make_room();
        }
        let hint = Hint { parent, name: name.into(), asked: false };
        if state.file.is_some() {
            state.unwritten.extend(record(&key, &hint));
            if state.unwritten.len() >= WRITE_BYTES {
                state.write_out();
            }
        }
        state.seen.insert(key, hint);
    }

    /// Where the object was seen last.
    pub fn find(&self, key: &Key) -> Option<(Key, Vec<u8>)> {
        let mut state = self.0.lock();
        let hint = state.seen.get_mut(key)?;
        hint.asked = true;
        Some((hint.parent, hint.name.to_vec()))
    }

    /// Writes what is kept back.
    pub fn write_out(&self) {
        self.0.lock().write_out();
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.write_out();
    }
}

impl State {
    fn write_out(&mut self) {
        let unwritten = std::mem::take(&mut self.unwritten);
        if let Some(file) = &mut self.file
            && file.write_all(&unwritten).is_err()
        {
            // The disk is full, perhaps: a record cut short would spoil those behind it.
            self.file = None;
        }
    }

    fn make_room(&mut self) {
        self.seen.retain(|_, hint| std::mem::take(&mut hint.asked));
        if self.seen.len() >= MAX_HINTS {
            let mut keep = false;
            self.seen.retain(|_, _| {
                keep = !keep;
                keep
            });
        }
    }
}

fn record(key: &Key, hint: &Hint) -> Vec<u8> {
    [&key[..], &hint.parent, &[hint.name.len() as u8], &hint.name].concat()
}

/// Reads records up to the end or to one that is cut short.
fn read_records(from: &mut impl Read, seen: &mut HashMap<Key, Hint>) {
    let mut fixed = [0; RECORD_BYTES];
    let mut name = [0; 255];
    while seen.len() < MAX_HINTS && from.read_exact(&mut fixed).is_ok() {
        let name = &mut name[..usize::from(fixed[48])];
        if from.read_exact(name).is_err() {
            return;
        }
        if let (Some(key), Some(parent)) = (fixed.first_chunk::<24>(), fixed[24..].first_chunk::<24>()) {
            seen.insert(*key, Hint { parent: *parent, name: (&*name).into(), asked: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Key {
        [n; 24]
    }

    #[test]
    fn what_is_remembered_is_found_in_the_next_run() {
        let dir = std::env::temp_dir().join(format!("longshore-hints-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("hints");
        let hints = Hints::default();
        hints.remember(key(1), key(9), b"before");
        hints.keep_in(&path).unwrap();
        hints.remember(key(2), key(1), b"old");
        hints.remember(key(2), key(1), b"new");
        drop(hints);
        // A record that was cut short by the end of the process.
        File::options().append(true).open(&path).unwrap().write_all(&[7; 30]).unwrap();
        let hints = Hints::default();
        hints.keep_in(&path).unwrap();
        assert_eq!(hints.find(&key(2)), Some((key(1), b"new".to_vec())));
        assert_eq!(hints.find(&key(7)), None);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
