//! Small files, in as few round trips as they can be: contents read or written between the CREATE and the CLOSE of one
//! message. The facade calls it.
//!
//! A server fails what follows a CREATE that failed, but goes on behind a WRITE that did (MS-SMB2 3.3.5.2.7.2 lets it;
//! Samba and Windows do): a RENAME in the same message would give a file its name that is not whole. It is a second
//! message, sent when the answers to the first are there, on the same open.

use std::path::Path;
use std::sync::Arc;

use smb_wire::fscc::{FileAttributes, FileInfoClass};

use super::Request;
use super::open::{self, How, Open, was_read, was_written};
use super::request::RELATED;
use super::share::{Share, good};
use crate::error::ErrorKind;
use crate::file::OpenHow;
use crate::stat::{Stat, Times};
use crate::stream::Part;

impl Share {
    /// The file's contents, if they are `most_bytes` at most, and what it is like: one round trip.
    pub async fn read_whole(
        self: &Arc<Self>,
        path: &Path,
        most_bytes: u32,
    ) -> Result<(Stat, Option<Vec<u8>>), ErrorKind> {
        let most_bytes = most_bytes.min(self.handle.limits().read_bytes);
        let read = open::read(self, RELATED, 0, most_bytes);
        let mut compound = self.compound(path, How::from(OpenHow::read()), vec![read])?;
        let stat = compound.opened().await?;
        let part = was_read(compound.next().await?, most_bytes)?;
        compound.closed().await?;
        let data = part.map_or(Vec::new(), Part::into_vec);
        let is_whole = data.len() as u64 == stat.len_bytes;
        Ok((stat, is_whole.then_some(data)))
    }

    /// Makes the file, or replaces its contents, and sets those times that are given: one round trip, for as much as one
    /// WRITE carries.
    pub async fn write_whole(&self, path: &Path, data: &[u8], how: OpenHow, times: &Times) -> Result<(), ErrorKind> {
        let mut compound = self.compound(path, How::from(how), self.filling(data, times))?;
        compound.opened().await?;
        if !data.is_empty() {
            was_written(compound.next().await?, len_of(data))?;
        }
        if *times != Times::default() {
            good(compound.next().await?)?;
        }
        compound.closed().await
    }

    /// What gives an open that was just made its contents and times.
    fn filling(&self, data: &[u8], times: &Times) -> Vec<Request> {
        let mut requests = Vec::new();
        if !data.is_empty() {
            requests.push(open::write(self, RELATED, 0, data));
        }
        if *times != Times::default() {
            let input = open::basic_info(times, FileAttributes::empty());
            requests.push(open::set_info(self, RELATED, FileInfoClass::BASIC, &input));
        }
        requests
    }

    /// Makes a file at `temporary` that gets the name it has at `path` when it is whole; one that is there is replaced.
    /// What fails leaves nothing at `temporary`.
    pub async fn write_as(
        self: &Arc<Self>,
        temporary: &Path,
        path: &Path,
        data: &[u8],
        times: &Times,
    ) -> Result<(), ErrorKind> {
        match self.try_write_as(temporary, path, data, times).await {
            // With its connection the open went that was to be renamed, before that was asked for.
            Ok(false) => {
                self.write_whole(temporary, data, OpenHow::overwrite(), times).await?;
                self.cleaned(temporary, self.rename(temporary, path, true).await).await
            }
            outcome => outcome.map(drop),
        }
    }

    /// Removes what a server that refused something still has; one that is away has to be left alone.
    async fn cleaned<T>(&self, temporary: &Path, outcome: Result<T, ErrorKind>) -> Result<T, ErrorKind> {
        if outcome.as_ref().is_err_and(|error| !matches!(error, ErrorKind::Connection(_))) {
            let _ = self.remove(temporary).await;
        }
        outcome
    }

    /// False: the open was lost, and with it what had been done.
    async fn try_write_as(
        self: &Arc<Self>,
        temporary: &Path,
        path: &Path,
        data: &[u8],
        times: &Times,
    ) -> Result<bool, ErrorKind> {
        let renaming = super::share::rename_info(path, true)?;
        let open = match self.filled(temporary, data, times).await {
            Err(error) if error.is_of_one_connection() => return Ok(false),
            open => open?,
        };
        match open.rename_and_close(&renaming).await {
            Err(ErrorKind::Connection(super::Failure::FileLost)) => Ok(false),
            outcome => self.cleaned(temporary, outcome.map(|()| true)).await,
        }
    }

    async fn filled(self: &Arc<Self>, path: &Path, data: &[u8], times: &Times) -> Result<Open, ErrorKind> {
        let (open, mut answers) = Open::with(self, path, How::replacing(), self.filling(data, times)).await?;
        let filled = async {
            for (at, pending) in answers.iter_mut().enumerate() {
                let answer = pending.answer().await?;
                match at {
                    0 if !data.is_empty() => was_written(answer, len_of(data))?,
                    _ => drop(good(answer)?),
                }
            }
            Ok(())
        };
        let filled: Result<(), ErrorKind> = filled.await;
        if filled.is_err() {
            // Before it is removed.
            let _ = open.close().await;
        }
        self.cleaned(path, filled).await.map(|()| open)
    }
}

fn len_of(data: &[u8]) -> u32 {
    u32::try_from(data.len()).unwrap_or(u32::MAX)
}
