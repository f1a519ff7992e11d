//! IOCTL (MS-SMB2 3.3.5.15): the table of controls. Each family has a file of its own; what is not in the table is not
//! served.

mod copy;
mod interfaces;
mod negotiate;
mod object_id;
mod pipe;
mod reparse;
mod sparse;

use std::sync::Arc;

use coherence::Change;
use smb_wire::NtStatus;
use smb_wire::smb2::{FileHandle, IoctlRequest, IoctlResponse, fsctl};

pub(crate) use self::pipe::{interface, read_pipe, write_pipe};
use crate::dispatch::Request;
use crate::failure::{Failure, Outcome};
use crate::grants;
use crate::open::{FileOpen, Open};
use crate::reply::ReplyWriter;

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
        fsctl::VALIDATE_NEGOTIATE_INFO => negotiate::validate_negotiate(request, &asked, out),
        fsctl::PIPE_TRANSCEIVE => pipe::transceive(request, &asked, out).await,
        fsctl::PIPE_PEEK => pipe::peek(request, &asked, out),
        fsctl::PIPE_WAIT => {
            // The pipes there are always have an instance to spare.
            put(&asked, FileHandle::PREVIOUS, &[], out);
            Ok(NtStatus::SUCCESS)
        }
        fsctl::LMR_REQUEST_RESILIENCY => super::resilient::request_resiliency(request, &asked, out),
        fsctl::DFS_GET_REFERRALS | fsctl::DFS_GET_REFERRALS_EX => Err(NtStatus::FS_DRIVER_REQUIRED.into()),
        fsctl::QUERY_NETWORK_INTERFACE_INFO => interfaces::query(request, &asked, out).await,
        fsctl::SRV_REQUEST_RESUME_KEY => copy::resume_key(request, &asked, out),
        fsctl::SRV_COPYCHUNK | fsctl::SRV_COPYCHUNK_WRITE => copy::copy_chunks(request, &asked, out).await,
        fsctl::DUPLICATE_EXTENTS_TO_FILE => copy::duplicate_extents(request, &asked, out).await,
        fsctl::SET_SPARSE => sparse::set_sparse(request, &asked, out).await,
        fsctl::SET_ZERO_DATA => sparse::set_zero_data(request, &asked, out).await,
        fsctl::QUERY_ALLOCATED_RANGES => sparse::query_allocated_ranges(request, &asked, out).await,
        fsctl::FILE_LEVEL_TRIM => sparse::trim(request, &asked, out).await,
        fsctl::GET_COMPRESSION => sparse::get_compression(request, &asked, out),
        fsctl::SET_COMPRESSION => sparse::set_compression(request, &asked, out),
        fsctl::CREATE_OR_GET_OBJECT_ID | fsctl::GET_OBJECT_ID => object_id::get(request, &asked, out),
        fsctl::GET_REPARSE_POINT => reparse::get(request, &asked, out).await,
        fsctl::SET_REPARSE_POINT => reparse::set(request, &asked, out).await,
        fsctl::DELETE_REPARSE_POINT => reparse::delete(request, &asked, out).await,
        _ => {
            request.open(asked.handle)?;
            Err(NtStatus::INVALID_DEVICE_REQUEST.into())
        }
    }
}

fn put(asked: &IoctlRequest<'_>, handle: FileHandle, output: &[u8], out: &mut ReplyWriter) {
    IoctlResponse { code: asked.code, handle, output }.put(out);
}

/// Runs `job` on the open's file where it may wait.
async fn on_worker<R: Send + 'static>(
    request: &Request<'_>,
    open: &Arc<Open>,
    job: impl FnOnce(&FileOpen) -> Result<R, Failure> + Send + 'static,
) -> Result<R, Failure> {
    let open = Arc::clone(open);
    let job = move || -> Result<R, Failure> { job(open.file()?) };
    request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)?
}

/// The same for a job that changes the open's data: who caches them is told before, and once more after, since whoever was
/// let cache meanwhile may have read what was there before.
async fn changing<R: Send + 'static>(
    request: &mut Request<'_>,
    out: &mut ReplyWriter,
    open: &Arc<Open>,
    job: impl FnOnce(&FileOpen) -> Result<R, Failure> + Send + 'static,
) -> Result<R, Failure> {
    let FileOpen { claim, changes, .. } = open.file()?;
    let change = changes.add();
    grants::ask(request, out, claim, Change::Write).await?;
    change.begin()?;
    let result = on_worker(request, open, move |file| {
        let result = job(file);
        drop(change);
        result
    });
    let result = result.await;
    grants::ask(request, out, claim, Change::Write).await?;
    result
}

/// Refuses what only a regular file can do.
fn require_file(file: &FileOpen) -> Result<(), NtStatus> {
    if file.node.kind() == vfs::FileKind::File { Ok(()) } else { Err(NtStatus::INVALID_DEVICE_REQUEST) }
}
