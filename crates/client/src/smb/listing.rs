//! A directory of an SMB server, listed piece by piece. The facade's `Listing` calls it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::fscc::{DirInfoClass, dir_entries};
use smb_wire::name::utf16le;
use smb_wire::smb2::{Command, QueryDirectoryFlags, QueryDirectoryRequest, read_output_buffer};

use super::open::{HANDLE, How, Open};
use super::share::Share;
use super::{Response, path};
use crate::error::ErrorKind;
use crate::list::Entry;
use crate::stat::Stat;

/// What one answer holds at most.
const MOST_BATCH_BYTES: u32 = 1 << 20;
/// Connections that may be lost before it has begun.
const MOST_TRIES: u32 = 8;
const CLASS: DirInfoClass = DirInfoClass::IdFullDirectory;

/// A listing under way.
#[derive(Debug)]
pub(crate) struct Listing {
    share: Arc<Share>,
    path: PathBuf,
    directory: Open,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fresh,
    Begun,
    Over,
}

impl Listing {
    pub async fn open(share: &Arc<Share>, path: &Path) -> Result<Self, ErrorKind> {
        let directory = Open::passing(share, path, How::listing()).await?;
        Ok(Self { share: Arc::clone(share), path: path.into(), directory, state: State::Fresh })
    }

    /// The next entries; `None` when there are no more. A piece may be empty.
    pub async fn next_batch(&mut self) -> Result<Option<Vec<Entry>>, ErrorKind> {
        if self.state == State::Over {
            return Ok(None);
        }
        let mut batch = self.ask().await;
        // Where a listing was when its connection was lost nobody knows; one that has not begun can begin again.
        for _ in 0..MOST_TRIES {
            if self.state != State::Fresh || !batch.as_ref().is_err_and(ErrorKind::is_of_one_connection) {
                break;
            }
            self.directory = Open::passing(&self.share, &self.path, How::listing()).await?;
            batch = self.ask().await;
        }
        let batch = batch?;
        self.state = if batch.is_some() { State::Begun } else { State::Over };
        Ok(batch)
    }

    async fn ask(&self) -> Result<Option<Vec<Entry>>, ErrorKind> {
        let share = &self.directory.share;
        let output_bytes = share.handle.limits().transact_bytes.min(MOST_BATCH_BYTES);
        let is_first = self.state == State::Fresh;
        let flags = if is_first { QueryDirectoryFlags::RESTART_SCANS } else { QueryDirectoryFlags::empty() };
        let pattern = utf16le("*");
        let body = QueryDirectoryRequest {
            class: CLASS.as_u8(),
            flags,
            file_index: 0,
            handle: HANDLE,
            pattern: &pattern,
            output_bytes,
        };
        let request = share.request(Command::QueryDirectory, output_bytes, |out| body.put(out));
        let response = share.handle.call(self.directory.about(request)).await?;
        match response.status() {
            NtStatus::SUCCESS => entries(&response).map(Some),
            NtStatus::NO_MORE_FILES => Ok(None),
            NtStatus::NO_SUCH_FILE if is_first => Ok(None),
            status => Err(status.into()),
        }
    }
}

fn entries(response: &Response) -> Result<Vec<Entry>, ErrorKind> {
    let output = read_output_buffer(response.message())?;
    if output.is_empty() {
        // It would be asked again for ever.
        return Err(ErrorKind::Nonsense("a listing that goes on without entries"));
    }
    let mut entries = Vec::new();
    for entry in dir_entries(CLASS, output) {
        let entry = entry.map_err(|_| ErrorKind::Nonsense("an entry of a listing is malformed"))?;
        let Some(name) = path::entry_name(entry.name_utf16)? else { continue };
        entries.push(Entry { name, stat: Stat::from(&entry) });
    }
    Ok(entries)
}
