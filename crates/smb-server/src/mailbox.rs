//! A connection's mailbox: what other threads have for its client. The router posts, the connection takes out what is
//! there each time it is polled and sends it as unsolicited OPLOCK_BREAK notifications. Nothing here waits.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;

use coherence::{Caching, HolderKey};
use parking_lot::Mutex;
use smb_wire::codec::Put;
use smb_wire::smb2::{Command, FileHandle, Flags, Header, LeaseBreak, LeaseFlags, OplockBreak};
use vfs::FileId;

use crate::grants::{level_of, wire_state};
use crate::session::Session;
use crate::waiting::Ended;

/// Something a holder of a caching grant must be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// The file.
    pub file: FileId,
    /// Whose grant.
    pub holder: HolderKey,
    /// What is held until the break is over.
    pub from: Caching,
    /// What may be kept.
    pub to: Caching,
    /// NewEpoch.
    pub epoch: u16,
    /// Whether an acknowledgement is due.
    pub acknowledge: bool,
}

/// A notice on its way to a client.
pub struct Letter {
    /// What is told.
    pub notice: Notice,
    /// The open it is told about.
    pub handle: FileHandle,
    /// The open's session: it is encrypted for it, where the session or the share wants that.
    pub session: Weak<Session>,
    /// Whether the share wants encryption.
    pub seal: bool,
    /// The lease is of version 2 and has an epoch.
    pub epoch: bool,
}

/// The letters of one connection.
#[derive(Default)]
pub struct Mailbox {
    /// The client's end of the connection.
    peer: OnceLock<SocketAddr>,
    /// Whether there is anything: all that a busy connection looks at.
    filled: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    letters: Vec<Letter>,
    ended: Vec<Ended>,
    waker: Option<Waker>,
    closed: bool,
}

impl Mailbox {
    /// That of the connection from `peer`.
    pub fn of(peer: SocketAddr) -> Self {
        Self { peer: OnceLock::from(peer), ..Self::default() }
    }

    /// Whose connection it is, if it is one's.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer.get().copied()
    }

    /// Leaves a letter and wakes the connection. The letter comes back if the connection is over.
    pub fn post(&self, letter: Letter) -> Result<(), Letter> {
        let waker = {
            let mut inner = self.inner.lock();
            if inner.closed {
                return Err(letter);
            }
            inner.letters.push(letter);
            self.filled.store(true, Ordering::Release);
            inner.waker.clone()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Says that what requests of the connection may wait on is over, and wakes it.
    pub fn interrupt(&self, ended: Ended) {
        let waker = {
            let mut inner = self.inner.lock();
            if inner.closed {
                return;
            }
            inner.ended.push(ended);
            self.filled.store(true, Ordering::Release);
            inner.waker.clone()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes out what is over; the letters stay. One load while there is nothing.
    pub fn take_ended(&self) -> Vec<Ended> {
        if !self.filled.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut inner = self.inner.lock();
        self.filled.store(!inner.letters.is_empty(), Ordering::Release);
        std::mem::take(&mut inner.ended)
    }

    /// Whom to wake from now on.
    pub fn listen(&self, waker: &Waker) {
        self.inner.lock().waker = Some(waker.clone());
    }

    /// Takes out what is there. One load while there is nothing.
    pub fn take(&self) -> Vec<Letter> {
        if !self.filled.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut inner = self.inner.lock();
        self.filled.store(!inner.ended.is_empty(), Ordering::Release);
        std::mem::take(&mut inner.letters)
    }

    /// The connection is over; what it did not send comes back.
    pub fn close(&self) -> Vec<Letter> {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.waker = None;
        std::mem::take(&mut inner.letters)
    }
}

impl Letter {
    /// The session whose key seals the notification, if it is to be sealed.
    pub fn sealed_for(&self) -> Option<Arc<Session>> {
        self.session.upgrade().filter(|s| (s.encrypt || self.seal) && s.seals.is_some())
    }

    /// The header of every notification (MS-SMB2 3.3.4.6, 3.3.4.7): it answers nothing and is never signed.
    pub fn header() -> Header {
        Header {
            credit_charge: 0,
            credits: 0,
            flags: Flags::RESPONSE,
            ..Header::request(Command::OplockBreak, u64::MAX)
        }
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self.notice.holder {
            HolderKey::Lease { key, .. } => {
                let mut flags = LeaseFlags::empty();
                flags.set(LeaseFlags::ACK_REQUIRED, self.notice.acknowledge);
                LeaseBreak {
                    epoch: if self.epoch { self.notice.epoch } else { 0 },
                    flags,
                    key,
                    from: wire_state(self.notice.from),
                    to: wire_state(self.notice.to),
                }
                .put(out);
            }
            _ => OplockBreak { level: level_of(self.notice.to), handle: self.handle }.put(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coherence::OpenId;

    fn letter(holder: HolderKey, to: Caching) -> Letter {
        let file = FileId { dev: 1, ino: 2, generation: 3 };
        Letter {
            notice: Notice { file, holder, from: Caching::all(), to, epoch: 5, acknowledge: true },
            handle: FileHandle { persistent: 6, volatile: 7 },
            session: Weak::new(),
            seal: false,
            epoch: true,
        }
    }

    fn message(letter: &Letter) -> Vec<u8> {
        let mut bytes = Vec::new();
        Letter::header().put(&mut bytes);
        letter.put(&mut bytes);
        bytes
    }

    #[test]
    fn a_letter_is_taken_once_and_comes_back_from_a_dead_connection() {
        let mailbox = Mailbox::default();
        assert!(mailbox.take().is_empty());
        let holder = HolderKey::Open(OpenId(1));
        assert!(mailbox.post(letter(holder, Caching::READ)).is_ok());
        assert_eq!(mailbox.take().len(), 1);
        assert!(mailbox.take().is_empty());
        assert!(mailbox.post(letter(holder, Caching::READ)).is_ok());
        assert_eq!(mailbox.close().len(), 1);
        assert!(mailbox.post(letter(holder, Caching::READ)).is_err());
    }

    #[test]
    fn oplocks_and_leases_are_told_in_their_own_shapes() {
        let oplock = message(&letter(HolderKey::Open(OpenId(1)), Caching::READ));
        assert_eq!(Header::decode(&oplock).unwrap().message_id, u64::MAX);
        let handle = FileHandle { persistent: 6, volatile: 7 };
        assert_eq!(OplockBreak::decode(&oplock), Ok(OplockBreak { level: 1, handle }));
        let lease = message(&letter(HolderKey::Lease { client: [1; 16], key: [2; 16] }, Caching::READ));
        let told = LeaseBreak { epoch: 5, flags: LeaseFlags::ACK_REQUIRED, key: [2; 16], from: 7, to: 1 };
        assert_eq!(LeaseBreak::decode(&lease), Ok(told));
    }
}
