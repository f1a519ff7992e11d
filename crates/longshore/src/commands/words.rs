//! How names, times and sizes are written for people, and which names of a server may become names here. A server's names
//! are hostile until they went through here: they must never become a path, nor reach a terminal as they are.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest name a directory of Linux takes, in bytes.
const MOST_NAME_BYTES: usize = 255;

/// Whether a name is one component of a path that can be made in a directory, and nothing else.
pub fn is_plain(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !matches!(bytes, b"" | b"." | b"..") && !bytes.contains(&b'/') && !bytes.contains(&0)
}

/// What a copy of `name` is called until it is whole. `tag` says which version of the source it is of, so that a copy is
/// never gone on with from another one.
pub fn part_name(name: &OsStr, tag: u32) -> OsString {
    let tail = format!(".{tag:08x}.part");
    let room = MOST_NAME_BYTES - tail.len() - 1;
    let mut part = vec![b'.'];
    match name.len() <= room {
        true => part.extend(name.as_bytes()),
        // Too long with what is added: what is cut off is told apart by its hash.
        false => {
            let short = String::from_utf8_lossy(name.as_bytes().get(..room - 60).unwrap_or_default()).into_owned();
            part.extend(short.trim_end_matches('\u{fffd}').as_bytes());
            part.extend(format!("~{:08x}", hash(name.as_bytes())).as_bytes());
        }
    }
    part.extend(tail.as_bytes());
    OsString::from_vec(part)
}

/// Stands for one version of a file: its length and when it was written.
pub fn tag(len_bytes: u64, written: Option<SystemTime>) -> u32 {
    // A server keeps times in steps of 100 ns at best.
    let nanos = written.map_or(0, |time| match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() / 100,
        Err(before) => u128::MAX - before.duration().as_nanos() / 100,
    });
    hash(&[&len_bytes.to_le_bytes()[..], &nanos.to_le_bytes()].concat())
}

/// FNV-1a folded to 32 bits: it need not withstand anybody, but be the same in every version of this program.
fn hash(bytes: &[u8]) -> u32 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
    (hash >> 32) as u32 ^ hash as u32
}

/// A text without what a terminal would obey.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() || is_invisible(c) {
            true => {
                let _ = write!(out, "{}", c.escape_unicode());
            }
            false => out.push(c),
        }
    }
    out
}

/// Characters that turn the direction of text around and so hide what a name is.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A path for people.
pub fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

/// A time by RFC 3339, in UTC, to the second or with what there is of it.
pub fn rfc3339(time: SystemTime, exact: bool) -> String {
    let (secs, nanos) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos()),
        Err(before) => floor(before.duration()),
    };
    let (days, second) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let fraction = match (exact, nanos) {
        (true, 1..) => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
        _ => String::new(),
    };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

fn floor(before: std::time::Duration) -> (i64, u32) {
    let secs = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
    match before.subsec_nanos() {
        0 => (-secs, 0),
        nanos => (-secs - 1, 1_000_000_000 - nanos),
    }
}

/// The Gregorian date of a day counted from 1970-01-01. Years are counted from March, so that the leap day ends one; 400
/// of them are an era of 146,097 days.
fn date(days: i64) -> (i64, i64, i64) {
    /// From 0000-03-01 to 1970-01-01.
    const DAYS_BEFORE_1970: i64 = 719_468;
    const ERA: i64 = 146_097;
    let days = days + DAYS_BEFORE_1970;
    let (era, day) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (day - day / 1460 + day / 36_524 - day / (ERA - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months in a row have 153 days, whichever five, from March on.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Bytes for people.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["bytes", "KiB", "MiB", "GiB", "TiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_name_that_is_a_path_is_no_name() {
        for bad in ["", ".", "..", "/", "../x", "a/b", "/etc/passwd", "x\0y"] {
            assert!(!is_plain(OsStr::new(bad)), "{bad:?}");
        }
        for good in ["a", "...", ".hidden", "a\\b", "~", "-rf", " "] {
            assert!(is_plain(OsStr::new(good)), "{good:?}");
        }
    }

    #[test]
    fn the_name_of_a_part_tells_file_and_version_apart_and_always_fits() {
        assert_eq!(part_name(OsStr::new("a b"), 0xbeef), ".a b.0000beef.part");
        let long = |end: &str| OsString::from(format!("{}{end}", "ü".repeat(125)));
        let (one, other) = (part_name(&long("a"), 1), part_name(&long("b"), 1));
        assert_ne!(one, other);
        assert!(one.len() <= 255 && is_plain(&one) && one.to_str().is_some(), "{one:?}");
        let time = Some(UNIX_EPOCH + Duration::from_secs(7));
        assert_eq!(tag(5, time), tag(5, time));
        let others = [tag(6, time), tag(5, None), tag(5, time.map(|t| t + Duration::from_nanos(100)))];
        assert!(others.iter().all(|other| *other != tag(5, time)));
    }

    #[test]
    fn a_terminal_is_given_nothing_to_obey() {
        assert_eq!(printable("a\u{1b}[31m\nb\u{202e}c ü"), "a\\u{1b}[31m\\u{a}b\\u{202e}c ü");
    }

    #[test]
    fn times_are_written_by_the_calendar() {
        // Checked against `date -u -d @N --rfc-3339=ns`.
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (1_796_083_199, "2026-11-30T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(secs), true), text);
        }
        let before = UNIX_EPOCH - Duration::from_millis(500);
        assert_eq!(rfc3339(before, true), "1969-12-31T23:59:59.5Z");
        assert_eq!(rfc3339(before, false), "1969-12-31T23:59:59Z");
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_secs(11_644_473_600), true), "1601-01-01T00:00:00Z");
    }

    #[test]
    fn sizes_are_written_for_people() {
        let sizes = [0, 1023, 1024, 1_572_864, 5 << 40].map(size);
        assert_eq!(sizes, ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB", "5.0 TiB"]);
    }
}
