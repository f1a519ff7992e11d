//! `longshore completions` and `longshore man`: what shells and `man` want to know of the command line, made from its
//! definition, so that neither says anything else than `--help`.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use super::words;
use crate::cli::Cli;
use crate::failure::Failure;

/// Writes a shell's completions to standard output.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "longshore", &mut text);
    match std::io::stdout().write_all(&text) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(Failure::silent(0)),
        written => written.map_err(|error| Failure::system(format!("cannot write to standard output: {error}"))),
    }
}

/// Writes a man page for each command into a directory.
pub fn man(directory: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::system(format!("cannot write man pages into {}: {error}", words::shown(directory)))
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), directory).map_err(failed)
}
