//! How a session goes on when its connection was lost (MS-SMB2 3.2.4.4, 3.2.7.1): another connection, another session of the
//! same client in the place of the one before, the share entered again, and every open had again, by its durable handle or,
//! where nothing can have changed, by its name. `session` starts it; it ends with a connection or with a reason.

use std::sync::{Arc, Weak};
use std::time::Duration;

use smb_wire::NtStatus;
use smb_wire::smb2::{CloseRequest, Command, CreateResponse, put_four};
use tokio::time::{Instant, sleep, timeout_at};

use super::dial::Dial;
use super::driver::{self, Line, Pending};
use super::grip::{Grip, Place, Terms};
use super::offer::CREDIT_BYTES;
use super::session::{Made, Session};
use super::{Config, Connection, Failure, Negotiated, Request, setup};
use crate::buffer::Pool;
use crate::error::ErrorKind;

/// The pause before a connection is tried again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// Requests by which the window is widened to what waits to be sent.
const MOST_WIDENINGS: u32 = 32;
/// As long as it takes.
const EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Makes connections of one client to one share.
#[derive(Debug)]
pub(crate) struct Maker {
    pub dial: Arc<dyn Dial>,
    /// Its seed is the first connection's.
    pub config: Config,
    /// `\\server\share`, as it goes on the wire.
    pub path: Vec<u8>,
    /// Connections of one session.
    pub channels: u16,
}

impl Maker {
    /// A connection, logged in, the share entered, in the place of the session `previous_session_id`.
    pub async fn make(&self, previous_session_id: u64, pool: &Pool) -> Result<Made, ErrorKind> {
        let dialled = tokio::time::timeout(self.config.timeout, self.dial.dial(None)).await;
        let dialled = dialled.map_err(|_| Failure::Timeout(self.config.timeout))?;
        let (reader, writer) = dialled.map_err(|error| Failure::Network(error.to_string()))?;
        let mut config = self.config.clone();
        config.previous_session_id = previous_session_id;
        if previous_session_id != 0 {
            setup::renew(&mut config.seed)?;
        }
        let line = driver::start(reader, writer, Connection::new(config, Duration::ZERO), pool).await?;
        setup::enter(line, &self.path).await
    }

    /// The same again, by what was agreed on at first: requests that wait were made for that.
    /// `previous` is the session it takes the place of, and then its own, should it be lost before it is of use: its server
    /// may not know that yet, and would keep the opens for it.
    async fn make_again(&self, session: &Ground, previous: &mut u64) -> Result<Made, Failure> {
        let made = self.make(*previous, &session.pool).await.map_err(said)?;
        *previous = made.line.session_id;
        let (before, now) = (&session.negotiated, &made.line.negotiated);
        let is_as_good = before.dialect == now.dialect
            && now.multi_credit >= before.multi_credit
            && now.max_read_bytes >= before.max_read_bytes
            && now.max_write_bytes >= before.max_write_bytes
            && now.max_transact_bytes >= before.max_transact_bytes;
        if !is_as_good {
            return Err(Failure::NoCommonGround("the server came back with less than was agreed on before"));
        }
        widen(&made.line, session.longest_bytes).await?;
        get_back(&made, &session.grips).await?;
        Ok(made)
    }
}

/// What is known of the session that is to go on.
struct Ground {
    pool: Pool,
    negotiated: Negotiated,
    longest_bytes: u32,
    grips: Vec<Arc<Grip>>,
}

/// Makes another connection for the session, which lost its own because of `why`; tries for as long as a server may be
/// silent. It ends when the session does.
pub(super) async fn run(session: Weak<Session>, mut why: Failure) {
    let known = session.upgrade().and_then(|session| Some((session.maker()?, session.session_id())));
    let Some((maker, mut previous)) = known else { return };
    let until = Instant::now() + maker.config.timeout.min(EVER);
    let mut pause = Duration::ZERO;
    while Instant::now() + pause <= until {
        sleep(pause).await;
        pause = (pause * 2).clamp(FIRST_PAUSE, LAST_PAUSE);
        let Some(ground) = session.upgrade().map(|session| ground(&session)) else { return };
        match timeout_at(until, maker.make_again(&ground, &mut previous)).await {
            Ok(Ok(made)) => {
                if let Some(session) = session.upgrade() {
                    session.found(made);
                }
                return;
            }
            Ok(Err(failure)) if failure.is_a_loss() => why = failure,
            Ok(Err(failure)) => {
                why = failure;
                break;
            }
            Err(_) => why = Failure::Timeout(maker.config.timeout),
        }
    }
    if let Some(session) = session.upgrade() {
        session.not_found(&why, previous);
    }
}

fn ground(session: &Session) -> Ground {
    Ground {
        pool: session.pool().clone(),
        negotiated: session.negotiated().clone(),
        longest_bytes: session.longest_parked_bytes(),
        grips: session.grips(),
    }
}

/// What failed as a reason for the end of a session.
fn said(kind: ErrorKind) -> Failure {
    match kind {
        ErrorKind::Connection(failure) => failure,
        ErrorKind::Status(status) => Failure::Login(status),
        ErrorKind::Nonsense(what) => Failure::Protocol(what),
        ErrorKind::Input(what) => Failure::NoCommonGround(what),
        ErrorKind::Nfs(_) => Failure::Ended,
    }
}

/// Has the server widen the window until the longest request fits.
pub(super) async fn widen(line: &Line, longest_bytes: u32) -> Result<(), Failure> {
    for _ in 0..MOST_WIDENINGS {
        if line.limits().window >= longest_bytes.div_ceil(CREDIT_BYTES).into() {
            return Ok(());
        }
        line.call(Request::new(Command::Echo, 0, 0, put_four)).await?;
    }
    Err(Failure::Protocol("it grants fewer credits than one request needs"))
}

/// Gets the opens back that the server kept, all at a time, and then the others one by one. What cannot be had is lost;
/// an error is the line's.
async fn get_back(made: &Made, grips: &[Arc<Grip>]) -> Result<(), Failure> {
    let held = grips.iter().filter(|grip| matches!(grip.place(), Place::Held(_)));
    let asked: Vec<(&Arc<Grip>, Option<Pending>)> =
        held.map(|grip| (grip, grip.back(&made.terms).map(|request| made.line.send(request)))).collect();
    let mut missing = Vec::new();
    for (grip, pending) in asked {
        let came_back = match pending {
            Some(mut pending) => came_back(grip, &pending.answer().await?),
            None => false,
        };
        if !came_back {
            missing.push(grip);
        }
    }
    for grip in missing {
        if !opened_by_name(made, grip).await? {
            grip.lose();
        }
    }
    Ok(())
}

fn came_back(grip: &Grip, answer: &super::Response) -> bool {
    let created = CreateResponse::decode(answer.message()).ok().filter(|_| answer.status() == NtStatus::SUCCESS);
    created.inspect(|created| grip.came_back(created)).is_some()
}

async fn opened_by_name(made: &Made, grip: &Grip) -> Result<bool, Failure> {
    let Some(request) = grip.by_name(&made.terms) else { return Ok(false) };
    let answer = made.line.call(request).await?;
    let created = CreateResponse::decode(answer.message()).ok().filter(|_| answer.status() == NtStatus::SUCCESS);
    let Some(created) = created else { return Ok(false) };
    if grip.is_the_same(&created) {
        grip.made(&created);
        return Ok(true);
    }
    let close = CloseRequest { post_query: false, handle: created.handle };
    let Terms { tree_id, seal, .. } = made.terms;
    made.line.call(Request::new(Command::Close, tree_id, 0, |out| close.put(out)).sealed(seal)).await?;
    Ok(false)
}
