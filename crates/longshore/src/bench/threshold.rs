//! `longshore bench threshold`: our server once for each threshold of its page path, every request size against each, and
//! after each run a look at the server's counters: a run that did not take the path it was to measure does not count.

use std::sync::Arc;

use bench::observation::Measurement;
use bench::plan::{Cell, Operation};
use bench::report::Report;
use bench::threshold::{self, Recommendation};

use super::arguments::ThresholdArgs;
use super::compare::{plan_over, tell_length};
use super::contest::{Contest, Oracle};
use super::load::Stop;
use super::login::Logins;
use super::ours::{Counts, Ours};
use super::place::Place;
use super::process::Ports;
use super::words::{Rw, Size, Threshold};
use super::{results, signals};
use crate::failure::Failure;
use crate::status;

/// Of the READs of a run so many in a hundred may have gone otherwise: what the kernel had no pages of at that moment.
const STRAY_PERCENT: u64 = 1;
const MOVED: &str = "read_pages";
const COPIED: [&str; 3] = ["read_copy", "read_signed", "read_sealed"];

/// Does it.
pub fn sweep(arguments: &ThresholdArgs) -> Result<(), Failure> {
    results::warn_of_build();
    let stop = signals::watch()?;
    let mut ports = Ports::from(arguments.first_port);
    let directory = &arguments.directory;
    let start = |threshold: &Threshold| {
        let name = format!("threshold-{threshold}");
        let lines = format!("page_read_bytes = {}\ncongestion_control = \"system\"", in_toml(*threshold));
        Ours::start(&name, directory, &lines, false, &mut ports, &stop)
    };
    let servers: Vec<Ours> = arguments.thresholds.iter().map(start).collect::<Result<_, _>>()?;
    let logins = Logins::new(&arguments.access.login);
    let place = |(threshold, ours): (&Threshold, &Ours)| {
        let way = logins.known(&ours.smb_url(), ours.credentials().clone())?;
        Place::of_server(&threshold.to_string(), way, Some(ours.pid()))
    };
    let places: Vec<_> = arguments.thresholds.iter().zip(&servers).map(place).collect::<Result<_, _>>()?;
    let contest = contest(arguments, places)?;
    let mut oracle =
        Paths { servers, thresholds: &arguments.thresholds, before: Counts::new(), stop: Arc::clone(&stop) };
    let report = contest.run(&stop, &mut oracle)?;
    let (report, said) = judged(&report, &arguments.thresholds)?;
    if !arguments.out.json {
        status::say(&said);
    }
    results::deliver(&report, &arguments.out)
}

fn in_toml(threshold: Threshold) -> String {
    threshold.0.map_or_else(|| "\"off\"".to_owned(), |bytes| bytes.to_string())
}

fn contest(arguments: &ThresholdArgs, places: Vec<Arc<Place>>) -> Result<Contest, Failure> {
    let mut matrix = arguments.matrix.clone().filled();
    if matrix.rw.is_empty() {
        matrix.rw = vec![Rw(Operation::Read)];
    }
    if matrix.rw.iter().any(|rw| !matches!(rw.0, Operation::Read | Operation::RandRead)) {
        return Err(Failure::usage("the threshold is one of READs: --rw read or randread"));
    }
    if matrix.bs.is_empty() {
        matrix.bs = [4u64, 16, 64, 256, 1_024].map(|kib| Size(kib << 10)).to_vec();
    }
    matrix.title = matrix.title.or_else(|| Some("Page-path threshold of our server".to_owned()));
    let plan = plan_over(&matrix, &places)?;
    tell_length(&matrix, &plan);
    let keep_files = arguments.access.keep_files;
    Ok(Contest { plan, places, size_bytes: matrix.size_bytes(), keep_files, facts: Vec::new() })
}

/// The report with what follows for the threshold among its circumstances, and the same for the terminal.
fn judged(report: &Report, thresholds: &[Threshold]) -> Result<(Report, String), Failure> {
    let thresholds: Vec<Option<u32>> = thresholds.iter().map(|threshold| threshold.0).collect();
    let boundaries = threshold::boundaries(report.plan(), report.observations(), &thresholds);
    let recommended = match threshold::recommend(&boundaries) {
        Recommendation::From(bytes) => format!("page_read_bytes = {bytes}"),
        Recommendation::Off => "page_read_bytes = \"off\"".to_owned(),
        Recommendation::Undecided(bytes) => {
            format!("nothing yet: more blocks or a quieter machine must tell about requests of {bytes} bytes")
        }
    };
    let mut facts = report.facts().to_vec();
    facts.push(("recommended".to_owned(), recommended.clone()));
    facts.extend(boundaries.iter().map(|b| ("moving against copying".to_owned(), threshold::line(b))));
    let observations = report.observations().to_vec();
    let report = Report::new(report.plan().clone(), facts, observations).map_err(Failure::system)?;
    Ok((report, format!("{}Recommended: {recommended}\n", threshold::table(&boundaries))))
}

/// The oracle: the server's counters before and after.
struct Paths<'a> {
    servers: Vec<Ours>,
    thresholds: &'a [Threshold],
    before: Counts,
    stop: Arc<Stop>,
}

impl Paths<'_> {
    fn counts(&mut self, cell: &Cell) -> Result<Counts, String> {
        let server = self.servers.get_mut(cell.target as usize).ok_or("there is no such server")?;
        server.counts(&self.stop).map_err(|failure| failure.lines().collect::<Vec<_>>().join("; "))
    }
}

impl Oracle for Paths<'_> {
    fn before(&mut self, cell: &Cell) -> Result<(), String> {
        self.before = self.counts(cell)?;
        Ok(())
    }

    fn after(&mut self, cell: &Cell, _: &Measurement) -> Result<(), String> {
        let after = self.counts(cell)?;
        let threshold = self.thresholds.get(cell.target as usize).and_then(|threshold| threshold.0);
        let moves = threshold.is_some_and(|from| from <= cell.block_size_bytes);
        went_right(&self.before, &after, moves)
    }
}

/// Whether the READs between two looks at the counters were moved, or copied.
fn went_right(before: &Counts, after: &Counts, moves: bool) -> Result<(), String> {
    let of = |counts: &Counts, name: &str| counts.get(name).copied().unwrap_or(0);
    let grown = |name: &str| of(after, name).saturating_sub(of(before, name));
    let (moved, copied) = (grown(MOVED), COPIED.iter().map(|name| grown(name)).sum::<u64>());
    let (right, wrong, way) = if moves { (moved, copied, "moved") } else { (copied, moved, "copied") };
    match right > 0 && wrong <= (right + wrong) * STRAY_PERCENT / 100 {
        true => Ok(()),
        false => Err(format!("its READs should have been {way}: {moved} were moved, {copied} were copied")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(moved: u64, copied: u64, sealed: u64) -> Counts {
        let all = [("read_pages", moved), ("read_copy", copied), ("read_sealed", sealed)];
        all.map(|(name, count)| (name.to_owned(), count)).into()
    }

    #[test]
    fn a_run_on_the_wrong_path_is_found_out() {
        let before = counts(500, 7, 0);
        assert!(went_right(&before, &counts(1_500, 7, 0), true).is_ok());
        assert!(went_right(&before, &counts(1_500, 17, 0), true).is_ok(), "a stray one in a hundred");
        assert!(went_right(&before, &counts(1_500, 27, 0), true).is_err());
        assert!(went_right(&before, &counts(500, 907, 0), false).is_ok());
        assert!(went_right(&before, &counts(500, 7, 900), true).is_err(), "sealed is not moved");
        assert!(went_right(&before, &before, true).is_err(), "nothing was read at all");
        assert!(went_right(&before, &counts(1_500, 7, 0), false).unwrap_err().contains("1000 were moved"));
    }

    #[test]
    fn a_threshold_is_written_as_the_configuration_has_it() {
        assert_eq!([Threshold(None), Threshold(Some(65_536))].map(in_toml), ["\"off\"", "65536"]);
    }
}
