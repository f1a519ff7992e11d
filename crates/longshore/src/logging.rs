//! Logs: to standard error, as lines for people or JSON for machines. `serve` sets them up once, before anything is
//! logged. No secret is ever passed to a log.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Log, LogFormat};
use crate::failure::Failure;

/// Makes `log` the process's logging.
pub fn start(log: &Log) -> Result<(), Failure> {
    let filter = filter(&log.level).map_err(|what| Failure::usage(format!("--log-level: {what}")))?;
    // A log that cannot be written is lost: complaining about it on the same closed standard error would end the process.
    let builder = tracing_subscriber::fmt().log_internal_errors(false).with_env_filter(filter).with_writer(io::stderr);
    let started = match log.format {
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).finish().try_init(),
        LogFormat::Human => builder.with_ansi(io::stderr().is_terminal()).with_target(false).finish().try_init(),
    };
    started.map_err(|error| Failure::system(format!("cannot set up logging: {error}")))
}

/// Reads a level, or filters by module.
pub fn filter(level: &str) -> Result<EnvFilter, String> {
    let hint = "write error, warn, info, debug or trace, or filters such as info,smb_server=debug";
    // A lone word that is no level would be taken for a module's name, and nothing would be logged.
    let is_level = |word: &str| word.parse::<tracing::Level>().is_ok() || word.eq_ignore_ascii_case("off");
    if level.split(',').any(|part| !part.contains('=') && !is_level(part.trim())) {
        return Err(format!("`{level}` is no log level; {hint}"));
    }
    EnvFilter::try_new(level).map_err(|error| format!("`{level}` is no log level ({error}); {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_filters_are_read_and_typing_mistakes_are_not() {
        for good in ["info", "WARN", "off", "info,smb_server=debug", "smb_server=trace"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["inof", "", "verbose", "info,smb_server", "smb_server=loud"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
