//! Changes of an open that are under way beside its connection's thread, or that wait to begin: a FLUSH covers those that
//! came before it, and a CLOSE waits for those that have begun (MS-SMB2 3.3.5.10, 3.3.5.11). A WRITE that is done in place
//! is not counted and pays nothing.

use std::sync::Arc;

use futures_channel::oneshot;
use parking_lot::Mutex;
use smb_wire::NtStatus;

/// The changes of one open, whichever of its client's connections they came by.
#[derive(Default)]
pub struct Changes(Arc<Mutex<Option<Box<Line>>>>);

/// They have numbers, in the order they came.
#[derive(Default)]
struct Line {
    next: u64,
    under_way: Vec<Entry>,
    waiting: Vec<Waiting>,
    /// Nothing begins any more.
    closed: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    number: u64,
    begun: bool,
}

struct Waiting {
    before: u64,
    /// Also for those that have not begun.
    all: bool,
    sender: oneshot::Sender<()>,
}

/// One change; it is over when the last share of it is dropped. Whatever does the change holds one, so that it counts as
/// long as it is done, also where nobody waits for it any more.
pub struct Change {
    of: Changes,
    number: u64,
}

impl Change {
    /// It begins, unless the open was closed meanwhile.
    pub fn begin(&self) -> Result<(), NtStatus> {
        let mut line = self.of.0.lock();
        let line = line.as_mut().filter(|line| !line.closed).ok_or(NtStatus::FILE_CLOSED)?;
        line.under_way.iter_mut().filter(|entry| entry.number == self.number).for_each(|entry| entry.begun = true);
        Ok(())
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let called = self.of.end(self.number);
        // Whoever waited may be gone with its connection.
        for waiting in called {
            let _ = waiting.sender.send(());
        }
    }
}

impl Changes {
    /// Counts a change that came now. It may wait for others before it begins.
    pub fn add(&self) -> Arc<Change> {
        let mut line = self.0.lock();
        let line = line.get_or_insert_default();
        let number = line.next;
        line.next += 1;
        line.under_way.push(Entry { number, begun: false });
        Arc::new(Change { of: Self(Arc::clone(&self.0)), number })
    }

    /// Waits for the changes that came until now.
    pub async fn settle(&self) {
        self.wait(true, false).await;
    }

    /// Lets no change begin any more, and waits for those that have.
    pub async fn close(&self) {
        self.wait(false, true).await;
    }

    async fn wait(&self, all: bool, close: bool) {
        let Some(receiver) = self.enlist(all, close) else { return };
        // An end without a word cannot be: the line is kept while anybody waits in it.
        let _ = receiver.await;
    }

    fn enlist(&self, all: bool, close: bool) -> Option<oneshot::Receiver<()>> {
        let mut line = self.0.lock();
        let line = line.as_mut()?;
        line.closed |= close;
        let before = line.next;
        if line.is_settled(before, all) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        line.waiting.push(Waiting { before, all, sender });
        Some(receiver)
    }

    /// Takes a change out; who waited for no other is to be called.
    fn end(&self, number: u64) -> Vec<Waiting> {
        let mut held = self.0.lock();
        let Some(line) = held.as_mut() else { return Vec::new() };
        line.under_way.retain(|entry| entry.number != number);
        let (called, waiting) =
            std::mem::take(&mut line.waiting).into_iter().partition(|w| line.is_settled(w.before, w.all));
        line.waiting = waiting;
        if line.under_way.is_empty() && !line.closed {
            *held = None;
        }
        called
    }
}

impl Line {
    fn is_settled(&self, before: u64, all: bool) -> bool {
        !self.under_way.iter().any(|entry| entry.number < before && (all || entry.begun))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn who_waits_does_so_for_what_came_before_only() {
        let changes = Changes::default();
        assert_eq!(changes.settle().now_or_never(), Some(()));
        let (first, begun) = (changes.add(), changes.add());
        begun.begin().unwrap();
        let mut settle = Box::pin(changes.settle());
        assert_eq!(settle.as_mut().now_or_never(), None);
        let later = changes.add();
        drop(begun);
        assert_eq!(settle.as_mut().now_or_never(), None);
        drop(first);
        assert_eq!(settle.now_or_never(), Some(()));
        drop(later);
        assert!(changes.0.lock().is_none(), "nothing is kept where nothing is under way");
    }

    #[test]
    fn a_close_waits_for_what_has_begun_and_lets_nothing_begin() {
        let changes = Changes::default();
        let (waiting, begun) = (changes.add(), changes.add());
        begun.begin().unwrap();
        let on_worker = Arc::clone(&begun);
        let mut close = Box::pin(changes.close());
        assert_eq!(close.as_mut().now_or_never(), None);
        assert_eq!(waiting.begin(), Err(NtStatus::FILE_CLOSED));
        drop(begun);
        assert_eq!(close.as_mut().now_or_never(), None, "it is still done, though nobody waits for it");
        drop(on_worker);
        assert_eq!(close.now_or_never(), Some(()));
    }
}
