//! Names between the wire, UTF-16LE with `\`, and a Unix file system, bytes with `/`. The server calls this for every
//! path a client sends and every name a listing shows. It must never produce a component that is empty, `.`, `..` or
//! holds `/` or NUL, and no local file may be without a wire name that leads back to it.
//!
//! What a Windows client cannot have in a name is shown to it in a private range of Unicode, as macOS ("Services for
//! Macintosh") and Samba's `fruit` and `catia` do it:
//!
//! | local | wire |
//! |---|---|
//! | 0x01 to 0x1F | U+F001 to U+F01F |
//! | `"` `*` `:` `<` `>` `?` `\` <code>&#124;</code> | U+F020 to U+F027, in this order |
//! | a space at the end | U+F028 |
//! | a dot at the end | U+F029 |
//! | a byte that is not UTF-8 | U+EF80 to U+EFFF: U+EF00 plus the byte |
//! | a character that the rows above would turn into something else | its UTF-8 bytes, as if they were none |
//!
//! The last two rows make it reversible: local to wire and back is the identity for every file name, and no two are
//! shown alike. The other way about, a name a client makes is shown as it was made, but for one that ends in a plain
//! space or dot, which comes back with U+F028 or U+F029, and one spelled by hand in the U+EF80 range, which may come
//! back as the characters it spells. Surrogates without their other half have no local name:
//! STATUS_OBJECT_NAME_INVALID.

use crate::status::NtStatus;

/// The longest component, in UTF-16 code units on the wire and in bytes locally.
pub const MAX_COMPONENT: usize = 255;

/// A path a client sent, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WirePath {
    /// Local components joined by `/`; empty for the root of the share.
    pub path: Vec<u8>,
    /// What followed the first colon.
    pub stream: Option<StreamName>,
    /// Whether a `\` ended it: only a directory may be meant.
    pub trailing_separator: bool,
}

/// A stream of a file: `file:name:$TYPE` (MS-FSCC 2.1.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamName {
    /// Local bytes; empty for the stream without a name, which is the file itself.
    pub name: Vec<u8>,
    /// Its type.
    pub kind: StreamKind,
}

/// The type of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// `$DATA`, also when none is given. Named after nothing, it is a file's data and no directory's.
    Data,
    /// `$INDEX_ALLOCATION`: with no name or `$I30` a directory itself.
    IndexAllocation,
}

/// Reads the path of a CREATE (MS-SMB2 2.2.13, 3.3.5.9), UTF-16LE bytes. It is relative, so a leading `\` is
/// STATUS_INVALID_PARAMETER.
pub fn parse_path(wire: &[u8]) -> Result<WirePath, NtStatus> {
    if wire.starts_with(&SEPARATOR.to_le_bytes()) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    parse_relative(wire)
}

/// Reads the target of a rename or link (MS-FSCC 2.4), where clients may begin with a `\`.
pub fn parse_target(wire: &[u8]) -> Result<WirePath, NtStatus> {
    parse_relative(wire.strip_prefix(&SEPARATOR.to_le_bytes()).unwrap_or(wire))
}

/// Whether a local name is a device's to Windows, whatever follows a dot: a client there could make such a file but never
/// open it (MS-FSCC 2.1.5.2). ASCII case does not matter.
pub fn is_device_name(local: &[u8]) -> bool {
    let stem = local.split(|&b| b == b'.').next().unwrap_or_default().trim_ascii_end();
    match stem.to_ascii_uppercase().as_slice() {
        b"CON" | b"PRN" | b"AUX" | b"NUL" | b"CONIN$" | b"CONOUT$" => true,
        [b'C', b'O', b'M', digit] | [b'L', b'P', b'T', digit] => digit.is_ascii_digit() && *digit != b'0',
        _ => false,
    }
}

/// Reads a stream alone, as a rename of a stream names it: `:name:$DATA`.
pub fn parse_stream(wire: &[u8]) -> Result<StreamName, NtStatus> {
    let units = wire_units(wire)?;
    match units.split_first() {
        Some((&COLON, stream)) => stream_name(stream),
        _ => Err(NtStatus::OBJECT_NAME_INVALID),
    }
}

/// Reads one component, UTF-16LE bytes without separators or streams.
pub fn component_to_local(wire: &[u8]) -> Result<Vec<u8>, NtStatus> {
    let mut out = Vec::new();
    push_component(&wire_units(wire)?, &mut out)?;
    Ok(out)
}

/// Reads the path of an open with POSIX semantics, or the target of its rename: `/` stands between the components and any
/// other character may stand in them. Empty components do not count, as POSIX has it (XBD 4.16). What has a meaning in
/// the private range keeps it, for clients that go on mapping.
pub fn parse_posix_path(wire: &[u8]) -> Result<Vec<u8>, NtStatus> {
    let units = wire_units(wire)?;
    let mut path = Vec::new();
    for component in units.split(|&u| u == SLASH).filter(|component| !component.is_empty()) {
        if component.contains(&0) {
            return Err(NtStatus::OBJECT_NAME_INVALID);
        }
        if !path.is_empty() {
            path.push(b'/');
        }
        let start = path.len();
        units_to_local(component, &mut path)?;
        match path.get(start..).unwrap_or_default() {
            b"." => return Err(NtStatus::OBJECT_NAME_INVALID),
            b".." => return Err(NtStatus::OBJECT_PATH_SYNTAX_BAD),
            local if local.len() > MAX_COMPONENT => return Err(NtStatus::NAME_TOO_LONG),
            _ => {}
        }
    }
    Ok(path)
}

/// Appends the wire name of one local component for a client with POSIX semantics: as it is, but for what would be read
/// back as something else. The other way is [`parse_posix_path`].
pub fn local_to_posix_wire(local: &[u8], out: &mut Vec<u8>) {
    let mut left = local.len();
    for chunk in local.utf8_chunks() {
        for char in chunk.valid().chars() {
            left -= char.len_utf8();
            if stands_for(char, left == 0).is_some() {
                char.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_raw(byte, out));
            } else {
                char.encode_utf16(&mut [0; 2]).iter().for_each(|&unit| push_unit(unit, out));
            }
        }
        left -= chunk.invalid().len();
        chunk.invalid().iter().for_each(|&byte| push_raw(byte, out));
    }
}

fn parse_relative(wire: &[u8]) -> Result<WirePath, NtStatus> {
    let units = wire_units(wire)?;
    let (path, stream) = match units.iter().position(|&u| u == COLON) {
        Some(at) => {
            let (path, stream) = units.split_at(at);
            (path, Some(stream_name(stream.get(1..).unwrap_or_default())?))
        }
        None => (units.as_slice(), None),
    };
    let mut parsed = WirePath { stream, ..WirePath::default() };
    let path = match path.split_last() {
        Some((&SEPARATOR, path)) if parsed.stream.is_none() => {
            parsed.trailing_separator = true;
            path
        }
        _ => path,
    };
    if path.is_empty() && !parsed.trailing_separator {
        return Ok(parsed);
    }
    for component in path.split(|&u| u == SEPARATOR) {
        if !parsed.path.is_empty() {
            parsed.path.push(b'/');
        }
        push_component(component, &mut parsed.path)?;
    }
    Ok(parsed)
}

/// Checks a component and appends its local bytes.
fn push_component(units: &[u16], out: &mut Vec<u8>) -> Result<(), NtStatus> {
    const DOT: u16 = b'.' as u16;
    match units {
        [] | [DOT] => return Err(NtStatus::OBJECT_NAME_INVALID),
        [DOT, DOT] => return Err(NtStatus::OBJECT_PATH_SYNTAX_BAD),
        _ if units.len() > MAX_COMPONENT => return Err(NtStatus::NAME_TOO_LONG),
        _ if units.iter().any(|&u| is_forbidden(u)) => return Err(NtStatus::OBJECT_NAME_INVALID),
        _ => {}
    }
    let start = out.len();
    units_to_local(units, out)?;
    match out.get(start..) {
        // Only names spelled in the private range get here, such as U+F029 alone.
        None | Some(b"" | b"." | b"..") => Err(NtStatus::OBJECT_NAME_INVALID),
        Some(local) if local.len() > MAX_COMPONENT => Err(NtStatus::NAME_TOO_LONG),
        Some(_) => Ok(()),
    }
}

/// Reads what follows the first colon: `name`, `name:$TYPE` or `:$TYPE`.
fn stream_name(units: &[u16]) -> Result<StreamName, NtStatus> {
    let mut parts = units.split(|&u| u == COLON);
    let name = parts.next().unwrap_or_default();
    let kind = match parts.next() {
        None if name.is_empty() => return Err(NtStatus::OBJECT_NAME_INVALID),
        None => StreamKind::Data,
        Some(kind) if same(kind, "$DATA") => StreamKind::Data,
        Some(kind) if same(kind, "$INDEX_ALLOCATION") => StreamKind::IndexAllocation,
        Some(_) => return Err(NtStatus::OBJECT_NAME_INVALID),
    };
    // MS-FSCC 2.1.5.3: a stream's name may hold more than a file's; not separators and NUL.
    let bad = |&u: &u16| matches!(u, 0 | SLASH | SEPARATOR);
    if parts.next().is_some() || name.iter().any(bad) {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    if name.len() > MAX_COMPONENT {
        return Err(NtStatus::NAME_TOO_LONG);
    }
    let mut local = Vec::new();
    units_to_local(name, &mut local)?;
    Ok(StreamName { name: local, kind })
}

fn same(units: &[u16], text: &str) -> bool {
    units.iter().map(|&u| upcase(u)).eq(text.encode_utf16())
}

fn wire_units(wire: &[u8]) -> Result<Vec<u16>, NtStatus> {
    if !wire.len().is_multiple_of(2) {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    Ok(wire.chunks_exact(2).filter_map(|pair| pair.try_into().ok()).map(u16::from_le_bytes).collect())
}

const SEPARATOR: u16 = b'\\' as u16;
const COLON: u16 = b':' as u16;
const SLASH: u16 = b'/' as u16;

/// MS-FSCC 2.1.5.2, and `/`, which no local name can hold.
fn is_forbidden(unit: u16) -> bool {
    unit < 0x20 || u8::try_from(unit).is_ok_and(|byte| b"\"*/:<>?\\|".contains(&byte))
}

/// What U+F020 to U+F027 stand for.
const PRIVATE: &[u8; 8] = b"\"*:<>?\\|";
const PRIVATE_BASE: u32 = 0xf000;
const PRIVATE_SPACE: u32 = 0xf028;
const PRIVATE_DOT: u32 = 0xf029;
/// U+EF80 to U+EFFF stand for the bytes 0x80 to 0xFF.
const RAW_BASE: u32 = 0xef00;

fn units_to_local(units: &[u16], out: &mut Vec<u8>) -> Result<(), NtStatus> {
    let mut chars = char::decode_utf16(units.iter().copied()).peekable();
    while let Some(decoded) = chars.next() {
        let char = decoded.map_err(|_| NtStatus::OBJECT_NAME_INVALID)?;
        match stands_for(char, chars.peek().is_none()) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Ok(())
}

/// The byte a character of the private ranges stands for, if it does.
fn stands_for(char: char, last: bool) -> Option<u8> {
    let code = u32::from(char);
    match code {
        0xef80..=0xefff => u8::try_from(code - RAW_BASE).ok(),
        0xf001..=0xf01f => u8::try_from(code - PRIVATE_BASE).ok(),
        0xf020..=0xf027 => PRIVATE.get(usize::try_from(code - 0xf020).ok()?).copied(),
        PRIVATE_SPACE if last => Some(b' '),
        PRIVATE_DOT if last => Some(b'.'),
        _ => None,
    }
}

/// Appends the wire name, UTF-16LE bytes, of one local component. `.` and `..` stay what they are, for listings.
pub fn local_to_wire(local: &[u8], out: &mut Vec<u8>) {
    out.reserve(local.len() * 2);
    if matches!(local, b"." | b"..") || local.iter().all(|&b| is_plain(b)) && !ends_badly(local) {
        // Nearly every name: ASCII that Windows can hold.
        out.extend(local.iter().flat_map(|&byte| [byte, 0]));
        return;
    }
    let mut left = local.len();
    for chunk in local.utf8_chunks() {
        for char in chunk.valid().chars() {
            left -= char.len_utf8();
            push_char(char, left == 0, out);
        }
        left -= chunk.invalid().len();
        chunk.invalid().iter().for_each(|&byte| push_raw(byte, out));
    }
}

/// Appends the wire path, components joined by `\`, of a local one joined by `/`.
pub fn path_to_wire(path: &[u8], out: &mut Vec<u8>) {
    for (index, component) in path.split(|&b| b == b'/').enumerate() {
        if index > 0 {
            push_unit(SEPARATOR, out);
        }
        local_to_wire(component, out);
    }
}

fn push_char(char: char, last: bool, out: &mut Vec<u8>) {
    if stands_for(char, last).is_some() {
        char.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_raw(byte, out));
        return;
    }
    let shown = match char {
        ' ' if last => Some(PRIVATE_SPACE),
        '.' if last => Some(PRIVATE_DOT),
        '\u{1}'..='\u{1f}' => Some(PRIVATE_BASE + u32::from(char)),
        _ => PRIVATE.iter().zip(0xf020..).find(|&(&b, _)| char::from(b) == char).map(|(_, code)| code),
    };
    let shown = shown.and_then(char::from_u32).unwrap_or(char);
    shown.encode_utf16(&mut [0; 2]).iter().for_each(|&unit| push_unit(unit, out));
}

fn push_raw(byte: u8, out: &mut Vec<u8>) {
    push_unit(0xef00 | u16::from(byte), out);
}

fn push_unit(unit: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&unit.to_le_bytes());
}

fn is_plain(byte: u8) -> bool {
    (0x20..0x80).contains(&byte) && !PRIVATE.contains(&byte)
}

fn ends_badly(local: &[u8]) -> bool {
    matches!(local.last(), Some(b' ' | b'.'))
}

/// The upper case of a code unit, as file systems compare names: one unit for one unit. Characters whose upper case is
/// several, or which Windows leaves alone because their upper case belongs to another letter, stay as they are; so do
/// surrogates.
pub fn upcase(unit: u16) -> u16 {
    if unit < 0x80 {
        return u16::from(u8::try_from(unit).unwrap_or_default().to_ascii_uppercase());
    }
    let Some(char) = char::from_u32(unit.into()) else { return unit };
    let mut upper = char.to_uppercase();
    match (upper.next().map(u32::from), upper.next()) {
        // The micro sign is no Greek letter, and no other sign is an ASCII one.
        (Some(one), None) if one >= 0x80 && unit != 0xb5 => u16::try_from(one).unwrap_or(unit),
        _ => unit,
    }
}

/// A string as it travels: UTF-16LE bytes, without mapping.
pub fn utf16le(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A string that travelled; what is no UTF-16 becomes U+FFFD.
pub fn from_utf16le(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).filter_map(|pair| pair.try_into().ok()).map(u16::from_le_bytes);
    char::decode_utf16(units).map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_their_stem() {
        for name in [&b"CON"[..], b"nul", b"Aux.txt", b"com1", b"LPT9.tar.gz", b"con .x"] {
            assert!(is_device_name(name), "{}", String::from_utf8_lossy(name));
        }
        for name in [&b"CONS"[..], b"com0", b"com10", b"xcon", b".con", b"lpt"] {
            assert!(!is_device_name(name), "{}", String::from_utf8_lossy(name));
        }
    }

    fn shown(local: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        local_to_wire(local, &mut out);
        out
    }

    fn path(wire: &str) -> Result<String, NtStatus> {
        parse_path(&utf16le(wire)).map(|p| String::from_utf8(p.path).unwrap())
    }

    #[test]
    fn paths_a_client_may_send() {
        for (wire, local) in [
            ("", ""),
            ("a", "a"),
            ("a\\b c\\d.txt", "a/b c/d.txt"),
            ("Grüße\\\u{1f600}", "Grüße/\u{1f600}"),
            ("a\u{f022}b", "a:b"),
            ("...", "..."),
            ("a.", "a."),
            ("\u{f021}\u{f026}\u{f001}", "*\\\u{1}"),
            ("a\u{f029}", "a."),
            ("a\u{f029}b", "a\u{f029}b"),
        ] {
            assert_eq!(path(wire).as_deref(), Ok(local), "{wire:?}");
        }
        let dir = parse_path(&utf16le("a\\b\\")).unwrap();
        assert_eq!((dir.path.as_slice(), dir.trailing_separator), (&b"a/b"[..], true));
        assert_eq!(parse_target(&utf16le("\\a\\b")).unwrap().path, b"a/b");
    }

    #[test]
    fn posix_names_are_what_they_are() {
        for (wire, local) in [
            ("", ""),
            ("a:b", "a:b"),
            ("d/a\\b*?<>|\"", "d/a\\b*?<>|\""),
            ("a. /b ", "a. /b "),
            ("/a//b/", "a/b"),
            ("a\u{f022}b", "a:b"),
            ("\u{1}", "\u{1}"),
        ] {
            assert_eq!(parse_posix_path(&utf16le(wire)).unwrap(), local.as_bytes(), "{wire:?}");
        }
        assert_eq!(parse_posix_path(&utf16le("a/..")), Err(NtStatus::OBJECT_PATH_SYNTAX_BAD));
        assert_eq!(parse_posix_path(&utf16le(".\u{f029}")), Err(NtStatus::OBJECT_PATH_SYNTAX_BAD));
        for wire in [".", "a/.", "a\0", "\u{f029}"] {
            assert_eq!(parse_posix_path(&utf16le(wire)), Err(NtStatus::OBJECT_NAME_INVALID), "{wire:?}");
        }
        assert_eq!(parse_posix_path(b"a\0\0\xd8"), Err(NtStatus::OBJECT_NAME_INVALID));
        assert_eq!(parse_posix_path(b"a"), Err(NtStatus::OBJECT_NAME_INVALID));
        assert_eq!(parse_posix_path(&utf16le(&"x".repeat(256))), Err(NtStatus::NAME_TOO_LONG));
        for local in [&b"a:b "[..], b"x\\.", b"\xff\xc3\xbc", "\u{f022}\u{ef90}".as_bytes(), b"\x01"] {
            let mut wire = Vec::new();
            local_to_posix_wire(local, &mut wire);
            assert_eq!(parse_posix_path(&wire).unwrap(), local);
        }
    }

    #[test]
    fn paths_a_client_may_not_send() {
        for wire in ["a*", "a?", "a<", "a>", "a|", "a\"", "a/b", "a\u{1}", "\0", "a\\\\b", ".", "a\\.", ".\\a"] {
            assert_eq!(path(wire), Err(NtStatus::OBJECT_NAME_INVALID), "{wire:?}");
        }
        // The private range spells no way up either.
        for wire in ["\u{f029}", ".\u{f029}", "a\\.\u{f029}"] {
            assert_eq!(path(wire), Err(NtStatus::OBJECT_NAME_INVALID), "{wire:?}");
        }
        for wire in ["..", "a\\..", "..\\a"] {
            assert_eq!(path(wire), Err(NtStatus::OBJECT_PATH_SYNTAX_BAD), "{wire:?}");
        }
        assert_eq!(path("\\a"), Err(NtStatus::INVALID_PARAMETER));
        assert_eq!(path("\\"), Err(NtStatus::INVALID_PARAMETER));
        assert_eq!(parse_path(b"a"), Err(NtStatus::OBJECT_NAME_INVALID));
        assert_eq!(parse_path(b"a\0\0\xd8"), Err(NtStatus::OBJECT_NAME_INVALID));
        assert_eq!(path(&"x".repeat(256)), Err(NtStatus::NAME_TOO_LONG));
        assert_eq!(path(&"ü".repeat(128)), Err(NtStatus::NAME_TOO_LONG));
        assert!(path(&"x".repeat(255)).is_ok());
    }

    #[test]
    fn streams() {
        let stream = |name: &str, kind| Some(StreamName { name: name.into(), kind });
        for (wire, local, want) in [
            ("f:s", "f", stream("s", StreamKind::Data)),
            ("d\\f:s:$data", "d/f", stream("s", StreamKind::Data)),
            ("f::$DATA", "f", stream("", StreamKind::Data)),
            ("d:$I30:$INDEX_ALLOCATION", "d", stream("$I30", StreamKind::IndexAllocation)),
            (":s", "", stream("s", StreamKind::Data)),
            ("f:a*?", "f", stream("a*?", StreamKind::Data)),
            ("f:a\u{f022}b", "f", stream("a:b", StreamKind::Data)),
        ] {
            let parsed = parse_path(&utf16le(wire)).unwrap();
            assert_eq!((parsed.path.as_slice(), parsed.stream), (local.as_bytes(), want), "{wire}");
        }
        for wire in ["f:", "f::", "f:s:", "f:s:$FOO", "f:s:$DATA:", "f:s\\b", "f:s/b", "f\\:s"] {
            assert_eq!(path(wire), Err(NtStatus::OBJECT_NAME_INVALID), "{wire}");
        }
        assert_eq!(parse_stream(&utf16le(":s:$DATA")).unwrap().name, b"s");
        assert!(parse_stream(&utf16le("s")).is_err());
    }

    #[test]
    fn names_windows_cannot_hold_are_shown_in_the_private_range() {
        for (local, wire) in [
            (&b"plain.txt"[..], "plain.txt"),
            (b"\"*:<>?\\|", "\u{f020}\u{f021}\u{f022}\u{f023}\u{f024}\u{f025}\u{f026}\u{f027}"),
            (b"a\x01\x1f", "a\u{f001}\u{f01f}"),
            (b"a ", "a\u{f028}"),
            (b" a b", " a b"),
            (b"a..", "a.\u{f029}"),
            (b"\xff.x", "\u{efff}.x"),
            (b"a\xc3", "a\u{efc3}"),
            ("\u{f021}".as_bytes(), "\u{efef}\u{ef80}\u{efa1}"),
            ("\u{1f600}".as_bytes(), "\u{1f600}"),
            (b".", "."),
            (b"..", ".."),
        ] {
            assert_eq!(from_utf16le(&shown(local)), wire, "{local:?}");
        }
        let mut out = Vec::new();
        path_to_wire(b"a/b:", &mut out);
        assert_eq!(from_utf16le(&out), "a\\b\u{f022}");
    }

    #[test]
    fn every_local_name_is_reachable_by_the_name_it_is_shown_under() {
        let pieces: Vec<Vec<u8>> = (1..=255u8)
            .filter(|&b| b != b'/')
            .map(|b| vec![b])
            .chain(
                ["é", "\u{f001}", "\u{f022}", "\u{f028}", "\u{f029}", "\u{f02a}", "\u{ef80}", "\u{1f600}"]
                    .map(Vec::from),
            )
            .chain([b"\xed\xa0\x80".to_vec(), b"\xed\xa0\x80\xed\xb0\x80".to_vec(), b"\xf0\x9f".to_vec()])
            .collect();
        let check = |local: Vec<u8>| {
            if local == b"." || local == b".." {
                return;
            }
            let wire = shown(&local);
            assert!(wire.len() <= 2 * local.len());
            assert_eq!(component_to_local(&wire), Ok(local.clone()), "{local:?}");
            // And it is the name it is shown under again.
            assert_eq!(shown(&local), wire);
        };
        for a in &pieces {
            check(a.clone());
            for b in &pieces {
                check([a.as_slice(), b].concat());
                check([a.as_slice(), b"x", b, b" "].concat());
            }
        }
        check(vec![0xff; 255]);
    }

    #[test]
    fn two_local_names_are_never_shown_alike() {
        let mut seen = std::collections::HashMap::new();
        let letters = [0xefu8, 0x80, 0x81, 0xa1, 0x2a, 0x01, 0x20, 0x2e, 0xc3];
        for n in 0..letters.len().pow(4) {
            let local: Vec<u8> = (0..4).map(|i| letters[n / letters.len().pow(i) % letters.len()]).collect();
            assert_eq!(seen.insert(shown(&local), local.clone()), None, "{local:?}");
        }
    }

    #[test]
    fn no_wire_name_makes_a_bad_component() {
        let units = [0x2e, 0xf029, 0xf028, 0xef80, 0xefaf, 0xf001, 0xf026, 0x61, 0xd800, 0xdc00];
        for n in 0..units.len().pow(3) {
            let wire: Vec<u8> =
                (0..3).flat_map(|i| u16::to_le_bytes(units[n / units.len().pow(i) % units.len()])).collect();
            for len in [2, 4, 6] {
                if let Ok(local) = component_to_local(&wire[..len]) {
                    assert!(!local.is_empty() && local != b"." && local != b"..");
                    assert!(!local.contains(&0) && !local.contains(&b'/'));
                }
            }
        }
    }

    #[test]
    fn upper_case_is_one_unit_for_one() {
        for (lower, upper) in [('a', 'A'), ('z', 'Z'), ('é', 'É'), ('ÿ', 'Ÿ'), ('я', 'Я'), ('σ', 'Σ')] {
            assert_eq!(upcase(lower as u16), upper as u16);
        }
        for same in ['ß', 'µ', 'ı', 'ſ', '{', 'Z', '中'] {
            assert_eq!(upcase(same as u16), same as u16, "{same}");
        }
        assert_eq!(upcase(0xd800), 0xd800);
    }
}
