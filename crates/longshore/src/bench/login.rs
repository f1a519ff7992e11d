//! Who logs in to a server under load: the user of the URL, or the one who runs this, and a password from a file, the
//! environment or a prompt, asked once for each user. Servers that know no passwords are given none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use client::{Credentials, Protocol, Url};
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::password;

/// What has been obtained so far.
#[derive(Debug, Default)]
pub struct Logins {
    known: BTreeMap<(String, Option<PathBuf>), Zeroizing<String>>,
}

impl Logins {
    /// Who logs in at this URL.
    pub fn of(&mut self, url: &str, file: Option<&Path>) -> Result<Credentials, Failure> {
        let url = url.parse::<Url>().map_err(|error| Failure::usage(format!("{url}: {error}")))?;
        let user = match url.user() {
            "" => std::env::var("USER").unwrap_or_else(|_| "root".to_owned()),
            user => user.to_owned(),
        };
        if url.protocol() != Protocol::Smb {
            return Ok(Credentials::password(&user, ""));
        }
        let key = (user.clone(), file.map(Path::to_owned));
        let password = match self.known.get(&key) {
            Some(password) => password,
            None => self.known.entry(key).or_insert(password::known(&user, file)?),
        };
        Ok(Credentials::password(&user, password))
    }
}
