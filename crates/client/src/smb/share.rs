//! A share of an SMB server: what a [`Client`](crate::Client) asks of paths, as requests. The facade calls it and adds
//! to an error what was being done; what has an open is in `open`.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use smb_wire::NtStatus;
use smb_wire::fscc::{
    DispositionInfo, FileAttributes, FileInfoClass, FsInfoClass, FullSizeFsInfo, RenameFlags, RenameInfo,
};
use smb_wire::name::utf16le;
use smb_wire::smb2::{
    Command, CreateResponse, FileHandle, Flags, InfoType, IoctlRequest, IoctlResponse, QueryInfoRequest, ShareFlags,
    ShareType, TreeConnectRequest, TreeConnectResponse, ValidateNegotiate, fsctl, put_four, read_output_buffer,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::driver::{self, Handle, Pending};
use super::open::{self, How, Open, was_read, was_written};
use super::request::{HEAD_BYTES, RELATED};
use super::{Config, Credentials, Failure, Request, Response, Seed, path};
use crate::error::ErrorKind;
use crate::file::OpenHow;
use crate::options::Options;
use crate::stat::{self, Space, Stat, Times};
use crate::stream::Part;
use crate::url::Url;

/// The most one request moves with any server.
const MOST_TRANSFER_BYTES: u32 = 8 << 20;

/// A tree connect of a user.
#[derive(Debug)]
pub(crate) struct Share {
    pub handle: Handle,
    tree_id: u32,
    /// The share wants its messages sealed.
    seal: bool,
    pub stream_bytes: u32,
}

impl Share {
    /// Connects, logs in, and enters the share.
    pub async fn connect(url: &Url, credentials: Credentials, options: &Options) -> Result<Self, ErrorKind> {
        let connecting = TcpStream::connect((url.host(), url.port()));
        let stream = tokio::time::timeout(options.timeout, connecting).await;
        let stream = stream.map_err(|_| Failure::Timeout(options.timeout))?;
        let stream = stream.map_err(|error| Failure::Network(error.to_string()))?;
        // Requests leave when they are ready; that a kernel has no such option costs time only.
        let _ = stream.set_nodelay(true);
        let (reader, writer) = stream.into_split();
        Self::connect_over(reader, writer, url, credentials, options).await
    }

    /// The same over the two halves of a stream that leads to the server.
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
        let handle = driver::start(reader, writer, config(url, credentials, options)?).await?;
        let share = connect_tree(handle, url, options).await?;
        validate(&share).await?;
        Ok(share)
    }

    pub fn request(&self, command: Command, payload_bytes: u32, put: impl FnOnce(&mut Vec<u8>)) -> Request {
        Request::new(command, self.tree_id, payload_bytes, put).sealed(self.seal)
    }

    /// A request that carries `payload_bytes`.
    pub fn large_request(&self, command: Command, payload_bytes: usize, put: impl FnOnce(&mut Vec<u8>)) -> Request {
        let buf = self.handle.buffer(HEAD_BYTES + payload_bytes);
        let payload_bytes = u32::try_from(payload_bytes).unwrap_or(u32::MAX);
        Request::in_buffer(buf, command, self.tree_id, payload_bytes, put).sealed(self.seal)
    }

    /// Sends a request and takes no answer but a good one.
    pub async fn call(&self, request: Request) -> Result<Response, ErrorKind> {
        good(self.handle.call(request).await?)
    }

    /// Opens a file for a program.
    pub async fn open(self: &Arc<Self>, path: &Path, how: OpenHow) -> Result<Open, ErrorKind> {
        Open::new(self, path, How::from(how)).await
    }

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
        let mut between = Vec::new();
        if !data.is_empty() {
            between.push(open::write(self, RELATED, 0, data));
        }
        let sets_times = *times != Times::default();
        if sets_times {
            let input = open::basic_info(times, FileAttributes::empty());
            between.push(open::set_info(self, RELATED, FileInfoClass::BASIC, &input));
        }
        let mut compound = self.compound(path, How::from(how), between)?;
        compound.opened().await?;
        if !data.is_empty() {
            was_written(compound.next().await?, u32::try_from(data.len()).unwrap_or(u32::MAX))?;
        }
        if sets_times {
            good(compound.next().await?)?;
        }
        compound.closed().await
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
        self.set(path, How::deleting(), FileInfoClass::DISPOSITION, &input).await
    }

    pub async fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<(), ErrorKind> {
        /// Windows takes no structure shorter than this, however short the name.
        const LEAST_BYTES: usize = 24;
        let name = path::to_wire(to)?;
        let flags = if replace { RenameFlags::REPLACE_IF_EXISTS } else { RenameFlags::empty() };
        let mut input = Vec::new();
        RenameInfo { flags, root_directory: 0, name: &name }.encode(&mut input);
        input.resize(input.len().max(LEAST_BYTES), 0);
        self.set(from, How::deleting(), FileInfoClass::RENAME, &input).await
    }

    /// Sets times and DOS attributes.
    pub async fn set_basic(&self, path: &Path, times: &Times, attributes: FileAttributes) -> Result<(), ErrorKind> {
        let input = open::basic_info(times, attributes);
        self.set(path, How::changing_attributes(), FileInfoClass::BASIC, &input).await
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
    async fn set(&self, path: &Path, how: How, class: FileInfoClass, input: &[u8]) -> Result<(), ErrorKind> {
        let mut compound = self.compound(path, how, vec![open::set_info(self, RELATED, class, input)])?;
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
        let request = Request::new(Command::Logoff, 0, 0, put_four).sealed(self.seal);
        self.call(request).await.map(drop)
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

pub(super) fn good(response: Response) -> Result<Response, ErrorKind> {
    match response.status() {
        NtStatus::SUCCESS => Ok(response),
        status => Err(status.into()),
    }
}

fn config(url: &Url, credentials: Credentials, options: &Options) -> Result<Config, ErrorKind> {
    if options.min_dialect > options.max_dialect {
        return Err(ErrorKind::Input("the oldest dialect is newer than the newest"));
    }
    let has_domain = !credentials.domain.is_empty();
    Ok(Config {
        server_name: url.host().into(),
        credentials: if has_domain { credentials } else { credentials.in_domain(url.domain()) },
        protection: options.protection,
        min_dialect: options.min_dialect,
        max_dialect: options.max_dialect,
        ciphers: options.ciphers.clone(),
        signing: options.signing.clone(),
        max_transfer_bytes: options.max_transfer_bytes.min(MOST_TRANSFER_BYTES),
        credits: options.credits,
        timeout: options.timeout,
        seed: seed()?,
    })
}

fn seed() -> Result<Seed, ErrorKind> {
    let random =
        |bytes: &mut [u8]| getrandom::fill(bytes).map_err(|_| ErrorKind::Input("the system has no random numbers"));
    let now = stat::to_wire(Some(SystemTime::now())).0;
    let mut seed = Seed { client_guid: [0; 16], salt: [0; 32], client_challenge: [0; 8], session_key: [0; 16], now };
    random(&mut seed.client_guid)?;
    random(&mut seed.salt)?;
    random(&mut seed.client_challenge)?;
    random(&mut seed.session_key)?;
    Ok(seed)
}

async fn connect_tree(handle: Handle, url: &Url, options: &Options) -> Result<Share, ErrorKind> {
    let path = utf16le(&format!("\\\\{}\\{}", url.host(), url.share()));
    if path.len() > usize::from(u16::MAX) {
        return Err(ErrorKind::Input("the share's name is too long"));
    }
    let body = TreeConnectRequest { flags: 0, path: &path };
    let request = Request::new(Command::TreeConnect, 0, 0, |out| body.put(out));
    let response = good(handle.call(request).await?)?;
    let tree = TreeConnectResponse::decode(response.message())?;
    if response.header.flags.contains(Flags::ASYNC) {
        // Where the tree connect's number would be, something else is.
        return Err(ErrorKind::Nonsense("a tree connect without a number"));
    }
    if tree.share_type != ShareType::Disk as u8 {
        return Err(ErrorKind::Input("the share holds no files: it is for pipes or a printer"));
    }
    let seal = tree.flags.contains(ShareFlags::ENCRYPT_DATA);

    Ok(Share { handle, tree_id: response.header.tree_id, seal, stream_bytes: options.stream_bytes })
}

/// MS-SMB2 3.2.5.5: before 3.1.1 nothing else proves that the dialect was not talked down on the way. The answer is
/// signed, as the machine sees to.
async fn validate(share: &Share) -> Result<(), ErrorKind> {
    const FORGED: Failure = Failure::NotGenuine("what was negotiated is not what the server says it was");
    const OUTPUT_BYTES: u32 = 24;
    let Some((ours, theirs)) = share.handle.validation() else { return Ok(()) };
    let mut input = Vec::new();
    ours.put_request(&mut input);
    let body = IoctlRequest {
        code: fsctl::VALIDATE_NEGOTIATE_INFO,
        handle: FileHandle { persistent: u64::MAX, volatile: u64::MAX },
        input: &input,
        max_input_response: 0,
        max_output_response: OUTPUT_BYTES,
        flags: 1,
    };
    let answer = share.handle.call(share.request(Command::Ioctl, OUTPUT_BYTES, |out| body.put(out))).await?;
    match answer.status() {
        NtStatus::SUCCESS => {
            let output = IoctlResponse::decode(answer.message())?.output;
            if ValidateNegotiate::decode_response(output)? == *theirs { Ok(()) } else { Err(FORGED.into()) }
        }
        // A server that knows no 3.x says so, and signs that.
        NtStatus::NOT_SUPPORTED | NtStatus::INVALID_DEVICE_REQUEST | NtStatus::FILE_CLOSED
            if !share.handle.negotiated().dialect.is_3() =>
        {
            Ok(())
        }
        status => Err(status.into()),
    }
}
