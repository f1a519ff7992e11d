//! Where results go: tables or JSON on standard output, report.json and report.html in a directory. A comparison in which
//! runs do not count is shown as any other, and then ends with exit code 1.

use std::fs;
use std::path::Path;

use bench::report::Report;

use super::arguments::{OutArgs, ReportArgs};
use super::facts;
use crate::failure::Failure;
use crate::status;

/// Shows a report and says whether every planned run counts.
pub fn deliver(report: &Report, out: &OutArgs) -> Result<(), Failure> {
    show(report, out)?;
    let planned = report.plan().cells().len() * report.plan().declared().blocks as usize;
    let counting = report.observations().iter().filter(|o| o.outcome.is_accepted()).count();
    match planned - counting {
        0 => Ok(()),
        missing => Err(Failure::system(format!("{missing} of {planned} runs do not count"))),
    }
}

/// `longshore bench report`.
pub fn redraw(arguments: &ReportArgs) -> Result<(), Failure> {
    let path = &arguments.file;
    let failed = |what: String| Failure::usage(format!("{}: {what}", path.display()));
    let json = fs::read(path).map_err(|error| failed(error.to_string()))?;
    let report = Report::from_json(&json).map_err(|error| failed(error.to_string()))?;
    show(&report, &arguments.out)
}

fn show(report: &Report, out: &OutArgs) -> Result<(), Failure> {
    let json = report.to_json().map_err(Failure::system)?;
    if let Some(directory) = &out.out {
        write(directory, "report.json", &json)?;
        write(directory, "report.html", &report.to_html())?;
    }
    match out.json {
        true => status::say(&json),
        false => status::say(report.to_table().trim_end()),
    }
    Ok(())
}

/// A file is there whole or not at all.
fn write(directory: &Path, name: &str, content: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::system(format!("{}: {error}", directory.join(name).display()));
    let draft = directory.join(format!("{name}.part"));
    fs::create_dir_all(directory).map_err(failed)?;
    fs::write(&draft, content).map_err(failed)?;
    fs::rename(&draft, directory.join(name)).map_err(failed)
}

/// Warns of a build whose figures mean nothing.
pub fn warn_of_build() {
    if cfg!(debug_assertions) {
        super::contest::problem(&format!("this build is {}", facts::build()));
    }
}
