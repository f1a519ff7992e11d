//! The command line, as clap reads it and shows it in `--help`. It only says what was asked for: the defaults of the
//! configuration live in `config`, the meaning in `plan`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::commands::args::FileCommand;
use crate::config::LogFormat;

/// A network file server for Linux: your directories on Windows, macOS and Linux machines, over SMB 2 and 3,
/// and NFS 3 and 4; and commands for the files of any such server.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve directories until stopped
    Serve(ServeArgs),
    /// Keep the user database
    User(UserArgs),
    /// Say what is wrong with a configuration file
    Check(CheckArgs),
    /// Say what a running server is doing
    Status(StatusArgs),
    /// Show what a running server is doing, anew each second
    Top(TopArgs),
    /// Measure file servers: load one, compare many
    Bench(BenchArgs),
    /// Work on a server's files.
    #[command(flatten)]
    Files(FileCommand),
    /// Write a shell's completions to standard output
    #[command(after_help = "Example: longshore completions bash > /etc/bash_completion.d/longshore")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a directory
    #[command(after_help = "Example: longshore man /usr/local/share/man/man1")]
    Man {
        /// The directory, made if it is not there
        directory: PathBuf,
    },
}

/// `longshore serve`.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Without any user (no --user and nobody in the user database) one named `longshore` is made with a random password, for \
this run only, and the lines to mount the shares with are printed.

Identities: when the process may switch users (as root), whoever logs in has the rights of the system's user of that \
name. The user made for this run, and a --user the system does not know, have those of the owner of each directory \
named on the command line; in a configuration file's shares they, like every user the system does not know, are \
`nobody`, unless the share sets force_user. A server that is not root does everything as the user it runs as.

Signals: INT and TERM stop it cleanly, a second one at once; HUP reads the configuration and the users again without \
dropping a connection; USR1 logs the counters.

Examples:
  longshore serve /srv/media
  longshore serve photos=/srv/media/pictures music=/srv/music --read-only
  longshore serve /srv/team --public --user anna
  longshore serve --config /etc/longshore/longshore.toml")]
pub struct ServeArgs {
    /// Directories to serve. The share is named after the directory, or NAME. (A directory with `=` in its path: write
    /// it with a slash before the `=`, as in ./a=b)
    #[arg(value_name = "DIR | NAME=DIR")]
    pub shares: Vec<String>,

    /// Where to listen for SMB, or `off` [default: 127.0.0.1:4450, this machine only]
    #[arg(long, value_name = "ADDR:PORT|off")]
    pub smb: Option<String>,

    /// Where to listen for NFS, or `off` [default: 127.0.0.1:2049, this machine only, if the port is free]
    #[arg(long, value_name = "ADDR:PORT|off")]
    pub nfs: Option<String>,

    /// Listen for SMB on all addresses, on port 445 where the process may, else on 4450
    #[arg(long, conflicts_with = "smb")]
    pub public: bool,

    /// Let nobody change anything
    #[arg(long)]
    pub read_only: bool,

    /// Let in this user only, for this run. The password is asked for, or taken from --password-file or the variable
    /// LONGSHORE_PASSWORD
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// Read the password of --user from the first line of this file (`-`: standard input)
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,

    /// The user database [default: /etc/longshore/users for root, else ~/.config/longshore/users]
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    pub users: Option<PathBuf>,

    /// The directory of what outlives the server [default: /var/lib/longshore for root, else
    /// $XDG_STATE_HOME/longshore or ~/.local/state/longshore]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// Configuration file; longshore.example.toml documents each key. What the command line says comes first
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Where Prometheus may collect metrics: an address of this machine alone, or a socket in the file system [default: off]
    #[arg(long, value_name = "ADDR:PORT|unix:PATH|off")]
    pub metrics: Option<String>,

    /// Let --metrics be where other machines see them
    #[arg(long)]
    pub metrics_public: bool,

    /// Write logs for people or for machines [default: human]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,

    /// How much to log: error, warn, info, debug or trace, or filters such as `info,smb_server=debug` [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,

    /// Threads that own connections [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub shards: Option<u16>,

    /// Threads for work that may wait for a disk, at most [default: 32, or 4 for each core if that is more]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub workers: Option<u16>,
}

/// Which running server is asked.
#[derive(Debug, Default, Args)]
pub struct ServerArgs {
    /// The state directory of the server [default: /var/lib/longshore for root, else $XDG_STATE_HOME/longshore or
    /// ~/.local/state/longshore]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// The configuration file of the server, which may name that directory
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `longshore status`.
#[derive(Debug, Default, Args)]
pub struct StatusArgs {
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,

    /// Write all that the server tells as JSON: counters and times of each operation too
    #[arg(long)]
    pub json: bool,
}

/// `longshore top`.
#[derive(Debug, Args)]
#[command(
    after_help = "q or Ctrl-C ends it. Where standard output is no terminal, one frame after the other is printed."
)]
pub struct TopArgs {
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,

    /// Seconds from one frame to the next
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub interval: f64,

    /// Print one frame, of so many seconds, and end
    #[arg(long)]
    pub once: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "write a number of seconds, such as 0.5".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("it is from 0.1 to 3600 seconds".into()) }
}

/// `longshore user`.
#[derive(Debug, Args)]
pub struct UserArgs {
    /// The user database [default: /etc/longshore/users for root, else ~/.config/longshore/users]
    #[arg(long, value_name = "FILE", global = true)]
    pub users: Option<PathBuf>,

    /// What to do.
    #[command(subcommand)]
    pub command: UserCommand,
}

/// What can be done to the user database.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Add a user; the database is made if there is none
    Add {
        /// The name to log in with
        name: String,
        /// Act as the system's user of this number instead of the one of the same name
        #[arg(long)]
        uid: Option<u32>,
        /// Where the password is.
        #[command(flatten)]
        password: PasswordArgs,
    },
    /// Remove a user
    Remove {
        /// The user's name
        name: String,
    },
    /// Give a user another password
    Passwd {
        /// The user's name
        name: String,
        /// Where the password is.
        #[command(flatten)]
        password: PasswordArgs,
    },
    /// List the users
    List,
}

/// Where a password comes from. There is no option for the password itself: every user of the machine could read it
/// from the list of processes.
#[derive(Debug, Args)]
pub struct PasswordArgs {
    /// Read the password from the first line of this file (`-`: standard input), instead of asking for it or taking it
    /// from the variable LONGSHORE_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// `longshore check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn serve(arguments: &[&str]) -> Result<ServeArgs, clap::Error> {
        let all = ["longshore", "serve"].into_iter().chain(arguments.iter().copied());
        match Cli::try_parse_from(all)?.command {
            Command::Serve(arguments) => Ok(arguments),
            other => panic!("not serve: {other:?}"),
        }
    }

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_takes_directories_and_settings() {
        let all =
            serve(&["/srv/a", "b=/srv/b", "--smb", "off", "--read-only", "--log-format", "json", "--shards", "3"])
                .unwrap();
        assert_eq!(all.shares, ["/srv/a", "b=/srv/b"]);
        assert_eq!(all.smb.as_deref(), Some("off"));
        assert!(all.read_only && !all.public);
        assert_eq!((all.log_format, all.shards), (Some(LogFormat::Json), Some(3)));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        assert!(serve(&["--public", "--smb", "127.0.0.1:1"]).is_err());
        assert!(serve(&["--user", "anna", "--users", "f"]).is_err());
        assert!(serve(&["--password-file", "f"]).is_err(), "a password of nobody");
        assert!(serve(&["--shards", "0"]).is_err());
    }

    #[test]
    fn top_waits_for_a_time_that_makes_sense() {
        let top = |interval: &str| Cli::try_parse_from(["longshore", "top", "--interval", interval]);
        assert!(top("0.5").is_ok());
        for wrong in ["0", "-1", "nan", "inf", "1e9", "x"] {
            assert!(top(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_option_takes_a_password() {
        for command in [&["serve", "--password", "x"][..], &["user", "add", "anna", "--password", "x"]] {
            let all = ["longshore"].into_iter().chain(command.iter().copied());
            assert!(Cli::try_parse_from(all).is_err(), "{command:?}");
        }
    }

    #[test]
    fn the_database_can_be_named_before_or_after_the_verb() {
        for line in ["longshore user --users f list", "longshore user list --users f"] {
            match Cli::try_parse_from(line.split(' ')).unwrap().command {
                Command::User(user) => assert_eq!(user.users, Some(PathBuf::from("f"))),
                other => panic!("{other:?}"),
            }
        }
    }
}
