//! The `samr` interface (MS-SAMR), as far as clients use it to browse who there is: the machine's own domain and BUILTIN,
//! names for relative ids and back, the basics of a user. Nothing can be changed.

use super::accounts::{Directory, Use, builtin_sid};
use super::ndr::{NdrReader, NdrWriter};
use super::pdu::Syntax;
use super::pipe::{Fault, Interface};
use super::policy::{self, Handle};
use crate::status::NtStatus;

/// The interface, over one directory.
#[derive(Clone)]
pub struct Samr(Directory);

impl Samr {
    /// 12345778-1234-abcd-ef00-0123456789ac version 1.0 (MS-SAMR 1.9).
    pub const SYNTAX: Syntax =
        Syntax::new(0x1234_5778, 0x1234, 0xabcd, [0xef, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xac], 1);

    /// Answers from `directory`.
    pub fn new(directory: Directory) -> Self {
        Self(directory)
    }
}

/// Names or relative ids in one call (MS-SAMR 3.1.5.11.2).
const MAX_LOOKUPS: u32 = 1000;
/// The name of BUILTIN as a domain here.
const BUILTIN: &str = "Builtin";
/// DOMAIN_GROUP_RID_USERS (MS-SAMR 2.2.1.14).
const USERS_RID: u32 = 513;
/// USER_NORMAL_ACCOUNT (MS-SAMR 2.2.1.12).
const NORMAL_ACCOUNT: u32 = 0x10;

impl Interface for Samr {
    fn syntax(&self) -> Syntax {
        Self::SYNTAX
    }

    fn call(&self, opnum: u16, stub: &[u8]) -> Result<Vec<u8>, Fault> {
        let from = &mut NdrReader::new(stub);
        match opnum {
            // SamrConnect, 2 and 4.
            0 | 57 | 62 => Ok(policy::opened(Handle::Server)),
            1 => policy::close(from),
            5 => self.lookup_domain(from),
            6 => self.enumerate_domains(from),
            7 => self.open_domain(from),
            13 => self.enumerate_users(from),
            17 => self.lookup_names(from),
            18 => self.lookup_rids(from),
            34 => self.open_user(from),
            36 | 47 => self.query_user(from),
            64 => Ok(connect5()),
            _ => Err(Fault::OP_RANGE),
        }
    }
}

/// SamrConnect5 (MS-SAMR 3.1.5.1.1): revision 3, no features.
fn connect5() -> Vec<u8> {
    let mut out = NdrWriter::new();
    [1, 1, 3, 0].into_iter().for_each(|word| out.u32(word));
    Handle::Server.put(&mut out);
    out.u32(NtStatus::SUCCESS.0);
    out.finish()
}

impl Samr {
    /// SamrEnumerateDomainsInSamServer (MS-SAMR 3.1.5.2.1).
    fn enumerate_domains(&self, from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
        let handle = Handle::take(from)?;
        let resume = from.u32()?;
        let valid = handle == Some(Handle::Server);
        let all = [(0, self.0.machine.clone()), (0, BUILTIN.to_owned())];
        let list = if valid { all.into_iter().skip(resume as usize).collect() } else { Vec::new() };
        Ok(listing(2, &list, if valid { NtStatus::SUCCESS } else { NtStatus::INVALID_HANDLE }))
    }

    /// SamrLookupDomainInSamServer (MS-SAMR 3.1.5.11.1).
    fn lookup_domain(&self, from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
        let handle = Handle::take(from)?;
        let name = from.counted_string()?;
        let found = match handle {
            Some(Handle::Server) if name.eq_ignore_ascii_case(&self.0.machine) => Ok(Some(self.0.domain.clone())),
            Some(Handle::Server) if name.eq_ignore_ascii_case(BUILTIN) => Ok(builtin_sid()),
            Some(Handle::Server) => Ok(None),
            _ => Err(NtStatus::INVALID_HANDLE),
        };
        let mut out = NdrWriter::new();
        let (sid, status) = match found {
            Ok(Some(sid)) => (Some(sid), NtStatus::SUCCESS),
            Ok(None) => (None, NtStatus::NO_SUCH_DOMAIN),
            Err(status) => (None, status),
        };
        out.pointer(sid.is_some());
        if let Some(sid) = sid {
            out.sid(&sid);
        }
        out.u32(status.0);
        Ok(out.finish())
    }

    /// SamrOpenDomain (MS-SAMR 3.1.5.1.5).
    fn open_domain(&self, from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
        let handle = Handle::take(from)?;
        from.u32()?; // every right that is asked for is one to look
        let sid = from.sid()?;
        Ok(match handle {
            Some(Handle::Server) if sid == self.0.domain => policy::opened(Handle::Domain),
            Some(Handle::Server) if Some(&sid) == builtin_sid().as_ref() => policy::opened(Handle::Builtin),
            Some(Handle::Server) => policy::not_opened(NtStatus::NO_SUCH_DOMAIN),
            _ => policy::not_opened(NtStatus::INVALID_HANDLE),
        })
    }

    /// SamrEnumerateUsersInDomain (MS-SAMR 3.1.5.2.5): those who may log in.
    fn enumerate_users(&self, from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
        let handle = Handle::take(from)?;
        let resume = from.u32()?;
        let all = match handle {
            Some(Handle::Domain) => self.0.accounts.logins(),
            Some(Handle::Builtin) => Vec::new(),
            _ => return Ok(listing(0, &[], NtStatus::INVALID_HANDLE)),
        };
        let rid = |(name, _): (String, u32)| Some((self.0.rid_of(&name)?.0, name));
        let total = all.len() as u32;
        let list: Vec<_> = all.into_iter().skip(resume as usize).take(MAX_LOOKUPS as usize).filter_map(rid).collect();
        let next = resume.saturating_add(MAX_LOOKUPS).min(total);
        Ok(listing(next, &list, if next < total { NtStatus::MORE_ENTRIES } else { NtStatus::SUCCESS }))
    }

    /// SamrLookupNamesInDomain (MS-SAMR 3.1.5.11.2).
    fn lookup_names(&self, from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
        let handle = Handle::take(from)?;
        let count = take_count(from)?;
        let names = from.counted_elements(count)?;
        let find = |name: &String| match handle {
            Some(Handle::Domain) => self.0.rid_of(name),
            Some(Handle::Builtin) => {
                let found = self.0.by_name(&format!("BUILTIN\\{name}"))?;
                Some((*found.sid.sub_authorities().last()?, found.kind))
            }
            _ => None,
        };
        let found: Vec<_> = names.iter().map(find).collect();
        let mut out = NdrWriter::new();
        put_numbers(found.iter().map(|found| found.map_or(0, |found| found.0)), &mut out);
        put_numbers(found.iter().map(|found| found.map_or(Use::Unknown, |found| found.1) as u32), &mut out);
        out.u32(lookup_status(handle, &found).0);
        Ok(out.finish())
    }

    /// SamrLookupIdsInDomain (MS-SAMR 3.1.5.11.3).
    fn lookup_rids(&self, from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
        let handle = Handle::take(from)?;
        let count = take_count(from)?;
        let rids = (0..count).map(|_| from.u32()).collect::<Result<Vec<_>, _>>()?;
        let find = |&rid: &u32| match handle {
            Some(Handle::Domain) => self.0.by_rid(rid),
            Some(Handle::Builtin) => self.0.builtin(rid),
            _ => None,
        };
        let found: Vec<_> = rids.iter().map(find).collect();
        let names: Vec<_> = found.iter().map(|found| found.as_ref().map_or("", |found| &found.name)).collect();
        let mut out = NdrWriter::new();
        out.u32(names.len() as u32);
        out.pointer(true);
        out.u32(names.len() as u32);
        names.iter().for_each(|name| out.counted_head(name, false));
        names.iter().for_each(|name| out.counted_body(name, false));
        let kinds = found.iter().map(|found| found.as_ref().map_or(Use::Unknown, |found| found.kind) as u32);
        put_numbers(kinds, &mut out);
        out.u32(lookup_status(handle, &found).0);
        Ok(out.finish())
    }

    /// SamrOpenUser (MS-SAMR 3.1.5.1.9).
    fn open_user(&self, from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
        let handle = Handle::take(from)?;
        from.u32()?;
        let rid = from.u32()?;
        Ok(match handle {
            Some(Handle::Domain) if self.user(rid).is_some() => policy::opened(Handle::User(rid)),
            Some(Handle::Domain | Handle::Builtin) => policy::not_opened(NtStatus::NO_SUCH_USER),
            _ => policy::not_opened(NtStatus::INVALID_HANDLE),
        })
    }

    /// SamrQueryInformationUser and 2 (MS-SAMR 3.1.5.5.5): names, primary group, that it is a normal account.
    fn query_user(&self, from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
        let handle = Handle::take(from)?;
        let level = from.u16()?;
        let mut out = NdrWriter::new();
        let name = match handle {
            Some(Handle::User(rid)) => self.user(rid).ok_or(NtStatus::NO_SUCH_USER),
            _ => Err(NtStatus::INVALID_HANDLE),
        };
        let known = matches!(level, 1 | 6 | 7 | 8 | 9 | 13 | 16);
        let name = match name.and_then(|name| if known { Ok(name) } else { Err(NtStatus::INVALID_INFO_CLASS) }) {
            Ok(name) => name,
            Err(status) => {
                out.pointer(false);
                out.u32(status.0);
                return Ok(out.finish());
            }
        };
        out.pointer(true);
        out.u16(level);
        out.align(4);
        let strings: &[&str] = match level {
            1 => &[&name, "", "", ""],
            6 => &[&name, ""],
            7 => &[&name],
            8 | 13 => &[""],
            _ => &[],
        };
        for (index, string) in strings.iter().enumerate() {
            out.counted_head(string, false);
            if level == 1 && index == 1 {
                out.u32(USERS_RID);
            }
        }
        strings.iter().for_each(|string| out.counted_body(string, false));
        match level {
            9 => out.u32(USERS_RID),
            16 => out.u32(NORMAL_ACCOUNT),
            _ => {}
        }
        out.u32(NtStatus::SUCCESS.0);
        Ok(out.finish())
    }

    fn user(&self, rid: u32) -> Option<String> {
        self.0.by_rid(rid).filter(|found| found.kind == Use::User).map(|found| found.name)
    }
}

/// The count of a lookup and its conformant and varying array's head, of which the elements follow.
fn take_count(from: &mut NdrReader<'_>) -> Result<u32, Fault> {
    let (count, _room, offset, actual) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
    if count > MAX_LOOKUPS || offset != 0 || actual != count { Err(Fault::BAD_STUB) } else { Ok(count) }
}

fn lookup_status<T>(handle: Option<Handle>, found: &[Option<T>]) -> NtStatus {
    match found.iter().flatten().count() {
        _ if !matches!(handle, Some(Handle::Domain | Handle::Builtin)) => NtStatus::INVALID_HANDLE,
        mapped if mapped == found.len() => NtStatus::SUCCESS,
        0 => NtStatus::NONE_MAPPED,
        _ => NtStatus::SOME_NOT_MAPPED,
    }
}

/// SAMPR_ULONG_ARRAY.
fn put_numbers(numbers: impl ExactSizeIterator<Item = u32>, out: &mut NdrWriter) {
    out.u32(numbers.len() as u32);
    out.pointer(true);
    out.u32(numbers.len() as u32);
    numbers.for_each(|number| out.u32(number));
}

/// The answer of an enumeration: where it goes on, SAMPR_ENUMERATION_BUFFER, its count, the result.
fn listing(resume: u32, list: &[(u32, String)], status: NtStatus) -> Vec<u8> {
    let mut out = NdrWriter::new();
    out.u32(resume);
    out.pointer(true);
    out.u32(list.len() as u32);
    out.pointer(true);
    out.u32(list.len() as u32);
    for (rid, name) in list {
        out.u32(*rid);
        out.counted_head(name, false);
    }
    list.iter().for_each(|(_, name)| out.counted_body(name, false));
    out.u32(list.len() as u32);
    out.u32(status.0);
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::super::accounts::tests::directory;
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn with(handle: Handle, arguments: &[u32]) -> Vec<u8> {
        let mut stub = policy::opened(handle)[..20].to_vec();
        stub.extend(words(arguments));
        stub
    }

    fn status(opnum: u16, stub: &[u8]) -> u32 {
        let answer = Samr::new(directory()).call(opnum, stub).unwrap();
        u32::from_le_bytes(*answer.last_chunk().unwrap())
    }

    #[test]
    fn users_by_relative_id() {
        let samr = Samr::new(directory());
        let answer = samr.call(18, &with(Handle::Domain, &[1, 1000, 0, 1, 3002])).unwrap();
        let mut want = words(&[1, 0x20000, 1, 8 | 8 << 16, 0x20004, 4, 0, 4]);
        want.extend(crate::name::utf16le("anna"));
        want.extend(words(&[1, 0x20008, 1, 1, 0]));
        assert_eq!(answer, want);
        assert_eq!(samr.call(34, &with(Handle::Domain, &[1, 3002])), Ok(policy::opened(Handle::User(3002))));
        assert_eq!(status(34, &with(Handle::Domain, &[1, 1201])), NtStatus::NO_SUCH_USER.0, "a group");
        assert_eq!(status(34, &with(Handle::Server, &[1, 3002])), NtStatus::INVALID_HANDLE.0);
    }

    #[test]
    fn what_is_asked_of_a_user() {
        for (level, want) in [(1u32, 0), (7, 0), (16, 0), (21, NtStatus::INVALID_INFO_CLASS.0)] {
            assert_eq!(status(36, &with(Handle::User(3002), &[level])), want, "{level}");
        }
        assert_eq!(status(36, &with(Handle::Domain, &[1])), NtStatus::INVALID_HANDLE.0);
    }

    #[test]
    fn requests_cut_short_fault() {
        let samr = Samr::new(directory());
        let mut open = with(Handle::Server, &[0, 4]);
        open.extend(directory().domain.encode());
        assert_eq!(samr.call(7, &open), Ok(policy::opened(Handle::Domain)));
        let rids = with(Handle::Domain, &[1, 1000, 0, 1, 3002]);
        for (opnum, stub) in [(7, &open), (18, &rids), (6, &with(Handle::Server, &[0]))] {
            for short in 0..stub.len() {
                assert_eq!(samr.call(opnum, &stub[..short]), Err(Fault::BAD_STUB), "{opnum} {short}");
            }
        }
        assert_eq!(samr.call(18, &with(Handle::Domain, &[1001, 1001, 0, 1001])), Err(Fault::BAD_STUB));
    }
}
