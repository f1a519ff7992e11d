//! Clients and sessions of 4.1 (RFC 8881 18.33 to 18.37, 18.46, 18.50, 18.51).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use nfs_wire::nfs4::{
    BackchannelCtlArgs, BindConnArgs, BindConnOk, CallbackSecurity, ChannelDirFromClient, ChannelDirFromServer,
    ClientId, CreateSessionArgs, CreateSessionFlags, CreateSessionOk, ExchangeIdArgs, ExchangeIdFlags, ExchangeIdOk,
    ImplId, NfsStat4, SequenceArgs, SequenceOk, SequenceStatus, SessionId, StateProtectArgs, StateProtectOk, Time,
};
use nfs_wire::xdr::{Bounded, List};

use super::client::{make_room, welcome};
use crate::nfs4::compound::{Compound, SessionCx};
use crate::nfs4::failure::{Answer, Done, answer};
use crate::nfs4::state::State;
use crate::nfs4::state::callback::{BackChannel, CallbackCred};
use crate::nfs4::state::client::{Client, Family, Standing, Who};
use crate::nfs4::state::end::End;
use crate::nfs4::state::session::{Session, Turn, back_channel, fore_channel};
use crate::reply::ReplyWriter;

/// Sessions of one client.
const MOST_SESSIONS: usize = 32;
/// The answer to a SEQUENCE alone.
const LEAST_CACHED_BYTES: u32 = 80;
/// What a client may say in EXCHANGE_ID, to which 4.2 adds one (RFC 7862 14.1.2).
const KNOWN_FLAGS: u32 = 0x4007_0103;

pub fn exchange_id(c: &mut Compound, args: &ExchangeIdArgs<'_>, out: &mut ReplyWriter) -> Answer {
    let state = &c.cx.server.state;
    let added = if c.minor >= 2 { ExchangeIdFlags::SUPP_FENCE_OPS.bits() } else { 0 };
    if args.flags.bits() & !(KNOWN_FLAGS | added) != 0 {
        return Err(NfsStat4::INVAL.into());
    }
    match &args.state_protect {
        StateProtectArgs::None => {}
        // Who came with AUTH_SYS has nothing that could protect it (RFC 8881 18.35.3).
        StateProtectArgs::MachCred(_) => return Err(NfsStat4::INVAL.into()),
        StateProtectArgs::Ssv(_) => return Err(NfsStat4::ENCR_ALG_UNSUPP.into()),
    }
    make_room(c)?;
    let update = args.flags.contains(ExchangeIdFlags::UPD_CONFIRMED_REC_A);
    let who = Who { family: Family::Sessions, name: &args.owner_id, verifier: args.verifier, principal: c.principal() };
    let exchanged = state.registry.lock().exchange_id(&who, update, state.now_ms(), state.lease_ms)?;
    if let Some(replaced) = &exchanged.replaced {
        state.end_client(replaced, End::Left);
    }
    let client = exchanged.client;
    let mut flags = ExchangeIdFlags::USE_NON_PNFS;
    if exchanged.confirmed {
        client.renew(state.now_ms());
        flags |= ExchangeIdFlags::CONFIRMED_R;
    }
    let scope = c.cx.server.key.export_id("scope");
    let built = Time { seconds: 0, nanoseconds: 0 };
    let ok = ExchangeIdOk {
        client_id: client.id,
        sequence_id: client.creating.lock().last.wrapping_add(1),
        flags,
        state_protect: StateProtectOk::None,
        server_minor_id: 0,
        server_major_id: Bounded(&scope),
        server_scope: Bounded(&scope),
        impl_id: Some(ImplId { domain: b"longshore", name: b"longshore", date: built }),
    };
    answer(Ok(ok), out)
}

pub fn create_session(c: &mut Compound, args: &CreateSessionArgs<'_>, out: &mut ReplyWriter) -> Answer {
    c.must_wait()?;
    let state = Arc::clone(&c.cx.server.state);
    let client = state.client_by_id(args.client_id)?;
    if client.family != Family::Sessions {
        return Err(NfsStat4::STALE_CLIENTID.into());
    }
    let mut creating = client.creating.lock();
    if args.sequence_id == creating.last
        && let Some(answered) = creating.answer
    {
        return answer(Ok(answered), out);
    }
    if args.sequence_id != creating.last.wrapping_add(1) {
        return Err(NfsStat4::SEQ_MISORDERED.into());
    }
    // Another user's client, or one that was never confirmed, is not confirmed by this.
    if client.principal != c.principal() && client.standing() == Standing::Unconfirmed {
        return Err(NfsStat4::CLID_INUSE.into());
    }
    // A failure leaves the sequence where it was: nothing was made that must not be made again.
    let created = create(c, &state, &client, args)?;
    creating.last = args.sequence_id;
    creating.answer = Some(created);
    answer(Ok(created), out)
}

fn create(c: &Compound, state: &State, client: &Arc<Client>, args: &CreateSessionArgs<'_>) -> Done<CreateSessionOk> {
    let known = CreateSessionFlags::PERSIST | CreateSessionFlags::CONN_BACK_CHAN | CreateSessionFlags::CONN_RDMA;
    if args.flags.bits() & !known.bits() != 0 {
        return Err(NfsStat4::INVAL.into());
    }
    let config_bytes = {
        let settings = c.cx.server.settings.load();
        settings.config.max_read_bytes.max(settings.config.max_write_bytes)
    };
    let fore = fore_channel(&args.fore_channel, config_bytes, state.slots_for_one())?;
    let back = back_channel(&args.back_channel)?;
    make_room(c)?;
    if client.holdings.lock().sessions.len() >= MOST_SESSIONS || state.is_crowded() {
        return Err(NfsStat4::NOSPC.into());
    }
    let confirmed = state.registry.lock().confirm_by_session(client)?;
    if let Some(replaced) = &confirmed.replaced {
        state.end_client(replaced, End::Restarted);
    }
    if confirmed.news {
        welcome(state, client);
    }
    client.renew(state.now_ms());
    let id = state.session_id(client);
    let cred = credential(&args.callback_security);
    let channel = BackChannel::new(id, c.minor, args.callback_program, cred, back.max_requests);
    let session = Arc::new(Session::new(id, Arc::clone(client), fore, channel));
    let mut flags = CreateSessionFlags::empty();
    if args.flags.contains(CreateSessionFlags::CONN_BACK_CHAN) {
        flags |= CreateSessionFlags::CONN_BACK_CHAN;
        session.callbacks.add_line(&c.line);
    }
    client.channel.add_session(&session.callbacks);
    state.add_session(&session)?;
    Ok(CreateSessionOk { session_id: id, sequence_id: args.sequence_id, flags, fore_channel: fore, back_channel: back })
}

/// The first credential offered that this end can make.
fn credential(offered: &List<'_, CallbackSecurity<'_>>) -> CallbackCred {
    let made = offered.iter().find_map(|security| match security {
        CallbackSecurity::None => Some(CallbackCred::None),
        CallbackSecurity::Sys(sys) => Some(CallbackCred::Sys {
            machine: sys.machine_name.to_vec(),
            uid: sys.uid,
            gid: sys.gid,
            gids: sys.gids.iter().collect(),
        }),
        CallbackSecurity::Gss(_) => None,
    });
    made.unwrap_or(CallbackCred::None)
}

pub fn destroy_session(c: &mut Compound, id: &SessionId, out: &mut ReplyWriter) -> Answer {
    let state = &c.cx.server.state;
    let session = state.session(id)?;
    let own = c.session.filter(|cx| cx.session == *id);
    // It would not be there for the operations behind (RFC 8881 18.37.3).
    if own.is_some() && !c.is_last() {
        return Err(NfsStat4::NOT_ONLY_OP.into());
    }
    if session.is_busy(own.map(|cx| cx.slot)) {
        return Err(NfsStat4::DELAY.into());
    }
    state.end_session(id);
    answer(Ok(()), out)
}

pub fn destroy_clientid(c: &mut Compound, id: ClientId, out: &mut ReplyWriter) -> Answer {
    let state = Arc::clone(&c.cx.server.state);
    let client = state.client_by_id(id)?;
    if client.family != Family::Sessions {
        return Err(NfsStat4::STALE_CLIENTID.into());
    }
    {
        let holdings = client.holdings.lock();
        if holdings.states > 0 || !holdings.sessions.is_empty() {
            return Err(NfsStat4::CLIENTID_BUSY.into());
        }
    }
    c.must_wait()?;
    state.end_client(&client, End::Left);
    state.grace.lost(&client);
    answer(Ok(()), out)
}

pub fn bind_conn_to_session(c: &mut Compound, args: &BindConnArgs, out: &mut ReplyWriter) -> Answer {
    let session = c.cx.server.state.session(&args.session_id)?;
    let direction = match args.direction {
        ChannelDirFromClient::Fore => ChannelDirFromServer::Fore,
        ChannelDirFromClient::Back => ChannelDirFromServer::Back,
        ChannelDirFromClient::ForeOrBoth | ChannelDirFromClient::BackOrBoth => ChannelDirFromServer::Both,
    };
    if direction != ChannelDirFromServer::Fore {
        session.callbacks.add_line(&c.line);
    }
    session.client.renew(c.cx.server.state.now_ms());
    answer(Ok(BindConnOk { session_id: args.session_id, direction, use_rdma: false }), out)
}

pub fn backchannel_ctl(c: &mut Compound, args: &BackchannelCtlArgs<'_>, out: &mut ReplyWriter) -> Answer {
    let session = c.in_session.as_ref().ok_or(NfsStat4::OP_NOT_IN_SESSION)?;
    if args.callback_security.is_empty() {
        return Err(NfsStat4::INVAL.into());
    }
    session.callbacks.set_program(args.callback_program, credential(&args.callback_security));
    answer(Ok(()), out)
}

pub fn sequence(c: &mut Compound, args: &SequenceArgs, out: &mut ReplyWriter) -> Answer {
    let state = Arc::clone(&c.cx.server.state);
    let session = state.session(&args.session_id)?;
    if c.request_bytes > session.fore.max_request_bytes as usize {
        return Err(NfsStat4::REQ_TOO_BIG.into());
    }
    if c.op_count > session.fore.max_operations {
        return Err(NfsStat4::TOO_MANY_OPS.into());
    }
    // Not even this one's answer could be kept.
    if args.cache_this && session.fore.max_response_cached_bytes < LEAST_CACHED_BYTES {
        return Err(NfsStat4::REP_TOO_BIG_TO_CACHE.into());
    }
    match session.turn(args, c.print)? {
        Turn::Next => {}
        Turn::Again(kept) => {
            c.replay = Some(kept);
            return Ok(NfsStat4::OK);
        }
        Turn::Uncached => return Err(NfsStat4::RETRY_UNCACHED_REP.into()),
    }
    session.client.renew(state.now_ms());
    if args.cache_this {
        // Pages on their way to the socket cannot be kept.
        c.pipes = None;
    }
    let ok = SequenceOk {
        session_id: args.session_id,
        sequence_id: args.sequence_id,
        slot_id: args.slot_id,
        highest_slot_id: session.highest_slot(),
        target_highest_slot_id: session.highest_slot(),
        status: news(&state, &session),
    };
    c.session = Some(SessionCx {
        client: session.client.id,
        session: session.id,
        slot: args.slot_id,
        sequence: args.sequence_id,
        cache_this: args.cache_this,
        max_ops: session.fore.max_operations,
        max_request_bytes: session.fore.max_request_bytes as usize,
        max_response_bytes: session.fore.max_response_bytes as usize,
        max_cached_bytes: session.fore.max_response_cached_bytes as usize,
    });
    c.in_session = Some(session);
    answer(Ok(ok), out)
}

/// What the client is to know.
fn news(state: &State, session: &Session) -> SequenceStatus {
    let client = &session.client;
    let mut status = SequenceStatus::empty();
    if session.callbacks.is_lost() {
        status |= SequenceStatus::CB_PATH_DOWN_SESSION;
        if !client.channel.works() {
            status |= SequenceStatus::CB_PATH_DOWN;
        }
    }
    if client.revoked.load(Relaxed) > 0 {
        status |= SequenceStatus::RECALLABLE_STATE_REVOKED;
    }
    let owes = client.may_reclaim.load(Relaxed) && !client.reclaimed.load(Relaxed);
    if owes && state.grace.is_on(state.now_ms()) {
        status |= SequenceStatus::RESTART_RECLAIM_NEEDED;
    }
    status
}

pub fn reclaim_complete(c: &mut Compound, one_fs: bool, out: &mut ReplyWriter) -> Answer {
    let state = Arc::clone(&c.cx.server.state);
    let session = c.in_session.clone().ok_or(NfsStat4::OP_NOT_IN_SESSION)?;
    if one_fs {
        // Of a file system that moved here: none does.
        c.current()?;
        return answer(Ok(()), out);
    }
    c.must_wait()?;
    if session.client.reclaimed.swap(true, Relaxed) {
        return Err(NfsStat4::COMPLETE_ALREADY.into());
    }
    state.grace.reclaimed(&session.client);
    answer(Ok(()), out)
}
