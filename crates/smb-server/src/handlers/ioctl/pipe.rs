//! Named pipes: what IOCTL, READ and WRITE do with one, and the interfaces behind their names.

use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::dcerpc::{
    Directory, Interface, Lsarpc, PipeError, RpcPipe, Samr, ServerInfo, Share as SharedName, Srvsvc, Wkssvc,
};
use smb_wire::smb2::{IoctlRequest, put_read_response};

use super::put;
use crate::connection::Inner;
use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::open::{Object, Open};
use crate::reply::ReplyWriter;
use crate::session::User;

/// FSCTL_PIPE_PEEK: how much could be read, and some of it without taking it (MS-FSCC 2.3.45, 2.3.46).
pub(super) fn peek(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    const FIXED_BYTES: usize = 16;
    /// FILE_PIPE_CONNECTED_STATE.
    const CONNECTED: u32 = 3;
    let open = request.open(asked.handle)?;
    let Object::Pipe(pipe) = &open.object else { return Err(NtStatus::INVALID_DEVICE_REQUEST.into()) };
    let room = (asked.max_output_response as usize).checked_sub(FIXED_BYTES).ok_or(NtStatus::INVALID_PARAMETER)?;
    let pipe = pipe.lock();
    let (available, message) = pipe.available();
    let seen = pipe.peek(room);
    let mut output = Vec::with_capacity(FIXED_BYTES + seen.len());
    output.put_u32(CONNECTED);
    output.put_u32(available as u32);
    output.put_u32(u32::from(message > 0));
    output.put_u32(message as u32);
    output.put_bytes(seen);
    let cut = seen.len() < message;
    put(asked, open.handle, &output, out);
    Ok(if cut { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS })
}

/// FSCTL_PIPE_TRANSCEIVE: a write and a read in one (3.3.5.15.10).
pub(super) async fn transceive(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let open = request.open(asked.handle)?;
    let max = asked.max_output_response as usize;
    let read = on_pipe(request, &open, asked.input, move |pipe| pipe.read(max)).await?.ok_or(NtStatus::PIPE_EMPTY)?;
    put(asked, open.handle, &read.bytes, out);
    Ok(if read.more { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS })
}

/// READ of a pipe: one message, or the part of it that fits.
pub(crate) fn read_pipe(open: &Open, len: usize, out: &mut ReplyWriter) -> Outcome {
    let Object::Pipe(pipe) = &open.object else { return Err(NtStatus::INVALID_DEVICE_REQUEST.into()) };
    let read = pipe.lock().read(len).ok_or(NtStatus::PIPE_EMPTY)?;
    put_read_response(read.bytes.len() as u32, out);
    out.put_bytes(&read.bytes);
    Ok(if read.more { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS })
}

/// WRITE to a pipe.
pub(crate) async fn write_pipe(request: &Request<'_>, open: &Arc<Open>, bytes: &[u8]) -> Result<(), NtStatus> {
    on_pipe(request, open, bytes, |_| ()).await
}

/// Writes to a pipe, which may run a call that asks the system for its users and so may wait, and goes on with it.
async fn on_pipe<R: Send + 'static>(
    request: &Request<'_>,
    open: &Arc<Open>,
    bytes: &[u8],
    then: impl FnOnce(&mut RpcPipe) -> R + Send + 'static,
) -> Result<R, NtStatus> {
    let (open, bytes) = (Arc::clone(open), bytes.to_vec());
    let job = move || {
        let Object::Pipe(pipe) = &open.object else { return Err(NtStatus::INVALID_DEVICE_REQUEST) };
        let mut pipe = pipe.lock();
        write_to(&mut pipe, &bytes)?;
        Ok(then(&mut pipe))
    };
    request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)?
}

fn write_to(pipe: &mut RpcPipe, bytes: &[u8]) -> Result<(), NtStatus> {
    pipe.write(bytes).map_err(|error| match error {
        PipeError::Protocol => NtStatus::PIPE_DISCONNECTED,
        PipeError::TooMuch => NtStatus::INSUFFICIENT_RESOURCES,
    })
}

/// The interface behind a pipe's name, showing the shares this user may connect to.
pub(crate) fn interface(conn: &Inner, user: &User, name: &str) -> Option<Arc<dyn Interface>> {
    let info = || Arc::new(server_info(conn, user));
    match name {
        "srvsvc" => Some(Arc::new(Srvsvc::new(info()))),
        "wkssvc" => Some(Arc::new(Wkssvc::new(info()))),
        "lsarpc" | "lsass" => Some(Arc::new(Lsarpc::new(directory(conn, user)))),
        "samr" => Some(Arc::new(Samr::new(directory(conn, user)))),
        _ => None,
    }
}

/// Who the machine knows, as `user` asks.
fn directory(conn: &Inner, user: &User) -> Directory {
    let config = conn.server.config.load();
    Directory {
        machine: config.ntlm.netbios_name.clone(),
        workgroup: config.ntlm.netbios_domain.clone(),
        domain: config.domain.clone(),
        caller: if user.anonymous { "ANONYMOUS LOGON".into() } else { user.name.clone() },
        accounts: Arc::clone(&config.accounts),
    }
}

fn server_info(conn: &Inner, user: &User) -> ServerInfo {
    let config = conn.server.config.load();
    let mut shares: Vec<_> = (config.shares.values())
        .filter(|share| !share.options.hidden && share.admits(&user.name))
        .map(|share| SharedName {
            name: share.name.clone(),
            kind: SharedName::DISK,
            comment: share.options.comment.clone(),
            path: String::new(), // where it lies on the server is nobody's business
            flags: 0,
        })
        .collect();
    shares.sort_by(|a, b| a.name.cmp(&b.name));
    shares.push(SharedName {
        name: "IPC$".into(),
        kind: SharedName::IPC | SharedName::SPECIAL,
        comment: "IPC".into(),
        path: String::new(),
        flags: 0,
    });
    ServerInfo {
        name: config.server_name.clone(),
        domain: config.ntlm.netbios_domain.clone(),
        comment: String::new(),
        version: (6, 1),
        shares,
    }
}
