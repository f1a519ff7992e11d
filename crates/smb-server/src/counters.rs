//! Which path served a request and how long each command took: one set for each shard, so that a test can prove what
//! happened and `status` can show it.

use smb_wire::NtStatus;
use smb_wire::smb2::Command;
use vfs::metrics::{COUNTING, Mark, OperationTotals, Operations};

/// Commands there are.
const COMMANDS: usize = Command::ALL.len();

vfs::counters! {
    PathCounters, PathTotals, "",
    {
        /// Requests taken, compounds counted by their elements.
        requests,
        /// READs whose data were file pages that nobody copied.
        read_pages,
        /// READs whose data were copied into the reply.
        read_copy,
        /// READs whose data were copied and then signed.
        read_signed,
        /// READs whose data were copied and then encrypted in place.
        read_sealed,
        /// READs that had to wait on a worker.
        read_waited,
        /// Bytes read.
        read_bytes,
        /// Bytes of those that were file pages.
        read_pages_bytes,
        /// Bytes of those that were signed.
        read_signed_bytes,
        /// Bytes of those that were encrypted.
        read_sealed_bytes,
        /// WRITEs done in place.
        write_inline,
        /// WRITEs done on a worker.
        write_worker,
        /// Bytes written.
        write_bytes,
        /// Bytes of those that were written on a worker.
        write_worker_bytes,
        /// Requests parked before they were answered.
        parked,
        /// Breaks of oplocks and leases sent.
        breaks,
        /// Logins that succeeded.
        logins,
        /// Logins that failed.
        failed_logins,
    }
    with {
        /// Every command.
        operations: Operations<COMMANDS>,
    }
}

impl PathCounters {
    /// Counts a request that was answered with `status`.
    pub(crate) fn answered(&self, command: u16, status: NtStatus) {
        // A login has several steps.
        let failed = status.is_error() && status != NtStatus::MORE_PROCESSING_REQUIRED;
        self.operations.count(command.into(), failed);
    }
}

/// Notes that `command` is answered in the reply that `mark` is of.
pub(crate) fn note(mark: &mut Option<Mark>, arrived_ns: u64, command: u16) {
    let Some(command) = Command::from_u16(command).filter(|_| COUNTING) else { return };
    let operation = command as u8;
    match mark {
        Some(mark) => mark.and(operation),
        None => *mark = Some(Mark::new(arrived_ns, operation)),
    }
}

/// The commands' sums over the counters of all shards, each with its name.
pub fn commands<'a>(shards: impl IntoIterator<Item = &'a PathCounters>) -> Vec<(&'static str, OperationTotals)> {
    let sums = OperationTotals::sum(shards.into_iter().map(|shard| &shard.operations));
    Command::ALL.into_iter().map(name).zip(sums).collect()
}

/// What a command is called where it is shown.
fn name(command: Command) -> &'static str {
    match command {
        Command::Negotiate => "negotiate",
        Command::SessionSetup => "session_setup",
        Command::Logoff => "logoff",
        Command::TreeConnect => "tree_connect",
        Command::TreeDisconnect => "tree_disconnect",
        Command::Create => "create",
        Command::Close => "close",
        Command::Flush => "flush",
        Command::Read => "read",
        Command::Write => "write",
        Command::Lock => "lock",
        Command::Ioctl => "ioctl",
        Command::Cancel => "cancel",
        Command::Echo => "echo",
        Command::QueryDirectory => "query_directory",
        Command::ChangeNotify => "change_notify",
        Command::QueryInfo => "query_info",
        Command::SetInfo => "set_info",
        Command::OplockBreak => "oplock_break",
    }
}
