//! `longshore bench compare`: finds the targets, declares the plan, has it carried out, and shows the report.

use std::path::Path;
use std::sync::Arc;

use bench::plan::{Plan, Target};

use super::arguments::{AccessArgs, CompareArgs, MatrixArgs, OutArgs};
use super::bare::{Bare, How};
use super::contest::{Contest, Trusting, problem};
use super::load::Stop;
use super::login::Logins;
use super::matrix::{Named, in_words, read_file};
use super::place::Place;
use super::{results, signals};
use crate::failure::Failure;

/// The target that is the bare loop.
pub const LIMIT: &str = "limit";

/// Does it.
pub fn compare(arguments: &CompareArgs) -> Result<(), Failure> {
    let stop = signals::watch()?;
    let (matrix, in_file) = match &arguments.file {
        Some(file) => read_file(file)?,
        None => (MatrixArgs::default(), Vec::new()),
    };
    let matrix = arguments.matrix.clone().over(matrix);
    let given = named(&arguments.targets)?;
    let wanted = if given.is_empty() { in_file } else { given };
    let mut places = reached(&wanted, &arguments.access)?;
    if let Some(directory) = &arguments.limit {
        places.push(limit(directory)?);
    }
    run(&matrix, places, &arguments.access, &arguments.out, Vec::new(), &stop)
}

/// Compares these places as the matrix says.
pub fn run(
    matrix: &MatrixArgs,
    places: Vec<Arc<Place>>,
    access: &AccessArgs,
    out: &OutArgs,
    facts: Vec<(String, String)>,
    stop: &Arc<Stop>,
) -> Result<(), Failure> {
    results::warn_of_build();
    let matrix = matrix.clone().filled();
    let plan = plan_over(&matrix, &places)?;
    tell_length(&matrix, &plan);
    if let Some(needed) = plan.blocks_short_of() {
        let blocks = plan.declared().blocks;
        problem(&format!("{blocks} blocks cannot bring a corrected p-value below 0.05; {needed} could"));
    }
    let is_on_names = plan.declared().operations.iter().any(|operation| operation.is_on_names());
    if is_on_names && places.iter().any(|place| place.server_way().is_none()) {
        return Err(Failure::usage("the bare loop knows no names: leave --limit out where --rw works on many files"));
    }
    let contest = Contest { plan, places, size_bytes: matrix.size_bytes(), keep_files: access.keep_files, facts };
    let report = contest.run(stop, &mut Trusting)?;
    results::deliver(&report, out)
}

/// How long all of it is going to take.
pub fn tell_length(matrix: &MatrixArgs, plan: &Plan) {
    let (blocks, runs) = (plan.declared().blocks, plan.cells().len());
    let time = in_words(matrix.estimate(plan));
    problem(&format!("{blocks} blocks of {runs} runs, which will take about {time}"));
}

/// The plan over these places, of which one may be the machine's limit.
pub fn plan_over(matrix: &MatrixArgs, places: &[Arc<Place>]) -> Result<Plan, Failure> {
    let targets = places.iter().map(|p| Target { name: p.name().to_owned(), url: p.shown() }).collect();
    let has_limit = places.iter().any(|p| p.name() == LIMIT);
    let baseline = matrix.baseline.as_deref().or_else(|| places.first().map(|p| p.name()));
    let known = |p: &&Arc<Place>| p.server().is_some() && p.name() != LIMIT;
    let sees_cpu =
        places.iter().filter(known).count() > 1 && places.iter().filter(known).any(|p| Some(p.name()) == baseline);
    matrix.plan(targets, has_limit.then_some(LIMIT), sees_cpu)
}

/// The bare loop on a directory, as a target.
pub fn limit(directory: &Path) -> Result<Arc<Place>, Failure> {
    Ok(Place::of_bare(LIMIT, Bare::start(directory, How::Best)?))
}

/// Targets as they are named on the command line.
pub fn named(targets: &[String]) -> Result<Vec<Named>, Failure> {
    targets.iter().map(|text| Named::parse(text)).collect()
}

/// The servers at these URLs, with who logs in.
pub fn reached(named: &[Named], access: &AccessArgs) -> Result<Vec<Arc<Place>>, Failure> {
    let mut logins = Logins::new(&access.login);
    let place = |named: &Named| {
        let way = logins.way(&named.url, named.password_file.as_deref())?;
        Place::of_server(&named.name, way, named.server_pid)
    };
    named.iter().map(place).collect()
}
