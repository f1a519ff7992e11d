//! The `longshore` command: reads the command line, does what it says, and turns what went wrong into one line and an
//! exit code: 2 for a mistake in the command line or the configuration, 3 when a server was not reached, 130 when somebody
//! pressed Ctrl-C, 1 for everything else. No protocol is known here; `assembly` joins the crates that know them.
#![forbid(unsafe_code)]

mod accounts;
mod assembly;
mod bench;
mod cli;
mod commands;
mod config;
mod dial;
mod drive;
mod failure;
mod hints;
mod identities;
mod interfaces;
mod keytab;
mod listen;
mod logging;
mod monitor;
mod nfs;
mod password;
mod plan;
mod portmapper;
mod rpcbind;
mod serve;
mod state;
mod status;
mod udp;
mod user_command;
mod volumes;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody may be listening any more; the exit code still tells.
            let mut out = std::io::stderr().lock();
            failure.lines().for_each(|line| drop(writeln!(out, "longshore: {line}")));
            ExitCode::from(failure.code())
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::User(arguments) => user_command::run(&arguments),
        Command::Check(arguments) => plan::check(&arguments),
        Command::Status(arguments) => monitor::status(&arguments),
        Command::Top(arguments) => monitor::top(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Files(command) => commands::run(&command),
        Command::Completions { shell } => commands::manual::completions(shell),
        Command::Man { directory } => commands::manual::man(&directory),
    }
}
