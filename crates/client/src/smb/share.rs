//! A share of an SMB server: what a [`Client`](crate::Client) asks of paths, as requests. The facade calls it and adds
//! to an error what was being done; what has an open is in `open`.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use smb_wire::NtStatus;
use smb_wire::fscc::{DispositionInfo, FileInfoClass, RenameFlags, RenameInfo};
use smb_wire::name::utf16le;
use smb_wire::smb2::{
    Command, FileHandle, Flags, IoctlRequest, IoctlResponse, ShareFlags, ShareType, TreeConnectRequest,
    TreeConnectResponse, ValidateNegotiate, fsctl, put_four,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::driver::{self, Handle};
use super::open::{How, Open};
use super::{Config, Credentials, Failure, Request, Response, Seed, path};
use crate::error::ErrorKind;
use crate::file::OpenHow;
use crate::options::Options;
use crate::stat::{self, Stat};
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

    /// Sends a request and takes no answer but a good one.
    pub async fn call(&self, request: Request) -> Result<Response, ErrorKind> {
        good(self.handle.call(request).await?)
    }

    /// Opens a file for a program.
    pub async fn open(self: &Arc<Self>, path: &Path, how: OpenHow) -> Result<Open, ErrorKind> {
        Open::new(self, path, How::from(how)).await
    }

    pub async fn stat(self: &Arc<Self>, path: &Path) -> Result<Stat, ErrorKind> {
        let open = Open::new(self, path, How::attributes()).await?;
        let stat = open.stat_at_open;
        open.close().await?;
        Ok(stat)
    }

    pub async fn mkdir(self: &Arc<Self>, path: &Path) -> Result<(), ErrorKind> {
        Open::new(self, path, How::new_directory()).await?.close().await
    }

    pub async fn remove(self: &Arc<Self>, path: &Path) -> Result<(), ErrorKind> {
        let open = Open::new(self, path, How::deleting()).await?;
        let mut input = Vec::new();
        DispositionInfo { delete: true }.encode(&mut input);
        open.set_info(FileInfoClass::DISPOSITION, &input).await?;
        open.close().await
    }

    pub async fn rename(self: &Arc<Self>, from: &Path, to: &Path, replace: bool) -> Result<(), ErrorKind> {
        /// Windows takes no structure shorter than this, however short the name.
        const LEAST_BYTES: usize = 24;
        let name = path::to_wire(to)?;
        let open = Open::new(self, from, How::deleting()).await?;
        let flags = if replace { RenameFlags::REPLACE_IF_EXISTS } else { RenameFlags::empty() };
        let mut input = Vec::new();
        RenameInfo { flags, root_directory: 0, name: &name }.encode(&mut input);
        input.resize(input.len().max(LEAST_BYTES), 0);
        open.set_info(FileInfoClass::RENAME, &input).await?;
        open.close().await
    }

    /// Logs off.
    pub async fn disconnect(&self) -> Result<(), ErrorKind> {
        let request = Request::new(Command::Logoff, 0, 0, put_four).sealed(self.seal);
        self.call(request).await.map(drop)
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
