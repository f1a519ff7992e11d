//! Object ids (MS-FSCC 2.3.1, 2.3.15): every object has one, made of what identifies it; it cannot be set.

use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::smb2::IoctlRequest;

use super::put;
use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::reply::ReplyWriter;

/// FILE_OBJECTID_BUFFER.
const OBJECT_ID_BYTES: u32 = 64;

/// FSCTL_CREATE_OR_GET_OBJECT_ID and FSCTL_GET_OBJECT_ID. As Samba answers it: the file's id, then the birth ids, the
/// volume's and again the file's.
pub(super) fn get(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let open = request.open(asked.handle)?;
    let file = open.file()?;
    if asked.max_output_response < OBJECT_ID_BYTES {
        return Err(NtStatus::BUFFER_TOO_SMALL.into());
    }
    let id = file.node.id();
    let mut object = Vec::with_capacity(16);
    object.put_u64(id.ino);
    object.put_u64(id.generation ^ id.dev);
    let mut output = Vec::with_capacity(OBJECT_ID_BYTES as usize);
    output.put_bytes(&object);
    output.put_u32(file.share.volume_serial);
    output.put_zeros(12);
    output.put_bytes(&object);
    output.put_zeros(16);
    put(asked, open.handle, &output, out);
    Ok(NtStatus::SUCCESS)
}
