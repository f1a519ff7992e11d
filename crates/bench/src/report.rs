//! A comparison as it is kept and shown: plan, circumstances and every observation in one file that is read back, a table
//! for the terminal, and one page. The command line makes a [`Report`] after a run or reads one from a file, which it opens
//! itself. What a file says is checked before it is believed; what was computed from it is computed again.

use crate::Error;
use crate::observation::Observation;
use crate::plan::Plan;
use crate::stats::Analysis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

mod html;
mod plots;
mod svg;
mod table;
mod text;

pub use text::bytes;

/// The format's name, which a file carries.
pub const FORMAT: &str = "longshore-bench";
/// The format's version: raised when a field changes its meaning or goes. A reader ignores fields it does not know.
pub const FORMAT_VERSION: u64 = 1;

/// Plan, circumstances, observations, and what follows from them.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    plan: Plan,
    facts: Vec<(String, String)>,
    observations: Vec<Observation>,
    analysis: Analysis,
}

impl Report {
    /// A report of a plan's observations. `facts` are the circumstances that a reader should know (machine, kernel, versions,
    /// every setting of the servers), by name. Refuses observations of what was not planned and second ones of the same run.
    pub fn new(plan: Plan, facts: Vec<(String, String)>, mut observations: Vec<Observation>) -> Result<Self, Error> {
        let mut seen = BTreeSet::new();
        for Observation { block, cell, .. } in &observations {
            let (block, cell) = (*block, *cell);
            if block >= plan.declared().blocks || plan.cell(cell).is_none() {
                return Err(Error::NotPlanned { cell, block });
            }
            if !seen.insert((block, cell)) {
                return Err(Error::ObservedTwice { cell, block });
            }
        }
        observations.sort_by_key(|o| (o.block, o.place, o.cell));
        let analysis = Analysis::of(&plan, &observations);
        Ok(Self { plan, facts, observations, analysis })
    }

    /// Reads a report that [`Report::to_json`] wrote. The analysis in the file is not believed but made again.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        let head: Head = serde_json::from_slice(json)?;
        if head.format.as_deref() != Some(FORMAT) {
            return Err(Error::NotAReport);
        }
        match head.version {
            Some(FORMAT_VERSION) => {}
            Some(found) => return Err(Error::Version { found, known: FORMAT_VERSION }),
            None => return Err(Error::NotAReport),
        }
        let body: Body = serde_json::from_slice(json)?;
        Self::new(body.plan, body.facts, body.observations)
    }

    /// The report as JSON: every observation, and the analysis for other programs to read. On one line: written prettily, the
    /// histograms alone would be four times as long.
    pub fn to_json(&self) -> Result<String, Error> {
        let Self { plan, facts, observations, analysis } = self;
        let cells = plan.cells();
        let whole = Whole { format: FORMAT, version: FORMAT_VERSION, plan, cells, facts, observations, analysis };
        Ok(serde_json::to_string(&whole)?)
    }

    /// The report as text for a terminal.
    pub fn to_table(&self) -> String {
        table::draw(self)
    }

    /// The report as one page that needs nothing else.
    pub fn to_html(&self) -> String {
        html::draw(self)
    }

    /// What was declared.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The circumstances.
    pub fn facts(&self) -> &[(String, String)] {
        &self.facts
    }

    /// Every run, by block and place.
    pub fn observations(&self) -> &[Observation] {
        &self.observations
    }

    /// What follows.
    pub fn analysis(&self) -> &Analysis {
        &self.analysis
    }
}

#[derive(Deserialize)]
struct Head {
    format: Option<String>,
    version: Option<u64>,
}

#[derive(Deserialize)]
struct Body {
    plan: Plan,
    facts: Vec<(String, String)>,
    observations: Vec<Observation>,
}

#[derive(Serialize)]
struct Whole<'a> {
    format: &'a str,
    version: u64,
    plan: &'a Plan,
    /// What the numbers of cells mean, for readers that do not want to multiply the plan out.
    cells: &'a [crate::plan::Cell],
    facts: &'a [(String, String)],
    observations: &'a [Observation],
    analysis: &'a Analysis,
}
