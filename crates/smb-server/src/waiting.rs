//! Requests that wait for something that may take for ever: the interim response, the CANCEL that ends the wait, and what
//! else can end it (MS-SMB2 3.3.4.2, 3.3.5.16).

use futures_channel::oneshot;
use futures_util::future::{Either, select};
use smb_wire::NtStatus;
use smb_wire::smb2::{FileHandle, Flags, Header};

use crate::connection::Inner;
use crate::dispatch::Request;
use crate::reply::ReplyWriter;
use crate::session::Session;

/// Why a wait ends before what was waited for happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// The client sent CANCEL.
    Cancel,
    /// The open was closed.
    Close,
    /// The tree connect or the session ended.
    End,
}

/// What requests wait on, and is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// This open of the session is closed.
    Open(u64, FileHandle),
    /// This tree connect of the session ended.
    Tree(u64, u32),
    /// The session ended.
    Session(u64),
}

/// A waiting request, as its connection keeps it.
pub struct Waiting {
    message_id: u64,
    async_id: u64,
    session_id: u64,
    tree_id: u32,
    handle: Option<FileHandle>,
    /// It goes on without its connection.
    lasts: bool,
    interrupt: oneshot::Sender<Interrupt>,
}

/// The waiting request's end: resolves when the wait is to end early.
pub type Interrupted = oneshot::Receiver<Interrupt>;

/// The waiting requests of one connection.
#[derive(Default)]
pub struct WaitingList {
    waiting: Vec<Waiting>,
    last_async_id: u64,
}

impl WaitingList {
    /// Requests that wait now.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    fn end(&mut self, why: Interrupt, which: impl Fn(&Waiting) -> bool) {
        for waiting in self.waiting.extract_if(.., |w| which(w)) {
            // The request may have ended meanwhile.
            let _ = waiting.interrupt.send(why);
        }
    }

    /// CANCEL: by AsyncId where the header has one, else by MessageId.
    pub fn cancel(&mut self, header: &Header) {
        self.end(Interrupt::Cancel, |w| {
            if header.flags.contains(Flags::ASYNC) {
                w.async_id == header.async_id
            } else {
                w.message_id == header.message_id
            }
        });
    }

    /// The connection is over: what does not go on without it ends.
    pub fn hang_up(&mut self) {
        self.end(Interrupt::End, |w| !w.lasts);
    }

    /// What waits on what is over ends.
    pub fn ended(&mut self, what: Ended) {
        match what {
            Ended::Open(session, handle) => {
                self.end(Interrupt::Close, |w| w.session_id == session && w.handle == Some(handle));
            }
            Ended::Tree(session, tree) => {
                self.end(Interrupt::End, |w| w.session_id == session && w.tree_id == tree);
            }
            Ended::Session(session) => self.end(Interrupt::End, |w| w.session_id == session),
        }
    }

    /// The request with that AsyncId is answered.
    pub fn done(&mut self, async_id: u64) {
        self.waiting.retain(|w| w.async_id != async_id);
    }
}

impl Request<'_> {
    /// Tells the client that the answer will take a while, once, and lets it cancel: an interim response goes out with
    /// whatever responses of the same frame are ready, and the final one will be a frame of its own. In the middle of a
    /// compound there is no interim response: the frame is answered as a whole when all of it is done, but the wait can
    /// be cancelled all the same.
    ///
    /// Call it before anything of the response's body is written.
    pub(crate) fn wait(&mut self, out: &mut ReplyWriter) -> Interrupted {
        let (sender, receiver) = oneshot::channel();
        let async_id = {
            let mut state = self.conn.state.borrow_mut();
            state.waiting.last_async_id += 1;
            let async_id = state.waiting.last_async_id;
            state.waiting.waiting.push(Waiting {
                message_id: self.header.message_id,
                async_id,
                session_id: self.header.session_id,
                tree_id: self.header.tree_id,
                handle: self.previous_handle,
                lasts: self.lasting.is_some(),
                interrupt: sender,
            });
            async_id
        };
        if let Some(previous) = self.waits_as.replace(async_id) {
            // It waited before, for something else.
            self.conn.state.borrow_mut().waiting.done(previous);
            self.keep_async_id(previous, async_id);
        } else if self.last {
            self.send_interim(async_id, out);
        }
        receiver
    }

    /// Waits until the table says that it may be asked again; the client hears that the answer will take a while, and
    /// may cancel.
    pub(crate) async fn await_ticket(
        &mut self,
        out: &mut ReplyWriter,
        file: vfs::FileId,
        ticket: coherence::Ticket,
    ) -> Result<(), NtStatus> {
        let mut turn = self.conn.server.router.turn(file, ticket);
        if turn.now().is_some() {
            return Ok(());
        }
        let interrupted = self.wait(out);
        let why = {
            let end = std::pin::pin!(turn.end());
            match select(end, interrupted).await {
                Either::Left(_) => None,
                // The list of waiting requests forgets one only by interrupting it.
                Either::Right((why, _)) => Some(why.unwrap_or(Interrupt::End)),
            }
        };
        match why {
            None => Ok(()),
            Some(why) => Err(crate::grants::status_of_end(why)),
        }
    }

    /// Every wait of one request goes by the AsyncId that the client was told.
    fn keep_async_id(&mut self, told: u64, made: u64) {
        let mut state = self.conn.state.borrow_mut();
        if let Some(waiting) = state.waiting.waiting.iter_mut().find(|w| w.async_id == made) {
            waiting.async_id = told;
        }
        self.waits_as = Some(told);
    }

    fn send_interim(&mut self, async_id: u64, out: &mut ReplyWriter) {
        let credits = self.conn.state.borrow_mut().window.grant(self.header.credits);
        out.fail(&NtStatus::PENDING.into());
        out.set_async(async_id);
        out.settle(NtStatus::PENDING, credits);
        let seal = self.arrival.sealed_by.clone();
        let next = ReplyWriter::new(&self.conn.shard.pool, 512);
        let interim = std::mem::replace(out, next);
        let reply = crate::dispatch::finish(self.conn, interim, seal.as_deref());
        self.conn.send(reply);
        out.begin(&self.header.response(NtStatus::SUCCESS));
        out.set_async(async_id);
        self.credits_given = true;
        self.let_go();
    }
}

impl Inner {
    /// Ends what waits, on any connection of the session, on what is over.
    pub(crate) fn interrupt(&self, session: &Session, ended: Ended) {
        self.state.borrow_mut().waiting.ended(ended);
        session.tell_channels(&self.mailbox, ended);
    }
}
