//! What was written and is not on stable storage yet (RFC 1813 4.8, RFC 8881 18.3): kept until the server has committed
//! it, so that what it lost when it restarted can be written again. Who commits is `open`; this is only the list.

use std::collections::BTreeMap;

use bytes::Bytes;

/// A WRITE, by number: they are in the order they were sent in.
pub(super) type Number = u64;

#[derive(Debug, Clone)]
struct Entry {
    offset: u64,
    data: Bytes,
    /// `None` while it is under way.
    written: Option<Written>,
}

/// How it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// Under this verifier.
    Under([u8; 8]),
    /// To stable storage, over something that is not there yet: it is kept as long as that may be written again.
    Safe,
}

impl Entry {
    fn touches(&self, other: &Self) -> bool {
        let end = |entry: &Self| entry.offset.saturating_add(entry.data.len() as u64);
        self.offset < end(other) && other.offset < end(self)
    }
}

/// The list.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    entries: BTreeMap<Number, Entry>,
    next: Number,
    written_bytes: u64,
    /// What was lost is being written again: nothing new is sent meanwhile, which it could come to lie over.
    is_replaying: bool,
}

impl Dirty {
    /// A WRITE is sent.
    pub fn sent(&mut self, offset: u64, data: Bytes) -> Number {
        let number = self.next;
        self.next += 1;
        self.entries.insert(number, Entry { offset, data, written: None });
        number
    }

    /// Whether what is to be written must wait.
    pub fn is_replaying(&self) -> bool {
        self.is_replaying
    }

    /// What was lost has been written again, or cannot be.
    pub fn replayed(&mut self) {
        self.is_replaying = false;
    }

    /// It was written, under this verifier, or to stable storage.
    pub fn written(&mut self, number: Number, verifier: Option<[u8; 8]>) {
        let Some(entry) = self.entries.get(&number) else { return };
        let lies_over = || self.entries.range(..number).any(|(_, earlier)| earlier.touches(entry));
        let written = match verifier {
            Some(verifier) => Written::Under(verifier),
            None if lies_over() => Written::Safe,
            None => return self.forget(number),
        };
        if let Some(entry) = self.entries.get_mut(&number)
            && entry.written.replace(written).is_none()
        {
            self.written_bytes += entry.data.len() as u64;
        }
    }

    /// It is safe and lies over nothing, or was never written, or nobody cares.
    pub fn forget(&mut self, number: Number) {
        if let Some(entry) = self.entries.remove(&number)
            && entry.written.is_some()
        {
            self.written_bytes -= entry.data.len() as u64;
        }
    }

    /// Bytes that were written and are not safe.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// What a COMMIT that is sent now makes safe.
    pub fn before_commit(&self) -> Vec<Number> {
        self.entries.iter().filter(|(_, entry)| entry.written.is_some()).map(|(number, _)| *number).collect()
    }

    /// A COMMIT has answered. Those of `numbers` that were written under its verifier are safe; if others were not, all
    /// from the first of them on are to be written again, in order, whatever became of the later ones: they may lie over
    /// it.
    pub fn committed(&mut self, numbers: &[Number], verifier: [u8; 8]) -> Vec<(Number, u64, Bytes)> {
        let is_lost = |entry: &Entry| matches!(entry.written, Some(Written::Under(under)) if under != verifier);
        let first_lost = numbers.iter().find(|number| self.entries.get(number).is_some_and(is_lost)).copied();
        match first_lost {
            None => numbers.iter().for_each(|number| self.forget(*number)),
            Some(first) => {
                numbers.iter().filter(|number| **number < first).for_each(|number| self.forget(*number));
            }
        }
        self.is_replaying |= first_lost.is_some();
        let again = first_lost.map(|first| self.entries.range(first..));
        again.into_iter().flatten().map(|(number, entry)| (*number, entry.offset, entry.data.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: [u8; 8] = [1; 8];
    const AFTER: [u8; 8] = [2; 8];

    fn data(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn what_was_committed_under_its_verifier_is_safe() {
        let mut dirty = Dirty::default();
        let (a, b) = (dirty.sent(0, data("aaaa")), dirty.sent(4, data("bb")));
        dirty.written(a, Some(BEFORE));
        assert_eq!((dirty.written_bytes(), dirty.before_commit()), (4, vec![a]));
        // The other is written while the COMMIT is under way: it is not what was committed.
        dirty.written(b, Some(BEFORE));
        assert!(dirty.committed(&[a], BEFORE).is_empty());
        assert_eq!((dirty.written_bytes(), dirty.before_commit()), (2, vec![b]));
        dirty.forget(b);
        assert_eq!(dirty.written_bytes(), 0);
    }

    #[test]
    fn what_a_restart_lost_is_written_again_in_order() {
        let mut dirty = Dirty::default();
        let numbers: Vec<Number> = (0..3).map(|n| dirty.sent(n, data("xx"))).collect();
        for (number, verifier) in numbers.iter().zip([AFTER, BEFORE, AFTER]) {
            dirty.written(*number, Some(verifier));
        }
        let again = dirty.committed(&numbers, AFTER);
        assert_eq!(again.iter().map(|(number, ..)| *number).collect::<Vec<_>>(), numbers[1..]);
        assert_eq!(again[0].1, 1);
        for (number, ..) in again {
            dirty.written(number, Some(AFTER));
        }
        assert_eq!(dirty.written_bytes(), 4);
        assert!(dirty.committed(&numbers, AFTER).is_empty());
        assert_eq!(dirty.written_bytes(), 0);
    }

    #[test]
    fn what_is_safe_and_lies_over_what_is_not_is_written_again_behind_it() {
        let mut dirty = Dirty::default();
        let old = dirty.sent(0, data("aaaa"));
        dirty.written(old, Some(BEFORE));
        let (over, beside) = (dirty.sent(2, data("bb")), dirty.sent(4, data("cc")));
        dirty.written(over, None);
        dirty.written(beside, None);
        assert_eq!(dirty.written_bytes(), 6, "what lies beside is done with");
        let numbers = dirty.before_commit();
        let again = dirty.committed(&numbers, AFTER);
        assert_eq!(again.iter().map(|(number, ..)| *number).collect::<Vec<_>>(), [old, over]);
        assert!(dirty.is_replaying());
        again.iter().for_each(|(number, ..)| dirty.written(*number, Some(AFTER)));
        dirty.replayed();
        assert!(dirty.committed(&numbers, AFTER).is_empty() && !dirty.is_replaying());
        assert_eq!(dirty.written_bytes(), 0);
    }
}
