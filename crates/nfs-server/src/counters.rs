//! Which path served a request and how long each procedure and operation took: one set for each shard, so that a test can
//! prove what happened and `status` can show it.

use nfs_wire::mount::MountProc;
use nfs_wire::nfs3::Nfs3Proc;
use nfs_wire::nfs4::OpNum;
use nfs_wire::nfsacl::NfsAclProc;
use nfs_wire::nlm::NlmProc;
use nfs_wire::nsm::NsmProc;
use nfs_wire::portmap::RpcbProc;
use vfs::metrics::{OperationTotals, Operations};

use crate::dispatch::{Nfs4Proc, Procedure};

vfs::counters! {
    PathCounters, PathTotals, "nfs_",
    {
        /// Calls taken.
        calls,
        /// READs whose data were file pages that nobody copied.
        read_pages,
        /// READs whose data were copied into the reply.
        read_copy,
        /// READs that had to wait on a worker.
        read_waited,
        /// Bytes read.
        read_bytes,
        /// Bytes of those that were file pages.
        read_pages_bytes,
        /// WRITEs done in place.
        write_inline,
        /// WRITEs done on a worker.
        write_worker,
        /// Bytes written.
        write_bytes,
        /// Bytes of those that were written on a worker.
        write_worker_bytes,
        /// Files opened for READ or WRITE, because no open one was kept.
        file_opens,
        /// Calls parked before they were answered.
        parked,
    }
    with {
        /// Every procedure of every program, and every operation of NFSv4.
        operations: Operations<OPERATIONS>,
    }
}

/// A program's procedures among the operations: what it is called, where they begin, how many there are.
struct Group {
    protocol: &'static str,
    begin: usize,
    len: usize,
}

const GROUPS: [Group; 7] = [
    Group { protocol: "nfs3", begin: NFS3, len: NFS4 - NFS3 },
    Group { protocol: "nfs4", begin: NFS4, len: MOUNT - NFS4 },
    Group { protocol: "mount", begin: MOUNT, len: NFSACL - MOUNT },
    Group { protocol: "nfsacl", begin: NFSACL, len: NLM - NFSACL },
    Group { protocol: "nlm", begin: NLM, len: NSM - NLM },
    Group { protocol: "nsm", begin: NSM, len: PORTMAP - NSM },
    Group { protocol: "portmap", begin: PORTMAP, len: OPERATIONS - PORTMAP },
];

const NFS3: usize = 0;
const NFS4: usize = NFS3 + Nfs3Proc::Commit as usize + 1;
const MOUNT: usize = NFS4 + OpNum::Removexattr as usize + 1;
const NFSACL: usize = MOUNT + MountProc::ExportAll as usize + 1;
const NLM: usize = NFSACL + NfsAclProc::GetXattrDir as usize + 1;
const NSM: usize = NLM + NlmProc::FreeAll as usize + 1;
const PORTMAP: usize = NSM + NsmProc::Notify as usize + 1;
const OPERATIONS: usize = PORTMAP + RpcbProc::GetStat as usize + 1;

/// Numbers below those of NFSv4's operations: its procedures, and an operation that does not exist.
const NULL: usize = 0;
const COMPOUND: usize = 1;
const ILLEGAL: usize = 2;

// Replies note what they are in a byte.
const _: () = assert!(OPERATIONS <= 256);

/// Where a procedure is counted.
pub(crate) fn of_procedure(procedure: Procedure) -> usize {
    match procedure {
        Procedure::Nfs3(procedure) => NFS3 + procedure as usize,
        Procedure::Nfs4(Nfs4Proc::Null) => NFS4 + NULL,
        Procedure::Nfs4(Nfs4Proc::Compound) => NFS4 + COMPOUND,
        Procedure::Mount(procedure, _) => MOUNT + procedure as usize,
        Procedure::NfsAcl(procedure) => NFSACL + procedure as usize,
        Procedure::Nlm(procedure, _) => NLM + procedure as usize,
        Procedure::Nsm(procedure) => NSM + procedure as usize,
        // The numbers are the same in all versions.
        Procedure::Portmap(procedure) => PORTMAP + procedure as usize,
        Procedure::Rpcbind(procedure, _) => PORTMAP + procedure as usize,
    }
}

/// Where an operation of NFSv4 is counted.
pub(crate) const fn of_operation(number: OpNum) -> usize {
    NFS4 + if matches!(number, OpNum::Illegal) { ILLEGAL } else { number as usize }
}

/// Whether results that begin like this tell of a failure: those of NFSv3, MOUNT's MNT,
/// NFSACL and a COMPOUND begin with their status.
pub(crate) fn is_failure(procedure: Procedure, results: &[u8]) -> bool {
    let begins_with_status = match procedure {
        Procedure::Nfs3(procedure) => procedure != Nfs3Proc::Null,
        Procedure::Nfs4(procedure) => matches!(procedure, Nfs4Proc::Compound),
        Procedure::NfsAcl(procedure) => procedure != NfsAclProc::Null,
        Procedure::Mount(procedure, _) => procedure == MountProc::Mnt,
        _ => false,
    };
    begins_with_status && results.first_chunk() != Some(&[0; 4])
}

/// One procedure or operation, as it is called where it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The program, NFS with its version.
    pub protocol: &'static str,
    /// The procedure or operation, in lower case.
    pub name: String,
}

/// The sums over the counters of all shards, in the order of the programs and their numbers.
pub fn operations<'a>(shards: impl IntoIterator<Item = &'a PathCounters>) -> Vec<(Operation, OperationTotals)> {
    let sums = OperationTotals::sum(shards.into_iter().map(|shard| &shard.operations));
    let mut sums = sums.into_iter();
    let mut named = Vec::new();
    for group in GROUPS {
        for (number, sum) in (0..group.len).zip(&mut sums) {
            let name = name(group.begin, number as u32);
            named.extend(name.map(|name| (Operation { protocol: group.protocol, name }, sum)));
        }
    }
    named
}

/// The name of a program's procedure, if there is one of that number.
fn name(begin: usize, number: u32) -> Option<String> {
    match begin {
        NFS3 => Nfs3Proc::from_u32(number).map(snake),
        NFS4 => match number as usize {
            NULL => Some("null".into()),
            COMPOUND => Some("compound".into()),
            ILLEGAL => Some("illegal".into()),
            _ => OpNum::from_u32(number).map(|op| op.name().to_lowercase()),
        },
        MOUNT => MountProc::from_u32(number).map(snake),
        NFSACL => NfsAclProc::from_u32(number).map(snake),
        NLM => NlmProc::from_u32(number).map(snake),
        NSM => NsmProc::from_u32(number).map(snake),
        _ => RpcbProc::from_u32(number).map(snake),
    }
}

/// `ReaddirPlus` as `readdir_plus`.
fn snake(variant: impl std::fmt::Debug) -> String {
    let mut name = String::new();
    for letter in format!("{variant:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_counted_has_a_place_and_a_name_of_its_own() {
        let counters = PathCounters::default();
        counters.operations.count(of_procedure(Procedure::Nfs3(Nfs3Proc::ReaddirPlus)), false);
        counters.operations.count(of_procedure(Procedure::Nfs4(Nfs4Proc::Compound)), true);
        counters.operations.count(of_operation(OpNum::OpenConfirm), false);
        counters.operations.count(of_operation(OpNum::Illegal), false);
        counters.operations.count(of_procedure(Procedure::Nlm(NlmProc::FreeAll, 4)), false);
        counters.operations.count(of_procedure(Procedure::Rpcbind(RpcbProc::GetStat, 4)), false);
        let all = operations([&counters]);
        let seen: Vec<_> =
            all.iter().filter(|(_, sum)| sum.count > 0).map(|(op, _)| (op.protocol, &*op.name)).collect();
        let expected = [
            ("nfs3", "readdir_plus"),
            ("nfs4", "compound"),
            ("nfs4", "illegal"),
            ("nfs4", "open_confirm"),
            ("nlm", "free_all"),
            ("portmap", "get_stat"),
        ];
        assert_eq!(seen, expected);
        let mut names: Vec<_> = all.iter().map(|(op, _)| (op.protocol, &*op.name)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len(), "two of one name");
    }
}
