//! The commands that work on the files of a server, over the client library: `longshore ls`, `stat`, `cat`, `get`, `put`,
//! `cp`, `rm`, `mkdir` and `mv`. `main` calls [`run`]. Here is what all have in common: one runtime, Ctrl-C, and what the
//! command ends with. No protocol is known here; what a server says is not trusted.

pub mod args;
mod budget;
mod cat;
mod change;
pub mod connect;
mod copy;
mod list;
pub mod manual;
mod report;
pub mod secrets;
mod trail;
mod transfer;
mod words;

use args::{FileCommand, LoginArgs};
use connect::{Place, Plan};
use report::Report;

use crate::failure::Failure;

/// Threads for local files: enough to keep a disk busy, few enough to keep out of the connection's way.
const BLOCKING_THREADS: usize = 16;

/// Does what the command line says.
pub fn run(command: &FileCommand) -> Result<(), Failure> {
    match command {
        FileCommand::Ls(args) => list::ls(args),
        FileCommand::Stat(args) => list::stat(args),
        FileCommand::Cat(args) => cat::cat(args),
        FileCommand::Get(args) => transfer::get(args),
        FileCommand::Put(args) => transfer::put(args),
        FileCommand::Cp(args) => copy::cp(args),
        FileCommand::Rm(args) => change::rm(args),
        FileCommand::Mkdir(args) => change::mkdir(args),
        FileCommand::Mv(args) => change::mv(args),
    }
}

/// Connects to what the URLs name and does `work` there, until it is done or somebody presses Ctrl-C. What was written is
/// where it was then; `work` is simply not gone on with.
fn on_servers<W>(urls: &[String], login: &LoginArgs, report: &Report, work: W) -> Result<(), Failure>
where
    W: AsyncFnOnce(Vec<Place>) -> Result<(), Failure>,
{
    let plan = Plan::new(urls, login)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(|error| Failure::system(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = async { work(plan.connect().await?).await } => outcome,
            pressed = tokio::signal::ctrl_c() => Err(interrupted(pressed.err())),
        }
    });
    // A thread may hang in a pipe that nobody reads or a disk that does not answer.
    runtime.shutdown_background();
    report.bar().finish_and_clear();
    outcome.and_then(|()| report.outcome())
}

fn interrupted(error: Option<std::io::Error>) -> Failure {
    match error {
        None => Failure::interrupted("interrupted"),
        Some(error) => Failure::system(format!("cannot wait for signals: {error}")),
    }
}
