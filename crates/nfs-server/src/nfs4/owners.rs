//! Owners and groups by name (RFC 7530 5.9, RFC 8881 5.9): `name@domain` where the caller is told names and there is one,
//! else the number. What is looked up may wait for a directory service, so that it is not on a connection's thread: where
//! nothing may wait, the answer is `WouldBlock`. What was found is kept for a while, and no more than so much.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use nfs_wire::nfs4::{Attr as A, Bitmap, NfsStat4};
use parking_lot::Mutex;
use vfs::{Attr, Node, Wait};

use super::acl::{self, Entry};
use super::failure::{Done, Stop};
use crate::config::{Sec, Shown};
use crate::files::Cx;
use crate::groups::IdKind;

/// Names, and ids, that are remembered.
const MOST_KEPT: usize = 4096;
/// How long they are; what there is not is asked for sooner, since it may have been made meanwhile.
const KEEP_MS: u64 = 300_000;
const KEEP_UNKNOWN_MS: u64 = 30_000;
const KEEP_FAILED_MS: u64 = 10_000;
/// The longest name that is looked up: what Linux has room for (`LOGIN_NAME_MAX`).
const MAX_NAME_BYTES: usize = 255;

/// Who nobody in particular is, and what that one is called where the system has no name for it (RFC 8881 5.9).
const NOBODY: u32 = 65534;
const NOBODY_NAME: &str = "nobody";

/// What was looked up lately. Names that clients send are kept apart, so that they drive out none that are shown.
#[derive(Default)]
pub(crate) struct Known {
    names: Kept<(IdKind, u32), Arc<str>>,
    ids: Kept<(IdKind, Box<str>), u32>,
}

/// What was found, and until when that counts.
struct Kept<K, V>(Mutex<HashMap<K, (Found<V>, u64)>>);

/// What is known of a name or an id: none where there is nobody.
type Found<V> = Result<Option<V>, Unanswered>;

/// Nobody could be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unanswered;

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> Kept<K, V> {
    /// What is known, or else what `look_up` finds. Where that fails, what was known before goes on.
    fn get(
        &self,
        key: K,
        now_ms: u64,
        wait: Wait,
        look_up: impl FnOnce(&K) -> Result<Option<V>, String>,
    ) -> Done<Found<V>> {
        let before = self.0.lock().get(&key).cloned();
        if let Some((found, until_ms)) = &before
            && now_ms < *until_ms
        {
            return Ok(found.clone());
        }
        if wait == Wait::Never {
            return Err(Stop::WouldBlock);
        }
        let (found, keep_ms) = match look_up(&key) {
            Ok(Some(found)) => (Ok(Some(found)), KEEP_MS),
            Ok(None) => (Ok(None), KEEP_UNKNOWN_MS),
            Err(error) => {
                tracing::warn!(%error, "cannot look up a user's or group's name");
                (before.map_or(Err(Unanswered), |(found, _)| found), KEEP_FAILED_MS)
            }
        };
        self.keep(key, found.clone(), now_ms, keep_ms);
        Ok(found)
    }

    fn keep(&self, key: K, found: Found<V>, now_ms: u64, keep_ms: u64) {
        let mut kept = self.0.lock();
        if kept.len() >= MOST_KEPT {
            kept.retain(|_, (_, until_ms)| now_ms < *until_ms);
        }
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(key, (found, now_ms.saturating_add(keep_ms)));
    }
}

/// How an object's owners are told, where by other than their numbers.
#[derive(Default)]
pub(crate) struct Told {
    pub owner: Option<String>,
    pub group: Option<String>,
    /// The list with everybody in it by name.
    pub acl: Option<Vec<Entry>>,
}

impl Told {
    /// Of what is asked for.
    pub fn of(cx: &Cx, asked: &Bitmap, attr: &Attr, node: Option<&dyn Node>) -> Done<Self> {
        if !is_asked(asked) {
            return Ok(Self::default());
        }
        let Some(domain) = domain_shown(cx) else { return Ok(Self::default()) };
        Self::with(asked, attr, node, &mut |kind, id| named(cx, &domain, cx.wait, (kind, id)))
    }

    /// The same without a look at the directory service, for the middle of a listing: who is not known yet is told by
    /// number, and noted where the call may wait.
    pub fn as_far_as_known(
        cx: &Cx,
        asked: &Bitmap,
        attr: &Attr,
        node: Option<&dyn Node>,
        unknown: &mut Unknown,
    ) -> Done<Self> {
        if !is_asked(asked) {
            return Ok(Self::default());
        }
        let Some(domain) = domain_shown(cx) else { return Ok(Self::default()) };
        Self::with(asked, attr, node, &mut |kind, id| match named(cx, &domain, Wait::Never, (kind, id)) {
            Err(Stop::WouldBlock) if cx.wait == Wait::Allowed => {
                unknown.0.insert((kind, id));
                Ok(None)
            }
            known => known,
        })
    }

    fn with(
        asked: &Bitmap,
        attr: &Attr,
        node: Option<&dyn Node>,
        name: &mut dyn FnMut(IdKind, u32) -> Done<Option<String>>,
    ) -> Done<Self> {
        let has = |attr| asked.has(attr);
        let mut told = Self::default();
        if has(A::Owner) {
            told.owner = name(IdKind::User, attr.uid)?;
        }
        if has(A::OwnerGroup) {
            told.group = name(IdKind::Group, attr.gid)?;
        }
        if let Some(node) = node.filter(|_| has(A::Acl)) {
            let mut list = acl::of(node, attr);
            for entry in &mut list {
                if let Some((kind, id)) = entry.id()
                    && let Some(name) = name(kind, id)?
                {
                    entry.call(name);
                }
            }
            told.acl = Some(list);
        }
        Ok(told)
    }
}

/// Who was not known in the middle of something that cannot wait.
#[derive(Default)]
pub(crate) struct Unknown(HashSet<(IdKind, u32)>);

impl Unknown {
    /// Has them looked up; false where there is nobody to be. May wait.
    pub fn look_up(&mut self, cx: &Cx) -> Done<bool> {
        let Some(domain) = domain_shown(cx) else { return Ok(false) };
        let any = !self.0.is_empty();
        self.0.drain().try_for_each(|who| named(cx, &domain, cx.wait, who).map(drop))?;
        Ok(any)
    }
}

fn is_asked(asked: &Bitmap) -> bool {
    [A::Owner, A::OwnerGroup, A::Acl].into_iter().any(|attr| asked.has(attr))
}

/// The domain of names that the caller is told; none for numbers.
fn domain_shown(cx: &Cx) -> Option<Arc<str>> {
    let settings = cx.server.settings.load();
    let owners = &settings.config.owners;
    let names = match owners.shown {
        Shown::Numbers => false,
        Shown::Names => true,
        // Who says by number who it is, is told so too; Kerberos knows people by their names.
        Shown::Auto => cx.caller.sec != Sec::Sys,
    };
    if names { owners.domain.clone() } else { None }
}

/// What somebody is called; none for a number.
fn named(cx: &Cx, domain: &str, wait: Wait, who: (IdKind, u32)) -> Done<Option<String>> {
    let env = &cx.server.env;
    let Some(names) = &env.names else { return Ok(None) };
    let look_up = |key: &(IdKind, u32)| names.name_of(key.0, key.1).map(|found| found.map(Arc::from));
    let found = cx.server.names.names.get(who, env.clock.monotonic_ms(), wait, look_up)?;
    // A name with the sign in it would be taken for one of another domain.
    let name = found.ok().flatten().filter(|name| !name.is_empty() && !name.contains(['@', '\0']));
    let name = name.as_deref().or_else(|| (who.1 == NOBODY).then_some(NOBODY_NAME));
    Ok(name.map(|name| format!("{name}@{domain}")))
}

/// Whom a client means. A number always means itself; INVAL for what is no text, BADOWNER for whom nobody here knows, DELAY
/// while nobody can be asked.
pub(crate) fn id_of(cx: &Cx, kind: IdKind, text: &[u8]) -> Done<u32> {
    let text = std::str::from_utf8(text).map_err(|_| Stop::Status(NfsStat4::INVAL))?;
    if text.is_empty() {
        return Err(NfsStat4::INVAL.into());
    }
    let Some((name, domain)) = text.split_once('@') else { return number(text) };
    let settings = cx.server.settings.load();
    let env = &cx.server.env;
    // Without a domain of its own the server knows no name of any.
    let (Some(own), Some(names)) = (&settings.config.owners.domain, &env.names) else { return number(name) };
    let is_name = !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.contains('\0');
    if !is_name || !own.eq_ignore_ascii_case(domain) {
        return Err(NfsStat4::BADOWNER.into());
    }
    let look_up = |key: &(IdKind, Box<str>)| names.id_of(key.0, &key.1);
    match cx.server.names.ids.get((kind, name.into()), env.clock.monotonic_ms(), cx.wait, look_up)? {
        Ok(Some(u32::MAX)) => Err(NfsStat4::BADOWNER.into()),
        Ok(Some(id)) => Ok(id),
        Ok(None) if name == NOBODY_NAME => Ok(NOBODY),
        Ok(None) => number(name),
        Err(Unanswered) => Err(NfsStat4::DELAY.into()),
    }
}

/// A number as a text; BADOWNER for what is none.
pub(crate) fn number(text: &str) -> Done<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(id) if is_number && id != u32::MAX => Ok(id),
        _ => Err(NfsStat4::BADOWNER.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_kept_for_a_while_and_only_so_much() {
        let kept = Kept::<u32, u32>::default();
        let get = |key, now_ms, wait, found: Result<Option<u32>, String>| kept.get(key, now_ms, wait, |_| found);
        let down = || Err("down".to_owned());
        assert_eq!(get(1, 0, Wait::Never, Ok(Some(7))), Err(Stop::WouldBlock));
        assert_eq!(get(1, 0, Wait::Allowed, Ok(Some(7))), Ok(Ok(Some(7))));
        assert_eq!(get(1, KEEP_MS - 1, Wait::Never, down()), Ok(Ok(Some(7))));
        assert_eq!(get(1, KEEP_MS, Wait::Never, down()), Err(Stop::WouldBlock));
        assert_eq!(get(1, KEEP_MS, Wait::Allowed, down()), Ok(Ok(Some(7))), "what was known goes on");
        assert_eq!(get(1, KEEP_MS + KEEP_FAILED_MS, Wait::Allowed, Ok(None)), Ok(Ok(None)));
        let late = KEEP_MS + KEEP_FAILED_MS + KEEP_UNKNOWN_MS;
        assert_eq!(get(1, late - 1, Wait::Never, down()), Ok(Ok(None)));
        assert_eq!(get(1, late, Wait::Allowed, Ok(Some(8))), Ok(Ok(Some(8))), "it was made meanwhile");
        assert_eq!(get(2, 0, Wait::Allowed, down()), Ok(Err(Unanswered)));
        assert_eq!(get(2, KEEP_FAILED_MS - 1, Wait::Allowed, Ok(Some(9))), Ok(Err(Unanswered)), "not asked at once");
        assert_eq!(get(2, KEEP_FAILED_MS, Wait::Allowed, Ok(Some(9))), Ok(Ok(Some(9))));
        for key in 0..2 * MOST_KEPT as u32 {
            get(key, late, Wait::Allowed, Ok(None)).unwrap().unwrap();
            assert!(kept.0.lock().len() <= MOST_KEPT);
        }
    }

    #[test]
    fn only_digits_are_a_number() {
        assert_eq!(number("1000"), Ok(1000));
        for text in ["", "+1", "-1", "1x", "4294967295", "4294967296", "\u{661}"] {
            assert_eq!(number(text), Err(NfsStat4::BADOWNER.into()), "{text}");
        }
    }
}
