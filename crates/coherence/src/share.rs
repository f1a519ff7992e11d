//! Share modes: what an open wants to do, what it lets others do, and per-file counters that decide a conflict without
//! looking at any single open. Called by the file entry under its lock.

use bitflags::bitflags;

bitflags! {
    /// What an open is for, as share modes see it. Empty for an open that only looks at attributes or the security
    /// descriptor: it neither checks nor contributes (MS-FSA 2.1.5.1.2.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct AccessKinds: u8 {
        /// FILE_READ_DATA or FILE_EXECUTE; NFS share access read.
        const READ = 1;
        /// FILE_WRITE_DATA or FILE_APPEND_DATA; NFS share access write.
        const WRITE = 2;
        /// DELETE.
        const DELETE = 4;
    }

    /// What an open lets others do: FILE_SHARE_*; for NFS everything that is not denied.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct ShareKinds: u8 {
        /// Others may read.
        const READ = 1;
        /// Others may write.
        const WRITE = 2;
        /// Others may delete and rename.
        const DELETE = 4;
    }
}

/// How many opens of one file do what, and how many forbid what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ShareCounts {
    data_opens: u32,
    access: [u32; 3],
    deny: [u32; 3],
}

const KINDS: usize = 3;

fn has(bits: u8, kind: usize) -> bool {
    bits & (1 << kind) != 0
}

impl ShareCounts {
    /// Opens that do anything with data or the name.
    pub(crate) fn data_opens(&self) -> u32 {
        self.data_opens
    }

    /// Opens that may write.
    pub(crate) fn writers(&self) -> u32 {
        self.access[1]
    }

    /// Whether an open for `access` sharing `share` may not join (MS-FSA 2.1.5.1.2.2).
    pub(crate) fn conflicts(&self, access: AccessKinds, share: ShareKinds) -> bool {
        !access.is_empty()
            && (0..KINDS).any(|kind| {
                has(access.bits(), kind) && self.deny[kind] > 0 || !has(share.bits(), kind) && self.access[kind] > 0
            })
    }

    /// Counts an open in.
    pub(crate) fn add(&mut self, access: AccessKinds, share: ShareKinds) {
        self.each(access, share, |count| *count += 1);
    }

    /// Counts an open out that was counted in with the same arguments.
    pub(crate) fn remove(&mut self, access: AccessKinds, share: ShareKinds) {
        self.each(access, share, |count| *count -= 1);
    }

    /// The counts without one open that is in them.
    pub(crate) fn without(mut self, access: AccessKinds, share: ShareKinds) -> Self {
        self.remove(access, share);
        self
    }

    fn each(&mut self, access: AccessKinds, share: ShareKinds, change: impl Fn(&mut u32)) {
        if access.is_empty() {
            return;
        }
        change(&mut self.data_opens);
        for kind in 0..KINDS {
            if has(access.bits(), kind) {
                change(&mut self.access[kind]);
            }
            if !has(share.bits(), kind) {
                change(&mut self.deny[kind]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule as the specification writes it, one existing open at a time.
    fn model(one: (AccessKinds, ShareKinds), two: (AccessKinds, ShareKinds)) -> bool {
        let forbids = |held: (AccessKinds, ShareKinds), wanted: (AccessKinds, ShareKinds)| {
            wanted.0.contains(AccessKinds::READ) && !held.1.contains(ShareKinds::READ)
                || wanted.0.contains(AccessKinds::WRITE) && !held.1.contains(ShareKinds::WRITE)
                || wanted.0.contains(AccessKinds::DELETE) && !held.1.contains(ShareKinds::DELETE)
        };
        !one.0.is_empty() && !two.0.is_empty() && (forbids(one, two) || forbids(two, one))
    }

    fn every_mode() -> impl Iterator<Item = (AccessKinds, ShareKinds)> {
        (0..64u8).map(|bits| (AccessKinds::from_bits_retain(bits & 7), ShareKinds::from_bits_retain(bits >> 3)))
    }

    #[test]
    fn every_pair_of_modes_agrees_with_the_rule() {
        for held in every_mode() {
            let mut counts = ShareCounts::default();
            counts.add(held.0, held.1);
            for wanted in every_mode() {
                assert_eq!(counts.conflicts(wanted.0, wanted.1), model(held, wanted), "{held:?} then {wanted:?}");
            }
            counts.remove(held.0, held.1);
            assert_eq!(counts, ShareCounts::default());
        }
    }
}
