//! SETCLIENTID, SETCLIENTID_CONFIRM, RENEW: clients of 4.0 (RFC 7530 16.28, 16.33, 16.34).

use std::net::{IpAddr, SocketAddr};

use nfs_wire::nfs4::{ClientId, NetAddr, NfsStat4, SetclientidArgs, SetclientidError, SetclientidOk, SetclientidRes};
use nfs_wire::xdr::Xdr;

use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, Done, answer};
use crate::nfs4::state::callback::Plain;
use crate::nfs4::state::client::{Client, Family, Who};
use crate::nfs4::state::end::End;
use crate::reply::ReplyWriter;

pub fn setclientid(c: &mut Compound, args: &SetclientidArgs<'_>, out: &mut ReplyWriter) -> Answer {
    let state = &c.cx.server.state;
    make_room(c)?;
    let who = Who { family: Family::Plain, name: &args.id, verifier: args.verifier, principal: c.principal() };
    let confirm = state.chance();
    let set = state.registry.lock().set_client_id(&who, confirm, state.now_ms(), state.lease_ms);
    match set {
        Ok(client) => {
            client.channel.offer_plain(confirm, callback(c, args));
            answer(Ok(SetclientidOk { client_id: client.id, confirm }), out)
        }
        Err((NfsStat4::CLID_INUSE, Some(holder))) => {
            let address = holder.channel.plain().map(|plain| universal(plain.address)).unwrap_or_default();
            let in_use = NetAddr { netid: b"tcp", address: address.as_bytes() };
            let result: SetclientidRes<'_> = Err(SetclientidError::InUse(in_use));
            result.put(out);
            Ok(NfsStat4::CLID_INUSE)
        }
        Err((status, _)) => Err(status.into()),
    }
}

/// Silent clients go before a newcomer is refused.
pub(super) fn make_room(c: &Compound) -> Done<()> {
    if c.cx.server.state.is_crowded() {
        c.must_wait()?;
        c.cx.server.state.make_room();
    }
    Ok(())
}

/// Where the client is called: only where it calls from, so that nobody has this server knock at others' doors.
fn callback(c: &Compound, args: &SetclientidArgs<'_>) -> Option<Plain> {
    let address = parse_universal(args.callback_address.address)?;
    let own = address.ip().to_canonical() == c.cx.peer.ip().to_canonical();
    let tcp = matches!(args.callback_address.netid, b"tcp" | b"tcp6");
    let usable = own && tcp && address.port() != 0;
    usable.then_some(Plain { address, program: args.callback_program, ident: args.callback_ident, works: false })
}

/// The address in `h1.h2.h3.h4.p1.p2`, or an IPv6 address with `.p1.p2` behind it (RFC 5665 5.2.3).
fn parse_universal(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let (rest, low) = text.rsplit_once('.')?;
    let (host, high) = rest.rsplit_once('.')?;
    let (high, low): (u8, u8) = (high.parse().ok()?, low.parse().ok()?);
    let ip: IpAddr = host.parse().ok()?;
    Some(SocketAddr::new(ip, u16::from_be_bytes([high, low])))
}

fn universal(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

pub fn setclientid_confirm(c: &mut Compound, args: &SetclientidOk, out: &mut ReplyWriter) -> Answer {
    let state = std::sync::Arc::clone(&c.cx.server.state);
    let number = state.boot.number_of(args.client_id)?;
    // What the client held before it restarted is closed, which may wait.
    c.must_wait()?;
    let confirmed = state.registry.lock().confirm(number, args.confirm, c.principal())?;
    if let Some(replaced) = &confirmed.replaced {
        state.end_client(replaced, End::Restarted);
    }
    let client = confirmed.client;
    client.renew(state.now_ms());
    if confirmed.news {
        welcome(&state, &client);
        client.channel.take_offer(args.confirm);
        state.probe(&client);
    }
    answer(Ok(()), out)
}

/// A client was confirmed: whether it may reclaim is known now.
pub(super) fn welcome(state: &crate::nfs4::state::State, client: &Client) {
    let may = state.grace.may_reclaim(client, state.now_ms());
    client.may_reclaim.store(may, std::sync::atomic::Ordering::Relaxed);
}

pub fn renew(c: &mut Compound, args: ClientId, out: &mut ReplyWriter) -> Answer {
    let state = &c.cx.server.state;
    let client = state.plain_client(args)?;
    // RFC 7530 16.28.5: the lease is renewed all the same.
    if !client.holdings.lock().delegations.is_empty() && !client.channel.works() {
        return Err(NfsStat4::CB_PATH_DOWN.into());
    }
    answer(Ok(()), out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn universal_addresses() {
        for (text, address) in
            [("127.0.0.1.8.1", "127.0.0.1:2049"), ("::1.0.111", "[::1]:111"), ("10.1.2.3.255.255", "10.1.2.3:65535")]
        {
            let parsed = parse_universal(text.as_bytes()).unwrap();
            assert_eq!(parsed, address.parse().unwrap());
            assert_eq!(universal(parsed), text);
        }
        for wrong in ["", "1.2.3.4", "1.2.3.4.256.1", "a.b.c.d.1.1", "1.2.3.4.5.6.7", "\u{ff}"] {
            assert_eq!(parse_universal(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
