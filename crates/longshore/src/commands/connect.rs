//! From URLs to places on connected servers. Every command begins here; URLs with the same server, share and user have one
//! connection. Nothing a command does comes before all of its servers let it in.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client::{Client, Credentials, Options, Protection, Protocol, Url};

use super::args::LoginArgs;
use super::secrets::Secrets;
use crate::failure::Failure;

/// A share that somebody is logged in to.
pub struct Remote {
    /// The connection.
    pub client: Client,
    /// The share's root.
    root: Url,
}

impl Remote {
    /// A path below the share as failures name it.
    pub fn place(&self, path: &Path) -> String {
        let base = format!("//{}/{}", self.root.host(), self.root.share());
        let path = path.to_string_lossy();
        if path.is_empty() { base } else { format!("{base}/{path}") }
    }

    /// A path below the share as a URL.
    pub fn url(&self, path: &Path) -> String {
        self.root.clone().with_path(path).to_string()
    }

    /// Whether files there have permission bits to set.
    pub fn has_modes(&self) -> bool {
        self.root.protocol() != Protocol::Smb
    }

    /// The share's name.
    pub fn share(&self) -> &str {
        self.root.share()
    }
}

/// Something on a server.
#[derive(Clone)]
pub struct Place {
    /// Where it is.
    pub remote: Arc<Remote>,
    /// Its path below the share.
    pub path: PathBuf,
}

impl Place {
    /// What is in a directory under `name`.
    pub fn join(&self, name: impl AsRef<Path>) -> Self {
        Self { remote: Arc::clone(&self.remote), path: self.path.join(name) }
    }

    /// Whether a server-side operation can have both.
    pub fn is_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.remote, &other.remote)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.remote.place(&self.path))
    }
}

/// What it takes to connect to the servers of one command.
pub struct Plan {
    targets: Vec<(Url, Credentials)>,
    options: Options,
}

/// Whether this is meant to be a URL and not a file of this machine.
pub fn is_url(text: &str) -> bool {
    ["smb://", "nfs://"].iter().any(|scheme| text.starts_with(scheme))
}

impl Plan {
    /// Reads URLs and gets what passwords they need; may ask for them, and so comes before the runtime.
    pub fn new(urls: &[String], login: &LoginArgs) -> Result<Self, Failure> {
        let mut secrets = Secrets::default();
        let target = |text: &String| target(text, login, &mut secrets);
        Ok(Self { targets: urls.iter().map(target).collect::<Result<_, Failure>>()?, options: options(login) })
    }

    /// Connects, and answers the places the URLs name, in their order.
    pub async fn connect(self) -> Result<Vec<Place>, Failure> {
        let mut known: Vec<(Url, String, Arc<Remote>)> = Vec::new();
        let mut places = Vec::new();
        for (url, credentials) in self.targets {
            let user = credentials.user().to_owned();
            let path = url.path().to_owned();
            let same = |(other, name, _): &&(Url, String, _)| is_same_share(other, &url) && *name == user;
            let remote = match known.iter().find(same) {
                Some((_, _, remote)) => Arc::clone(remote),
                None => {
                    let remote = Arc::new(reach(&url, credentials, &self.options).await?);
                    known.push((url, user, Arc::clone(&remote)));
                    remote
                }
            };
            places.push(Place { remote, path });
        }
        Ok(places)
    }
}

/// Where a URL leads, and who logs in there.
pub fn target(text: &str, login: &LoginArgs, secrets: &mut Secrets) -> Result<(Url, Credentials), Failure> {
    let url: Url = text.parse().map_err(|error: client::Error| Failure::usage(error))?;
    let credentials = match url.protocol() {
        Protocol::Smb => secrets.credentials(&url, login)?,
        Protocol::Nfs(_) => Credentials::anonymous(),
    };
    Ok((url, credentials))
}

async fn reach(url: &Url, credentials: Credentials, options: &Options) -> Result<Remote, Failure> {
    let client = Client::connect_with(url, credentials, options).await.map_err(Failure::connection)?;
    Ok(Remote { client, root: url.clone() })
}

fn is_same_share(one: &Url, other: &Url) -> bool {
    let key = |url: &Url| {
        (url.protocol(), url.host().to_lowercase(), url.port(), url.share().to_owned(), url.domain().to_owned())
    };
    key(one) == key(other)
}

/// How the library's client is to be.
pub fn options(login: &LoginArgs) -> Options {
    let protection = match (login.encrypt, login.sign) {
        (true, _) => Protection::Sealed,
        (false, true) => Protection::Signed,
        (false, false) => Protection::AsServer,
    };
    let mut options = Options { protection, timeout: Duration::from_secs(login.timeout.into()), ..Options::default() };
    if login.uid.is_some() {
        // The groups are the process's own: somebody else has others.
        options.nfs.groups.clear();
    }
    options.nfs.uid = login.uid.unwrap_or(options.nfs.uid);
    options.nfs.gid = login.gid.unwrap_or(options.nfs.gid);
    options
}
