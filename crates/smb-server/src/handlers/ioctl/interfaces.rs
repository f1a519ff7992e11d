//! FSCTL_QUERY_NETWORK_INTERFACE_INFO (MS-SMB2 3.3.5.15.11): where else the server can be reached. The addresses come from
//! whoever made the server.

use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::smb2::{FileHandle, IoctlRequest, put_network_interfaces};

use super::put;
use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::reply::ReplyWriter;

/// Lists the interfaces.
pub(super) async fn query(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let negotiated = request.conn.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    if !negotiated.dialect.is_3() {
        return Err(NtStatus::NOT_SUPPORTED.into());
    }
    if asked.handle != FileHandle::PREVIOUS {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let interfaces = Arc::clone(&request.conn.server.env.interfaces);
    let interfaces = request.conn.offload(move || interfaces()).await.ok_or(NtStatus::INTERNAL_ERROR)?;
    let mut output = Vec::new();
    put_network_interfaces(&interfaces, &mut output);
    if output.len() > asked.max_output_response as usize {
        return Err(NtStatus::BUFFER_TOO_SMALL.into());
    }
    put(asked, FileHandle::PREVIOUS, &output, out);
    Ok(NtStatus::SUCCESS)
}
