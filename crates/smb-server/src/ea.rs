//! Extended attributes of OS/2 and Windows, FILE_FULL_EA_INFORMATION (MS-FSCC 2.4), kept as Samba keeps them: in
//! `user.NAME`. What servers keep there for themselves is neither shown nor set. QUERY_INFO, SET_INFO and CREATE with an
//! `ExtA` context call this; may wait.

use smb_wire::NtStatus;
use smb_wire::fscc::{EaEntry, EaListWriter, ea_entries};
use vfs::{Cred, Node, VfsError, VfsResult};

use crate::failure::{Failure, status_of};
use crate::stream;

const PREFIX: &str = "user.";
/// What servers keep under [`PREFIX`] for themselves; streams besides.
const OWN: [&str; 4] = ["DOSATTRIB", "SAMBA_PAI", "BBOXATTR", "NTACL"];
/// What this server keeps there.
const LONGSHORE: &str = "longshore.";
/// The longest value a list can hold.
const MAX_VALUE_BYTES: usize = 65535;
/// The flag of an attribute whose file makes no sense to those who do not know it (FILE_NEED_EA).
const NEED_EA: u8 = 0x80;

/// One attribute: its name, and its value; none to remove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ea {
    name: String,
    value: Vec<u8>,
}

/// Reads a list from the wire.
pub fn decode(list: &[u8]) -> Result<Vec<Ea>, NtStatus> {
    let mut eas = Vec::new();
    if list.is_empty() {
        return Ok(eas);
    }
    for entry in ea_entries(list) {
        let entry = entry.map_err(|_| NtStatus::EA_LIST_INCONSISTENT)?;
        if entry.flags & !NEED_EA != 0 {
            return Err(NtStatus::INVALID_EA_FLAG);
        }
        let name = check_name(entry.name)?;
        eas.push(Ea { name: name.to_owned(), value: entry.value.to_vec() });
    }
    Ok(eas)
}

/// MS-FSCC 2.4: a name is ASCII without control characters and a few others.
fn check_name(name: &[u8]) -> Result<&str, NtStatus> {
    let bad = |&b: &u8| !(0x20..0x7f).contains(&b) || b"\\/:*?\"<>|,+=[];".contains(&b);
    if name.is_empty() || name.iter().any(bad) {
        return Err(NtStatus::INVALID_EA_NAME);
    }
    let name = std::str::from_utf8(name).map_err(|_| NtStatus::INVALID_EA_NAME)?;
    if is_own(name) { Err(NtStatus::ACCESS_DENIED) } else { Ok(name) }
}

fn is_own(name: &str) -> bool {
    let starts = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let of_streams = [stream::PREFIX, stream::FURTHER_PREFIX].map(|key| key.strip_prefix(PREFIX).unwrap_or(key));
    OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) || starts(LONGSHORE) || of_streams.into_iter().any(starts)
}

/// The names of an object's attributes.
fn names(node: &dyn Node) -> VfsResult<Vec<String>> {
    let all = match node.xattr_names() {
        Err(VfsError::NotSupported) => Vec::new(),
        names => names?,
    };
    let shown = |key: &String| Some(key.strip_prefix(PREFIX).filter(|name| !is_own(name))?.to_owned());
    Ok(all.iter().filter_map(shown).collect())
}

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// Sets and removes attributes; names that differ in case only are one.
pub fn set(node: &dyn Node, cred: &Cred, eas: &[Ea]) -> Result<(), Failure> {
    if eas.is_empty() {
        return Ok(());
    }
    let there = names(node)?;
    for ea in eas {
        let name = there.iter().find(|name| name.eq_ignore_ascii_case(&ea.name)).unwrap_or(&ea.name);
        let done = if ea.value.is_empty() {
            node.remove_xattr(cred, &key(name))
        } else {
            node.set_xattr(cred, &key(name), &ea.value)
        };
        match done {
            Ok(()) => {}
            Err(VfsError::NoXattr) if ea.value.is_empty() => {}
            Err(VfsError::TooLarge | VfsError::NoSpace) => return Err(NtStatus::EA_TOO_LARGE.into()),
            Err(VfsError::NotSupported) => return Err(NtStatus::EAS_NOT_SUPPORTED.into()),
            Err(error) => return Err(status_of(error).into()),
        }
    }
    Ok(())
}

/// Removes all attributes and sets these: what overwriting a file does (MS-FSA 2.1.5.1.2).
pub fn replace(node: &dyn Node, cred: &Cred, eas: &[Ea]) -> Result<(), Failure> {
    for name in names(node)? {
        node.remove_xattr(cred, &key(&name))?;
    }
    set(node, cred, eas)
}

fn all(node: &dyn Node) -> VfsResult<Vec<Ea>> {
    let mut eas = Vec::new();
    for name in names(node)? {
        match node.xattr(&key(&name), MAX_VALUE_BYTES) {
            Ok(value) => eas.push(Ea { name, value }),
            // Removed meanwhile, or longer than a list can hold.
            Err(VfsError::NoXattr | VfsError::RangeTooSmall) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(eas)
}

/// EaSize: what OS/2 would take for them, as Samba and Windows tell it. 0 where there are none.
pub fn size_bytes(node: &dyn Node) -> VfsResult<u32> {
    let eas = all(node)?;
    let each = |ea: &Ea| 5 + ea.name.len() + ea.value.len();
    let sum: usize = eas.iter().map(each).sum();
    Ok(if eas.is_empty() { 0 } else { u32::try_from(sum + 4).unwrap_or(u32::MAX) })
}

/// FileFullEaInformation of an object, of those in `wanted` where that is not empty, in at most `room` bytes.
pub fn list(node: &dyn Node, wanted: &[&[u8]], room: usize) -> Result<(Vec<u8>, NtStatus), Failure> {
    let mut eas = all(node)?;
    if !wanted.is_empty() {
        // Each that was asked for is told, with no value where there is none.
        let find = |name: &&[u8]| -> Result<Ea, NtStatus> {
            let name = check_name(name)?;
            let found = eas.iter().find(|ea| ea.name.eq_ignore_ascii_case(name));
            Ok(found.cloned().unwrap_or_else(|| Ea { name: name.to_owned(), value: Vec::new() }))
        };
        eas = wanted.iter().map(find).collect::<Result<_, _>>()?;
    }
    if eas.is_empty() {
        return Err(NtStatus::NO_EAS_ON_FILE.into());
    }
    let mut out = Vec::new();
    let mut writer = EaListWriter::new(&mut out, room);
    for (index, ea) in eas.iter().enumerate() {
        if !writer.push(&EaEntry { flags: 0, name: ea.name.as_bytes(), value: &ea.value }) {
            let status = if index == 0 { NtStatus::BUFFER_TOO_SMALL } else { NtStatus::BUFFER_OVERFLOW };
            return if index == 0 { Err(status.into()) } else { Ok((out, status)) };
        }
    }
    Ok((out, NtStatus::SUCCESS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(flags: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        EaListWriter::new(&mut out, 4096).push(&EaEntry { flags, name, value });
        out
    }

    #[test]
    fn names_of_the_servers_own_are_nobodys() {
        for own in
            ["DOSATTRIB", "dosattrib", "DosStream.x:$DATA", "DosStreamExt.1.x:$DATA", "longshore.NTACL", "SAMBA_PAI"]
        {
            assert!(is_own(own), "{own}");
        }
        assert!(!is_own("EAONE") && !is_own("DOSATTRIB2"));
        assert_eq!(decode(&entry(0, b"dosattrib", b"x")), Err(NtStatus::ACCESS_DENIED));
    }

    #[test]
    fn odd_lists_are_refused() {
        assert_eq!(decode(&entry(0, b"", b"x")), Err(NtStatus::INVALID_EA_NAME));
        assert_eq!(decode(&entry(0, b"a*b", b"x")), Err(NtStatus::INVALID_EA_NAME));
        assert_eq!(decode(&entry(1, b"a", b"x")), Err(NtStatus::INVALID_EA_FLAG));
        let good = entry(NEED_EA, b"EAONE", b"VALUE1");
        assert_eq!(decode(&good), Ok(vec![Ea { name: "EAONE".into(), value: b"VALUE1".to_vec() }]));
        for len in 1..good.len() {
            assert_eq!(decode(&good[..len]), Err(NtStatus::EA_LIST_INCONSISTENT), "{len}");
        }
    }
}
