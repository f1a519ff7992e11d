//! Short names, 8.3 as DOS had them: which names are short already, and what the others are called by programs that
//! know no longer ones. A made-up name depends on nothing but the name it stands for, so that it needs no storing, is
//! the same on every day and every server, and is found again by asking each name for its own. The SMB server shows
//! them; the index in `casefold` finds them.
//!
//! `Quarterly report.2026.docx` is `QU~46YM9.DOC`: the first two characters of the stem that a short name can have, a
//! tilde, five digits to the base 36 of a hash of the whole folded name, and the first three characters of what follows
//! the last dot. Two names of one directory that are called alike are one in about sixty million pairs; then the first
//! in byte order is found.

use crate::casefold::fold;

/// Characters before the tilde.
const LEAD: usize = 2;
/// Digits behind it.
const DIGITS: usize = 5;
const STEM: usize = 8;
const EXTENSION: usize = 3;

/// What a short name may hold beside letters and digits (MS-FSCC 2.1.5.2.1).
const SIGNS: &[u8] = b"!#$%&'()-@^_`{}~";

/// Whether a name is a short one itself, in whatever case.
pub fn is_short(name: &[u8]) -> bool {
    let (stem, extension) = split(name);
    let fits = (1..=STEM).contains(&stem.len()) && extension.len() <= EXTENSION && !name.ends_with(b".");
    fits && stem.iter().chain(extension).all(|&byte| stands(byte))
}

/// The short name made up for `name`; `None` where it is short itself.
pub fn made_for(name: &[u8]) -> Option<Vec<u8>> {
    if is_short(name) {
        return None;
    }
    let (stem, extension) = match name.strip_prefix(b".") {
        // `.profile` is all stem.
        Some(rest) if !rest.contains(&b'.') => (rest, &b""[..]),
        _ => split(name),
    };
    let kept = |part: &[u8], most: usize| -> Vec<u8> {
        part.iter().filter(|&&byte| stands(byte) && byte != b'~').take(most).map(u8::to_ascii_uppercase).collect()
    };
    let mut short = kept(stem, LEAD);
    short.push(b'~');
    short.extend(digits(hash(&fold(name))));
    let extension = kept(extension, EXTENSION);
    if !extension.is_empty() {
        short.push(b'.');
        short.extend(extension);
    }
    Some(short)
}

/// Whether `name` looks like one made up here, in whatever case: what does not need not be looked for.
pub fn may_be_made_up(name: &[u8]) -> bool {
    let (stem, _) = split(name);
    let digits = stem.iter().rposition(|&byte| byte == b'~').and_then(|at| stem.get(at + 1..));
    digits.is_some_and(|d| d.len() == DIGITS && d.iter().all(u8::is_ascii_alphanumeric)) && is_short(name)
}

fn split(name: &[u8]) -> (&[u8], &[u8]) {
    match name.iter().rposition(|&byte| byte == b'.') {
        Some(at) => (name.get(..at).unwrap_or_default(), name.get(at + 1..).unwrap_or_default()),
        None => (name, b""),
    }
}

fn stands(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || SIGNS.contains(&byte)
}

/// FNV-1a of 64 bits. Part of what clients remember: it does not change.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn digits(hash: u64) -> [u8; DIGITS] {
    const ALPHABET: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    // Both halves count: the low bits of this hash alone know little of the last bytes.
    let mut left = hash ^ (hash >> 32);
    std::array::from_fn(|_| {
        let digit = (left % 36) as usize;
        left /= 36;
        ALPHABET[digit]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> Option<String> {
        made_for(name.as_bytes()).map(|short| String::from_utf8(short).unwrap())
    }

    #[test]
    fn short_names_are_their_own() {
        for name in ["a", "README", "readme.txt", "12345678.abc", "a~1.x", "_-^$~!#%", "AUTOEXEC.BAT"] {
            assert!(is_short(name.as_bytes()) && text(name).is_none(), "{name}");
        }
        let long = ["123456789", "a.html", "a.b.c", ".a", "a.", "a b", "a+b", "\u{e4}", "", "x.y.", "a.txt "];
        for name in long {
            assert!(!is_short(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn made_up_names_are_short_and_stay_the_same() {
        // Clients remember them: what is here may not change.
        let rows = [
            ("torture_search.txt", "TO~"),
            ("Quarterly report.2026.docx", "QU~"),
            (".profile", "PR~"),
            (".bash.rc", "BA~"),
            ("\u{fc}\u{e4}\u{f6}", "~"),
            ("a b", "AB~"),
            ("x.", "X~"),
        ];
        for (name, lead) in rows {
            let short = text(name).unwrap();
            assert!(short.starts_with(lead), "{name}: {short}");
            assert!(is_short(short.as_bytes()) && may_be_made_up(short.as_bytes()), "{name}: {short}");
            assert!(may_be_made_up(short.to_lowercase().as_bytes()));
            assert_eq!(text(&name.to_uppercase()), text(name), "case does not matter");
        }
        assert_eq!(text("torture_search.txt").as_deref(), Some("TO~ETRT5.TXT"));
        assert!(made_for(b"not text \xff").is_some_and(|short| is_short(&short)));
    }

    #[test]
    fn what_cannot_be_one_is_not_looked_for() {
        for name in ["readme.txt", "PROGRA~1", "AB~1234", "AB~123456", "AB~12-45", "AB~12345.html", "A B~12345"] {
            assert!(!may_be_made_up(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn many_names_have_many_short_names() {
        let names = (0..20_000).map(|n| format!("photo of the summer {n:05}.jpeg"));
        let mut short: Vec<_> = names.map(|name| made_for(name.as_bytes()).unwrap()).collect();
        short.sort();
        short.dedup();
        assert!(short.len() > 19_980, "{}", short.len());
    }
}
