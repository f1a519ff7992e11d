//! From a frame to its reply: decryption, the elements of a compound, signatures and credits, the table of commands, and
//! the protection of what goes back (MS-SMB2 3.3.5.2, 3.3.4.1).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::crypto::{SigningKey, TransformHeader};
use smb_wire::smb2::{Command, FileHandle, Flags, HEADER_BYTES, Header, ProtocolId};
use vfs::{Frame, Reply};

use crate::connection::{Inner, Lasting, Reserved};
use crate::counters::note;
use crate::failure::{Failure, Outcome};
use crate::handlers;
use crate::open::Open;
use crate::reply::{ReplyWriter, Then};
use crate::sequence::Counted;
use crate::session::Channel;
use crate::signing::{Arrival, Signature, any_signed, check_signatures, elements};
use crate::tree::Tree;

/// Room a reply begins with unless the request says how much it will need.
const SMALL_REPLY_BYTES: usize = 512;

/// What the reply to one frame may hold beside the largest transfer: the other responses of a compound. Twice the largest
/// transfer would not fit the 24 bits of a frame's length, and a frame has room for very many requests.
const MOST_BESIDE_BYTES: usize = 64 << 10;

/// One request as its handler sees it.
pub(crate) struct Request<'a> {
    /// The connection.
    pub conn: &'a Rc<Inner>,
    /// Its header; ids of a related request are filled in.
    pub header: Header,
    /// The message from its header on.
    pub message: Frame,
    /// What its frame holds while its requests are answered.
    held: &'a RefCell<Option<Held>>,
    /// Its session here, once it has one.
    pub channel: Option<Channel>,
    /// Its tree connect, for commands that need one.
    pub tree: Option<Arc<Tree>>,
    /// The handle left by the request before, in a related compound.
    pub previous_handle: Option<FileHandle>,
    /// What its signature is worth.
    pub signature: Signature,
    /// How the frame arrived.
    pub arrival: &'a Arrival,
    /// The only request of its frame.
    pub alone: bool,
    /// The last request of its frame.
    pub last: bool,
    /// Further requests are waiting behind it.
    pub more_behind: bool,
    /// The AsyncId it has, once it waits.
    pub waits_as: Option<u64>,
    /// Its credits went out with an interim response.
    pub credits_given: bool,
    /// It is counted among the requests of its open.
    pub counted: Option<Counted>,
    /// It goes on without its connection.
    pub lasting: Option<Lasting>,
}

/// What a frame holds while its requests are answered: itself, which keeps a receive buffer, and room for its reply.
struct Held {
    frame: Frame,
    _room: Reserved,
}

/// Messages up to this long are copied when they begin to wait.
const SMALL_MESSAGE_BYTES: usize = 8 << 10;

/// What a related request takes from the one before it (3.3.5.2.7.2).
#[derive(Default)]
struct Chain {
    session_id: u64,
    tree_id: u32,
    handle: Option<FileHandle>,
    /// The status of the request before, when it failed and what follows cannot go on.
    failed: Option<NtStatus>,
}

/// Answers one frame. The frame is without its direct-TCP prefix.
pub(crate) async fn frame(conn: Rc<Inner>, frame: Frame, more_behind: bool, arrived_ns: u64) {
    match ProtocolId::of(&frame) {
        Some(ProtocolId::Smb2) => messages(&conn, frame, Arrival::at(arrived_ns), more_behind).await,
        Some(ProtocolId::Transform) => sealed(&conn, frame, more_behind, arrived_ns).await,
        Some(ProtocolId::Smb1) => handlers::negotiate::smb1(&conn, &frame),
        Some(ProtocolId::Compressed) => conn.disconnect("a compressed message where none was negotiated"),
        None => conn.disconnect("not an SMB message"),
    }
}

/// Opens an encrypted frame (3.3.5.2.1.1). One that cannot be opened ends the connection.
async fn sealed(conn: &Rc<Inner>, frame: Frame, more_behind: bool, arrived_ns: u64) {
    let session = TransformHeader::parse(&frame).ok().and_then(|h| conn.channel(h.session_id)).map(|c| c.session);
    let Some(session) = session.filter(|s| s.seals.is_some()) else {
        return conn.disconnect("an encrypted message of no session here");
    };
    let mut buf = frame.into_buf(&conn.shard.pool);
    let opened = session.seals.as_ref().is_some_and(|s| s.from_client.open(&mut buf).is_ok());
    if !opened {
        return conn.disconnect("an encrypted message that does not open");
    }
    buf.trim_front(smb_wire::crypto::TRANSFORM_HEADER_LEN);
    if ProtocolId::of(&buf) != Some(ProtocolId::Smb2) {
        return conn.disconnect("no SMB2 message inside an encrypted one");
    }
    messages(conn, Frame::from(buf), Arrival { sealed_by: Some(session), at_ns: arrived_ns }, more_behind).await;
}

/// Answers the messages of a frame one after the other, in one reply.
async fn messages(conn: &Rc<Inner>, mut frame: Frame, arrival: Arrival, more_behind: bool) {
    let signatures = if !arrival.is_sealed() && any_signed(&frame) {
        let mut buf = frame.into_buf(&conn.shard.pool);
        let signatures = check_signatures(conn, &mut buf);
        frame = Frame::from(buf);
        signatures
    } else {
        Vec::new()
    };
    // All of them before the first is answered: what answering grants is for later frames.
    if take_credits(conn, &frame).is_err() {
        return conn.disconnect("a message id that was not granted");
    }
    let mut index = 0;
    let room = reply_room(conn, &frame);
    let held = RefCell::new(Some(Held { frame, _room: conn.reserve(room) }));
    let mut out = ReplyWriter::new(&conn.shard.pool, room);
    let mut chain = Chain::default();
    let mut seal = arrival.sealed_by.clone();
    let mut at = 0;
    let mut mark = None;
    loop {
        let Some((header, message)) = element(conn, &held, at) else { return };
        let next = header.next_command as usize;
        if Command::from_u16(header.command) == Some(Command::Cancel) {
            // It is never answered itself, and uses no message id of its own (3.3.5.16).
            conn.state.borrow_mut().waiting.cancel(&header);
            conn.shard.counters.answered(header.command, NtStatus::SUCCESS);
        } else {
            note(&mut mark, arrival.at_ns, header.command);
            let request = Request {
                conn,
                header,
                message,
                held: &held,
                channel: None,
                tree: None,
                previous_handle: None,
                signature: signatures.get(index).copied().unwrap_or(Signature::Absent),
                arrival: &arrival,
                alone: at == 0 && next == 0,
                last: next == 0,
                more_behind: more_behind || next != 0,
                waits_as: None,
                credits_given: false,
                counted: None,
                lasting: None,
            };
            answer(request, &mut chain, &mut out, &mut seal).await;
        }
        if next == 0 {
            break;
        }
        at += next;
        index += 1;
    }
    if out.is_lost() {
        return conn.disconnect("a worker failed with a reply in its hands");
    }
    if !out.is_empty() {
        let reply = finish(conn, out, seal.as_deref());
        conn.send_timed(reply, mark);
    }
}

/// The message of a frame that begins at `at`; `None` when the connection ends instead.
fn element(conn: &Inner, held: &RefCell<Option<Held>>, at: usize) -> Option<(Header, Frame)> {
    let rest = held.borrow().as_ref().and_then(|held| held.frame.part(at..held.frame.len()))?;
    let Ok(header) = Header::decode(&rest) else {
        conn.disconnect("a message without a whole header");
        return None;
    };
    let next = header.next_command as usize;
    if next != 0 && (!next.is_multiple_of(8) || next < HEADER_BYTES || next >= rest.len()) {
        conn.disconnect("a compound that does not add up");
        return None;
    }
    if header.flags.contains(Flags::RESPONSE) {
        conn.disconnect("a response from a client");
        return None;
    }
    let end = if next == 0 { rest.len() } else { next };
    Some((header, rest.part(0..end)?))
}

/// Room for the reply to `frame`. What a request says it will need is believed up to the largest transfer that was
/// negotiated, and not at all before somebody has logged in: nothing of it has been checked yet.
fn reply_room(conn: &Inner, frame: &[u8]) -> usize {
    let state = conn.state.borrow();
    let known = state.negotiated.as_ref().filter(|_| !state.channels.is_empty());
    let most = known.map_or(0, |n| n.max_transfer_bytes() as usize) + SMALL_REPLY_BYTES;
    handlers::reply_room(frame).unwrap_or(SMALL_REPLY_BYTES).min(most)
}

/// 3.3.5.2.3, for every message of `frame`.
fn take_credits(conn: &Inner, frame: &[u8]) -> Result<(), crate::credits::OutOfWindow> {
    let mut state = conn.state.borrow_mut();
    let counts = state.negotiated.as_ref().is_some_and(|n| n.supports_multi_credit());
    for (header, _) in elements(frame).filter(|(header, _)| header.command != Command::Cancel as u16) {
        let charge = if counts { header.credit_charge } else { 1 };
        state.window.consume(header.message_id, charge)?;
    }
    Ok(())
}

/// Whether the frame's reply still has room for the response to `request`: a compound is answered in one frame, however
/// much its requests ask for.
fn fits(request: &Request<'_>, out: &ReplyWriter) -> bool {
    use smb_wire::codec::Put;
    let most = request.conn.negotiated().map_or(0, |n| n.max_transfer_bytes() as usize) + MOST_BESIDE_BYTES;
    let room = match Command::from_u16(request.header.command) {
        Some(Command::QueryInfo | Command::Ioctl) => usize::from(request.header.credit_charge.max(1)) << 16,
        _ => handlers::reply_room(&request.message).unwrap_or(0),
    };
    request.alone || out.len() + room.min(most - MOST_BESIDE_BYTES) <= most
}

pub(crate) fn finish(conn: &Inner, out: ReplyWriter, seal: Option<&crate::session::Session>) -> Reply {
    out.finish(seal, |then, bytes| {
        let mut state = conn.state.borrow_mut();
        match then {
            Then::Send => {}
            Then::HashConnection => state.preauth.update(bytes),
            Then::HashSession(id) => {
                if let Some(login) = state.logins.get_mut(&id) {
                    login.preauth.update(bytes);
                }
            }
        }
    })
}

/// Answers one request: appends its response to `out`.
async fn answer(
    mut request: Request<'_>,
    chain: &mut Chain,
    out: &mut ReplyWriter,
    seal: &mut Option<Arc<crate::session::Session>>,
) {
    crate::PathCounters::bump(&request.conn.shard.counters.requests, 1);
    let related = request.header.flags.contains(Flags::RELATED);
    let inherited = inherit(&mut request, chain, related, out.is_empty());
    out.begin(&request.header.response(NtStatus::SUCCESS));
    let fits = if fits(&request, out) { Ok(()) } else { Err(NtStatus::INSUFFICIENT_RESOURCES) };
    let prepared = inherited.and(fits).and_then(|()| prepare(&mut request));
    let outcome = match prepared {
        Ok(command) => handle(command, &mut request, out).await,
        Err(status) => Err(status.into()),
    };
    let status = match outcome {
        Ok(status) => status,
        Err(failure) => {
            out.fail(&failure);
            failure.status
        }
    };
    request.conn.shard.counters.answered(request.header.command, status);
    let credits = settle_credits(&request);
    out.settle(status, credits);
    protect(&request, out, seal);
    *chain = Chain {
        session_id: request.header.session_id,
        tree_id: request.header.tree_id,
        handle: request.previous_handle,
        failed: status.is_error().then_some(status),
    };
}

/// Credits for the final response; an interim one has given them already.
fn settle_credits(request: &Request<'_>) -> u16 {
    let mut state = request.conn.state.borrow_mut();
    if let Some(async_id) = request.waits_as {
        state.waiting.done(async_id);
    }
    if request.credits_given { 0 } else { state.window.grant(request.header.credits) }
}

/// Fills in what a related request takes from the one before (3.3.5.2.7.2).
fn inherit(request: &mut Request<'_>, chain: &Chain, related: bool, first: bool) -> Result<(), NtStatus> {
    if !related {
        return Ok(());
    }
    if first {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    request.header.session_id = chain.session_id;
    request.header.tree_id = chain.tree_id;
    request.previous_handle = chain.handle;
    match chain.failed {
        // The request before it named no session or tree connect, so this one has none to take.
        Some(NtStatus::USER_SESSION_DELETED | NtStatus::NETWORK_NAME_DELETED) if chain.handle.is_none() => {
            Err(NtStatus::INVALID_PARAMETER)
        }
        Some(status) if chain.handle.is_none() => Err(status),
        _ => Ok(()),
    }
}

/// Checks that come before any command's own: session, signature, encryption, tree connect, credits.
fn prepare(request: &mut Request<'_>) -> Result<Command, NtStatus> {
    let command = Command::from_u16(request.header.command).ok_or(NtStatus::INVALID_PARAMETER)?;
    let negotiated = request.conn.negotiated();
    if command == Command::Negotiate {
        return Ok(command);
    }
    let Some(negotiated) = negotiated else {
        request.conn.disconnect("a request before NEGOTIATE");
        return Err(NtStatus::INVALID_PARAMETER);
    };
    request.channel = request.conn.channel(request.header.session_id);
    if let Some(session) = &request.arrival.sealed_by
        && session.id != request.header.session_id
    {
        return Err(NtStatus::ACCESS_DENIED);
    }
    require_signature(request)?;
    if matches!(command, Command::SessionSetup | Command::Echo) {
        return Ok(command);
    }
    let channel = request.channel.as_ref().ok_or(NtStatus::USER_SESSION_DELETED)?;
    let needs_seal = channel.session.encrypt && negotiated.dialect.is_3();
    if needs_seal && !request.arrival.is_sealed() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if needs_tree(command) {
        let tree = channel.session.tree(request.header.tree_id).ok_or(NtStatus::NETWORK_NAME_DELETED)?;
        if tree.encrypt && !request.arrival.is_sealed() {
            return Err(NtStatus::ACCESS_DENIED);
        }
        request.tree = Some(tree);
    }
    Ok(command)
}

/// 3.3.5.2.4.
fn require_signature(request: &Request<'_>) -> Result<(), NtStatus> {
    let required = request.channel.as_ref().is_some_and(|c| c.signing.is_some() && c.session.signing_required);
    match request.signature {
        Signature::Bad => Err(NtStatus::ACCESS_DENIED),
        Signature::Absent if required && !request.arrival.is_sealed() => Err(NtStatus::ACCESS_DENIED),
        _ => Ok(()),
    }
}

fn needs_tree(command: Command) -> bool {
    !matches!(
        command,
        Command::Negotiate
            | Command::SessionSetup
            | Command::Logoff
            | Command::TreeConnect
            | Command::Echo
            | Command::Cancel
    )
}

/// The commands, in the specification's order (3.3.5.4 to 3.3.5.22).
async fn handle(command: Command, request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    match command {
        Command::Negotiate => handlers::negotiate::smb2(request, out),
        Command::SessionSetup => handlers::session_setup::session_setup(request, out),
        Command::Logoff => handlers::session_setup::logoff(request, out),
        Command::TreeConnect => handlers::tree_connect::tree_connect(request, out),
        Command::TreeDisconnect => handlers::tree_connect::tree_disconnect(request, out),
        Command::Create => handlers::create::create(request, out).await,
        Command::Close => handlers::close::close(request, out).await,
        Command::Flush => handlers::flush::flush(request, out).await,
        Command::Read => handlers::read::read(request, out).await,
        Command::Write => handlers::write::write(request, out).await,
        Command::Lock => handlers::lock::lock(request, out).await,
        Command::Ioctl => handlers::ioctl::ioctl(request, out).await,
        Command::Cancel => Err(NtStatus::INVALID_PARAMETER.into()), // never gets here
        Command::Echo => handlers::echo(request, out),
        Command::QueryDirectory => handlers::query_directory::query_directory(request, out).await,
        Command::ChangeNotify => handlers::change_notify::change_notify(request, out).await,
        Command::QueryInfo => handlers::query_info::query_info(request, out).await,
        Command::SetInfo => handlers::set_info::set_info(request, out).await,
        Command::OplockBreak => handlers::oplock_break::oplock_break(request, out),
    }
}

/// Decides how the response is signed and whether the frame is encrypted (3.3.4.1.1, 3.3.4.1.4).
fn protect(request: &Request<'_>, out: &mut ReplyWriter, seal: &mut Option<Arc<crate::session::Session>>) {
    // SESSION_SETUP may just have made the channel.
    let channel = request.channel.clone().or_else(|| request.conn.channel(request.header.session_id));
    let is_setup = request.header.command == Command::SessionSetup as u16;
    let Some(channel) = channel else {
        // Not a channel of the session, or not yet: who signed with the session's key is answered with it.
        if request.signature == Signature::Good
            && let Some(key) = request.conn.verifier(request.header.session_id)
        {
            sign(key, out);
        }
        return;
    };
    let tree_seals = request.tree.as_ref().is_some_and(|t| t.encrypt);
    if seal.is_none() && !is_setup && channel.session.seals.is_some() && tree_seals {
        *seal = Some(Arc::clone(&channel.session));
    }
    let asked = request.header.flags.contains(Flags::SIGNED) || channel.session.signing_required || is_setup;
    if asked
        && seal.is_none()
        && let Some(key) = &channel.signing
    {
        sign(Arc::clone(key), out);
    }
}

fn sign(key: Arc<SigningKey>, out: &mut ReplyWriter) {
    out.set_flags(Flags::SIGNED.bits());
    if let Some(element) = out.current() {
        element.sign = Some(key);
    }
}

impl Request<'_> {
    /// Gives back what the frame holds, all of whose other requests are answered: this one may wait for ever, and as many
    /// as may wait must neither keep the connection from going on nor a receive buffer each.
    pub fn let_go(&mut self) {
        *self.held.borrow_mut() = None;
        if self.message.len() <= SMALL_MESSAGE_BYTES {
            let mut copy = self.conn.shard.pool.get(self.message.len());
            copy.push(&self.message);
            self.message = Frame::from(copy);
        }
    }

    /// Its session.
    pub fn session(&self) -> Result<&Arc<crate::session::Session>, NtStatus> {
        self.channel.as_ref().map(|c| &c.session).ok_or(NtStatus::USER_SESSION_DELETED)
    }

    /// Its tree connect.
    pub fn tree(&self) -> Result<&Arc<Tree>, NtStatus> {
        self.tree.as_ref().ok_or(NtStatus::NETWORK_NAME_DELETED)
    }

    /// The open that `handle` names, or the one before in a related compound.
    pub fn open(&mut self, handle: FileHandle) -> Result<Arc<Open>, NtStatus> {
        let handle = match (handle, self.previous_handle) {
            (FileHandle::PREVIOUS, Some(previous)) => previous,
            _ => handle,
        };
        let session = self.session()?;
        let find = |handle: FileHandle| session.open(handle).filter(|o| o.tree.id == self.header.tree_id);
        // There are clients that leave a handle long closed in a related request, where only -1 is defined.
        let previous = self.previous_handle.filter(|_| self.header.flags.contains(Flags::RELATED));
        let open = find(handle).or_else(|| find(previous?)).or_else(|| handlers::create::regain(self, handle));
        let open = open.ok_or(NtStatus::FILE_CLOSED)?;
        if self.counted.is_none() && self.conn.negotiated().is_some_and(|n| n.dialect.is_3()) {
            self.counted = Counted::new(&open, &self.header)?;
        }
        self.previous_handle = Some(open.handle);
        Ok(open)
    }

    /// Refuses a request that transfers more than its CreditCharge pays for (3.3.5.2.5).
    pub fn check_charge(&self, payload_bytes: usize) -> Result<(), NtStatus> {
        let Some(negotiated) = self.conn.negotiated() else { return Err(NtStatus::INVALID_PARAMETER) };
        let charge = usize::from(self.header.credit_charge.max(1));
        let paid = if negotiated.supports_multi_credit() { charge << 16 } else { 1 << 16 };
        if payload_bytes <= paid { Ok(()) } else { Err(NtStatus::INVALID_PARAMETER) }
    }

    /// Whether its response will be signed or encrypted, so that its bytes must be in memory.
    pub fn is_protected(&self) -> bool {
        self.arrival.is_sealed()
            || self.header.flags.contains(Flags::SIGNED)
            || self.channel.as_ref().is_some_and(|c| c.session.signing_required || c.session.encrypt)
            || self.tree.as_ref().is_some_and(|t| t.encrypt)
    }
}

impl From<Failure> for NtStatus {
    fn from(failure: Failure) -> Self {
        failure.status
    }
}
