//! The status monitor, NSM version 1 (X/Open C702 chapter 11): hosts tell each other that they restarted, so that locks
//! are given back or claimed again. A lock manager asks the local monitor, or speaks it itself.

use crate::xdr::Bounded;

/// The longest host name.
pub const MAX_NAME_BYTES: usize = 1024;

/// A host's name.
pub type HostName<'a> = Bounded<'a, MAX_NAME_BYTES>;

xdr_enum! {
    /// Procedures.
    pub enum NsmProc {
        /// Nothing.
        Null = 0,
        /// [`HostName`] to [`MonResult`]: would this host be monitored?
        Stat = 1,
        /// [`Mon`] to [`MonResult`]: monitor this host.
        Mon = 2,
        /// [`MonId`] to the local state: no longer.
        Unmon = 3,
        /// [`MyId`] to the local state: no host any longer.
        UnmonAll = 4,
        /// Behave as after a restart.
        SimuCrash = 5,
        /// [`StateChange`]: another host restarted.
        Notify = 6,
    }

    /// Whether a host is monitored.
    pub enum MonStatus {
        /// It is.
        Succ = 0,
        /// It is not.
        Fail = 1,
    }
}

xdr_struct! {
    /// The answer to STAT and MON.
    pub struct MonResult {
        /// Whether it is monitored.
        status: MonStatus,
        /// The local state number: odd while up, larger after each restart.
        state: i32,
    }

    /// Whom to tell, and how.
    pub struct MyId<'a> {
        /// The host that is told.
        my_name: HostName<'a>,
        /// The program that is called.
        program: i32,
        /// Its version.
        version: i32,
        /// The procedure, which takes a [`Status`].
        procedure: i32,
    }

    /// Who is monitored, for whom.
    pub struct MonId<'a> {
        /// The monitored host.
        mon_name: HostName<'a>,
        /// Whom to tell.
        my_id: MyId<'a>,
    }

    /// The argument of MON.
    pub struct Mon<'a> {
        /// Who, for whom.
        mon_id: MonId<'a>,
        /// Given back in [`Status`].
        private: [u8; 16],
    }

    /// The argument of NOTIFY.
    pub struct StateChange<'a> {
        /// The host that restarted.
        mon_name: HostName<'a>,
        /// Its new state number.
        state: i32,
    }

    /// What the monitor calls back with.
    pub struct Status<'a> {
        /// The host that restarted.
        mon_name: HostName<'a>,
        /// Its new state number.
        state: i32,
        /// What was given to MON.
        private: [u8; 16],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};

    #[test]
    fn mon_and_notify_by_hand() {
        let my_id = MyId { my_name: Bounded(b"srv"), program: 100_021, version: 4, procedure: 16 };
        let mon = Mon { mon_id: MonId { mon_name: Bounded(b"client"), my_id }, private: *b"0123456789abcdef" };
        is_on_the_wire(
            &mon,
            &unhex(
                "00000006 636c6965 6e740000 00000003 73727600 000186b5 00000004 00000010
                 30313233 34353637 38396162 63646566",
            ),
        );
        is_on_the_wire(&MonResult { status: MonStatus::Succ, state: 3 }, &unhex("00000000 00000003"));
        is_on_the_wire(&StateChange { mon_name: Bounded(b"c"), state: 5 }, &unhex("00000001 63000000 00000005"));
        let status = Status { mon_name: Bounded(b"c"), state: 5, private: [1; 16] };
        is_on_the_wire(&status, &[&unhex("00000001 63000000 00000005")[..], &[1; 16]].concat());
    }
}
