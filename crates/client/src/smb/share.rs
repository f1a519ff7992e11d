//! A share of an SMB server: what a [`Client`](crate::Client) asks of paths, as requests. The facade calls it and adds
//! to an error what was being done; what has an open is in `open`.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use smb_wire::NtStatus;
use smb_wire::fscc::{
    DispositionInfo, FileAttributes, FileInfoClass, FsInfoClass, FullSizeFsInfo, RenameFlags, RenameInfo,
};
use smb_wire::smb2::{Command, CreateResponse, InfoType, QueryInfoRequest, put_four, read_output_buffer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::dial::{Dial, TcpDial};
use super::driver::{self, Pending};
use super::open::{self, How, Open};
use super::request::{HEAD_BYTES, RELATED};
use super::revive::Maker;
use super::session::{Handle, OF_THE_SHARE};
use super::{Connection, Credentials, Request, Response, path, setup};
use crate::buffer::Pool;
use crate::error::ErrorKind;
use crate::file::OpenHow;
use crate::options::Options;
use crate::stat::{Space, Stat, Times};
use crate::url::Url;

/// A tree connect of a user.
#[derive(Debug)]
pub(crate) struct Share {
    pub handle: Handle,
    pub stream_bytes: u32,
}

impl Share {
    /// Connects over TCP, logs in, and enters the share.
    pub async fn connect(url: &Url, credentials: Credentials, options: &Options) -> Result<Self, ErrorKind> {
        Self::connect_by(Arc::new(TcpDial::new(url.host(), url.port())), url, credentials, options).await
    }

    /// The same by lines that `dial` makes, now and whenever the one there is gets lost.
    pub async fn connect_by(
        dial: Arc<dyn Dial>,
        url: &Url,
        credentials: Credentials,
        options: &Options,
    ) -> Result<Self, ErrorKind> {
        let config = setup::config(url, credentials, options)?;
        let maker = Maker { dial, config, path: setup::path(url)?, channels: options.channels };
        let pool = Pool::default();
        let made = maker.make(0, &pool).await?;
        let handle = Handle::new(made, Some(Arc::new(maker)), pool);
        Ok(Self { handle, stream_bytes: options.stream_bytes })
    }

    /// The same over the two halves of a stream that leads to the server. Lost, it is not made again.
    pub async fn connect_over<R, W>(
        reader: R,
        writer: W,
        url: &Url,
        credentials: Credentials,
        options: &Options,
    ) -> Result<Self, ErrorKind>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (config, pool) = (setup::config(url, credentials, options)?, Pool::default());
        let line = driver::start(reader, writer, Connection::new(config, Duration::ZERO), &pool).await?;
        let made = setup::enter(line, &setup::path(url)?).await?;
        Ok(Self { handle: Handle::new(made, None, pool), stream_bytes: options.stream_bytes })
    }

    /// What was agreed on, in a line for a person.
    pub fn description(&self) -> String {
        let (dialect, channels) = (self.handle.negotiated().dialect, self.handle.channel_count());
        if channels > 1 { format!("SMB {dialect}, {channels} channels") } else { format!("SMB {dialect}") }
    }

    pub fn request(&self, command: Command, payload_bytes: u32, put: impl FnOnce(&mut Vec<u8>)) -> Request {
        Request::new(command, OF_THE_SHARE, payload_bytes, put)
    }

    /// A request that carries `payload_bytes`.
    pub fn large_request(&self, command: Command, payload_bytes: usize, put: impl FnOnce(&mut Vec<u8>)) -> Request {
        let buf = self.handle.buffer(HEAD_BYTES + payload_bytes);
        let payload_bytes = u32::try_from(payload_bytes).unwrap_or(u32::MAX);
        Request::in_buffer(buf, command, OF_THE_SHARE, payload_bytes, put)
    }

    /// Sends a request and takes no answer but a good one.
    pub async fn call(&self, request: Request) -> Result<Response, ErrorKind> {
        good(self.handle.call(request).await?)
    }

    /// Opens a file for a program.
    pub async fn open(self: &Arc<Self>, path: &Path, how: OpenHow) -> Result<Open, ErrorKind> {
        Open::new(self, path, How::from(how)).await
    }

    pub async fn stat(&self, path: &Path) -> Result<Stat, ErrorKind> {
        let mut compound = self.compound(path, How::attributes(), Vec::new())?;
        let stat = compound.opened().await?;
        compound.closed().await?;
        Ok(stat)
    }

    pub async fn mkdir(&self, path: &Path) -> Result<(), ErrorKind> {
        let mut compound = self.compound(path, How::new_directory(), Vec::new())?;
        compound.opened().await?;
        compound.closed().await
    }

    pub async fn remove(&self, path: &Path) -> Result<(), ErrorKind> {
        let mut input = Vec::new();
        DispositionInfo { delete: true }.encode(&mut input);
        self.set(path, How::deleting(), open::set_info(self, RELATED, FileInfoClass::DISPOSITION, &input).once()).await
    }

    pub async fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<(), ErrorKind> {
        let input = rename_info(to, replace)?;
        self.set(from, How::deleting(), open::set_info(self, RELATED, FileInfoClass::RENAME, &input).once()).await
    }

    /// Sets times and DOS attributes.
    pub async fn set_basic(&self, path: &Path, times: &Times, attributes: FileAttributes) -> Result<(), ErrorKind> {
        let input = open::basic_info(times, attributes);
        let set = open::set_info(self, RELATED, FileInfoClass::BASIC, &input);
        self.set(path, How::changing_attributes(), set).await
    }

    /// How much room there is.
    pub async fn space(&self) -> Result<Space, ErrorKind> {
        let body = QueryInfoRequest {
            info_type: InfoType::FileSystem as u8,
            class: FsInfoClass::FULL_SIZE.0,
            output_bytes: FullSizeFsInfo::LEN as u32,
            input: &[],
            additional: 0,
            flags: 0,
            handle: RELATED,
        };
        let ask = self.request(Command::QueryInfo, 0, |out| body.put(out));
        let mut compound = self.compound(Path::new(""), How::attributes(), vec![ask])?;
        compound.opened().await?;
        let answer = good(compound.next().await?)?;
        compound.closed().await?;
        let output = read_output_buffer(answer.message())?;
        let info = FullSizeFsInfo::decode(output).map_err(|_| ErrorKind::Nonsense("the room there is, cut short"))?;
        let unit_bytes = u64::from(info.sectors_per_unit).saturating_mul(info.bytes_per_sector.into());
        let bytes = |units: u64| units.saturating_mul(unit_bytes);
        Ok(Space {
            total_bytes: bytes(info.total_units),
            free_bytes: bytes(info.available_units),
            available_bytes: bytes(info.caller_available_units),
        })
    }

    /// One SET_INFO of what `path` names, in one round trip.
    async fn set(&self, path: &Path, how: How, set: Request) -> Result<(), ErrorKind> {
        let mut compound = self.compound(path, how, vec![set])?;
        compound.opened().await?;
        good(compound.next().await?)?;
        compound.closed().await
    }

    /// Opens `path`, does `between` with what was opened, and closes it, in one message.
    pub(super) fn compound(&self, path: &Path, how: How, between: Vec<Request>) -> Result<Compound, ErrorKind> {
        let mut related = between;
        related.push(open::close(self, RELATED));
        let (opening, answers) = self.handle.send_compound(how.request(self, path)?, related);
        Ok(Compound { opening, answers: answers.into() })
    }

    /// Logs off.
    pub async fn disconnect(&self) -> Result<(), ErrorKind> {
        let request = Request::new(Command::Logoff, 0, 0, put_four).sealed(self.handle.terms().seal);
        let answer = self.call(request).await.map(drop);
        self.handle.end();
        answer
    }
}

/// A compound under way: what it opens is closed whatever becomes of the caller.
#[derive(Debug)]
pub(super) struct Compound {
    opening: Pending,
    answers: VecDeque<Pending>,
}

impl Compound {
    /// Waits for the open. Its failure is that of all that was to follow.
    pub async fn opened(&mut self) -> Result<Stat, ErrorKind> {
        let response = good(self.opening.answer().await?)?;
        Ok(Stat::from(&CreateResponse::decode(response.message())?))
    }

    /// The next answer in between.
    pub async fn next(&mut self) -> Result<Response, ErrorKind> {
        let mut pending = self.answers.pop_front().ok_or(ErrorKind::Input("a compound has no more answers"))?;
        Ok(pending.answer().await?)
    }

    /// Waits for the close.
    pub async fn closed(&mut self) -> Result<(), ErrorKind> {
        let response = self.next().await?;
        good(response).map(drop)
    }
}

/// FileRenameInformation.
pub(super) fn rename_info(to: &Path, replace: bool) -> Result<Vec<u8>, ErrorKind> {
    /// Windows takes no structure shorter than this, however short the name.
    const LEAST_BYTES: usize = 24;
    let name = path::to_wire(to)?;
    let flags = if replace { RenameFlags::REPLACE_IF_EXISTS } else { RenameFlags::empty() };
    let mut input = Vec::new();
    RenameInfo { flags, root_directory: 0, name: &name }.encode(&mut input);
    input.resize(input.len().max(LEAST_BYTES), 0);
    Ok(input)
}

pub(super) fn good(response: Response) -> Result<Response, ErrorKind> {
    match response.status() {
        NtStatus::SUCCESS => Ok(response),
        status => Err(status.into()),
    }
}
