//! The `lsarpc` interface (MS-LSAT, MS-LSAD), as far as a client's security page goes: names for SIDs and back, who the
//! machine is, who the caller is. Handles say what they are of and nothing is kept for them, so that closing one is free.

use super::accounts::{Directory, Principal, Use};
use super::ndr::{NdrReader, NdrWriter};
use super::pdu::Syntax;
use super::pipe::{Fault, Interface};
use super::policy::{self, Handle};
use crate::security::Sid;
use crate::status::NtStatus;

/// The interface, over one directory.
#[derive(Clone)]
pub struct Lsarpc(Directory);

impl Lsarpc {
    /// 12345778-1234-abcd-ef00-0123456789ab version 0.0 (MS-LSAT 1.9).
    pub const SYNTAX: Syntax =
        Syntax::new(0x1234_5778, 0x1234, 0xabcd, [0xef, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab], 0);

    /// Answers from `directory`.
    pub fn new(directory: Directory) -> Self {
        Self(directory)
    }
}

/// SIDs or names in one call (MS-LSAT 2.2.17, 3.1.4.5).
const MAX_LOOKUPS: u32 = 1000;
/// LookupNames3 and 4, and LookupSids3, have no domain of -1 but this.
const NO_DOMAIN: u32 = u32::MAX;

impl Interface for Lsarpc {
    fn syntax(&self) -> Syntax {
        Self::SYNTAX
    }

    fn call(&self, opnum: u16, stub: &[u8]) -> Result<Vec<u8>, Fault> {
        let from = &mut NdrReader::new(stub);
        match opnum {
            0 => policy::close(from),
            // LsarOpenPolicy, LsarOpenPolicy2: whoever asks may look up, and nothing else is there.
            6 | 44 => Ok(policy::opened(Handle::Policy)),
            7 | 46 => self.query_info(from),
            11 => enumerate_accounts(from),
            14 => self.lookup_names(Names::V1, from),
            15 => self.lookup_sids(Sids::V1, from),
            45 => self.user_name(from),
            57 => self.lookup_sids(Sids::V2, from),
            58 => self.lookup_names(Names::V2, from),
            68 => self.lookup_names(Names::V3, from),
            76 => self.lookup_sids(Sids::V3, from),
            77 => self.lookup_names(Names::V4, from),
            _ => Err(Fault::OP_RANGE),
        }
    }
}

/// Which of the LsarLookupSids.
#[derive(Clone, Copy, PartialEq)]
enum Sids {
    V1,
    V2,
    V3,
}

/// Which of the LsarLookupNames.
#[derive(Clone, Copy, PartialEq)]
enum Names {
    V1,
    V2,
    V3,
    V4,
}

impl Lsarpc {
    /// LsarQueryInformationPolicy and 2 (MS-LSAD 3.1.4.4.3): the domains.
    fn query_info(&self, from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
        let handle = Handle::take(from)?;
        let level = from.u16()?;
        let mut out = NdrWriter::new();
        let directory = &self.0;
        // PolicyPrimaryDomainInformation is the workgroup, which has no SID.
        let (name, sid) = match level {
            3 | 12 => (&directory.workgroup, None),
            5 => (&directory.machine, Some(&directory.domain)),
            _ => {
                out.pointer(false);
                out.u32(NtStatus::INVALID_PARAMETER.0);
                return Ok(out.finish());
            }
        };
        if handle != Some(Handle::Policy) {
            out.pointer(false);
            out.u32(NtStatus::INVALID_HANDLE.0);
            return Ok(out.finish());
        }
        out.pointer(true);
        out.u16(level);
        out.align(4);
        let names = if level == 12 { vec![name.as_str(), "", ""] } else { vec![name.as_str()] };
        names.iter().for_each(|name| out.counted_head(name, true));
        if level == 12 {
            [0; 4].into_iter().for_each(|word| out.u32(word)); // no GUID
        }
        out.pointer(sid.is_some());
        names.iter().for_each(|name| out.counted_body(name, true));
        if let Some(sid) = sid {
            out.sid(sid);
        }
        out.u32(NtStatus::SUCCESS.0);
        Ok(out.finish())
    }

    /// LsarGetUserName (MS-LSAT 3.1.4.2).
    fn user_name(&self, from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
        from.unique_string()?;
        if from.pointer()? {
            from.counted_string()?;
        }
        let wants_domain = from.pointer()?;
        let mut out = NdrWriter::new();
        out.pointer(true);
        out.counted_head(&self.0.caller, false);
        out.counted_body(&self.0.caller, false);
        out.pointer(wants_domain);
        if wants_domain {
            out.pointer(true);
            out.counted_head(&self.0.machine, false);
            out.counted_body(&self.0.machine, false);
        }
        out.u32(NtStatus::SUCCESS.0);
        Ok(out.finish())
    }

    /// LsarLookupSids, 2 and 3 (MS-LSAT 3.1.4.9 to 3.1.4.11).
    fn lookup_sids(&self, which: Sids, from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
        let valid = which == Sids::V3 || Handle::take(from)? == Some(Handle::Policy);
        let sids = take_sids(from)?;
        if !valid {
            return Ok(nothing(NtStatus::INVALID_HANDLE));
        }
        let found: Vec<_> = sids.iter().map(|sid| self.0.by_sid(sid)).collect();
        let names: Vec<_> = sids.iter().zip(&found).map(|(sid, found)| shown(sid, found.as_ref())).collect();
        let mut out = NdrWriter::new();
        let indices = put_domains(&found, &mut out);
        out.u32(names.len() as u32);
        out.pointer(true);
        out.u32(names.len() as u32);
        for ((found, name), index) in found.iter().zip(&names).zip(&indices) {
            out.u32(kind(found).into());
            out.counted_head(name, false);
            out.u32(*index);
            if which != Sids::V1 {
                out.u32(0);
            }
        }
        names.iter().for_each(|name| out.counted_body(name, false));
        Ok(finish(out, &found))
    }

    /// LsarLookupNames, 2, 3 and 4 (MS-LSAT 3.1.4.5 to 3.1.4.8).
    fn lookup_names(&self, which: Names, from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
        let valid = which == Names::V4 || Handle::take(from)? == Some(Handle::Policy);
        let count = from.u32()?;
        if count > MAX_LOOKUPS {
            return Err(Fault::BAD_STUB);
        }
        let names = from.counted_strings(count)?;
        if !valid {
            return Ok(nothing(NtStatus::INVALID_HANDLE));
        }
        let found: Vec<_> = names.iter().map(|name| self.0.by_name(name)).collect();
        let mut out = NdrWriter::new();
        let indices = put_domains(&found, &mut out);
        out.u32(found.len() as u32);
        out.pointer(true);
        out.u32(found.len() as u32);
        let by_sid = matches!(which, Names::V3 | Names::V4);
        for (found, index) in found.iter().zip(&indices) {
            out.u32(kind(found).into());
            match by_sid {
                true => out.pointer(found.is_some()),
                false => out.u32(found.as_ref().and_then(rid).unwrap_or(u32::MAX)),
            }
            out.u32(*index);
            if which != Names::V1 {
                out.u32(0);
            }
        }
        if by_sid {
            found.iter().flatten().for_each(|found| out.sid(&found.sid));
        }
        Ok(finish(out, &found))
    }
}

/// LsarEnumerateAccounts (MS-LSAD 3.1.4.5.2): no account has privileges here.
fn enumerate_accounts(from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
    let handle = Handle::take(from)?;
    let resume = from.u32()?;
    let mut out = NdrWriter::new();
    out.u32(resume);
    out.u32(0);
    out.pointer(false);
    out.u32(if handle == Some(Handle::Policy) { NtStatus::NO_MORE_ENTRIES.0 } else { NtStatus::INVALID_HANDLE.0 });
    Ok(out.finish())
}

fn take_sids(from: &mut NdrReader<'_>) -> Result<Vec<Sid>, Fault> {
    let count = from.u32()?;
    if count > MAX_LOOKUPS {
        return Err(Fault::BAD_STUB);
    }
    if !from.pointer()? {
        return if count == 0 { Ok(Vec::new()) } else { Err(Fault::BAD_STUB) };
    }
    if from.u32()? != count {
        return Err(Fault::BAD_STUB);
    }
    for _ in 0..count {
        if !from.pointer()? {
            return Err(Fault::BAD_STUB);
        }
    }
    (0..count).map(|_| Ok(from.sid()?)).collect()
}

fn kind(found: &Option<Principal>) -> u16 {
    found.as_ref().map_or(Use::Unknown, |found| found.kind) as u16
}

/// A domain has no relative id in itself.
fn rid(found: &Principal) -> Option<u32> {
    if found.kind == Use::Domain { None } else { found.sid.sub_authorities().last().copied() }
}

/// One that is unknown is shown by its SID.
fn shown(sid: &Sid, found: Option<&Principal>) -> String {
    found.map_or_else(|| sid.to_string(), |found| found.name.clone())
}

/// LSAPR_REFERENCED_DOMAIN_LIST: each domain once. The answer is each principal's place in it.
fn put_domains(found: &[Option<Principal>], out: &mut NdrWriter) -> Vec<u32> {
    let mut domains: Vec<&Principal> = Vec::new();
    let mut indices = Vec::new();
    for found in found {
        indices.push(match found {
            None => NO_DOMAIN,
            Some(found) => match domains.iter().position(|domain| domain.domain_sid == found.domain_sid) {
                Some(at) => at as u32,
                None => {
                    domains.push(found);
                    domains.len() as u32 - 1
                }
            },
        });
    }
    out.pointer(true);
    out.u32(domains.len() as u32);
    out.pointer(!domains.is_empty());
    out.u32(32); // MaxEntries, which nobody looks at
    if !domains.is_empty() {
        out.u32(domains.len() as u32);
        for domain in &domains {
            out.counted_head(&domain.domain, true);
            out.pointer(true);
        }
        for domain in &domains {
            out.counted_body(&domain.domain, true);
            out.sid(&domain.domain_sid);
        }
    }
    indices
}

/// The count of those that are known, and the result.
fn finish(mut out: NdrWriter, found: &[Option<Principal>]) -> Vec<u8> {
    let mapped = found.iter().flatten().count();
    out.u32(mapped as u32);
    out.u32(match mapped {
        _ if mapped == found.len() => NtStatus::SUCCESS.0,
        0 => NtStatus::NONE_MAPPED.0,
        _ => NtStatus::SOME_NOT_MAPPED.0,
    });
    out.finish()
}

/// No domains, nothing found.
fn nothing(status: NtStatus) -> Vec<u8> {
    let mut out = NdrWriter::new();
    out.pointer(false);
    out.u32(0);
    out.pointer(false);
    out.u32(0);
    out.u32(status.0);
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::super::accounts::tests::directory;
    use super::*;

    fn lsarpc() -> Lsarpc {
        Lsarpc::new(directory())
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn handle() -> Vec<u8> {
        policy::opened(Handle::Policy)[..20].to_vec()
    }

    /// LookupSids of one SID.
    fn sids(sid: &str) -> Vec<u8> {
        let sid: Sid = sid.parse().unwrap();
        let mut stub = handle();
        stub.extend(words(&[1, 0x20000, 1, 0x20004, sid.sub_authorities().len() as u32]));
        stub.extend(sid.encode());
        stub
    }

    #[test]
    fn a_sid_gets_its_name_byte_for_byte() {
        let answer = lsarpc().call(15, &sids("S-1-22-1-1001")).unwrap();
        let mut want = words(&[0x20000, 1, 0x20004, 32, 1, 18 | 20 << 16, 0x20008, 0x2000c, 10, 0, 9]);
        want.extend(crate::name::utf16le("Unix User"));
        want.extend([0, 0]);
        want.extend(words(&[1]));
        want.extend(Sid::new(22, &[1]).unwrap().encode());
        want.extend(words(&[1, 0x20010, 1, 1, 8 | 8 << 16, 0x20014, 0, 4, 0, 4]));
        want.extend(crate::name::utf16le("anna"));
        want.extend(words(&[1, 0]));
        assert_eq!(answer, want);
    }

    #[test]
    fn what_is_unknown_is_said() {
        let answer = lsarpc().call(57, &sids("S-1-22-1-5")).unwrap();
        assert_eq!(answer[answer.len() - 8..], words(&[0, 0xc000_0073]));
        let mut other = sids("S-1-1-0");
        other[4] ^= 1;
        let answer = lsarpc().call(15, &other).unwrap();
        assert_eq!(answer[answer.len() - 4..], words(&[NtStatus::INVALID_HANDLE.0]));
        assert_eq!(lsarpc().call(99, b""), Err(Fault::OP_RANGE));
    }

    #[test]
    fn requests_cut_short_fault() {
        let mut names = handle();
        names.extend(words(&[1, 1, 8 | 8 << 16, 0x20000, 4, 0, 4]));
        names.extend(crate::name::utf16le("anna"));
        let answer = lsarpc().call(68, &names).unwrap();
        assert_eq!(answer[answer.len() - 8..], words(&[1, 0]));
        for (opnum, stub) in [(14, &names), (68, &names), (15, &sids("S-1-1-0")), (0, &handle())] {
            assert!(lsarpc().call(opnum, stub).is_ok(), "{opnum}");
            for short in 0..stub.len() {
                assert_eq!(lsarpc().call(opnum, &stub[..short]), Err(Fault::BAD_STUB), "{opnum} {short}");
            }
        }
    }

    #[test]
    fn the_machine_and_its_workgroup() {
        for (level, status, len) in [(3u16, 0, 40), (5, 0, 72), (99, NtStatus::INVALID_PARAMETER.0, 8)] {
            let mut stub = handle();
            stub.extend(level.to_le_bytes());
            let answer = lsarpc().call(7, &stub).unwrap();
            assert_eq!(answer[answer.len() - 4..], words(&[status]), "{level}");
            assert_eq!(answer.len(), len, "{level}");
        }
    }
}
