//! The commands for a server's files as a person or a script meets them: the built binary against the built binary. What
//! they do to the files, what they say, and what they end with.

mod util;

#[path = "commands/changes.rs"]
mod changes;
#[path = "commands/listings.rs"]
mod listings;
#[path = "commands/logins.rs"]
mod logins;
#[path = "commands/transfers.rs"]
mod transfers;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use util::{Server, home_with_share, longshore, serve};

const PASSWORD: &str = "correct horse";

/// A server of one directory, `docs`, for the user `anna`; and a directory beside it to work in.
struct Scene {
    home: TempDir,
    docs: PathBuf,
    server: Server,
}

impl Scene {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(more: &[&str]) -> Self {
        let (home, docs) = home_with_share();
        Self::serving(home, docs.clone(), &[&[docs.as_str()], more].concat())
    }

    /// The same over NFS, too, for whoever runs this: only root has the ports that calls must come from otherwise.
    fn with_nfs() -> Self {
        let (home, docs) = home_with_share();
        let settings = home.path().join("settings.toml").display().to_string();
        std::fs::write(&settings, format!("[share.docs]\npath = {docs:?}\nnfs_privileged_port = false\n")).unwrap();
        let state = home.path().join("state").display().to_string();
        Self::serving(home, docs, &["--nfs", "127.0.0.1:0", "--config", &settings, "--state", &state])
    }

    fn serving(home: TempDir, docs: String, more: &[&str]) -> Self {
        let mut command = serve(home.path(), &[&["--user", "anna"], more].concat());
        command.env("LONGSHORE_PASSWORD", PASSWORD);
        let server = Server::start(command);
        std::fs::create_dir(home.path().join("here")).unwrap();
        Self { home, docs: docs.into(), server }
    }

    /// A file of the server, with what is in it.
    fn file(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        write(&self.docs.join(path), content)
    }

    /// The directory the commands work in.
    fn here(&self) -> PathBuf {
        self.home.path().join("here")
    }

    fn url(&self, path: &str) -> String {
        format!("smb://anna@{}/docs/{path}", self.server.address)
    }

    /// A command that knows the password. What begins with `@` is a path on the server.
    fn command(&self, arguments: &[&str]) -> Command {
        let arguments: Vec<String> = arguments
            .iter()
            .map(|argument| argument.strip_prefix('@').map_or_else(|| (*argument).to_owned(), |path| self.url(path)))
            .collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = longshore(self.home.path(), &arguments);
        command.env("LONGSHORE_PASSWORD", PASSWORD).current_dir(self.here());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a command says on standard output that goes well and complains of nothing.
    fn well(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{arguments:?}");
        text(&output.stdout)
    }

    /// What a command says on standard error that ends with `code`.
    fn ill(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        said
    }
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
    path.to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + i / 65_537) as u8).collect()
}

/// The names in a directory, hidden ones too.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
