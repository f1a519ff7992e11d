//! Changes below a directory of an SMB share (MS-SMB2 2.2.35). The facade's `Watch` calls it. A question is always with
//! the server, which keeps what happens between two.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::fscc::{NotifyAction, NotifyFilter, notify_entries};
use smb_wire::smb2::{ChangeNotifyRequest, Command, read_output_buffer};

use super::open::{HANDLE, How, Open};
use super::session::Patient;
use super::share::Share;
use super::{Response, path};
use crate::error::ErrorKind;
use crate::watch::{Change, ChangeKind};

/// What the server is to keep for us between two questions.
const OUTPUT_BYTES: u32 = 64 << 10;

/// A watch.
#[derive(Debug)]
pub(crate) struct Watch {
    share: Arc<Share>,
    path: PathBuf,
    asked: Patient,
    recursive: bool,
    directory: Open,
    /// The answer is that the connection was lost: what is asked now has no answer more.
    is_over: bool,
}

impl Watch {
    pub async fn new(share: &Arc<Share>, path: &Path, recursive: bool) -> Result<Self, ErrorKind> {
        let directory = Open::passing(share, path, How::listing()).await?;
        let (share, path, asked) = (Arc::clone(share), path.into(), ask(&directory, recursive));
        Ok(Self { share, path, asked, recursive, directory, is_over: false })
    }

    /// What happened while there was no connection nobody kept.
    async fn begin_again(&mut self) -> Result<Vec<Change>, ErrorKind> {
        self.directory = Open::passing(&self.share, &self.path, How::listing()).await?;
        self.asked = ask(&self.directory, self.recursive);
        self.is_over = false;
        Ok(vec![Change { path: PathBuf::new(), kind: ChangeKind::Unknown }])
    }

    /// Waits for changes. Nothing is lost when this is given up before it is done.
    pub async fn next(&mut self) -> Result<Vec<Change>, ErrorKind> {
        if self.is_over {
            return self.begin_again().await;
        }
        let answer = match self.asked.answer().await.map_err(ErrorKind::from) {
            Err(lost) if lost.is_of_one_connection() => {
                self.is_over = true;
                return self.begin_again().await;
            }
            answer => answer?,
        };
        self.asked = ask(&self.directory, self.recursive);
        match answer.status() {
            NtStatus::SUCCESS => changes(&answer),
            NtStatus::NOTIFY_ENUM_DIR => Ok(vec![Change { path: PathBuf::new(), kind: ChangeKind::Unknown }]),
            status => Err(status.into()),
        }
    }
}

fn ask(directory: &Open, recursive: bool) -> Patient {
    let filter = NotifyFilter::FILE_NAME
        | NotifyFilter::DIR_NAME
        | NotifyFilter::ATTRIBUTES
        | NotifyFilter::SIZE
        | NotifyFilter::LAST_WRITE;
    let (output_bytes, handle) = (OUTPUT_BYTES, HANDLE);
    let body = ChangeNotifyRequest { recursive, output_bytes, handle, filter: filter.bits() };
    let share = &directory.share;
    let request = share.request(Command::ChangeNotify, OUTPUT_BYTES, |out| body.put(out));
    share.handle.send_patient(directory.about(request), None)
}

fn changes(answer: &Response) -> Result<Vec<Change>, ErrorKind> {
    const MALFORMED: ErrorKind = ErrorKind::Nonsense("what it tells of changes is malformed");
    let output = read_output_buffer(answer.message())?;
    if output.is_empty() {
        return Ok(vec![Change { path: PathBuf::new(), kind: ChangeKind::Unknown }]);
    }
    let mut changes = Vec::new();
    for (action, name) in notify_entries(output).map_err(|_| MALFORMED)? {
        changes.push(Change { path: path::below(name).ok_or(MALFORMED)?, kind: kind_of(action) });
    }
    Ok(changes)
}

fn kind_of(action: u32) -> ChangeKind {
    const ADDED: u32 = NotifyAction::Added as u32;
    const REMOVED: u32 = NotifyAction::Removed as u32;
    const OLD_NAME: u32 = NotifyAction::RenamedOldName as u32;
    const NEW_NAME: u32 = NotifyAction::RenamedNewName as u32;
    match action {
        ADDED => ChangeKind::Added,
        REMOVED => ChangeKind::Removed,
        OLD_NAME => ChangeKind::RenamedFrom,
        NEW_NAME => ChangeKind::RenamedTo,
        _ => ChangeKind::Modified,
    }
}
