//! One file for each command or family: a handler takes a request and appends its response's body.

pub mod bind;
pub mod change_notify;
pub mod close;
pub mod create;
pub mod flush;
pub mod ioctl;
pub mod lock;
pub mod negotiate;
pub mod oplock_break;
pub mod query_directory;
pub mod query_info;
pub mod read;
pub mod rename;
pub mod resilient;
pub mod security;
pub mod session_setup;
pub mod set_info;
pub mod tree_connect;
pub mod write;

use smb_wire::NtStatus;
use smb_wire::smb2::{Command, Header, QueryDirectoryRequest, ReadRequest, check_four, put_four};

use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::reply::ReplyWriter;

/// How much room the reply to `message` needs, where the request tells: so that a READ's data are put where they are sent
/// from.
pub fn reply_room(message: &[u8]) -> Option<usize> {
    let header = Header::decode(message).ok()?;
    let data = match Command::from_u16(header.command)? {
        Command::Read => ReadRequest::decode(message).ok()?.len_bytes,
        Command::QueryDirectory => {
            let asked = QueryDirectoryRequest::decode(message).ok()?.output_bytes;
            asked.min(query_directory::MOST_BYTES as u32)
        }
        _ => return None,
    };
    // What one request can ask for at most is checked later; here a lie must not cost memory.
    let paid = usize::from(header.credit_charge.max(1)) << 16;
    Some((data as usize).min(paid) + 128)
}

/// ECHO (3.3.5.17).
pub(crate) fn echo(request: &Request<'_>, out: &mut ReplyWriter) -> Outcome {
    check_four(&request.message)?;
    put_four(out);
    Ok(NtStatus::SUCCESS)
}
