//! The wildcards of QUERY_DIRECTORY (MS-FSA 2.1.4.4), matched without regard to case. A pattern comes from a client and
//! is matched against every name of a directory, so matching takes at most pattern times name steps, whatever the
//! pattern, and allocates nothing.

use crate::name::upcase;
use crate::status::NtStatus;

const STAR: u16 = b'*' as u16;
const QUESTION: u16 = b'?' as u16;
/// DOS_STAR: anything up to and with the last dot.
const DOS_STAR: u16 = b'<' as u16;
/// DOS_QM: one character, or nothing before a dot and at the end.
const DOS_QM: u16 = b'>' as u16;
/// DOS_DOT: a dot, or nothing at the end.
const DOS_DOT: u16 = b'"' as u16;
const DOT: u16 = b'.' as u16;

/// A search pattern, ready to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Upcased, runs of stars made one.
    units: Vec<u16>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `*`.
    All,
    /// No wildcard.
    Literal,
    /// `*` and `?` only.
    Simple,
    /// DOS wildcards too.
    Dos,
}

/// Code units a pattern may have: twice the longest name. It bounds the set of states a match keeps on the stack.
const MAX_UNITS: usize = 511;

impl Pattern {
    /// Reads a pattern, UTF-16LE bytes. What no name can hold, no pattern can either: STATUS_OBJECT_NAME_INVALID
    /// (MS-SMB2 3.3.5.18), as are no characters and too many.
    pub fn new(pattern_utf16: &[u8]) -> Result<Self, NtStatus> {
        let mut units: Vec<u16> = units(pattern_utf16).map(upcase).collect();
        units.dedup_by(|a, b| *a == STAR && *b == STAR);
        let odd = !pattern_utf16.len().is_multiple_of(2);
        if odd || units.is_empty() || units.len() > MAX_UNITS || units.iter().any(|&u| is_forbidden(u)) {
            return Err(NtStatus::OBJECT_NAME_INVALID);
        }
        let kind = Kind::of(&units);
        Ok(Self { units, kind })
    }

    /// Whether every name matches.
    pub fn matches_all(&self) -> bool {
        self.kind == Kind::All
    }

    /// Whether it is a plain name, which can be looked up instead of searched for.
    pub fn is_literal(&self) -> bool {
        self.kind == Kind::Literal
    }

    /// Whether a name, UTF-16LE bytes, matches.
    pub fn matches(&self, name_utf16: &[u8]) -> bool {
        match self.kind {
            Kind::All => true,
            Kind::Literal => units(name_utf16).map(upcase).eq(self.units.iter().copied()),
            Kind::Simple => matches_simple(&self.units, name_utf16),
            Kind::Dos => matches_dos(&self.units, name_utf16),
        }
    }
}

impl Kind {
    fn of(units: &[u16]) -> Self {
        if units == [STAR] {
            Self::All
        } else if units.iter().any(|u| matches!(*u, DOS_STAR | DOS_QM | DOS_DOT)) {
            Self::Dos
        } else if units.iter().any(|u| matches!(*u, STAR | QUESTION)) {
            Self::Simple
        } else {
            Self::Literal
        }
    }
}

fn is_forbidden(unit: u16) -> bool {
    const BACKSLASH: u16 = b'\\' as u16;
    const SLASH: u16 = b'/' as u16;
    const COLON: u16 = b':' as u16;
    const BAR: u16 = b'|' as u16;
    unit < 0x20 || matches!(unit, BACKSLASH | SLASH | COLON | BAR)
}

fn units(utf16: &[u8]) -> impl Iterator<Item = u16> {
    utf16.chunks_exact(2).filter_map(|pair| pair.try_into().ok()).map(u16::from_le_bytes)
}

fn unit_at(utf16: &[u8], index: usize) -> Option<u16> {
    let pair = utf16.get(index * 2..index * 2 + 2)?;
    pair.try_into().ok().map(u16::from_le_bytes)
}

/// `*` and `?`: on a mismatch the last star takes one more character; earlier stars need never be tried again.
fn matches_simple(pattern: &[u16], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(unit) = unit_at(name, n) {
        match pattern.get(p) {
            Some(&STAR) => {
                p += 1;
                retry = Some((p, n));
            }
            Some(&want) if want == QUESTION || want == upcase(unit) => {
                p += 1;
                n += 1;
            }
            _ => match retry.as_mut() {
                Some((after_star, taken)) => {
                    *taken += 1;
                    (p, n) = (*after_star, *taken);
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|&u| u == STAR)
}

/// All wildcards: keeps the set of places in the pattern the name so far can have led to.
fn matches_dos(pattern: &[u16], name: &[u8]) -> bool {
    let last_dot = units(name).enumerate().filter(|&(_, u)| u == DOT).map(|(i, _)| i).last();
    let mut now = States::default();
    now.insert(0);
    for (index, unit) in units(name).enumerate() {
        let mut next = States::default();
        let (unit, is_last_dot) = (upcase(unit), Some(index) == last_dot);
        // States only lead upwards without a character, so one pass in order sees them all.
        for (place, &want) in pattern.iter().enumerate() {
            if !now.contains(place) {
                continue;
            }
            match want {
                STAR => {
                    now.insert(place + 1);
                    next.insert(place);
                }
                DOS_STAR => {
                    now.insert(place + 1);
                    next.insert(if is_last_dot { place + 1 } else { place });
                }
                DOS_QM if unit == DOT => now.insert(place + 1),
                DOS_DOT if unit == DOT => next.insert(place + 1),
                DOS_QM | QUESTION => next.insert(place + 1),
                _ if want == unit => next.insert(place + 1),
                _ => {}
            }
        }
        now = next;
    }
    at_end(pattern, now)
}

/// Whether one of the places leads to the end of the pattern with no more characters.
fn at_end(pattern: &[u16], places: States) -> bool {
    let optional = |u: &u16| matches!(*u, STAR | DOS_STAR | DOS_QM | DOS_DOT);
    let tail = pattern.iter().rev().take_while(|u| optional(u)).count();
    (pattern.len() - tail..=pattern.len()).any(|place| places.contains(place))
}

/// A set of places in a pattern of at most [`MAX_UNITS`].
#[derive(Clone, Copy, Default)]
struct States([u64; 8]);

impl States {
    fn insert(&mut self, place: usize) {
        if let Some(word) = self.0.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
    }

    fn contains(&self, place: usize) -> bool {
        self.0.get(place / 64).is_some_and(|word| word & (1 << (place % 64)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(&wide(pattern)).unwrap().matches(&wide(name))
    }

    #[test]
    fn names_that_match_and_names_that_do_not() {
        for (pattern, yes, no) in [
            ("*", &["", "a", ".", "a.b"][..], &[][..]),
            ("a", &["a", "A"], &["", "aa", "b"]),
            ("*.txt", &["a.txt", ".TXT", "a.b.txt"], &["a.txt.", "atxt", "a.tx"]),
            ("*.*", &["a.b", "."], &["ab"]),
            ("a?c", &["abc", "AxC", "a.c"], &["ac", "abbc"]),
            ("a*b*c", &["abc", "axxbyyc", "abbcc"], &["ab", "acb"]),
            ("**a", &["a", "bba"], &["ab"]),
            ("Grüße", &["GRÜßE", "grüße"], &["grusse"]),
            // DOS_STAR: `*.` as Win32 sends it, names without an extension.
            ("<", &["a", "abc", "a."], &["a.b"]),
            ("f<", &["f", "foo"], &["f.a", "a"]),
            ("<.txt", &["a.txt", "a.b.txt"], &["a.txt.b"]),
            ("<.b", &["a.b.b"], &["a.b.c"]),
            // DOS_QM: `?` as Win32 sends it.
            (">>>", &["", "a", "abc"], &["abcd", "a.b"]),
            (">>>.txt", &["a.txt", "abc.txt", ".txt"], &["abcd.txt", "a.tx"]),
            ("a>.b", &["a.b", "ax.b"], &["axx.b"]),
            // DOS_DOT: `.` before a wildcard as Win32 sends it.
            ("a\"", &["a", "a."], &["ab", "a.b"]),
            ("a\"*", &["a", "a.", "a.b"], &["ab"]),
            (">>>>>>>>\">>>", &["readme", "readme.txt", "a.b"], &["readmetoolong", "a.bcde", "a.b.c"]),
            ("a\"b", &["a.b"], &["ab", "a"]),
        ] {
            for name in yes {
                assert!(matches(pattern, name), "{pattern} {name}");
            }
            for name in no {
                assert!(!matches(pattern, name), "{pattern} {name}");
            }
        }
    }

    #[test]
    fn both_matchers_agree_where_both_apply() {
        let letters = ['a', 'b', '.', '*', '?'];
        let word = |mut n: usize, alphabet: usize| {
            let mut text = String::new();
            while n > 0 {
                text.push(letters[n % alphabet]);
                n /= alphabet;
            }
            text
        };
        for p in 1..3000 {
            let pattern: Vec<u16> = word(p, 5).encode_utf16().map(upcase).collect();
            for n in 0..80 {
                let name = wide(&word(n, 3));
                assert_eq!(matches_simple(&pattern, &name), matches_dos(&pattern, &name), "{} {}", word(p, 5), n);
            }
        }
    }

    #[test]
    fn a_hostile_pattern_ends_soon() {
        let name = wide(&"a".repeat(255));
        for pattern in ["*a".repeat(250) + "b", "<a".repeat(250) + "b", "*>".repeat(250) + "b"] {
            assert!(!Pattern::new(&wide(&pattern)).unwrap().matches(&name));
        }
    }

    #[test]
    fn what_is_no_pattern() {
        for bad in ["", "a/b", "a\\b", "a:b", "a|b", "\u{1}", &"x".repeat(512)] {
            assert_eq!(Pattern::new(&wide(bad)), Err(NtStatus::OBJECT_NAME_INVALID), "{bad:?}");
        }
        assert!(Pattern::new(b"a").is_err());
        assert!(Pattern::new(&wide("*")).unwrap().matches_all());
        assert!(Pattern::new(&wide("***")).unwrap().matches_all());
        assert!(Pattern::new(&wide("a.b")).unwrap().is_literal());
    }
}
