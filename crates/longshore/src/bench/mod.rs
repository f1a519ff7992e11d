//! `longshore bench`: loads on servers, measured so that the answer can be trusted. The crate `bench` declares, computes and
//! draws; here the plan is carried out, with sockets, clocks and processes. `main` calls [`run`].

mod arguments;
mod bare;
mod command;
mod compare;
mod contest;
mod cpu;
mod crowd;
mod facts;
mod ground;
mod job;
mod load;
mod login;
mod matrix;
mod names;
mod ours;
mod peers;
mod place;
mod process;
mod results;
mod signals;
mod threshold;
mod tree;
mod wire;
mod words;

pub use arguments::BenchArgs;

use arguments::BenchCommand;

use crate::failure::Failure;

/// Does what the command line says.
pub fn run(arguments: &BenchArgs) -> Result<(), Failure> {
    match &arguments.command {
        BenchCommand::Run(arguments) => command::run(arguments),
        BenchCommand::Compare(arguments) => compare::compare(arguments),
        BenchCommand::Report(arguments) => results::redraw(arguments),
        BenchCommand::Limit(arguments) => command::limit(arguments),
        BenchCommand::Peers(arguments) => peers::compare(arguments),
        BenchCommand::Threshold(arguments) => threshold::sweep(arguments),
        BenchCommand::Crowd(arguments) => crowd::run(arguments),
        BenchCommand::BareServer(arguments) => bare::serve(&arguments.directory, arguments.how),
    }
}
