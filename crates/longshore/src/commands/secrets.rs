//! Who logs in at a server, and where the password comes from: a file, a helper program, the environment, or a prompt.
//! Called by `connect` before anything else is done. Nothing here is logged, and what is held is wiped.

use std::io::{IsTerminal, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use client::{Credentials, Url};
use zeroize::Zeroizing;

use super::args::LoginArgs;
use super::words;
use crate::failure::Failure;
use crate::password::{VARIABLE, from_environment, from_file};

/// The most that is read of what a helper says.
const MOST_SAID_BYTES: u64 = 4096;

/// Passwords that were given once in this run.
#[derive(Default)]
pub struct Secrets {
    /// The one that does not depend on who logs in where.
    common: Option<Zeroizing<String>>,
    /// Those that were asked for.
    asked: Vec<(String, Zeroizing<String>)>,
}

impl Secrets {
    /// Who logs in at the URL's server.
    pub fn credentials(&mut self, url: &Url, login: &LoginArgs) -> Result<Credentials, Failure> {
        if login.anonymous {
            return Ok(Credentials::anonymous());
        }
        let user = match (url.user(), &login.user) {
            ("", Some(user)) => user.clone(),
            ("", None) => login_name()?,
            (user, _) => user.to_owned(),
        };
        let domain = match (url.domain(), &login.domain) {
            ("", Some(domain)) => domain.as_str(),
            (domain, _) => domain,
        };
        let password = self.password(&user, url.host(), login)?;
        Ok(Credentials::password(&user, password).in_domain(domain))
    }

    fn password(&mut self, user: &str, host: &str, login: &LoginArgs) -> Result<&str, Failure> {
        if self.common.is_none() && self.asked.is_empty() {
            self.common = given(login)?;
        }
        if let Some(common) = &self.common {
            return Ok(common);
        }
        let who = format!("{user}@{host}");
        let at = match self.asked.iter().position(|(known, _)| *known == who) {
            Some(at) => at,
            None => {
                let password = ask(&who)?;
                self.asked.push((who, password));
                self.asked.len() - 1
            }
        };
        Ok(self.asked.get(at).map_or("", |(_, password)| password))
    }
}

/// The password that the command line or the environment leads to.
fn given(login: &LoginArgs) -> Result<Option<Zeroizing<String>>, Failure> {
    if let Some(path) = &login.password_file {
        warn_of_readers(path);
        return from_file(path).map(Some);
    }
    if let Some(command) = &login.password_command {
        return said_by(command).map(Some);
    }
    from_environment()
}

/// Some systems hand out secrets in files that all may read; it is their owner's choice, but not a silent one.
fn warn_of_readers(path: &Path) {
    let open_to_others = |mode: u32| mode & 0o077 != 0;
    let Ok(metadata) = std::fs::metadata(path) else { return };
    if metadata.is_file() && open_to_others(metadata.permissions().mode()) {
        let path = words::shown(path);
        eprintln!("longshore: warning: others may read the password in {path}; `chmod 600` keeps it to you");
    }
}

fn said_by(command: &str) -> Result<Zeroizing<String>, Failure> {
    let failed = |why: String| Failure::connection(format!("--password-command gave no password: {why}"));
    let mut shell = Command::new("sh");
    let mut child =
        shell.arg("-c").arg(command).stdout(Stdio::piped()).spawn().map_err(|error| failed(error.to_string()))?;
    let mut said = Zeroizing::new(String::new());
    let read = match child.stdout.take() {
        Some(out) => out.take(MOST_SAID_BYTES).read_to_string(&mut said),
        None => Ok(0),
    };
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    read.map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        return Err(failed(format!("it ended with {status}")));
    }
    let line = said.lines().next().unwrap_or_default();
    if line.is_empty() {
        return Err(failed("it said nothing".into()));
    }
    Ok(Zeroizing::new(line.to_owned()))
}

fn ask(who: &str) -> Result<Zeroizing<String>, Failure> {
    let help = format!("give it with --password-file, --password-command or in {VARIABLE}");
    if !std::io::stdin().is_terminal() && !std::io::stderr().is_terminal() {
        return Err(Failure::usage(format!("there is no password for {who} and no terminal to ask on; {help}")));
    }
    let prompt = format!("Password for {}: ", words::printable(who));
    let asked = rpassword::prompt_password(prompt).map(Zeroizing::new);
    asked.map_err(|error| Failure::usage(format!("cannot ask for the password of {who} ({error}); {help}")))
}

/// Who runs this, by the system's user database.
fn login_name() -> Result<String, Failure> {
    let uid = nix::unistd::Uid::current();
    let user = nix::unistd::User::from_uid(uid).ok().flatten().map(|user| user.name);
    user.ok_or_else(|| Failure::usage("who is to log in? Say so with --user NAME or in the URL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helped(command: &str) -> Result<Zeroizing<String>, Failure> {
        said_by(command)
    }

    #[test]
    fn a_helper_gives_the_first_line_it_says() {
        assert_eq!(*helped("printf 'se cret\\nmore\\n'").unwrap(), "se cret");
        assert_eq!(*helped("printf 'no end'").unwrap(), "no end");
        for (bad, why) in [("exit 3", "3"), ("true", "nothing"), ("echo; echo x", "nothing")] {
            let failure = helped(bad).unwrap_err();
            assert_eq!(failure.code(), 3);
            assert!(failure.lines().any(|line| line.contains(why)), "{bad}: {failure:?}");
        }
    }

    #[test]
    fn the_url_says_first_who_logs_in() {
        let login = LoginArgs {
            user: Some("bert".into()),
            domain: Some("HOME".into()),
            password_command: Some("echo x".into()),
            ..LoginArgs::default()
        };
        let mut secrets = Secrets::default();
        let mut user = |url: &str| {
            let shown = secrets.credentials(&url.parse().unwrap(), &login).unwrap();
            shown.user().to_owned()
        };
        assert_eq!(user("smb://anna@h/s"), "anna");
        assert_eq!(user("smb://h/s"), "bert");
    }
}
