//! What fanotify(7) says, taken apart: bytes in, [`Event`]s out. `feed.rs` reads them. Pure; bytes that make no sense are
//! skipped.

use crate::feed::Handle;

/// `struct fanotify_event_metadata`.
const HEAD_BYTES: usize = 24;
/// `struct fanotify_event_info_header` and the file system's id behind it.
const INFO_BYTES: usize = 4 + 8;
/// FAN_EVENT_INFO_TYPE_*.
const DFID_NAME: u8 = 2;
const OLD_DFID_NAME: u8 = 10;
const NEW_DFID_NAME: u8 = 12;

/// A directory and the name of an entry in it; `.` is the directory itself.
pub type Place = (Handle, Vec<u8>);

/// One event.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Event {
    /// FAN_*.
    pub mask: u64,
    /// Which process did it; 0 where it must not be known.
    pub pid: i32,
    /// What it happened to.
    pub place: Option<Place>,
    /// Of a rename: where from and where to, as far as those directories are watched.
    pub renamed: (Option<Place>, Option<Place>),
}

/// All events in `bytes`.
pub fn parse(mut bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(len) = number::<4>(bytes, 0).map(|len| u32::from_ne_bytes(len) as usize) {
        let Some(event) = bytes.get(..len).filter(|_| len >= HEAD_BYTES) else { break };
        events.extend(event_of(event));
        bytes = bytes.get(len..).unwrap_or_default();
    }
    events
}

fn event_of(bytes: &[u8]) -> Option<Event> {
    let head = usize::from(u16::from_ne_bytes(number(bytes, 6)?));
    let mask = u64::from_ne_bytes(number(bytes, 8)?);
    let pid = i32::from_ne_bytes(number(bytes, 20)?);
    let mut event = Event { mask, pid, ..Event::default() };
    let mut infos = bytes.get(head..)?;
    while let (Some(&kind), Some(len)) = (infos.first(), number::<2>(infos, 2)) {
        let len = usize::from(u16::from_ne_bytes(len));
        let Some(info) = infos.get(..len).filter(|_| len >= INFO_BYTES) else { break };
        match kind {
            DFID_NAME => event.place = place_of(info),
            OLD_DFID_NAME => event.renamed.0 = place_of(info),
            NEW_DFID_NAME => event.renamed.1 = place_of(info),
            _ => {}
        }
        infos = infos.get(len..).unwrap_or_default();
    }
    Some(event)
}

fn place_of(info: &[u8]) -> Option<Place> {
    let len = u32::from_ne_bytes(number(info, INFO_BYTES)?) as usize;
    let kind = i32::from_ne_bytes(number(info, INFO_BYTES + 4)?);
    let rest = info.get(INFO_BYTES + 8..)?;
    let (handle, name) = rest.split_at_checked(len)?;
    let end = name.iter().position(|&b| b == 0)?;
    Some(((kind, handle.to_vec()), name.get(..end)?.to_vec()))
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(kind: u8, name: &[u8]) -> Vec<u8> {
        let mut info = vec![kind, 0, 0, 0];
        info.extend([7; 8]); // the file system
        info.extend(4u32.to_ne_bytes());
        info.extend(0x81i32.to_ne_bytes());
        info.extend(b"hndl");
        info.extend(name);
        info.push(0);
        info.resize(info.len().next_multiple_of(4), 0);
        let len = info.len() as u16;
        info[2..4].copy_from_slice(&len.to_ne_bytes());
        info
    }

    fn event(mask: u64, pid: i32, infos: &[Vec<u8>]) -> Vec<u8> {
        let len = HEAD_BYTES + infos.iter().map(Vec::len).sum::<usize>();
        let mut event = (len as u32).to_ne_bytes().to_vec();
        event.extend([3, 0]);
        event.extend((HEAD_BYTES as u16).to_ne_bytes());
        event.extend(mask.to_ne_bytes());
        event.extend((-1i32).to_ne_bytes());
        event.extend(pid.to_ne_bytes());
        event.extend(infos.concat());
        event
    }

    #[test]
    fn events_are_taken_apart() {
        let bytes = [
            event(0x100, 5, &[info(DFID_NAME, b"new")]),
            event(0x1000_0000, 6, &[info(OLD_DFID_NAME, b"a"), info(NEW_DFID_NAME, b"bb")]),
            event(0x4000, 0, &[]),
        ]
        .concat();
        let handle: Handle = (0x81, b"hndl".to_vec());
        let at = |name: &[u8]| Some((handle.clone(), name.to_vec()));
        let want = [
            Event { mask: 0x100, pid: 5, place: at(b"new"), renamed: (None, None) },
            Event { mask: 0x1000_0000, pid: 6, place: None, renamed: (at(b"a"), at(b"bb")) },
            Event { mask: 0x4000, ..Event::default() },
        ];
        assert_eq!(parse(&bytes), want);
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).len() < want.len(), "cut at {end}");
        }
    }
}
