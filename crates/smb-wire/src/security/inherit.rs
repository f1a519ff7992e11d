//! What a new object inherits from the directory it is made in (MS-DTYP 2.5.3.4).

use super::{Ace, AceBody, AceFlags, Acl, Control, SecurityDescriptor, Sid, Token};
use crate::fscc::AccessMask;

/// Flags that say what becomes of an entry in new objects.
const PASSED_ON: AceFlags = AceFlags::OBJECT_INHERIT.union(AceFlags::CONTAINER_INHERIT);

/// The descriptor of an object that `token` makes in a directory with the descriptor `parent`: what it inherits, or when
/// that is nothing, all rights for its owner and the system.
pub fn inherited(parent: &SecurityDescriptor, directory: bool, token: &Token) -> SecurityDescriptor {
    let marked = parent.control.contains(Control::DACL_AUTO_INHERITED);
    let mark = if marked { AceFlags::INHERITED } else { AceFlags::empty() };
    let mut aces = Vec::new();
    for ace in parent.dacl.iter().flat_map(|dacl| &dacl.aces) {
        pass_on(ace, directory, token, mark, &mut aces);
    }
    let mut control = Control::DACL_PRESENT;
    control.set(Control::DACL_AUTO_INHERITED, marked && !aces.is_empty());
    if aces.is_empty() {
        let full = |sid: Sid| Ace::allow(sid, AccessMask::FILE_ALL, AceFlags::empty());
        aces = vec![full(token.user.clone()), full(Sid::system())];
    }
    SecurityDescriptor {
        control,
        owner: Some(token.user.clone()),
        group: Some(token.group.clone()),
        sacl: None,
        dacl: Some(Acl { aces }),
    }
}

/// 2.5.3.4.1 for one entry, and 2.5.3.4.3: CREATOR OWNER and CREATOR GROUP become somebody, and go on as they are for
/// what is made further below.
fn pass_on(ace: &Ace, directory: bool, token: &Token, mark: AceFlags, out: &mut Vec<Ace>) {
    let goes_on = directory && !ace.flags.contains(AceFlags::NO_PROPAGATE);
    let applies = ace.flags.contains(if directory { AceFlags::CONTAINER_INHERIT } else { AceFlags::OBJECT_INHERIT });
    let kept = ace.flags & PASSED_ON;
    if !applies {
        // What files inherit passes through directories.
        if goes_on && ace.flags.contains(AceFlags::OBJECT_INHERIT) {
            out.push(Ace { flags: kept | AceFlags::INHERIT_ONLY | mark, ..ace.clone() });
        }
        return;
    }
    let resolved = resolve(ace, token);
    if resolved.body == ace.body {
        out.push(Ace { flags: if goes_on { kept | mark } else { mark }, ..resolved });
        return;
    }
    out.push(Ace { flags: mark, ..resolved });
    if goes_on {
        out.push(Ace { flags: kept | AceFlags::INHERIT_ONLY | mark, ..ace.clone() });
    }
}

/// The entry as it is in effect on the new object.
fn resolve(ace: &Ace, token: &Token) -> Ace {
    let mut resolved = ace.clone();
    if let AceBody::Access { mask, sid, .. } = &mut resolved.body {
        *mask = mask.map_generic();
        if *sid == Sid::creator_owner() {
            sid.clone_from(&token.user);
        } else if *sid == Sid::creator_group() {
            sid.clone_from(&token.group);
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    const OI: u8 = 1;
    const CI: u8 = 2;
    const NP: u8 = 4;
    const IO: u8 = 8;

    fn token() -> Token {
        let (user, group) = (Sid::unix_user(7), Sid::unix_group(8));
        Token { sids: vec![user.clone(), group.clone()], user, group }
    }

    fn child(sid: Sid, flags: u8, control: Control, directory: bool) -> SecurityDescriptor {
        let ace = Ace::allow(sid, AccessMask::FILE_WRITE_DATA, AceFlags::from_bits_retain(flags));
        let dacl = Some(Acl { aces: vec![ace] });
        inherited(&SecurityDescriptor { control, dacl, ..Default::default() }, directory, &token())
    }

    fn flags_of(sd: &SecurityDescriptor) -> Vec<u8> {
        sd.dacl.iter().flat_map(|dacl| &dacl.aces).map(|ace| ace.flags.bits()).collect()
    }

    #[test]
    fn every_combination_of_flags_goes_where_it_should() {
        // The table of the specification's rules: parent flags, on a file, on a directory. None where nothing comes.
        for (flags, file, directory) in [
            (0, None, None),
            (OI, Some(0), Some(OI | IO)),
            (CI, None, Some(CI)),
            (OI | CI, Some(0), Some(OI | CI)),
            (NP | OI, Some(0), None),
            (NP | CI, None, Some(0)),
            (NP | OI | CI, Some(0), Some(0)),
            (IO | OI, Some(0), Some(OI | IO)),
            (IO | CI, None, Some(CI)),
            (IO | NP | OI | CI, Some(0), Some(0)),
        ] {
            for (is_directory, want) in [(false, file), (true, directory)] {
                let sd = child(Sid::everyone(), flags, Control::empty(), is_directory);
                match want {
                    Some(want) => assert_eq!(flags_of(&sd), [want], "{flags:#x} {is_directory}"),
                    None => assert_eq!(sd.dacl.unwrap().aces.len(), 2, "owner and system {flags:#x} {is_directory}"),
                }
            }
        }
    }

    #[test]
    fn creators_become_somebody_and_stay_for_what_comes_below() {
        let sd = child(Sid::creator_owner(), OI | CI, Control::empty(), true);
        let aces = sd.dacl.unwrap().aces;
        let write = AccessMask::FILE_WRITE_DATA;
        assert_eq!(aces[0], Ace::allow(Sid::unix_user(7), write, AceFlags::empty()));
        assert_eq!(aces[1], Ace::allow(Sid::creator_owner(), write, AceFlags::from_bits_retain(OI | CI | IO)));
        let sd = child(Sid::creator_group(), OI, Control::empty(), false);
        assert_eq!(sd.dacl.unwrap().aces, [Ace::allow(Sid::unix_group(8), write, AceFlags::empty())]);
        assert_eq!(sd.group, Some(Sid::unix_group(8)));
    }

    #[test]
    fn inherited_entries_are_marked_where_the_directory_keeps_marks() {
        let sd = child(Sid::everyone(), OI, Control::DACL_AUTO_INHERITED, false);
        assert_eq!(flags_of(&sd), [0x10]);
        assert_eq!(sd.control, Control::DACL_PRESENT | Control::DACL_AUTO_INHERITED);
    }
}
