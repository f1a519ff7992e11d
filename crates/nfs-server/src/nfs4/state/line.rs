//! A connection as somebody to call: what other threads want sent on it, and who waits for which reply. The backchannel
//! of a session is made of these (RFC 8881 2.10.3.1). Nothing here waits.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use crate::env::OnReply;

/// Calls that may wait for their replies on one connection.
const MOST_CALLS: usize = 256;

/// What other threads have for one connection.
#[derive(Default)]
pub(crate) struct Line {
    filled: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    outgoing: VecDeque<Vec<u8>>,
    waiting: HashMap<u32, OnReply>,
    last_xid: u32,
    waker: Option<Waker>,
    closed: bool,
}

impl Line {
    /// Sends the call that `record` makes of its transaction id. Where it cannot be sent, `done` is told at once.
    pub fn call(&self, record: impl FnOnce(u32) -> Vec<u8>, done: OnReply) {
        let mut inner = self.inner.lock();
        if inner.closed || inner.waiting.len() >= MOST_CALLS {
            drop(inner);
            return done(None);
        }
        inner.last_xid = inner.last_xid.wrapping_add(1);
        let xid = inner.last_xid;
        inner.outgoing.push_back(record(xid));
        let before = inner.waiting.insert(xid, done);
        self.filled.store(true, Ordering::Release);
        let waker = inner.waker.clone();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some(before) = before {
            before(None);
        }
    }

    /// A reply has come: its record from the transaction id on.
    pub fn answered(&self, record: &[u8]) {
        let Some(xid) = record.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes)) else { return };
        let done = self.inner.lock().waiting.remove(&xid);
        if let Some(done) = done {
            done(Some(record.to_vec()));
        }
    }

    /// Whom to wake from now on.
    pub fn listen(&self, waker: &Waker) {
        self.inner.lock().waker = Some(waker.clone());
    }

    /// The next record to send. One load while there is none.
    pub fn next(&self) -> Option<Vec<u8>> {
        if !self.filled.load(Ordering::Acquire) {
            return None;
        }
        let mut inner = self.inner.lock();
        let next = inner.outgoing.pop_front();
        self.filled.store(!inner.outgoing.is_empty(), Ordering::Release);
        next
    }

    /// The connection is over: nobody is answered any more.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.waker = None;
        inner.outgoing.clear();
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        waiting.into_values().for_each(|done| done(None));
    }

    /// Whether nothing can be sent on it any more.
    pub fn is_closed(&self) -> bool {
        self.inner.lock().closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    #[test]
    fn a_reply_finds_whoever_called_and_nobody_waits_on_a_dead_connection() {
        let line = Arc::new(Line::default());
        let (told, answers) = channel();
        let on_reply = |n: u32| -> OnReply {
            let told = told.clone();
            Box::new(move |record| told.send((n, record)).unwrap())
        };
        line.call(|xid| xid.to_be_bytes().to_vec(), on_reply(1));
        line.call(|xid| xid.to_be_bytes().to_vec(), on_reply(2));
        let (first, second) = (line.next().unwrap(), line.next().unwrap());
        assert!(line.next().is_none() && first != second);
        line.answered(&second);
        assert_eq!(answers.try_recv().unwrap(), (2, Some(second.clone())));
        line.answered(&second);
        line.answered(b"?");
        assert!(answers.try_recv().is_err());
        line.close();
        assert_eq!(answers.try_recv().unwrap(), (1, None));
        line.call(|xid| xid.to_be_bytes().to_vec(), on_reply(3));
        assert_eq!(answers.try_recv().unwrap(), (3, None));
    }
}
