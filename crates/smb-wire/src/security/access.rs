//! Whether somebody may (MS-DTYP 2.5.3.2), told as all the rights somebody has: an entry decides each right that no entry
//! before it has decided.

use super::{Ace, AceBody, AceFlags, AceKind, Control, SecurityDescriptor, Sid};
use crate::fscc::AccessMask;

/// Who somebody is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The user.
    pub user: Sid,
    /// The primary group.
    pub group: Sid,
    /// All that count, those two among them.
    pub sids: Vec<Sid>,
}

impl Token {
    /// Whether `sid` counts.
    pub fn is(&self, sid: &Sid) -> bool {
        self.sids.contains(sid)
    }
}

/// What an owner has whatever the list says, unless it speaks of OWNER RIGHTS.
const OWNERS: AccessMask = AccessMask::READ_CONTROL.union(AccessMask::WRITE_DAC);

/// All rights `token` has by the descriptor's owner and DACL. Privileges are not among them.
pub fn granted(sd: &SecurityDescriptor, token: &Token) -> AccessMask {
    let Some(dacl) = &sd.dacl else {
        // Null, or none at all: nobody has restricted anything.
        return AccessMask::FILE_ALL;
    };
    let owns = sd.owner.as_ref().is_some_and(|owner| token.is(owner));
    let owner_rights = Sid::owner_rights();
    let in_effect = || dacl.aces.iter().filter(|ace| !ace.flags.contains(AceFlags::INHERIT_ONLY));
    let speaks_of_owner =
        in_effect().any(|ace| matches!(&ace.body, AceBody::Access { sid, .. } if *sid == owner_rights));
    let mut granted = if owns && !speaks_of_owner { OWNERS } else { AccessMask::empty() };
    let mut denied = AccessMask::empty();
    for ace in in_effect() {
        let Some((allows, mask)) = decides(ace, |sid| token.is(sid) || (owns && *sid == owner_rights)) else {
            continue;
        };
        if allows {
            granted |= mask - denied;
        } else {
            denied |= mask - granted;
        }
    }
    granted
}

/// What an entry says about those `counts` says it speaks of. A condition cannot be evaluated: it grants nothing, and
/// refuses (2.5.3.1.5: UNKNOWN).
fn decides(ace: &Ace, counts: impl Fn(&Sid) -> bool) -> Option<(bool, AccessMask)> {
    let AceBody::Access { mask, sid, .. } = &ace.body else { return None };
    let allows = match ace.kind {
        AceKind::ALLOWED => true,
        AceKind::DENIED | AceKind::DENIED_CALLBACK => false,
        _ => return None,
    };
    counts(sid).then(|| (allows, mask.map_generic()))
}

impl SecurityDescriptor {
    /// Whether everybody may everything for want of a list.
    pub fn is_open(&self) -> bool {
        self.dacl.is_none() && self.control.contains(Control::DACL_PRESENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::Acl;

    const R: AccessMask = AccessMask::FILE_READ_DATA;
    const W: AccessMask = AccessMask::FILE_WRITE_DATA;

    fn anna() -> Token {
        let (user, group) = (Sid::unix_user(7), Sid::unix_group(8));
        Token { sids: vec![user.clone(), group.clone(), Sid::everyone()], user, group }
    }

    fn rights(owner: u32, aces: &[Ace]) -> AccessMask {
        let dacl = Some(Acl { aces: aces.to_vec() });
        granted(&SecurityDescriptor { owner: Some(Sid::unix_user(owner)), dacl, ..Default::default() }, &anna())
    }

    fn allow(sid: Sid, mask: AccessMask) -> Ace {
        Ace::allow(sid, mask, AceFlags::empty())
    }

    fn deny(sid: Sid, mask: AccessMask) -> Ace {
        Ace::deny(sid, mask, AceFlags::empty())
    }

    #[test]
    fn the_first_entry_that_speaks_of_a_right_decides_it() {
        let (all, me) = (Sid::everyone, || Sid::unix_user(7));
        for (aces, want) in [
            (vec![], AccessMask::empty()),
            (vec![allow(all(), R)], R),
            (vec![deny(me(), R), allow(all(), R | W)], W),
            (vec![allow(all(), R | W), deny(me(), R)], R | W),
            (vec![allow(Sid::unix_user(9), R)], AccessMask::empty()),
            (vec![allow(Sid::unix_group(8), R), deny(all(), W), allow(all(), W)], R),
            (vec![Ace::allow(all(), R, AceFlags::INHERIT_ONLY | AceFlags::OBJECT_INHERIT)], AccessMask::empty()),
            (vec![allow(all(), AccessMask::GENERIC_READ)], AccessMask::FILE_MAPPING.read),
        ] {
            assert_eq!(rights(1, &aces), want, "{aces:?}");
        }
    }

    #[test]
    fn an_owner_can_always_repair_unless_owner_rights_speak() {
        assert_eq!(rights(7, &[]), OWNERS);
        assert_eq!(rights(7, &[deny(Sid::everyone(), AccessMask::FILE_ALL)]), OWNERS);
        assert_eq!(rights(7, &[allow(Sid::owner_rights(), W)]), W);
        assert_eq!(rights(1, &[allow(Sid::owner_rights(), W)]), AccessMask::empty());
        assert_eq!(rights(7, &[deny(Sid::owner_rights(), R), allow(Sid::unix_user(7), R | W)]), W);
    }

    #[test]
    fn no_list_refuses_nothing_and_conditions_grant_nothing() {
        assert_eq!(granted(&SecurityDescriptor::default(), &anna()), AccessMask::FILE_ALL);
        let conditional = |kind| Ace { kind, ..allow(Sid::everyone(), R) };
        assert_eq!(rights(1, &[conditional(AceKind::ALLOWED_CALLBACK)]), AccessMask::empty());
        assert_eq!(rights(1, &[conditional(AceKind::DENIED_CALLBACK), allow(Sid::everyone(), R)]), AccessMask::empty());
    }
}
