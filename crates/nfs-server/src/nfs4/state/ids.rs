//! How client ids, stateids and session ids are made up, so that what a client brings from before a restart, or from a
//! lease that ran out, is known for what it is. Called by the rest of `state`; it keeps nothing.

use nfs_wire::nfs4::{ClientId, NfsStat4, Stateid};

/// Which start of the server: in every id it gives out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Boot(u32);

/// A client's number within one start; never used again in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClientNumber(pub u32);

/// One open, set of locks or delegation: whose, and which of its states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StateKey {
    pub client: ClientNumber,
    pub index: u32,
}

impl Boot {
    /// From four bytes nobody used at the last start. The special stateids' are never taken.
    pub fn new(chance: u32) -> Self {
        Self(chance.clamp(1, u32::MAX - 1))
    }

    /// The id of a client.
    pub fn client_id(self, number: ClientNumber) -> ClientId {
        u64::from(self.0) << 32 | u64::from(number.0)
    }

    /// The client of an id: STALE_CLIENTID for one of another start (RFC 7530 9.6.3, RFC 8881 8.4.2.1).
    pub fn number_of(self, id: ClientId) -> Result<ClientNumber, NfsStat4> {
        let (boot, number) = ((id >> 32) as u32, id as u32);
        if boot == self.0 { Ok(ClientNumber(number)) } else { Err(NfsStat4::STALE_CLIENTID) }
    }

    /// A stateid of this generation.
    pub fn stateid(self, key: StateKey, seqid: u32) -> Stateid {
        let mut other = [0; 12];
        let words = [self.0, key.client.0, key.index];
        for (to, word) in other.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        Stateid { seqid, other }
    }

    /// Which state a stateid names: STALE_STATEID for one of another start.
    pub fn key_of(self, stateid: &Stateid) -> Result<StateKey, NfsStat4> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = stateid.other;
        let word = u32::from_be_bytes;
        if word([a, b, c, d]) != self.0 {
            let special = stateid.other == [0; 12] || stateid.other == [0xff; 12];
            return Err(if special { NfsStat4::BAD_STATEID } else { NfsStat4::STALE_STATEID });
        }
        Ok(StateKey { client: ClientNumber(word([e, f, g, h])), index: word([i, j, k, l]) })
    }
}

/// The generation after this one; 0 has another meaning (RFC 8881 8.2.2).
pub(crate) fn next_seqid(seqid: u32) -> u32 {
    seqid.checked_add(1).unwrap_or(1)
}

/// Compares a request's generation with the state's: 0 is the newest in 4.1 (RFC 8881 8.2.2), OLD_STATEID was given out
/// before, BAD_STATEID never.
pub(crate) fn check_seqid(asked: u32, held: u32, minor: u32) -> Result<(), NfsStat4> {
    match asked {
        0 if minor > 0 => Ok(()),
        _ if asked == held => Ok(()),
        // Half of all numbers lie before, the other half behind.
        _ if held.wrapping_sub(asked) < 1 << 31 => Err(NfsStat4::OLD_STATEID),
        _ => Err(NfsStat4::BAD_STATEID),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_another_start_are_stale_and_special_ones_are_nobodys() {
        let (one, two) = (Boot::new(7), Boot::new(8));
        let number = ClientNumber(3);
        assert_eq!(one.number_of(one.client_id(number)), Ok(number));
        assert_eq!(two.number_of(one.client_id(number)), Err(NfsStat4::STALE_CLIENTID));
        let key = StateKey { client: number, index: 9 };
        assert_eq!(one.key_of(&one.stateid(key, 4)), Ok(key));
        assert_eq!(two.key_of(&one.stateid(key, 4)), Err(NfsStat4::STALE_STATEID));
        for chance in [0, u32::MAX] {
            let boot = Boot::new(chance);
            for special in [Stateid::ANONYMOUS, Stateid::BYPASS, Stateid::CURRENT, Stateid::INVALID] {
                assert_eq!(boot.key_of(&special), Err(NfsStat4::BAD_STATEID));
            }
        }
    }

    #[test]
    fn generations_are_compared_over_the_wrap() {
        assert_eq!(next_seqid(u32::MAX), 1);
        for (asked, held, minor, expected) in [
            (5, 5, 0, Ok(())),
            (4, 5, 0, Err(NfsStat4::OLD_STATEID)),
            (6, 5, 0, Err(NfsStat4::BAD_STATEID)),
            (0, 5, 1, Ok(())),
            (0, 5, 0, Err(NfsStat4::OLD_STATEID)),
            (u32::MAX, 1, 1, Err(NfsStat4::OLD_STATEID)),
            (1, u32::MAX, 1, Err(NfsStat4::BAD_STATEID)),
        ] {
            assert_eq!(check_seqid(asked, held, minor), expected, "{asked} of {held} in 4.{minor}");
        }
    }
}
