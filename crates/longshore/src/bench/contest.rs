//! Carries out a plan: makes the files, runs every cell of every block in the plan's order, keeps each observation whatever
//! came of it, and cleans up. The commands that compare make a [`Contest`] and show what it returns.

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use bench::observation::{Measurement, Observation, Outcome, Reason};
use bench::plan::{Cell, Measure, Plan};
use bench::report::Report;

use super::facts;
use super::ground::{Ground, prepare, remove};
use super::load::{self, Stop};
use super::matrix::load_of;
use super::place::Place;
use crate::failure::Failure;

/// Targets and what is to be done with them.
pub struct Contest {
    /// What was declared; its targets are `places` in order.
    pub plan: Plan,
    /// The servers.
    pub places: Vec<Arc<Place>>,
    /// Bytes of each file.
    pub size_bytes: u64,
    /// The files stay.
    pub keep_files: bool,
    /// Circumstances that only the caller knows.
    pub facts: Vec<(String, String)>,
}

/// Looks at each run from outside: whether the server did what the run was to measure.
pub trait Oracle {
    /// Before a run of a cell.
    fn before(&mut self, cell: &Cell) -> Result<(), String>;
    /// After it. An error is why the run does not count.
    fn after(&mut self, cell: &Cell, measured: &Measurement) -> Result<(), String>;
}

/// Believes every run.
pub struct Trusting;

impl Oracle for Trusting {
    fn before(&mut self, _: &Cell) -> Result<(), String> {
        Ok(())
    }

    fn after(&mut self, _: &Cell, _: &Measurement) -> Result<(), String> {
        Ok(())
    }
}

impl Contest {
    /// Runs it to its end or until it is stopped.
    pub fn run(&self, stop: &Arc<Stop>, oracle: &mut impl Oracle) -> Result<Report, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::system(format!("cannot start a runtime: {error}")))?;
        runtime.block_on(async {
            let ground = Ground::of_plan(&self.plan, self.size_bytes);
            let prepared = self.prepare(&ground, stop).await;
            let observations = self.observe(&prepared, stop, oracle).await;
            self.clean_up(&ground).await;
            Report::new(self.plan.clone(), self.all_facts(&prepared), observations).map_err(Failure::system)
        })
    }

    /// Makes the files. What came of it for each target: what was agreed on with it, or why it cannot be measured.
    async fn prepare(&self, ground: &Ground, stop: &Stop) -> Vec<Result<String, String>> {
        let mut all = Vec::new();
        for place in &self.places {
            progress(&format!("preparing {} ...", place.name()));
            let prepared = tokio::select! {
                prepared = prepare(place, ground) => prepared,
                () = stop.wait() => Err("the comparison was ended".to_owned()),
            };
            if let Err(why) = &prepared {
                problem(&format!("{} cannot be measured: {why}", place.name()));
            }
            all.push(prepared);
        }
        all
    }

    async fn observe(
        &self,
        prepared: &[Result<String, String>],
        stop: &Stop,
        oracle: &mut impl Oracle,
    ) -> Vec<Observation> {
        let mut observations = Vec::new();
        for block in 0..self.plan.declared().blocks {
            for (place, number) in self.plan.order(block).into_iter().enumerate() {
                if stop.is_told() {
                    return observations;
                }
                let Some(cell) = self.plan.cell(number) else { continue };
                self.tell(block, place, cell, "...");
                let outcome = match prepared.get(cell.target as usize) {
                    Some(Err(why)) => discarded(Reason::Failed, why.clone(), None),
                    _ => self.run_cell(number, cell, stop, oracle).await,
                };
                self.tell_outcome(block, place, cell, &outcome);
                let place = u32::try_from(place).unwrap_or(u32::MAX);
                observations.push(Observation { block, cell: number, place, outcome });
            }
        }
        progress("");
        observations
    }

    async fn run_cell(&self, number: u32, cell: &Cell, stop: &Stop, oracle: &mut impl Oracle) -> Outcome {
        let (Some(place), Some(load)) =
            (self.places.get(cell.target as usize), load_of(&self.plan, number, self.size_bytes))
        else {
            return discarded(Reason::Failed, "the plan has no such cell".to_owned(), None);
        };
        if let Err(why) = oracle.before(cell) {
            return discarded(Reason::Failed, why, None);
        }
        match load::measure(place, &load, stop).await {
            Outcome::Accepted(measured) => match oracle.after(cell, &measured) {
                Ok(()) => Outcome::Accepted(measured),
                Err(why) => discarded(Reason::WrongPath, why, Some(measured)),
            },
            discarded => discarded,
        }
    }

    async fn clean_up(&self, ground: &Ground) {
        if self.keep_files {
            return;
        }
        for place in &self.places {
            // What was measured stands. Whoever could not be reached has no files of ours.
            let _ = remove(place, ground).await;
        }
    }

    fn all_facts(&self, prepared: &[Result<String, String>]) -> Vec<(String, String)> {
        let mut all = facts::of_this_machine();
        all.push(("size of each file".to_owned(), format!("{} bytes", self.size_bytes)));
        for (place, prepared) in self.places.iter().zip(prepared) {
            let server = place.server().map(|s| format!(", process {} {}", s.pid().unwrap_or(0), s.name()));
            let said = prepared.as_ref().map_or_else(|why| format!("not measured: {why}"), Clone::clone);
            all.push((place.name().to_owned(), said + &server.unwrap_or_default()));
        }
        all.extend(self.facts.iter().cloned());
        all
    }

    fn tell(&self, block: u32, place: usize, cell: &Cell, what: &str) {
        let (blocks, cells) = (self.plan.declared().blocks, self.plan.cells().len());
        let said = describe(&self.plan, cell);
        progress(&format!("block {} of {blocks}, run {} of {cells}: {said} {what}", block + 1, place + 1));
    }

    fn tell_outcome(&self, block: u32, place: usize, cell: &Cell, outcome: &Outcome) {
        match outcome {
            Outcome::Accepted(measured) => {
                let rate = measured.value(Measure::Throughput).unwrap_or(0.0);
                let said = match cell.operation.moves_bytes() {
                    true => format!("{:.0} MiB/s", rate / f64::from(1 << 20)),
                    false => format!("{rate:.0} operations a second"),
                };
                self.tell(block, place, cell, &said);
            }
            Outcome::Discarded { reason, detail, .. } => {
                problem(&format!("block {}, {}: {reason}: {detail}", block + 1, describe(&self.plan, cell)));
            }
        }
    }
}

fn discarded(reason: Reason, detail: String, measurement: Option<Measurement>) -> Outcome {
    Outcome::Discarded { reason, detail, measurement }
}

fn describe(plan: &Plan, cell: &Cell) -> String {
    let size = cell.block_size_bytes;
    format!("{} {} of {size} bytes over {}", plan.target_name(cell), cell.operation, cell.connections)
}

/// What is going on, on a terminal, in one line that is written over.
fn progress(line: &str) {
    let mut out = std::io::stderr().lock();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[K{line}").and_then(|()| out.flush());
    }
}

/// What whoever waits should know at once: mostly what went wrong.
pub fn problem(line: &str) {
    progress("");
    let line: String = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let _ = writeln!(std::io::stderr().lock(), "longshore: {line}");
}
