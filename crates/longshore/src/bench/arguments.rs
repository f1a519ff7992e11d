//! The command line of `longshore bench`, as clap reads it and shows it in `--help`. It only says what was asked for; what
//! is not given, `matrix` fills in.

use std::path::PathBuf;

use bench::plan::MAX_FILES;
use clap::{Args, Subcommand};
use serde::Deserialize;

use super::bare::How;
use super::words::{By, Rw, Size, Threshold, Time};
use crate::commands::args::LoginArgs;

/// `longshore bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Load one server, and say how fast it was
    Run(Box<RunArgs>),
    /// Compare servers: by how much is which faster, and how sure is that
    Compare(Box<CompareArgs>),
    /// Draw a comparison again
    Report(ReportArgs),
    /// What this machine can do: bare loops over the same sockets and files
    Limit(LimitArgs),
    /// Compare the file servers that are installed here with ours: they are started, and stopped afterwards
    Peers(Box<PeersArgs>),
    /// Find from which size on our server should move pages instead of copying
    Threshold(Box<ThresholdArgs>),
    /// Many clients at once: whether each gets its share, and what an idle one costs
    Crowd(Box<CrowdArgs>),
    /// The bare loop's server, as the others start it
    #[command(hide = true)]
    BareServer(BareServerArgs),
}

/// One workload, in fio's words.
#[derive(Debug, Clone, Args)]
pub struct LoadArgs {
    /// What to do: read, write, randread, randwrite, rw or randrw; or, with many files by their names, fileread, filecreate,
    /// filestat, filelist or filedelete
    #[arg(long, value_name = "WHAT", default_value = "read")]
    pub rw: Rw,

    /// Files of each job, where it works on many
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_FILES)))]
    pub nrfiles: u32,

    /// Reads among a hundred operations of rw and randrw
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub rwmixread: u8,

    /// Bytes of a request
    #[arg(long, value_name = "SIZE", default_value = "64k")]
    pub bs: Size,

    /// Jobs: each has a file and connections of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub numjobs: u32,

    /// Connections of each job
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub connections: u32,

    /// Requests each job keeps in flight
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub iodepth: u32,

    /// Bytes of each job's file
    #[arg(long, value_name = "SIZE", default_value = "256m")]
    pub size: Size,

    /// How long it is measured
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub runtime: Time,

    /// How long it runs before it is measured
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub ramp_time: Time,

    /// Random offsets come from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What becomes of the files, and who connects.
#[derive(Debug, Default, Clone, Args)]
pub struct AccessArgs {
    /// Leave the files (longshore-bench.0 and so on) where they are, for the next time
    #[arg(long)]
    pub keep_files: bool,

    /// Who connects, and how.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// `longshore bench run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each job makes a file (longshore-bench.0 and so on) in the directory of the URL, keeps its requests in flight for the \
ramp and the run, and counts what completes in the run. The client's CPU time is that of the threads that make the load; \
the server's is known where it runs on this machine. Over NFS a WRITE is unstable and the client commits as it goes, which \
is part of what is measured.

What works on many files has a directory for each job, with --nrfiles files of --bs bytes, and opens, asks and removes by \
name: fileread opens a file, reads all of it and closes it; filestat asks what it is like; both go to files at random. \
filelist lists the directory with attributes, and an operation is an entry. filecreate makes empty files and filedelete \
removes such; each ends when there are none left, and what is measured ends with it. Such a call is one round trip where the \
protocol can do it in one (SMB, NFSv4); NFSv3 looks each name on the way up first.

Examples:
  longshore bench run smb://anna@server/docs --bs 1m
  longshore bench run smb://anna@server/docs --rw fileread --bs 4k --nrfiles 10000
  longshore bench run smb://anna@server/docs --rw randrw --rwmixread 70 --bs 4k --numjobs 4 --iodepth 32
  longshore bench run smb://anna@one/docs smb://anna@other/docs --json")]
pub struct RunArgs {
    /// Where: smb://user@host:port/share/path or nfs://host:port/export/path
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,

    /// The workload.
    #[command(flatten)]
    pub load: LoadArgs,

    /// The server's process on this machine, where its port does not tell it
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<i32>,

    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,

    /// Who connects.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// What is compared and how, on the command line or in a file. What is missing has a default.
#[derive(Debug, Default, Clone, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MatrixArgs {
    /// A matrix that is known by a name, for what is not said otherwise. field: read,write,rw (half reads) with 4k,64k,1m
    /// over 1,2,4 connections, 32 in flight on each, files of 256m, 8 blocks of runs of 500ms after a ramp of 200ms
    #[arg(long, value_name = "NAME")]
    pub matrix: Option<Known>,

    /// What the comparison is about, in a line
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,

    /// The target that the others are compared to [default: the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,

    /// What to do: any of read, write, randread, randwrite, rw, randrw, fileread, filecreate, filestat, filelist, filedelete
    /// [default: read,write]
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',')]
    pub rw: Vec<Rw>,

    /// Bytes of a request [default: 4k,64k,1m]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    pub bs: Vec<Size>,

    /// Connections at the same time, each with a file of its own [default: 1]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub connections: Vec<u32>,

    /// Requests each connection keeps in flight [default: 16]
    #[arg(long, value_name = "N")]
    pub iodepth: Option<u32>,

    /// Reads among a hundred operations of rw and randrw [default: 50]
    #[arg(long, value_name = "PERCENT")]
    pub rwmixread: Option<u8>,

    /// Files of each connection, where an operation works on many [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_FILES)))]
    pub nrfiles: Option<u32>,

    /// Bytes of each file [default: 64m]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,

    /// How often everything is repeated [default: 8]
    #[arg(long, value_name = "N")]
    pub blocks: Option<u32>,

    /// Take fewer blocks where that many would take longer than this, by the estimate
    #[arg(long, value_name = "TIME")]
    pub within: Option<Time>,

    /// The shuffled orders, offsets and intervals come from it [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// What makes a difference, in percent: better above, worse below, equivalent within [default: 5]
    #[arg(long, value_name = "PERCENT")]
    pub margin: Option<f64>,

    /// How long each run is measured [default: 2s]
    #[arg(long, value_name = "TIME")]
    pub runtime: Option<Time>,

    /// How long each run goes on before it is measured [default: 500ms]
    #[arg(long, value_name = "TIME")]
    #[serde(alias = "ramp_time")]
    pub ramp: Option<Time>,

    /// What is compared: any of throughput, mean, p50, p99, p99.9, client-cpu, server-cpu [default: throughput, and
    /// server-cpu where it is known]
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',')]
    pub measure: Vec<By>,
}

/// A matrix with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Known {
    /// The 27 cells that studies of file servers have agreed on.
    Field,
}

/// Where a comparison's results go.
#[derive(Debug, Default, Clone, Args)]
pub struct OutArgs {
    /// Write report.json, with every observation, and report.html into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
}

/// `longshore bench compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Everything is declared before anything is measured. In each block every cell (target, operation, block size, \
connections) is run once, in an order shuffled by the seed; a cell's gain is its ratio to the baseline's in the same \
block. Over the blocks: the geometric mean, a 95 % interval by resampling whole blocks, a sign-flip p-value corrected \
for all comparisons declared, and a verdict from the margin. With fewer than 6 blocks there is no verdict.

How long it will take is said before it begins, by an estimate.

A run that fails is kept with its reason, is marked in every output, and makes the exit code 1. A target that cannot be \
reached at the start is not tried again.

The same in a file (--file): the keys are those of the options, and a section for each target.
  baseline = \"samba\"
  bs = [\"4k\", \"1m\"]
  blocks = 12
  [[target]]
  name = \"longshore\"
  url = \"smb://anna@127.0.0.1:4450/docs\"
  password_file = \"secret\"
  [[target]]
  name = \"samba\"
  url = \"smb://anna@127.0.0.1:4455/docs\"

Example:
  longshore bench compare --target ours=smb://anna@here/docs --target theirs=smb://anna@there/docs \\
    --baseline theirs --rw read,write,rw --bs 4k,64k,1m --connections 1,4 --blocks 12 --out results")]
pub struct CompareArgs {
    /// A server under the name the report has for it; to be given for each
    #[arg(long = "target", value_name = "NAME=URL")]
    pub targets: Vec<String>,

    /// Read targets and matrix from this TOML file; what the command line says comes first
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Run the bare loop on this directory too, as the target `limit`, and show all rates as a part of its
    #[arg(long, value_name = "DIR")]
    pub limit: Option<PathBuf>,

    /// What is compared.
    #[command(flatten)]
    pub matrix: MatrixArgs,

    /// Where the results go.
    #[command(flatten)]
    pub out: OutArgs,

    /// Who connects.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `longshore bench report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The report.json of a comparison
    #[arg(value_name = "FILE.json")]
    pub file: PathBuf,

    /// Where the results go.
    #[command(flatten)]
    pub out: OutArgs,
}

/// `longshore bench limit`.
#[derive(Debug, Args)]
#[command(after_help = "\
The bare loop is a server that parses nothing but a length: it receives, reads or writes the file, and sends all answers \
that are ready at once; or it splices pages behind each header. Server and client are processes of their own, as a file \
server and its client are. What a file server reaches of its rate is what its protocol leaves of the machine.

Example:
  longshore bench limit /srv/docs --bs 4k --iodepth 16")]
pub struct LimitArgs {
    /// The directory for the files
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// How READs leave: copy, splice, or best (splice from 64 KiB up)
    #[arg(long, value_name = "HOW", value_delimiter = ',', default_values = ["copy", "splice"])]
    pub how: Vec<How>,

    /// The workload.
    #[command(flatten)]
    pub load: LoadArgs,

    /// Leave the files where they are
    #[arg(long)]
    pub keep_files: bool,

    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `longshore bench peers`.
#[derive(Debug, Args)]
#[command(after_help = "\
Samba (with sendfile, and with io_uring where that module is installed) or NFS-Ganesha is started on loopback beside our \
server, all on one directory, each with settings that are printed and kept in the report, all with the system's \
congestion control. So are the kernel's servers, by root and where their modules are loaded: ksmbd through ksmbd-tools, knfsd \
through /proc/fs/nfsd and an rpc.mountd of its own. There is one of each for the whole machine: one that serves somebody \
already is left alone, and can be named with --target. Nothing of theirs in /etc or /var is read or written, and what was \
set is put back. The crate smb-server takes part where conformance/peers/smb-server is built. Chimera takes part where --chimera names \
its program, once with plain system calls and once with io_uring: over NFS it must be version 4. Who is not available is told of with the reason. Every process that was started is stopped by its number, \
on Ctrl-C and on errors too.

Examples:
  longshore bench peers --dir /srv/bench --matrix field --within 20m --out results
  longshore bench peers --dir /srv/bench --matrix field --within 20m --protocol nfs --nfs-version 3 --out results
  longshore bench peers --peers peers --bs 4k --rw read --blocks 12")]
pub struct PeersArgs {
    /// The directory all serve: the programs are looked for in PATH
    #[arg(long = "dir", value_name = "DIR", required_unless_present = "peers", conflicts_with = "peers")]
    pub directory: Option<PathBuf>,

    /// The programs are in DIR/sid, started with chroot, and all serve DIR/exp, as conformance/peers/peers lays it out
    #[arg(long, value_name = "DIR")]
    pub peers: Option<PathBuf>,

    /// What to speak with them: smb or nfs
    #[arg(long, value_name = "PROTOCOL", default_value = "smb")]
    pub protocol: Spoken,

    /// The version of NFS: 3, 4.0, 4.1 or 4.2
    #[arg(long, value_name = "VERSION", default_value = "4.2", value_parser = ["3", "4.0", "4.1", "4.2"])]
    pub nfs_version: String,

    /// Run our server once more with the congestion control it chooses by itself, as the target longshore-own-cc
    #[arg(long)]
    pub own_congestion: bool,

    /// Start chimera too, from this program (of DIR/sid, with --peers): it listens on every address of the machine, and
    /// cannot be told otherwise
    #[arg(long, value_name = "PROGRAM")]
    pub chimera: Option<PathBuf>,

    /// Start none of the others but these
    #[arg(long, value_name = "NAME,...", value_delimiter = ',',
        value_parser = ["samba", "ksmbd", "smb-server", "ganesha", "knfsd", "chimera", "chimera-uring"])]
    pub only: Vec<String>,

    /// Another server, which runs already
    #[arg(long = "target", value_name = "NAME=URL")]
    pub targets: Vec<String>,

    /// Do not run the bare loop beside them
    #[arg(long)]
    pub without_limit: bool,

    /// Listen on ports from this one on [default: any that are free]
    #[arg(long, value_name = "PORT")]
    pub first_port: Option<u16>,

    /// What is compared.
    #[command(flatten)]
    pub matrix: MatrixArgs,

    /// Where the results go.
    #[command(flatten)]
    pub out: OutArgs,

    /// Who connects.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// What is spoken with peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Spoken {
    /// SMB.
    Smb,
    /// NFS.
    Nfs,
}

impl std::fmt::Display for Spoken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Smb => "SMB",
            Self::Nfs => "NFS",
        })
    }
}

/// `longshore bench threshold`.
#[derive(Debug, Args)]
#[command(after_help = "\
Our server is started once for each threshold, and each block runs every request size against every one. After each run \
the server's own counters say by which path its READs went; a run that took another path than its threshold says does \
not count and fails the sweep. Then, for each size: how many times faster, and with how much less CPU time, the pages \
were moved than copied in the same block.

The recommendation is the least size from which on moving is never worse than the margin, in rate and in CPU time, by \
the whole interval, and better in one of them at that size; or `off` where it is worse. Where the intervals are too wide \
to say so, nothing is recommended.

Example:
  longshore bench threshold /srv/bench --blocks 12 --connections 1 --out results")]
pub struct ThresholdArgs {
    /// The directory to serve: on the file system whose threshold is asked for
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Thresholds to try: sizes or `off`
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_values = ["off", "4k", "16k", "64k", "256k", "1m"])]
    pub thresholds: Vec<Threshold>,

    /// Listen on ports from this one on [default: any that are free]
    #[arg(long, value_name = "PORT")]
    pub first_port: Option<u16>,

    /// What is compared. `rw` is read or randread here.
    #[command(flatten)]
    pub matrix: MatrixArgs,

    /// Where the results go.
    #[command(flatten)]
    pub out: OutArgs,

    /// Who connects.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `longshore bench crowd`.
#[derive(Debug, Args)]
#[command(after_help = "\
First the idle clients connect, log in and enter the share, each over a connection of its own, and the server's memory is \
looked at before and after, where it runs on this machine. Then the busy ones keep their requests in flight; each has a \
file of its own and is timed by itself. The slow ones read 1 MiB at a time with 16 in flight and take no more from the \
socket than --slow-rate. The share is even when the slowest client's p99 is near the median client's.

Example:
  longshore bench crowd smb://anna@server/docs --idle 1000 --busy 62 --slow 2 --bs 4k --iodepth 4")]
pub struct CrowdArgs {
    /// Where: smb://user@host:port/share/path or nfs://host:port/export/path
    #[arg(value_name = "URL")]
    pub url: String,

    /// Clients that connect and then ask for nothing
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub idle: u32,

    /// Clients that keep requests in flight
    #[arg(long, value_name = "N", default_value_t = 62, value_parser = clap::value_parser!(u32).range(..=4096))]
    pub busy: u32,

    /// Clients that ask for much and read it slowly
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(..=256))]
    pub slow: u32,

    /// Bytes that a slow client takes in a second
    #[arg(long, value_name = "SIZE", default_value = "2m")]
    pub slow_rate: Size,

    /// Clients that keep 32 times as many requests in flight; they are not among those compared
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=256))]
    pub greedy: u32,

    /// What the busy do: read, write, randread, randwrite, rw or randrw
    #[arg(long, value_name = "WHAT", default_value = "randread")]
    pub rw: Rw,

    /// Bytes of a request
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    pub bs: Size,

    /// Requests each busy client keeps in flight
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub iodepth: u32,

    /// Bytes of each busy client's file
    #[arg(long, value_name = "SIZE", default_value = "4m")]
    pub size: Size,

    /// How long it is measured
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub runtime: Time,

    /// How long it runs before it is measured
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub ramp_time: Time,

    /// Random offsets come from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// The server's process on this machine, where its port does not tell it
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<i32>,

    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,

    /// Who connects.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `longshore bench bare-server`.
#[derive(Debug, Args)]
pub struct BareServerArgs {
    /// The directory whose files of loads are served
    pub directory: PathBuf,
    /// How READs leave
    pub how: How,
}
