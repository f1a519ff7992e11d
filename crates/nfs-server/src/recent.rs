//! The file that the READ before found, with its attributes: of READs that came together the next one is mostly of the same
//! file, and need not look again. `connection` says when something may have changed, `nfs3::read` and the compounds that
//! do nothing but read ask and tell.
//!
//! What is found here was looked up after the call it is used for had come, and no other call of the connection was done
//! in between. So it says what could have been found at some moment between the call and its reply.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use vfs::Attr;

use crate::config::Caller;
use crate::files::Object;
use crate::nfs3::read::File;

/// An object and what it is like.
pub(crate) type Seen = (Arc<Object>, Attr);

/// What one connection read last.
#[derive(Default)]
pub struct Recent {
    found: RefCell<Option<(Arc<Caller>, File)>>,
    seen: RefCell<Option<Seen>>,
    round: Cell<u64>,
}

/// The time in which nothing but READs that have come is done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Round(u64);

impl Recent {
    /// Calls have come since, or something else was done.
    pub fn end_round(&self) {
        self.round.update(|round| round.wrapping_add(1));
        self.found.take();
        self.seen.take();
    }

    /// The round there is.
    pub fn round(&self) -> Round {
        Round(self.round.get())
    }

    /// Takes the file of a handle, if it is the one this caller read last in this round.
    pub fn take(&self, handle: &[u8], caller: &Arc<Caller>) -> Option<File> {
        let is_it =
            |(by, file): &mut (Arc<Caller>, File)| Arc::ptr_eq(by, caller) && *file.target.object.handle == *handle;
        self.found.borrow_mut().take_if(is_it).map(|(_, file)| file)
    }

    /// Remembers what was looked for, or taken, in that round; nothing, if it has ended.
    pub fn keep(&self, begun: Round, file: File, caller: &Arc<Caller>) {
        if begun == self.round() {
            *self.found.borrow_mut() = Some((Arc::clone(caller), file));
        }
    }

    /// Takes what a compound saw last in this round, whoever asked: what an object is like is not told to anybody who may
    /// not know it.
    pub fn take_seen(&self) -> Option<Seen> {
        self.seen.take()
    }

    /// Remembers what a compound saw that began in that round; nothing, if it has ended.
    pub fn keep_seen(&self, begun: Round, seen: Option<Seen>) {
        if begun == self.round() {
            *self.seen.borrow_mut() = seen;
        }
    }
}
