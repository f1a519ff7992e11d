//! Directories, piece by piece. A piece is one answer of the server; a directory of any size is listed in bounded memory.

use std::ffi::OsString;

use smb_wire::NtStatus;
use smb_wire::fscc::{DirInfoClass, dir_entries};
use smb_wire::name::utf16le;
use smb_wire::smb2::{Command, QueryDirectoryFlags, QueryDirectoryRequest, read_output_buffer};

use crate::error::{At, Error, ErrorKind};
use crate::file::File;
use crate::path;
use crate::smb::Response;
use crate::stat::Stat;

/// What one answer holds at most.
const MOST_BATCH_BYTES: u32 = 1 << 20;
const CLASS: DirInfoClass = DirInfoClass::IdFullDirectory;

/// What a directory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, which is one component of a path and never `.` or `..`.
    pub name: OsString,
    /// What it is like.
    pub stat: Stat,
    /// Its number on the volume, 0 where the server has none.
    pub file_id: u64,
}

/// A listing under way.
#[derive(Debug)]
pub struct Listing {
    directory: File,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fresh,
    Begun,
    Over,
}

impl Listing {
    pub(crate) fn new(directory: File) -> Self {
        Self { directory, state: State::Fresh }
    }

    /// The next entries; `None` when there are no more. A piece may be empty.
    pub async fn next_batch(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        if self.state == State::Over {
            return Ok(None);
        }
        let batch = self.ask().await.at("list", self.directory.path())?;
        self.state = if batch.is_some() { State::Begun } else { State::Over };
        Ok(batch)
    }

    async fn ask(&self) -> Result<Option<Vec<Entry>>, ErrorKind> {
        let tree = &self.directory.open.tree;
        let output_bytes = tree.handle.limits().transact_bytes.min(MOST_BATCH_BYTES);
        let is_first = self.state == State::Fresh;
        let flags = if is_first { QueryDirectoryFlags::RESTART_SCANS } else { QueryDirectoryFlags::empty() };
        let pattern = utf16le("*");
        let body = QueryDirectoryRequest {
            class: CLASS.as_u8(),
            flags,
            file_index: 0,
            handle: self.directory.open.handle,
            pattern: &pattern,
            output_bytes,
        };
        let request = tree.request(Command::QueryDirectory, output_bytes, |out| body.put(out));
        let response = tree.handle.call(request).await?;
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
        let file_id = u64::try_from(entry.file_id).unwrap_or(0);
        entries.push(Entry { name, stat: Stat::from(&entry), file_id });
    }
    Ok(entries)
}
