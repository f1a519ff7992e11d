//! Who logs in to a server under load, and how the client is to be there: as the commands on files have it, with a password
//! file of its own for a target that names one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use client::{Credentials, Options, Url};

use crate::commands::args::LoginArgs;
use crate::commands::connect;
use crate::commands::secrets::Secrets;
use crate::failure::Failure;

/// All it takes to connect to a server.
#[derive(Debug, Clone)]
pub struct Way {
    /// Where it is; the directory the files are in.
    pub url: Url,
    /// Who logs in.
    pub credentials: Credentials,
    /// How the client is to be.
    pub options: Options,
}

/// Ways to servers, each password asked for once.
pub struct Logins<'a> {
    login: &'a LoginArgs,
    /// By the target's own password file.
    secrets: BTreeMap<Option<PathBuf>, Secrets>,
}

impl<'a> Logins<'a> {
    /// As the command line says.
    pub fn new(login: &'a LoginArgs) -> Self {
        Self { login, secrets: BTreeMap::new() }
    }

    /// The way to this URL.
    pub fn way(&mut self, url: &str, password_file: Option<&Path>) -> Result<Way, Failure> {
        let own = password_file.map(Path::to_owned);
        let mut login = self.login.clone();
        if own.is_some() {
            (login.password_file, login.password_command) = (own.clone(), None);
        }
        let secrets = self.secrets.entry(own).or_default();
        let (url, credentials) = connect::target(url, &login, secrets)?;
        Ok(Way { url, credentials, options: connect::options(&login) })
    }

    /// The way to this URL for somebody who is known.
    pub fn known(&self, url: &str, credentials: Credentials) -> Result<Way, Failure> {
        let url = url.parse::<Url>().map_err(|error| Failure::usage(format!("{url}: {error}")))?;
        Ok(Way { url, credentials, options: connect::options(self.login) })
    }
}
