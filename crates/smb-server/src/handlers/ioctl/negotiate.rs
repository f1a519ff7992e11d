//! FSCTL_VALIDATE_NEGOTIATE_INFO.

use smb_wire::NtStatus;
use smb_wire::smb2::{FileHandle, IoctlRequest, ValidateNegotiate};

use super::put;
use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::reply::ReplyWriter;

/// What was negotiated is told again under a signature, so that nobody in between can have changed it. A difference ends
/// the connection without a word (3.3.5.15.12).
pub(super) fn validate_negotiate(
    request: &mut Request<'_>,
    asked: &IoctlRequest<'_>,
    out: &mut ReplyWriter,
) -> Outcome {
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
