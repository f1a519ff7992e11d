//! Further connections of a session (MS-SMB2 3.2.4.2.3, 3.2.4.20.10): where the server says that it can be reached is asked,
//! and a connection made to each address that works, or to the one known, until there are as many as were asked for.
//! `session` starts it. A channel that cannot be made is no error: the session has its first one.

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use smb_wire::NtStatus;
use smb_wire::smb2::{
    Command, FileHandle, IoctlRequest, IoctlResponse, NetworkInterface, fsctl, read_network_interfaces,
};

use super::connection::Bind;
use super::driver;
use super::revive::{Maker, widen};
use super::session::{Handle, OF_THE_SHARE, Session};
use super::{Connection, Failure, Request, setup};
use crate::buffer::Pool;

/// Until a lost channel is made again.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// What the list of interfaces may take, and how many of it are looked at.
const LIST_BYTES: u32 = 64 << 10;
const MOST_INTERFACES: usize = 64;
/// Channels of a session: servers allow 32 and fewer.
pub(super) const MOST_CHANNELS: usize = 32;

/// Makes the channels that are missing, after a pause. One such task is enough for a session.
pub(super) async fn fill(session: Weak<Session>, pause: Duration) {
    if !session.upgrade().is_some_and(|session| session.begins_filling()) {
        return;
    }
    tokio::time::sleep(pause).await;
    fill_now(&session).await;
    if let Some(session) = session.upgrade() {
        session.ends_filling();
    }
}

async fn fill_now(session: &Weak<Session>) {
    let Some(addresses) = addresses(session).await else { return };
    // A server that takes every channel and ends it at once is not asked for ever.
    let most_tries = addresses.len() + MOST_CHANNELS;
    let mut candidates = addresses.into_iter().map(Some).chain([None]);
    let mut candidate = candidates.next();
    for _ in 0..most_tries {
        let Some((maker, bind, pool)) = session.upgrade().and_then(|session| wanted(&session)) else { return };
        let Some(address) = candidate else { return };
        match make(&maker, bind, address, &pool).await {
            Ok(line) => {
                let Some(session) = session.upgrade() else { return };
                session.joined(line);
                // Each address once; the one known, which comes last, as often as it takes.
                if address.is_some() {
                    candidate = candidates.next();
                }
            }
            Err(_) => candidate = candidates.next(),
        }
    }
}

fn wanted(session: &Session) -> Option<(Arc<Maker>, Bind, Pool)> {
    Some((session.maker()?, session.wants_channel()?, session.pool().clone()))
}

async fn make(maker: &Maker, bind: Bind, address: Option<IpAddr>, pool: &Pool) -> Result<driver::Line, Failure> {
    let late = || Failure::Timeout(maker.config.timeout);
    let dialled = tokio::time::timeout(maker.config.timeout, maker.dial.dial(address)).await.map_err(|_| late())?;
    let (reader, writer) = dialled.map_err(|error| Failure::Network(error.to_string()))?;
    let mut config = maker.config.clone();
    setup::renew(&mut config.seed).map_err(|_| Failure::Ended)?;
    let machine = Connection::for_session(config, bind, Duration::ZERO);
    let line = driver::start(reader, writer, machine, pool).await?;
    widen(&line, line.negotiated.max_read_bytes.max(line.negotiated.max_write_bytes)).await?;
    Ok(line)
}

/// Where else the server says that it can be reached; `None` when the session is gone or needs no channel. What a server
/// says there is tried, not believed: a binding proves that it is the same one.
async fn addresses(session: &Weak<Session>) -> Option<Vec<IpAddr>> {
    let body = IoctlRequest {
        code: fsctl::QUERY_NETWORK_INTERFACE_INFO,
        handle: FileHandle::PREVIOUS,
        input: &[],
        max_input_response: 0,
        max_output_response: LIST_BYTES,
        flags: 1,
    };
    let request = Request::new(Command::Ioctl, OF_THE_SHARE, LIST_BYTES, |out| body.put(out));
    let mut pending = {
        let session = session.upgrade()?;
        session.wants_channel()?;
        Handle::of(session).send(request)
    };
    let Ok(answer) = pending.answer().await else { return Some(Vec::new()) };
    if answer.status() != NtStatus::SUCCESS {
        return Some(Vec::new());
    }
    let list = IoctlResponse::decode(answer.message()).ok().map(|response| interfaces(response.output));
    Some(list.map(usable).unwrap_or_default())
}

fn interfaces(output: &[u8]) -> Vec<NetworkInterface> {
    read_network_interfaces(output).take(MOST_INTERFACES).collect()
}

/// The addresses that may lead somewhere, the fastest first, each once.
fn usable(mut list: Vec<NetworkInterface>) -> Vec<IpAddr> {
    list.sort_by_key(|interface| std::cmp::Reverse(interface.bits_per_second));
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in list.into_iter().map(|interface| interface.address) {
        let is_local = match address {
            IpAddr::V4(address) => address.is_loopback() || address.is_link_local() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_loopback() || address.is_unicast_link_local(),
        };
        if !(is_local || address.is_unspecified() || address.is_multicast() || addresses.contains(&address)) {
            addresses.push(address);
        }
    }
    addresses
}
