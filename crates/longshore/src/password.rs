//! Where passwords come from: a file, the environment, a prompt, or chance. Never the command line, which every user of
//! the machine can read. Nothing here is logged, and what is held is wiped.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use zeroize::Zeroizing;

use crate::failure::Failure;

/// The variable a password is taken from.
pub const VARIABLE: &str = "LONGSHORE_PASSWORD";
/// A bound on what a wrong path can make us read.
const MAX_BYTES: u64 = 4096;
/// Letters and digits nobody mistakes for one another: 32, so that each is worth 5 bits.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// The password of `user`: from `file` if there is one, else from the environment, else asked for twice.
pub fn obtain(user: &str, file: Option<&Path>) -> Result<Zeroizing<String>, Failure> {
    let password = match file {
        Some(path) => from_file(path)?,
        None => match from_environment()? {
            Some(password) => password,
            None => asked(user)?,
        },
    };
    if password.is_empty() {
        return Err(Failure::usage(format!("the password of {user} is empty; choose another")));
    }
    Ok(password)
}

/// What the variable holds, where it is set. Empty it is no password: it was not filled in.
pub fn from_environment() -> Result<Option<Zeroizing<String>>, Failure> {
    match std::env::var(VARIABLE).map(Zeroizing::new) {
        Ok(password) if password.is_empty() => {
            Err(Failure::usage(format!("{VARIABLE} is set and empty; give it a password, or unset it")))
        }
        Ok(password) => Ok(Some(password)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(_) => Err(Failure::usage(format!("what is in {VARIABLE} is not UTF-8"))),
    }
}

/// The first line of a file, or of standard input for `-`. An empty one is no password, but a file that was not filled.
pub fn from_file(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let failed = |error: io::Error| {
        Failure::usage(format!("cannot read the password from {}: {error}; check --password-file", path.display()))
    };
    let input: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).map_err(failed)?),
    };
    let mut line = Zeroizing::new(String::new());
    BufReader::new(input.take(MAX_BYTES)).read_line(&mut line).map_err(failed)?;
    let len = line.trim_end_matches(['\r', '\n']).len();
    line.truncate(len);
    if line.is_empty() {
        let path = path.display();
        return Err(Failure::usage(format!("the password in {path} is empty: its first line holds none")));
    }
    Ok(line)
}

fn asked(user: &str) -> Result<Zeroizing<String>, Failure> {
    let password = ask(user, format!("Password for {user}: "))?;
    match *ask(user, "The same again: ".to_owned())? == *password {
        true => Ok(password),
        false => Err(Failure::usage("the two passwords differ; nothing was done")),
    }
}

fn ask(user: &str, prompt: String) -> Result<Zeroizing<String>, Failure> {
    rpassword::prompt_password(prompt).map(Zeroizing::new).map_err(|error| {
        Failure::usage(format!(
            "cannot ask for the password of {user} ({error}); give it with --password-file FILE or in {VARIABLE}"
        ))
    })
}

/// A password of 100 bits that can be read out and typed.
pub fn random() -> Result<Zeroizing<String>, Failure> {
    let mut bytes = Zeroizing::new([0u8; 20]);
    getrandom::fill(bytes.as_mut()).map_err(|error| Failure::system(format!("no randomness: {error}")))?;
    let mut password = Zeroizing::new(String::with_capacity(23));
    for (at, byte) in bytes.iter().enumerate() {
        if at > 0 && at % 5 == 0 {
            password.push('-');
        }
        password.push(char::from(LETTERS[usize::from(byte & 31)]));
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_passwords_are_long_plain_and_never_the_same() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert_ne!(one, other);
        let groups: Vec<_> = one.split('-').collect();
        assert!(groups.len() == 4 && groups.iter().all(|g| g.len() == 5), "{groups:?}");
        assert!(one.bytes().all(|b| b == b'-' || LETTERS.contains(&b)));
    }

    #[test]
    fn a_file_gives_its_first_line_without_the_line_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p");
        for (content, password) in [("se cret\n", "se cret"), ("x\r\nmore\n", "x"), ("no end", "no end")] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(*obtain("anna", Some(&path)).unwrap(), password);
        }
        for empty in ["", "\n", "\r\n", "\nbehind it\n"] {
            std::fs::write(&path, empty).unwrap();
            let failure = from_file(&path).unwrap_err();
            assert!(failure.code() == 2 && failure.lines().any(|line| line.contains("empty")), "{failure:?}");
        }
        assert_eq!(obtain("anna", Some(&directory.path().join("none"))).unwrap_err().code(), 2);
    }
}
