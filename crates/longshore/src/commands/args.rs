//! The command lines of the commands that work on a server's files, as clap reads them and shows them in `--help`. It only
//! says what was asked for; what it means is in the room of each command.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Said below the help of every command of this module.
const AFTER: &str = "\
URLs: smb://[DOMAIN;][USER@]HOST[:PORT]/SHARE[/PATH] or nfs://HOST[:PORT]/EXPORT[/PATH][?version=3|4.0|4.1|4.2]. A \
character that means something in a URL or to the shell is \
written %XX: a space %20, `?` %3F, `#` %23, `%` %25. Nothing is a pattern: `*` is a character like any other. Quote a \
URL that has a `;`, `&` or `?` in it. No URL holds a password.

Passwords: from the first line of --password-file, or of what --password-command says; else from the variable \
LONGSHORE_PASSWORD; else they are asked for, on a terminal.

Exit codes: 0 all is done, 1 something failed (each failure is a line on standard error), 2 the command line is wrong, \
3 no connection or no login, 130 interrupted.";

/// Said below the help of `get` and `put`.
const AFTER_TRANSFER: &str = "\
Where it goes: as with cp. A destination that is a directory, or ends in a slash, gets what is copied inside, under its \
own name; any other is the name of the copy (-T: always). Ending it in a slash makes a run repeatable.

Unfinished files: a copy is written beside its place as .NAME.TAG.part, where TAG stands for the length and time of the \
source, and gets its name when its length is verified. An interrupted or failed copy leaves that file; --resume goes on \
from its end (the last MiB is compared first), and takes for done what has the same length and time already.

Names: a server's names never lead out of the destination, and links that stand in the way are not followed.";

/// The commands for files on a server.
#[derive(Debug, Subcommand)]
pub enum FileCommand {
    /// List directories on a server
    Ls(LsArgs),
    /// Say what a server knows about a file
    Stat(StatArgs),
    /// Write files of a server to standard output
    Cat(CatArgs),
    /// Copy files from a server
    Get(GetArgs),
    /// Copy files to a server
    Put(PutArgs),
    /// Copy files on a server or between servers
    Cp(CpArgs),
    /// Remove files on a server
    Rm(RmArgs),
    /// Make directories on a server
    Mkdir(MkdirArgs),
    /// Rename a file on a server, or move it within its share
    Mv(MvArgs),
}

/// Who connects, and how.
#[derive(Debug, Default, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct LoginArgs {
    /// Log in as this user, where the URL names none [default: the login name]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// The user's domain, where the URL names none
    #[arg(long, value_name = "DOMAIN")]
    pub domain: Option<String>,

    /// Read the password from the first line of this file (`-`: standard input)
    #[arg(long, value_name = "FILE", conflicts_with = "password_command", value_hint = ValueHint::FilePath)]
    pub password_file: Option<PathBuf>,

    /// Run this with the shell; the first line it says is the password, such as `secret-tool lookup server nas`
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub password_command: Option<String>,

    /// Log in as nobody, where the server admits that
    #[arg(long, conflicts_with_all = ["user", "password_file", "password_command"])]
    pub anonymous: bool,

    /// Have every message encrypted, or do not connect
    #[arg(long)]
    pub encrypt: bool,

    /// Have every message signed
    #[arg(long)]
    pub sign: bool,

    /// Be the user of this number to an NFS server [default: the process's]
    #[arg(long, value_name = "UID")]
    pub uid: Option<u32>,

    /// Be in the group of this number to an NFS server [default: the process's]
    #[arg(long, value_name = "GID")]
    pub gid: Option<u32>,

    /// Give up on a server that is silent for so long, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    pub timeout: u16,
}

/// `longshore ls`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct LsArgs {
    /// Directories or files
    #[arg(value_name = "URL", required = true, value_hint = ValueHint::Url)]
    pub urls: Vec<String>,

    /// Show kind, size and time, too. The letters after the kind: read-only, hidden, system, archive
    #[arg(short, long)]
    pub long: bool,

    /// List what is in the directories found, too
    #[arg(short = 'R', long)]
    pub recursive: bool,

    /// Show hidden names, too
    #[arg(short, long)]
    pub all: bool,

    /// Write a JSON object for each name, one a line
    #[arg(long)]
    pub json: bool,

    /// Who connects, and how.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// `longshore stat`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct StatArgs {
    /// Files or directories
    #[arg(value_name = "URL", required = true, value_hint = ValueHint::Url)]
    pub urls: Vec<String>,

    /// Write a JSON object for each, one a line
    #[arg(long)]
    pub json: bool,

    /// Who connects, and how.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// `longshore cat`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct CatArgs {
    /// Files
    #[arg(value_name = "URL", required = true, value_hint = ValueHint::Url)]
    pub urls: Vec<String>,

    /// Begin so many bytes into each file
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub offset: u64,

    /// Write so many bytes of each file at most
    #[arg(long, value_name = "BYTES")]
    pub count: Option<u64>,

    /// Who connects, and how.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// What `get` and `put` have in common.
#[derive(Debug, Clone, Args)]
pub struct TransferArgs {
    /// Copy directories with what is in them
    #[arg(short, long)]
    pub recursive: bool,

    /// Copy so many files at the same time; a small one counts an eighth
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,

    /// Go on where an earlier run was interrupted
    #[arg(long)]
    pub resume: bool,

    /// Keep the mode, too, or of a server without modes whether a file is read-only. Times are kept anyway
    #[arg(short, long)]
    pub preserve: bool,

    /// Do not keep the times
    #[arg(long, conflicts_with = "preserve")]
    pub no_times: bool,

    /// Make links of symbolic links; without this they are left out, with a warning
    #[arg(long)]
    pub links: bool,

    /// Read each copy back and compare its SHA-256 with the source's
    #[arg(long)]
    pub checksum: bool,

    /// Have each copy on stable storage before it gets its name
    #[arg(long)]
    pub sync: bool,

    /// The destination is the copy itself, even where a directory of that name is
    #[arg(short = 'T', long)]
    pub no_target_directory: bool,

    /// Write a JSON object for each file and one for all, one a line
    #[arg(long)]
    pub json: bool,

    /// Show no progress and no summary
    #[arg(short, long)]
    pub quiet: bool,
}

/// `longshore get`.
#[derive(Debug, Args)]
#[command(override_usage = "longshore get [OPTIONS] <URL>... [LOCAL]")]
#[command(after_help = AFTER, after_long_help = format!("{AFTER_TRANSFER}\n\n{AFTER}"))]
pub struct GetArgs {
    /// What to copy, and last, where to: a name on this machine [default: the current directory]
    #[arg(value_name = "URL | LOCAL", required = true, value_hint = ValueHint::AnyPath)]
    pub places: Vec<String>,

    /// What is zero for 64 KiB or more is left a hole in the file
    #[arg(long)]
    pub sparse: bool,

    /// How to copy.
    #[command(flatten)]
    pub transfer: TransferArgs,

    /// Who connects, and how.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// `longshore put`.
#[derive(Debug, Args)]
#[command(override_usage = "longshore put [OPTIONS] <LOCAL>... <URL>")]
#[command(after_help = AFTER, after_long_help = format!("{AFTER_TRANSFER}\n\n{AFTER}"))]
pub struct PutArgs {
    /// What to copy, and last, where to: a URL
    #[arg(value_name = "LOCAL | URL", required = true, num_args = 2.., value_hint = ValueHint::AnyPath)]
    pub places: Vec<String>,

    /// How to copy.
    #[command(flatten)]
    pub transfer: TransferArgs,

    /// Who connects, and how.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// `longshore cp`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct CpArgs {
    /// What to copy
    #[arg(value_hint = ValueHint::Url)]
    pub from: String,

    /// Where to: a directory that is there, or the name of the copy
    #[arg(value_hint = ValueHint::Url)]
    pub to: String,

    /// Copy directories with what is in them
    #[arg(short, long)]
    pub recursive: bool,

    /// Who connects, and how.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// `longshore rm`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct RmArgs {
    /// What to remove. A symbolic link is removed, not what it leads to
    #[arg(value_name = "URL", required = true, value_hint = ValueHint::Url)]
    pub urls: Vec<String>,

    /// Remove directories with what is in them
    #[arg(short, long)]
    pub recursive: bool,

    /// What is not there is no failure
    #[arg(short, long)]
    pub force: bool,

    /// Who connects, and how.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// `longshore mkdir`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct MkdirArgs {
    /// The directories to make
    #[arg(value_name = "URL", required = true, value_hint = ValueHint::Url)]
    pub urls: Vec<String>,

    /// Make the directories on the way, too; one that is there is no failure
    #[arg(short, long)]
    pub parents: bool,

    /// Who connects, and how.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// `longshore mv`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct MvArgs {
    /// What to rename
    #[arg(value_hint = ValueHint::Url)]
    pub from: String,

    /// Its new place on the same share: a directory that is there, or the new name
    #[arg(value_hint = ValueHint::Url)]
    pub to: String,

    /// Replace no file
    #[arg(short, long)]
    pub no_clobber: bool,

    /// Who connects, and how.
    #[command(flatten)]
    pub login: LoginArgs,
}
