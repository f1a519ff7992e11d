//! A user on one share of one server. Programs make a [`Client`] and ask it about paths; what has an open file goes on in
//! `file`. Every method says what it was doing when it fails, and ends within the timeout whatever the server does. What
//! an operation is on the wire is not known here, only whom to ask.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use smb_wire::fscc::FileAttributes;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::error::{At, Error, ErrorKind};
use crate::file::{File, Open, OpenHow};
use crate::list::{self, Entry, Listing};
use crate::nfs;
use crate::options::Options;
use crate::smb::{self, Credentials, Negotiated, Share};
use crate::stat::{SetAttributes, Space, Stat, Times};
use crate::url::{Protocol, Url};
use crate::watch::{self, Watch};

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
    Nfs(Arc<nfs::Share>),
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
            Protocol::Nfs(_) => nfs::Share::connect(url, options).await.map(|share| Way::Nfs(Arc::new(share))),
        };
        let way = way.at("connect to", &place(url))?;
        Ok(Self { way, list_entries: options.list_entries })
    }

    /// The same over the two halves of a stream that leads to an SMB server. Lost, it is not made again.
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

    /// The same by lines to an SMB server that `dial` makes, now and whenever the one there is gets lost.
    pub async fn connect_smb_by(
        dial: Arc<dyn smb::Dial>,
        url: &Url,
        credentials: Credentials,
        options: &Options,
    ) -> Result<Self, Error> {
        let share = Share::connect_by(dial, url, credentials, options).await.at("connect to", &place(url))?;
        Ok(Self { way: Way::Smb(Arc::new(share)), list_entries: options.list_entries })
    }

    /// The same by lines to an NFS server that are made otherwise than over TCP.
    pub async fn connect_by(dial: Arc<dyn nfs::Dial>, url: &Url, options: &Options) -> Result<Self, Error> {
        let share = nfs::Share::connect_by(dial, url, options).await.at("connect to", &place(url))?;
        Ok(Self { way: Way::Nfs(Arc::new(share)), list_entries: options.list_entries })
    }

    /// What was agreed on with an SMB server.
    pub fn negotiated(&self) -> Option<&Negotiated> {
        match &self.way {
            Way::Smb(share) => Some(share.handle.negotiated()),
            Way::Nfs(_) => None,
        }
    }

    /// What was agreed on, in a line for a person.
    pub fn description(&self) -> String {
        match &self.way {
            Way::Smb(share) => share.description(),
            Way::Nfs(share) => share.description(),
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
            Way::Nfs(share) => share.open(path, how).await.map(|open| Open::Nfs(Arc::new(open))),
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
        /// More than names are on the average, anywhere but at a server that means harm.
        const NAME_BYTES: usize = 64;
        let path = path.as_ref();
        let mut listing = self.listing(path).await?;
        let (mut entries, mut name_bytes) = (Vec::new(), 0);
        while let Some(batch) = listing.next_batch().await? {
            name_bytes += batch.iter().map(|entry: &Entry| entry.name.len()).sum::<usize>();
            entries.extend(batch);
            if entries.len() > self.list_entries || name_bytes / NAME_BYTES > self.list_entries {
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
            Way::Nfs(share) => nfs::Listing::open(share, path).await.map(list::Way::Nfs),
        };
        listing.map(|way| Listing::new(path, way)).at("list", path)
    }

    /// What a file, directory or link is like. A link is not followed.
    pub async fn stat(&self, path: impl AsRef<Path>) -> Result<Stat, Error> {
        let path = path.as_ref();
        let stat = match &self.way {
            Way::Smb(share) => share.stat(path).await,
            Way::Nfs(share) => share.stat(path).await,
        };
        stat.at("stat", path)
    }

    /// The contents of a file, if they are `most_bytes` at most (and no more than the server sends at once), and what it
    /// is like: small files in one round trip each.
    pub async fn read_whole(&self, path: impl AsRef<Path>, most_bytes: u32) -> Result<(Stat, Option<Vec<u8>>), Error> {
        let path = path.as_ref();
        let read = match &self.way {
            Way::Smb(share) => share.read_whole(path, most_bytes).await,
            Way::Nfs(share) => share.read_whole(path, most_bytes).await,
        };
        read.at("read", path)
    }

    /// Makes a file of `data` as `how` says, and sets those times that are given: small files in one round trip each.
    pub async fn write_whole(
        &self,
        path: impl AsRef<Path>,
        data: &[u8],
        how: OpenHow,
        times: &Times,
    ) -> Result<(), Error> {
        let path = path.as_ref();
        let written = match &self.way {
            Way::Smb(share) if data.len() <= share.handle.limits().write_bytes as usize => {
                share.write_whole(path, data, how, times).await
            }
            Way::Smb(_) => {
                let file = self.open_with(path, how).await?;
                file.write_at(0, data).await?;
                file.set_times(times).await?;
                return file.close().await;
            }
            Way::Nfs(share) => share.write_whole(path, data, how, times).await,
        };
        written.at("write", path)
    }

    /// Makes a file of `data` that has the name `path` only when it is whole, and the one there may be in its place until
    /// then; sets those times that are given. It is written at `temporary`, in the same directory, where nothing is left
    /// of what fails, save when the connection is lost. With NFS 4.1 and later that is one round trip, with SMB two: a
    /// server of SMB goes on with a compound whose WRITE failed.
    pub async fn write_as(
        &self,
        temporary: impl AsRef<Path>,
        path: impl AsRef<Path>,
        data: &[u8],
        times: &Times,
    ) -> Result<(), Error> {
        let (temporary, path) = (temporary.as_ref(), path.as_ref());
        let written = match &self.way {
            Way::Smb(share) if data.len() <= share.handle.limits().write_bytes as usize => {
                share.write_as(temporary, path, data, times).await
            }
            Way::Smb(_) => {
                self.write_whole(temporary, data, OpenHow::overwrite(), times).await?;
                return self.rename(temporary, path, true).await;
            }
            Way::Nfs(share) => share.write_as(temporary, path, data, times).await,
        };
        written.at("write", path)
    }

    /// Sets what is given. A link is not followed. What the protocol has no place for is an error, and then nothing is
    /// set.
    pub async fn set_attributes(&self, path: impl AsRef<Path>, set: &SetAttributes) -> Result<(), Error> {
        const NO_DOS: ErrorKind = ErrorKind::Input("an NFS export has no DOS attributes to set");
        const NO_MODE: ErrorKind = ErrorKind::Input("an SMB share has no permission bits and owner's numbers to set");
        let path = path.as_ref();
        match &self.way {
            Way::Smb(_) if set.mode.is_some() || set.owner.is_some() => Err(NO_MODE).at("set", path),
            Way::Smb(share) => {
                if let Some(len_bytes) = set.len_bytes {
                    let file = self.open_with(path, OpenHow::change()).await?;
                    file.set_len(len_bytes).await?;
                    file.close().await?;
                }
                let dos = set.dos.unwrap_or(FileAttributes::empty());
                if set.times == Times::default() && dos.is_empty() {
                    return Ok(());
                }
                share.set_basic(path, &set.times, dos).await.at("set", path)
            }
            Way::Nfs(_) if set.dos.is_some() => Err(NO_DOS).at("set", path),
            Way::Nfs(share) => share.set(path, set).await.at("set", path),
        }
    }

    /// Where a symbolic link leads, as it says. It may say anything: nothing is to be opened by it unseen.
    pub async fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf, Error> {
        let path = path.as_ref();
        let target = match &self.way {
            Way::Smb(share) => share.read_link(path).await,
            Way::Nfs(share) => share.read_link(path).await,
        };
        target.at("read link", path)
    }

    /// Makes a symbolic link at `path` that leads to `target`.
    pub async fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let made = match &self.way {
            Way::Smb(share) => share.symlink(target.as_ref(), path).await,
            Way::Nfs(share) => share.symlink(target.as_ref(), path).await,
        };
        made.at("make link", path)
    }

    /// Has the server copy a file, over the one that may be at `to`; answers how long it is. Where the server cannot
    /// ([`Error::is_unsupported`]) the bytes are the caller's to carry.
    pub async fn copy(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<u64, Error> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let copied = match &self.way {
            Way::Smb(share) => share.copy(from, to).await,
            Way::Nfs(share) => share.copy(from, to).await,
        };
        copied.at("copy", from)
    }

    /// Watches a directory, and with `recursive` all below it.
    pub async fn watch(&self, path: impl AsRef<Path>, recursive: bool) -> Result<Watch, Error> {
        let path = path.as_ref();
        let watch = match &self.way {
            Way::Smb(share) => smb::Watch::new(share, path, recursive).await.map(watch::Way::Smb),
            Way::Nfs(share) => nfs::Watch::new(share, path, recursive).await.map(watch::Way::Nfs),
        };
        watch.map(|way| Watch::new(path.into(), way)).at("watch", path)
    }

    /// How much room the share has; over NFS, the file system that the URL's path is on.
    pub async fn space(&self) -> Result<Space, Error> {
        let space = match &self.way {
            Way::Smb(share) => share.space().await,
            Way::Nfs(share) => share.space().await,
        };
        space.at("ask for the room of", Path::new("/"))
    }

    /// Makes a directory, which must not be there.
    pub async fn mkdir(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let made = match &self.way {
            Way::Smb(share) => share.mkdir(path).await,
            Way::Nfs(share) => share.mkdir(path).await,
        };
        made.at("make directory", path)
    }

    /// Removes a file, a link, or an empty directory.
    pub async fn remove(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let removed = match &self.way {
            Way::Smb(share) => share.remove(path).await,
            Way::Nfs(share) => share.remove(path).await,
        };
        removed.at("remove", path)
    }

    /// Gives what is at `from` the name `to`. Only with `replace` may a file be there already.
    pub async fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>, replace: bool) -> Result<(), Error> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let renamed = match &self.way {
            Way::Smb(share) => share.rename(from, to, replace).await,
            Way::Nfs(share) => share.rename(from, to, replace).await,
        };
        renamed.at("rename", from)
    }

    /// Logs off. Files still open are closed by the server. Dropping the last clone and file ends the connection too,
    /// without a word.
    pub async fn disconnect(self) -> Result<(), Error> {
        let over = match &self.way {
            Way::Smb(share) => share.disconnect().await,
            Way::Nfs(share) => share.disconnect().await,
        };
        over.at("log off", Path::new(""))
    }
}

/// How the server is called in errors.
fn place(url: &Url) -> PathBuf {
    format!("//{}:{}/{}", url.host(), url.port(), url.share()).into()
}
