//! A user on one share of one server. Programs make a [`Client`] and ask it about paths; what has an open file goes on in
//! `file`. Every method says what it was doing when it fails, and ends within the timeout whatever the server does.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use smb_wire::NtStatus;
use smb_wire::crypto::{Cipher, SigningAlgorithm};
use smb_wire::fscc::{AccessMask, DispositionInfo, FileInfoClass, RenameFlags, RenameInfo};
use smb_wire::name::utf16le;
use smb_wire::smb2::{
    Command, CreateOptions, Dialect, Disposition, FileHandle, Flags, IoctlRequest, IoctlResponse, ShareFlags,
    ShareType, TreeConnectRequest, TreeConnectResponse, ValidateNegotiate, fsctl, put_four,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::error::{At, Error, ErrorKind};
use crate::file::{File, OpenHow};
use crate::list::{Entry, Listing};
use crate::path;
use crate::smb::driver::{self, Handle};
use crate::smb::{Config, Credentials, Failure, Negotiated, Protection, Request, Response, Seed};
use crate::stat::{self, Stat};
use crate::url::Url;

/// How a client is to be. The default suits a local network.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is insisted on. By default what the server asks for.
    pub protection: Protection,
    /// The oldest dialect to be spoken.
    pub min_dialect: Dialect,
    /// The newest dialect to be spoken.
    pub max_dialect: Dialect,
    /// Ciphers, the best first.
    pub ciphers: Vec<Cipher>,
    /// Signing algorithms, the best first.
    pub signing: Vec<SigningAlgorithm>,
    /// The most one READ or WRITE moves, where dialect and server allow as much. 8 MiB is the most there is.
    pub max_transfer_bytes: u32,
    /// Bytes one stream has in flight at most: what it holds of memory, and what a link can hold per round trip.
    pub stream_bytes: u32,
    /// The most entries [`Client::list`] holds: a server can make a directory seem endless.
    pub list_entries: usize,
    /// How wide the window of credits should grow.
    pub credits: u16,
    /// How long to wait for a server that says nothing.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            protection: Protection::default(),
            min_dialect: Dialect::V2_0_2,
            max_dialect: Dialect::V3_1_1,
            ciphers: vec![Cipher::Aes128Gcm, Cipher::Aes128Ccm, Cipher::Aes256Gcm, Cipher::Aes256Ccm],
            signing: vec![SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac, SigningAlgorithm::HmacSha256],
            max_transfer_bytes: 1 << 20,
            stream_bytes: 8 << 20,
            list_entries: 4_000_000,
            credits: 512,
            timeout: Duration::from_secs(30),
        }
    }
}

/// The most one request moves with any server.
const MOST_TRANSFER_BYTES: u32 = 8 << 20;

/// A user on one share. Cheap to clone; clones use the same connection.
#[derive(Debug, Clone)]
pub struct Client {
    tree: Arc<Tree>,
}

/// A tree connect.
#[derive(Debug)]
pub(crate) struct Tree {
    pub handle: Handle,
    pub tree_id: u32,
    /// The share wants its messages sealed.
    pub seal: bool,
    pub stream_bytes: u32,
    list_entries: usize,
}

impl Tree {
    pub fn request(&self, command: Command, payload_bytes: u32, put: impl FnOnce(&mut Vec<u8>)) -> Request {
        Request::new(command, self.tree_id, payload_bytes, put).sealed(self.seal)
    }

    /// Sends a request and takes no answer but a good one.
    pub async fn call(&self, request: Request) -> Result<Response, ErrorKind> {
        good(self.handle.call(request).await?)
    }
}

pub(crate) fn good(response: Response) -> Result<Response, ErrorKind> {
    match response.status() {
        NtStatus::SUCCESS => Ok(response),
        status => Err(status.into()),
    }
}

impl Client {
    /// Connects, logs in, and enters the share. To be called, like everything here, in a tokio runtime with network and
    /// time: a task of it drives the connection.
    pub async fn connect(url: &Url, credentials: Credentials) -> Result<Self, Error> {
        Self::connect_with(url, credentials, &Options::default()).await
    }

    /// The same, otherwise than by default.
    pub async fn connect_with(url: &Url, credentials: Credentials, options: &Options) -> Result<Self, Error> {
        let place = place(url);
        let connecting = TcpStream::connect((url.host(), url.port()));
        let stream = tokio::time::timeout(options.timeout, connecting).await;
        let stream = stream.map_err(|_| Failure::Timeout(options.timeout)).at("connect to", &place)?;
        let stream = stream.map_err(|error| Failure::Network(error.to_string())).at("connect to", &place)?;
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
    ) -> Result<Self, Error>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let place = place(url);
        let config = config(url, credentials, options).at("connect to", &place)?;
        let handle = driver::start(reader, writer, config).await.at("connect to", &place)?;
        let tree = connect_tree(handle, url, options).await.at("connect to", &place)?;
        validate(&tree).await.at("connect to", &place)?;
        Ok(Self { tree: Arc::new(tree) })
    }

    /// What was agreed on with the server.
    pub fn negotiated(&self) -> &Negotiated {
        self.tree.handle.negotiated()
    }

    /// Opens a file for reading.
    pub async fn open(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        self.open_with(path, OpenHow::read()).await
    }

    /// Makes a file, or empties the one there is, for writing.
    pub async fn create(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        self.open_with(path, OpenHow::overwrite()).await
    }

    /// Opens a file as `how` says.
    pub async fn open_with(&self, path: impl AsRef<Path>, how: OpenHow) -> Result<File, Error> {
        File::open(&self.tree, "open", path.as_ref(), how).await
    }

    /// Writes `data` at `offset` into the file there is, or a new one.
    pub async fn write_at(&self, path: impl AsRef<Path>, offset: u64, data: &[u8]) -> Result<(), Error> {
        let file = self.open_with(path, OpenHow::update()).await?;
        file.write_at(offset, data).await?;
        file.close().await
    }

    /// Reads from `offset` into `buf`; answers how many bytes there were.
    pub async fn read_at(&self, path: impl AsRef<Path>, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let file = self.open(path).await?;
        let count = file.read_at(offset, buf).await?;
        file.close().await?;
        Ok(count)
    }

    /// What is in a directory, all at once. [`Client::listing`] takes less memory for a large one.
    pub async fn list(&self, path: impl AsRef<Path>) -> Result<Vec<Entry>, Error> {
        const TOO_LARGE: ErrorKind = ErrorKind::Input("the directory is too large to be listed at once");
        let path = path.as_ref();
        let mut listing = self.listing(path).await?;
        let mut entries = Vec::new();
        while let Some(batch) = listing.next_batch().await? {
            entries.extend(batch);
            if entries.len() > self.tree.list_entries {
                return Err(TOO_LARGE).at("list", path);
            }
        }
        Ok(entries)
    }

    /// What is in a directory, piece by piece.
    pub async fn listing(&self, path: impl AsRef<Path>) -> Result<Listing, Error> {
        Ok(Listing::new(File::open(&self.tree, "list", path.as_ref(), OpenHow::listing()).await?))
    }

    /// What a file, directory or link is like. A link is not followed.
    pub async fn stat(&self, path: impl AsRef<Path>) -> Result<Stat, Error> {
        let file = File::open(&self.tree, "stat", path.as_ref(), OpenHow::attributes()).await?;
        let stat = file.stat_at_open();
        file.close().await?;
        Ok(stat)
    }

    /// Makes a directory, which must not be there.
    pub async fn mkdir(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        File::open(&self.tree, "make directory", path.as_ref(), OpenHow::new_directory()).await?.close().await
    }

    /// Removes a file, a link, or an empty directory.
    pub async fn remove(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let file = File::open(&self.tree, "remove", path.as_ref(), OpenHow::deleting()).await?;
        let mut input = Vec::new();
        DispositionInfo { delete: true }.encode(&mut input);
        file.set_info("remove", FileInfoClass::DISPOSITION, &input).await?;
        file.close().await
    }

    /// Gives what is at `from` the name `to`. Only with `replace` may a file be there already.
    pub async fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>, replace: bool) -> Result<(), Error> {
        /// Windows takes no structure shorter than this, however short the name.
        const LEAST_BYTES: usize = 24;
        let name = path::to_wire(to.as_ref()).at("rename to", to.as_ref())?;
        let file = File::open(&self.tree, "rename", from.as_ref(), OpenHow::deleting()).await?;
        let flags = if replace { RenameFlags::REPLACE_IF_EXISTS } else { RenameFlags::empty() };
        let mut input = Vec::new();
        RenameInfo { flags, root_directory: 0, name: &name }.encode(&mut input);
        input.resize(input.len().max(LEAST_BYTES), 0);
        file.set_info("rename", FileInfoClass::RENAME, &input).await?;
        file.close().await
    }

    /// Logs off. Files still open are closed by the server. Dropping the last clone and file ends the connection too,
    /// without a word.
    pub async fn disconnect(self) -> Result<(), Error> {
        let request = Request::new(Command::Logoff, 0, 0, put_four).sealed(self.tree.seal);
        self.tree.call(request).await.map(drop).at("log off", Path::new(""))
    }
}

/// How the server is called in errors.
fn place(url: &Url) -> std::path::PathBuf {
    format!("//{}:{}/{}", url.host(), url.port(), url.share()).into()
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

async fn connect_tree(handle: Handle, url: &Url, options: &Options) -> Result<Tree, ErrorKind> {
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
    let Options { stream_bytes, list_entries, .. } = *options;
    Ok(Tree { handle, tree_id: response.header.tree_id, seal, stream_bytes, list_entries })
}

/// MS-SMB2 3.2.5.5: before 3.1.1 nothing else proves that the dialect was not talked down on the way. The answer is
/// signed, as the machine sees to.
async fn validate(tree: &Tree) -> Result<(), ErrorKind> {
    const FORGED: Failure = Failure::NotGenuine("what was negotiated is not what the server says it was");
    const OUTPUT_BYTES: u32 = 24;
    let Some((ours, theirs)) = tree.handle.validation() else { return Ok(()) };
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
    let answer = tree.handle.call(tree.request(Command::Ioctl, OUTPUT_BYTES, |out| body.put(out))).await?;
    match answer.status() {
        NtStatus::SUCCESS => {
            let output = IoctlResponse::decode(answer.message())?.output;
            if ValidateNegotiate::decode_response(output)? == *theirs { Ok(()) } else { Err(FORGED.into()) }
        }
        // A server that knows no 3.x says so, and signs that.
        NtStatus::NOT_SUPPORTED | NtStatus::INVALID_DEVICE_REQUEST | NtStatus::FILE_CLOSED
            if !tree.handle.negotiated().dialect.is_3() =>
        {
            Ok(())
        }
        status => Err(status.into()),
    }
}

/// The rights and options that ways to open a file come to.
impl OpenHow {
    fn listing() -> Self {
        Self::with(AccessMask::FILE_LIST_DIRECTORY | AccessMask::FILE_READ_ATTRIBUTES, Disposition::Open)
            .options(CreateOptions::DIRECTORY_FILE)
    }

    fn attributes() -> Self {
        Self::with(AccessMask::FILE_READ_ATTRIBUTES, Disposition::Open).options(CreateOptions::OPEN_REPARSE_POINT)
    }

    fn deleting() -> Self {
        Self::with(AccessMask::DELETE | AccessMask::FILE_READ_ATTRIBUTES, Disposition::Open)
            .options(CreateOptions::OPEN_REPARSE_POINT)
    }

    fn new_directory() -> Self {
        Self::with(AccessMask::FILE_READ_ATTRIBUTES, Disposition::Create).options(CreateOptions::DIRECTORY_FILE)
    }
}
