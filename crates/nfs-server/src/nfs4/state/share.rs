//! What an open owner has opened one file for, open by open: what it may do is the union, and what it may be reduced to
//! is a union of some of them (RFC 7530 16.19, RFC 8881 18.18). Plain values; what others think of it `coherence` knows.

use coherence::{AccessKinds, ShareKinds};
use nfs_wire::nfs4::{NfsStat4, ShareAccess, ShareDeny};

/// An access and a denial, as OPEN names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    access: u8,
    deny: u8,
}

/// The opens of one owner on one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Modes(u16);

impl Mode {
    /// INVAL for no access, and for bits without a meaning. What 4.1 says of delegations is left out.
    pub fn new(access: ShareAccess, deny: ShareDeny, minor: u32) -> Result<Self, NfsStat4> {
        let wants = if minor == 0 { 0 } else { wants_of(access)? };
        let (access, deny) = (access.bits() & !wants, deny.bits());
        match (access, deny) {
            (1..=3, 0..=3) => Ok(Self { access: access as u8, deny: deny as u8 }),
            _ => Err(NfsStat4::INVAL),
        }
    }

    /// What both are for, and what either denies.
    pub fn union(self, other: Self) -> Self {
        Self { access: self.access | other.access, deny: self.deny | other.deny }
    }

    /// Whether the two cannot be at the same time. That holds for two opens of one owner as well (RFC 7530 9.9,
    /// RFC 8881 9.7).
    pub fn conflicts(self, other: Self) -> bool {
        self.access & other.deny != 0 || self.deny & other.access != 0
    }

    /// Whether it is for reading.
    pub fn reads(self) -> bool {
        self.access & 1 != 0
    }

    /// Whether it is for writing.
    pub fn writes(self) -> bool {
        self.access & 2 != 0
    }

    /// Whether it denies anything.
    pub fn denies(self) -> bool {
        self.deny != 0
    }

    /// The same in the table's words. Nobody is ever denied to delete.
    pub fn kinds(self) -> (AccessKinds, ShareKinds) {
        let access = AccessKinds::from_bits_truncate(self.access);
        (access, ShareKinds::all() & !ShareKinds::from_bits_truncate(self.deny))
    }

    /// For looking at the file in the backend.
    pub fn vfs(self) -> vfs::Access {
        vfs::Access::from_bits_truncate(self.access)
    }

    fn within(self, other: Self) -> bool {
        self.union(other) == other
    }

    fn bit(self) -> u16 {
        1 << (self.access << 2 | self.deny)
    }
}

/// The bits of `share_access` that are about delegations (RFC 8881 18.16.3, RFC 9754): INVAL for a want that does not
/// exist.
fn wants_of(access: ShareAccess) -> Result<u32, NfsStat4> {
    access.want().ok_or(NfsStat4::INVAL)?;
    Ok(ShareAccess::all().bits() & !ShareAccess::BOTH.bits())
}

impl Modes {
    /// With one more.
    pub fn with(self, mode: Mode) -> Self {
        Self(self.0 | mode.bit())
    }

    /// All in one; `None` when there is none.
    pub fn union(self) -> Option<Mode> {
        self.each().reduce(Mode::union)
    }

    /// What is left when the owner keeps `mode`: INVAL unless it is a union of some of them.
    pub fn reduced(self, mode: Mode) -> Result<Self, NfsStat4> {
        let kept = self.each().filter(|one| one.within(mode)).fold(Self::default(), Self::with);
        if kept.union() == Some(mode) { Ok(kept) } else { Err(NfsStat4::INVAL) }
    }

    fn each(self) -> impl Iterator<Item = Mode> {
        (1..=3u8)
            .flat_map(|access| (0..=3u8).map(move |deny| Mode { access, deny }))
            .filter(move |m| self.0 & m.bit() != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(access: u32, deny: u32) -> Mode {
        Mode::new(ShareAccess::from_bits_retain(access), ShareDeny::from_bits_retain(deny), 0).unwrap()
    }

    #[test]
    fn an_open_is_for_something_and_says_nothing_unknown() {
        let new = |access, deny, minor| {
            Mode::new(ShareAccess::from_bits_retain(access), ShareDeny::from_bits_retain(deny), minor)
        };
        for (access, deny, minor) in [(0, 0, 0), (4, 0, 0), (1, 4, 0), (0x101, 0, 0), (0x601, 0, 1), (0x40_0001, 0, 1)]
        {
            assert_eq!(new(access, deny, minor), Err(NfsStat4::INVAL), "{access:x} {deny} in 4.{minor}");
        }
        assert_eq!(new(0x2_0203, 1, 1), Ok(mode(3, 1)));
        assert_eq!(mode(3, 2).kinds(), (AccessKinds::READ | AccessKinds::WRITE, ShareKinds::READ | ShareKinds::DELETE));
    }

    #[test]
    fn what_one_denies_the_other_cannot_do() {
        assert!(mode(1, 0).conflicts(mode(3, 1)) && mode(3, 1).conflicts(mode(1, 0)));
        assert!(!mode(2, 0).conflicts(mode(3, 1)) && !mode(3, 0).conflicts(mode(3, 0)));
    }

    #[test]
    fn an_open_is_reduced_to_what_was_opened_and_nothing_else() {
        let both = Modes::default().with(mode(3, 0));
        assert_eq!(both.reduced(mode(1, 0)), Err(NfsStat4::INVAL), "never opened for that alone");
        let each = both.with(mode(1, 0)).with(mode(2, 2));
        assert_eq!(each.union(), Some(mode(3, 2)));
        assert_eq!(each.reduced(mode(1, 0)).unwrap().union(), Some(mode(1, 0)));
        assert_eq!(each.reduced(mode(3, 2)), Ok(each));
        assert_eq!(each.reduced(mode(1, 2)), Err(NfsStat4::INVAL));
        let read = each.reduced(mode(1, 0)).unwrap();
        assert_eq!(read.reduced(mode(2, 2)), Err(NfsStat4::INVAL), "given up");
    }
}
