//! Values as people write them: sizes with units, permission bits in octal, one word of several, addresses. `sections`
//! uses them; each answers what was wrong in words that say what to write instead.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use nfs_server::Network;
use smb_wire::fscc::Pattern;
use smb_wire::name::utf16le;
use toml::de::DeValue;

use super::Metrics;
use super::table::nearest;

/// Where an SMB server listens that may not take port 445.
pub const UNPRIVILEGED_PORT: u16 = 4450;
/// Where NFS clients look.
pub const NFS_PORT: u16 = 2049;

/// The kernel's names for congestion controls are shorter than this (TCP_CA_NAME_MAX).
const CONGESTION_CONTROL_BYTES: usize = 16;

/// DNS has no longer ones (RFC 1035 2.3.4).
const MAX_DOMAIN_BYTES: usize = 255;

/// What cannot be in a share's name (MS-FSCC 2.1.6).
const NOT_IN_SHARE_NAMES: &str = "\"/\\[]:|<>+=;,*?";

/// Where to listen, as `--smb` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// Nowhere.
    Off,
    /// There.
    At(SocketAddr),
}

/// Reads `ADDR:PORT` or `off`.
pub fn parse_listener(text: &str) -> Result<Listener, String> {
    if text.eq_ignore_ascii_case("off") {
        return Ok(Listener::Off);
    }
    text.parse()
        .map(Listener::At)
        .map_err(|_| format!("`{text}` is no address and port; write 127.0.0.1:4450, [::1]:4450, 0.0.0.0:445 or off"))
}

/// Reads `ADDR:PORT`, `unix:PATH` or `off`; a path may be relative to `directory`.
pub fn parse_metrics(text: &str, directory: &Path) -> Result<Metrics, String> {
    if text.eq_ignore_ascii_case("off") {
        return Ok(Metrics::Off);
    }
    match text.strip_prefix("unix:") {
        Some("") => Err("names no socket; write unix:/run/longshore/metrics.sock".into()),
        Some(path) => Ok(Metrics::Unix(directory.join(path))),
        None => text.parse().map(Metrics::At).map_err(|_| {
            format!("`{text}` is no address and port; write 127.0.0.1:9445, unix:/run/longshore/metrics.sock or off")
        }),
    }
}

/// Whether a share can be called that.
pub fn is_share_name(name: &str) -> Result<(), String> {
    let is_forbidden = |c: char| NOT_IN_SHARE_NAMES.contains(c) || c.is_control();
    if name.is_empty() || name.len() > 80 {
        return Err("a share's name has 1 to 80 bytes".into());
    }
    if name.contains(is_forbidden) || name.trim() != name {
        return Err(format!("a share's name has no space at its ends and none of {NOT_IN_SHARE_NAMES}"));
    }
    if name.eq_ignore_ascii_case("ipc$") {
        return Err("IPC$ is the name of the share every server has of itself".into());
    }
    Ok(())
}

/// A text.
pub(super) fn text(value: &DeValue<'_>) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| expected("a text in quotes", value))
}

/// A text that says something.
pub(super) fn word(value: &DeValue<'_>) -> Result<String, String> {
    match text(value)? {
        word if word.trim().is_empty() => Err("must not be empty".into()),
        word => Ok(word),
    }
}

/// What stands behind the `@` of owners' names.
pub(super) fn domain(value: &DeValue<'_>) -> Result<Arc<str>, String> {
    let domain = word(value)?;
    let may = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    if domain.len() > MAX_DOMAIN_BYTES || !domain.chars().all(may) {
        return Err("must be a domain such as \"example.com\", without the @".into());
    }
    Ok(domain.into())
}

/// `true` or `false`.
pub(super) fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| expected("true or false", value))
}

/// A list of texts.
pub(super) fn words(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let array = value.as_array().ok_or_else(|| expected("a list such as [\"anna\", \"@staff\"]", value))?;
    array.iter().map(|item| word(item.get_ref())).collect()
}

/// A list of patterns for names of files.
pub(super) fn patterns(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let patterns = words(value)?;
    match patterns.iter().find(|text| Pattern::new(&utf16le(text)).is_err()) {
        Some(wrong) => Err(format!("`{wrong}` is no pattern for a file's name: it must be short and without \\ and /")),
        None => Ok(patterns),
    }
}

/// A number from `least` on.
pub(super) fn count<T: TryFrom<u64> + PartialOrd + Debug>(least: T) -> impl FnOnce(&DeValue<'_>) -> Result<T, String> {
    move |value| {
        let number = value.as_integer().and_then(|i| i128::from_str_radix(i.as_str(), i.radix()).ok());
        let number = number.ok_or_else(|| expected("a number", value))?;
        let converted = u64::try_from(number).ok().and_then(|n| T::try_from(n).ok()).filter(|n| *n >= least);
        converted.ok_or_else(|| format!("{number} is out of range: the least is {least:?}"))
    }
}

/// A number from 1 on, or `auto`.
pub(super) fn count_or_auto(most: u16) -> impl FnOnce(&DeValue<'_>) -> Result<Option<u16>, String> {
    move |value| match value.as_str() {
        Some("auto") => Ok(None),
        Some(_) => Err(expected("a number or \"auto\"", value)),
        None => match count(1u16)(value)? {
            number if number > most => Err(format!("{number} is out of range: the most is {most}")),
            number => Ok(Some(number)),
        },
    }
}

/// Bytes: a number, or a text such as `64KiB`.
pub(super) fn size<T: TryFrom<u64>>(least: u64, most: u64) -> impl FnOnce(&DeValue<'_>) -> Result<T, String> {
    move |value| {
        let bytes = match value.as_str() {
            Some(text) => parse_size(text).ok_or_else(|| expected("a size such as \"64KiB\" or \"8MiB\"", value))?,
            None => count(0u64)(value)?,
        };
        let fits = (least..=most).contains(&bytes).then(|| T::try_from(bytes).ok()).flatten();
        fits.ok_or_else(|| format!("out of range: from {least} to {most} bytes"))
    }
}

/// The same, or a word for none.
pub(super) fn size_or<T: TryFrom<u64>>(
    none: &'static str,
    least: u64,
    most: u64,
) -> impl FnOnce(&DeValue<'_>) -> Result<Option<T>, String> {
    move |value| match value.as_str() {
        Some(word) if word == none => Ok(None),
        _ => size(least, most)(value).map(Some).map_err(|what| format!("{what}, or \"{none}\"")),
    }
}

/// A name the kernel has for a congestion control, or `system`. Whether it has one of that name is asked later.
pub(super) fn congestion_control(value: &DeValue<'_>) -> Result<Option<String>, String> {
    let name = word(value)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    match name.len() < CONGESTION_CONTROL_BYTES && name.bytes().all(is_plain) {
        true => Ok((name != "system").then_some(name)),
        false => Err(format!("`{name}` is no name of a congestion control, such as \"cubic\", and not \"system\"")),
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return None,
    };
    digits.trim_end().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Permission bits, in octal: `"0644"` or `0o644`.
pub(super) fn mode(value: &DeValue<'_>) -> Result<u32, String> {
    let wanted = || format!("{}; a plain number would be read as decimal", expected("octal digits: \"0755\"", value));
    let bits = match (value.as_str(), value.as_integer()) {
        (Some(text), _) => u32::from_str_radix(text.strip_prefix("0o").unwrap_or(text), 8).ok(),
        (None, Some(integer)) if integer.radix() == 8 => u32::from_str_radix(integer.as_str(), 8).ok(),
        _ => None,
    };
    match bits.ok_or_else(wanted)? {
        bits if bits > 0o7777 => Err("permission bits end at 7777".into()),
        bits => Ok(bits),
    }
}

/// One of several words, each with what it means.
pub(super) fn one_of<T: Copy>(choices: &[(&'static str, T)]) -> impl FnOnce(&DeValue<'_>) -> Result<T, String> {
    move |value| match value.as_str() {
        Some(word) => choose(word, choices),
        None => Err(expected(&listed(choices), value)),
    }
}

/// A list of such words, in order and without repetition; not empty.
pub(super) fn some_of<T: Copy + PartialEq>(
    choices: &[(&'static str, T)],
) -> impl FnOnce(&DeValue<'_>) -> Result<Vec<T>, String> {
    move |value| {
        let chosen = words(value)?.iter().map(|word| choose(word, choices)).collect::<Result<Vec<_>, _>>()?;
        match chosen.iter().enumerate().any(|(at, item)| chosen.iter().take(at).any(|earlier| earlier == item)) {
            _ if chosen.is_empty() => Err(format!("must not be empty: {}", listed(choices))),
            true => Err("has the same word twice".into()),
            false => Ok(chosen),
        }
    }
}

fn choose<T: Copy>(word: &str, choices: &[(&'static str, T)]) -> Result<T, String> {
    if let Some((_, meaning)) = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
        return Ok(*meaning);
    }
    let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
    Err(match nearest(word, &names) {
        Some(meant) => format!("`{word}` is not known; did you mean \"{meant}\"?"),
        None => format!("`{word}` is not known; it must be {}", listed(choices)),
    })
}

fn listed<T>(choices: &[(&'static str, T)]) -> String {
    let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Addresses: one text or a list; `off` for none.
pub(super) fn listeners(value: &DeValue<'_>) -> Result<Vec<SocketAddr>, String> {
    let texts = match value.as_str() {
        Some(text) => vec![text.to_owned()],
        None => {
            words(value).map_err(|_| expected("an address such as \"127.0.0.1:4450\", or a list of them", value))?
        }
    };
    let parsed = texts.iter().map(|text| parse_listener(text)).collect::<Result<Vec<_>, _>>()?;
    if parsed.len() > 1 && parsed.contains(&Listener::Off) {
        return Err("`off` stands alone".into());
    }
    Ok(parsed.into_iter().filter_map(|l| if let Listener::At(address) = l { Some(address) } else { None }).collect())
}

/// Hosts by address: a list of addresses, networks, `localhost` and `*`.
pub(super) fn networks(value: &DeValue<'_>) -> Result<Vec<Network>, String> {
    let mut all = Vec::new();
    for word in words(value)? {
        let wrong =
            || format!("`{word}` is no address, no network such as \"192.168.1.0/24\", not localhost and not *");
        all.extend(Network::parse(&word).ok_or_else(wrong)?);
    }
    Ok(all)
}

fn expected(what: &str, value: &DeValue<'_>) -> String {
    format!("must be {what}, not {}", article(value.type_str()))
}

fn article(kind: &str) -> String {
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}
