//! A user on one share of one server. Programs make a [`Client`] and ask it about paths; what has an open file goes on in
//! `file`. Every method says what it was doing when it fails, and ends within the timeout whatever the server does. What
//! an operation is on the wire is not known here, only whom to ask.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::error::{At, Error, ErrorKind};
use crate::file::{File, Open, OpenHow};
use crate::list::{self, Entry, Listing};
use crate::options::Options;
use crate::smb::{self, Credentials, Negotiated, Share};
use crate::stat::Stat;
use crate::url::{Protocol, Url};

/// A user on one share. Cheap to clone; clones use the same connection.
#[derive(Debug, Clone)]
pub struct Client {
    way: Way,
    list_entries: usize,
}

/// What is spoken with the server.
#[derive(Debug, Clone)]
enum Way {
    Smb(Arc<Share>),
}

impl Client {
    /// Connects, logs in, and enters the share. To be called, like everything here, in a tokio runtime with network and
    /// time: a task of it drives the connection. An NFS server is shown the user of `options` and no credentials.
    pub async fn connect(url: &Url, credentials: Credentials) -> Result<Self, Error> {
        Self::connect_with(url, credentials, &Options::default()).await
    }

    /// The same, otherwise than by default.
    pub async fn connect_with(url: &Url, credentials: Credentials, options: &Options) -> Result<Self, Error> {
        let way = match url.protocol() {
            Protocol::Smb => Share::connect(url, credentials, options).await.map(|share| Way::Smb(Arc::new(share))),
            Protocol::Nfs(_) => Err(ErrorKind::Input("this client does not speak NFS")),
        };
        let way = way.at("connect to", &place(url))?;
        Ok(Self { way, list_entries: options.list_entries })
    }

    /// The same over the two halves of a stream that leads to an SMB server.
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
        let share =
            Share::connect_over(reader, writer, url, credentials, options).await.at("connect to", &place(url))?;
        Ok(Self { way: Way::Smb(Arc::new(share)), list_entries: options.list_entries })
    }

    /// What was agreed on with an SMB server.
    pub fn negotiated(&self) -> Option<&Negotiated> {
        match &self.way {
            Way::Smb(share) => Some(share.handle.negotiated()),
        }
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
        let path = path.as_ref();
        let open = match &self.way {
            Way::Smb(share) => share.open(path, how).await.map(|open| Open::Smb(Arc::new(open))),
        };
        open.map(|open| File::new(path, open)).at("open", path)
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
            if entries.len() > self.list_entries {
                return Err(TOO_LARGE).at("list", path);
            }
        }
        Ok(entries)
    }

    /// What is in a directory, piece by piece.
    pub async fn listing(&self, path: impl AsRef<Path>) -> Result<Listing, Error> {
        let path = path.as_ref();
        let listing = match &self.way {
            Way::Smb(share) => smb::Listing::open(share, path).await.map(list::Way::Smb),
        };
        listing.map(|way| Listing::new(path, way)).at("list", path)
    }

    /// What a file, directory or link is like. A link is not followed.
    pub async fn stat(&self, path: impl AsRef<Path>) -> Result<Stat, Error> {
        let path = path.as_ref();
        let stat = match &self.way {
            Way::Smb(share) => share.stat(path).await,
        };
        stat.at("stat", path)
    }

    /// Makes a directory, which must not be there.
    pub async fn mkdir(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let made = match &self.way {
            Way::Smb(share) => share.mkdir(path).await,
        };
        made.at("make directory", path)
    }

    /// Removes a file, a link, or an empty directory.
    pub async fn remove(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let removed = match &self.way {
            Way::Smb(share) => share.remove(path).await,
        };
        removed.at("remove", path)
    }

    /// Gives what is at `from` the name `to`. Only with `replace` may a file be there already.
    pub async fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>, replace: bool) -> Result<(), Error> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let renamed = match &self.way {
            Way::Smb(share) => share.rename(from, to, replace).await,
        };
        renamed.at("rename", from)
    }

    /// Logs off. Files still open are closed by the server. Dropping the last clone and file ends the connection too,
    /// without a word.
    pub async fn disconnect(self) -> Result<(), Error> {
        let over = match &self.way {
            Way::Smb(share) => share.disconnect().await,
        };
        over.at("log off", Path::new(""))
    }
}

/// How the server is called in errors.
fn place(url: &Url) -> PathBuf {
    format!("//{}:{}/{}", url.host(), url.port(), url.share()).into()
}
