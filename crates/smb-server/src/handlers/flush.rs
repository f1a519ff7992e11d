//! FLUSH (MS-SMB2 3.3.5.11): answered only once the data are on stable storage, those of WRITEs included that came before
//! it and are not answered yet.

use smb_wire::NtStatus;
use smb_wire::fscc::AccessMask;
use smb_wire::smb2::{FlushRequest, put_four};
use vfs::Sync;

use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::open::Object;
use crate::reply::ReplyWriter;

const WRITES: AccessMask = AccessMask::FILE_WRITE_DATA.union(AccessMask::FILE_APPEND_DATA);

/// FLUSH.
pub(crate) async fn flush(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let flush = FlushRequest::decode(&request.message)?;
    let open = request.open(flush.handle)?;
    if let Object::File(file) = &open.object {
        open.require_any(WRITES)?;
        file.changes.settle().await;
        let node = std::sync::Arc::clone(&file.node);
        let synced = request.conn.offload(move || node.sync(Sync::All)).await;
        synced.ok_or(NtStatus::INTERNAL_ERROR)??;
    }
    put_four(out);
    Ok(NtStatus::SUCCESS)
}
