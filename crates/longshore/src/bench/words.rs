//! Sizes, times and operations as they are written on the command line and in a comparison's file. Pure; `arguments` has
//! them in its fields.

use std::str::FromStr;
use std::time::Duration;

use bench::plan::{Measure, Operation};
use serde::Deserialize;

const RW: &str = "read, write, randread, randwrite, rw, randrw, fileread, filecreate, filestat, filelist, filedelete";

/// A number of bytes: `4096`, `4k`, `64KiB`, `1m`, `1.5g`. Units are binary, as fio's are by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Size(pub u64);

/// A length of time: `2` (seconds), `2s`, `500ms`, `1m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Time(pub Duration);

/// One of fio's words for what is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Rw(pub Operation);

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct By(pub Measure);

/// From which size on pages are moved; none: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold(pub Option<u32>);

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let size: Size = text.parse()?;
        u32::try_from(size.0).map(|size| Self(Some(size))).map_err(|_| format!("`{text}` is too large"))
    }
}

impl std::fmt::Display for Threshold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            None => f.write_str("off"),
            Some(bytes) if bytes % (1 << 20) == 0 => write!(f, "{}m", bytes >> 20),
            Some(bytes) if bytes % (1 << 10) == 0 => write!(f, "{}k", bytes >> 10),
            Some(bytes) => write!(f, "{bytes}"),
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = number_and_unit(text)?;
        let factor: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            _ => return Err(format!("`{unit}` is no unit of size; write 4k, 64k, 1m, 1g or bytes")),
        };
        let bytes = number * factor as f64;
        match bytes >= 1.0 && bytes.fract() == 0.0 && bytes < (1u64 << 53) as f64 {
            true => Ok(Self(bytes as u64)),
            false => Err(format!("`{text}` is not a whole number of bytes, or none")),
        }
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = number_and_unit(text)?;
        let seconds = match unit {
            "" | "s" => number,
            "ms" => number / 1e3,
            "m" | "min" => number * 60.0,
            _ => return Err(format!("`{unit}` is no unit of time; write 2s, 500ms or 1m")),
        };
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| format!("`{text}` is too long"))
    }
}

impl FromStr for Rw {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "read" => Operation::Read,
            "write" => Operation::Write,
            "randread" => Operation::RandRead,
            "randwrite" => Operation::RandWrite,
            "rw" | "readwrite" => Operation::Rw,
            "randrw" => Operation::RandRw,
            "fileread" => Operation::FileRead,
            "filecreate" => Operation::FileCreate,
            "filestat" => Operation::FileStat,
            "filelist" => Operation::FileList,
            "filedelete" => Operation::FileDelete,
            _ => return Err(format!("`{text}` is none of {RW}")),
        }))
    }
}

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "throughput" | "rate" => Measure::Throughput,
            "mean" => Measure::LatencyMean,
            "p50" => Measure::LatencyP50,
            "p99" => Measure::LatencyP99,
            "p99.9" => Measure::LatencyP999,
            "client-cpu" => Measure::ClientCpu,
            "server-cpu" => Measure::ServerCpu,
            _ => return Err(format!("`{text}` is none of throughput, mean, p50, p99, p99.9, client-cpu, server-cpu")),
        }))
    }
}

fn number_and_unit(text: &str) -> Result<(f64, &str), String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number = number.parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    Ok((number, unit.trim()))
}

/// In a file a number may stand without quotes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Decimal(f64),
    Text(String),
}

macro_rules! from_written {
    ($($name:ident)*) => {$(
        impl TryFrom<Written> for $name {
            type Error = String;

            fn try_from(written: Written) -> Result<Self, String> {
                match written {
                    Written::Number(number) => number.to_string().parse(),
                    Written::Decimal(number) => number.to_string().parse(),
                    Written::Text(text) => text.parse(),
                }
            }
        }
    )*};
}

from_written!(Size Time Rw By);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        let size = |text: &str| text.parse::<Size>().map(|s| s.0);
        assert_eq!(size("4k"), Ok(4_096));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("1.5M"), Ok(3 << 19));
        assert_eq!(size("1g"), Ok(1 << 30));
        assert_eq!(size("512"), Ok(512));
        for wrong in ["", "k", "4x", "0", "-1", "1.0001k", "99999999999g", "4 k k"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn thresholds_are_written_as_they_are_read() {
        for text in ["off", "4k", "1m", "1536"] {
            assert_eq!(text.parse::<Threshold>().unwrap().to_string(), text);
        }
        assert!("on".parse::<Threshold>().is_err() && "8g".parse::<Threshold>().is_err());
    }

    #[test]
    fn times_are_seconds_unless_said() {
        let ms = |text: &str| text.parse::<Time>().map(|t| t.0.as_millis());
        assert_eq!([ms("2"), ms("1.5s"), ms("250ms"), ms("2m")], [Ok(2_000), Ok(1_500), Ok(250), Ok(120_000)]);
        for wrong in ["", "s", "5h", "99999999999999999999999m"] {
            assert!(ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn operations_are_fios() {
        for word in RW.split(", ") {
            assert_eq!(word.parse::<Rw>().unwrap().0.to_string(), word);
        }
        assert!("trim".parse::<Rw>().is_err());
        assert!("p98".parse::<By>().is_err());
    }
}
