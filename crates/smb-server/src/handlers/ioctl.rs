//! IOCTL (MS-SMB2 3.3.5.15): negotiation checked once more, named pipes, and the controls that are not served.

use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::dcerpc::{Interface, PipeError, RpcPipe, ServerInfo, Share as SharedName, Srvsvc, Wkssvc};
use smb_wire::smb2::{FileHandle, IoctlRequest, IoctlResponse, ValidateNegotiate, fsctl, put_read_response};

use crate::connection::Inner;
use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::open::{Object, Open};
use crate::reply::ReplyWriter;
use crate::session::User;

/// SMB2_0_IOCTL_IS_FSCTL.
const IS_FSCTL: u32 = 1;

/// IOCTL.
pub(crate) async fn ioctl(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let message = request.message.clone();
    let asked = IoctlRequest::decode(&message)?;
    let max = request.conn.negotiated().map_or(0, |n| n.max_transact_bytes);
    if asked.flags & IS_FSCTL == 0 {
        return Err(NtStatus::NOT_SUPPORTED.into());
    }
    let most = asked.input.len().max(asked.max_output_response.saturating_add(asked.max_input_response) as usize);
    if asked.max_output_response > max || asked.max_input_response > max || asked.input.len() > max as usize {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    request.check_charge(most)?;
    match asked.code {
        fsctl::VALIDATE_NEGOTIATE_INFO => validate_negotiate(request, &asked, out),
        fsctl::PIPE_TRANSCEIVE => transceive(request, &asked, out),
        fsctl::PIPE_WAIT => {
            // The pipes there are always have an instance to spare.
            put(&asked, FileHandle::PREVIOUS, &[], out);
            Ok(NtStatus::SUCCESS)
        }
        fsctl::LMR_REQUEST_RESILIENCY => super::resilient::request_resiliency(request, &asked, out),
        fsctl::DFS_GET_REFERRALS | fsctl::DFS_GET_REFERRALS_EX => Err(NtStatus::FS_DRIVER_REQUIRED.into()),
        fsctl::QUERY_NETWORK_INTERFACE_INFO => Err(NtStatus::NOT_SUPPORTED.into()),
        _ => {
            request.open(asked.handle)?;
            Err(NtStatus::INVALID_DEVICE_REQUEST.into())
        }
    }
}

fn put(asked: &IoctlRequest<'_>, handle: FileHandle, output: &[u8], out: &mut ReplyWriter) {
    IoctlResponse { code: asked.code, handle, output }.put(out);
}

/// What was negotiated is told again under a signature, so that nobody in between can have changed it. A difference ends
/// the connection without a word (3.3.5.15.12).
fn validate_negotiate(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let negotiated = request.conn.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    let claim = ValidateNegotiate::decode_request(asked.input);
    let same = claim.is_ok_and(|claim| {
        claim.capabilities == negotiated.client_capabilities.bits()
            && claim.guid == negotiated.client_guid
            && claim.security_mode == negotiated.client_security_mode
            && claim.dialects == negotiated.offered
    });
    if !same || negotiated.dialect == smb_wire::smb2::Dialect::V3_1_1 {
        request.conn.disconnect("VALIDATE_NEGOTIATE_INFO does not confirm what was negotiated");
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    let mut output = Vec::new();
    ValidateNegotiate {
        capabilities: negotiated.capabilities.bits(),
        guid: request.conn.server.guid,
        security_mode: negotiated.security_mode,
        dialects: vec![negotiated.dialect as u16],
    }
    .put_response(&mut output);
    if (asked.max_output_response as usize) < output.len() {
        request.conn.disconnect("VALIDATE_NEGOTIATE_INFO without room for its answer");
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    put(asked, FileHandle::PREVIOUS, &output, out);
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_PIPE_TRANSCEIVE: a write and a read in one (3.3.5.15.10).
fn transceive(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let open = request.open(asked.handle)?;
    let Object::Pipe(pipe) = &open.object else { return Err(NtStatus::INVALID_DEVICE_REQUEST.into()) };
    let mut pipe = pipe.lock();
    write_to(&mut pipe, asked.input)?;
    let read = pipe.read(asked.max_output_response as usize).ok_or(NtStatus::PIPE_EMPTY)?;
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
pub(crate) fn write_pipe(open: &Open, bytes: &[u8]) -> Result<(), NtStatus> {
    let Object::Pipe(pipe) = &open.object else { return Err(NtStatus::INVALID_DEVICE_REQUEST) };
    write_to(&mut pipe.lock(), bytes)
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
        _ => None,
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
