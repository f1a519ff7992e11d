//! What is stored of a persistent open, and how it looks in bytes. Made by the keeper, read back at start; the bytes are
//! the server's own, but they come from a disk: nothing in them is trusted.

use coherence::{Caching, HolderKey, Identity, LockRange, ShareKinds};
use smb_wire::codec::{Put, Reader, Truncated};
use vfs::FileId;

use crate::grants::{LeaseName, from_wire_state, wire_state};
use crate::open::FileOpen;
use crate::server::Server;

/// First byte of every record; another means another layout.
const LAYOUT: u8 = 2;
/// Not a lock sequence number, which has four bits.
const NO_SEQUENCE: u8 = 0xff;

/// A persistent open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// FileId.Persistent.
    pub id: u64,
    /// FileId.Volatile.
    pub volatile: u64,
    /// CreateGuid.
    pub create_guid: [u8; 16],
    /// ClientGuid.
    pub client: [u8; 16],
    /// Whose it is.
    pub user: String,
    /// On which share.
    pub share: String,
    /// Where the file is.
    pub path: Vec<u8>,
    /// Which it is.
    pub file: FileId,
    /// Rights granted.
    pub granted: u32,
    /// What others may do.
    pub share_access: ShareKinds,
    /// CreateOptions.
    pub options: u32,
    /// CreateAction.
    pub action: u32,
    /// How long it waits for its client.
    pub timeout_ms: u64,
    /// Application instance.
    pub app_instance: Option<[u8; 16]>,
    /// The lease it takes part in, and whether that is of version 2.
    pub lease: Option<(LeaseName, bool)>,
    /// The lease of its directory.
    pub parent: Option<LeaseName>,
    /// What its client may cache.
    pub caching: Caching,
    /// The lease's epoch.
    pub epoch: u16,
    /// The file goes when this open closes.
    pub delete_on_close: bool,
    /// The file goes when its last open closes.
    pub delete_pending: bool,
    /// Byte ranges it has locked.
    pub locks: Vec<LockRange>,
    /// LOCKs done by number.
    pub lock_sequences: Vec<Option<u8>>,
}

impl Record {
    /// The state of an open, if it is persistent.
    pub fn of(file: &FileOpen, server: &Server) -> Option<Self> {
        let kept = file.kept.get()?;
        let durability = *file.durability.lock();
        let grant = server.table.grant_state(file.claim.file(), &file.claim.holder()).unwrap_or_default();
        let lease = file.route.as_ref().and_then(|route| route.lease().map(|name| (name, route.is_v2())));
        Some(Self {
            id: kept.handle.persistent,
            volatile: kept.handle.volatile,
            create_guid: durability.create_guid()?,
            client: file.client,
            user: kept.user.clone(),
            share: file.share.name.clone(),
            path: file.path().ok()?.as_bytes().to_vec(),
            file: file.claim.file(),
            granted: kept.granted.bits(),
            share_access: file.claim.share(),
            options: file.options.bits(),
            action: file.action,
            timeout_ms: durability.timeout_ms,
            app_instance: file.app_instance,
            lease,
            parent: match file.parent {
                Identity::Lease { client, key } => Some((client, key)),
                _ => None,
            },
            // What a break under way leaves: the client will have been told by the time this is read.
            caching: if grant.revoked { Caching::empty() } else { grant.breaking_to.unwrap_or(grant.caching) },
            epoch: grant.epoch,
            delete_on_close: file.claim.delete_on_close(),
            delete_pending: file.claim.delete_pending(),
            locks: file.claim.locks(),
            lock_sequences: file.lock_sequences.lock().clone(),
        })
    }

    /// As whom it counts.
    pub fn identity(&self) -> Identity {
        self.lease.map_or(Identity::Open, |((client, key), _)| Identity::Lease { client, key })
    }

    /// Under which key others know its grant; an oplock's is new each time.
    pub fn holder(&self) -> Option<HolderKey> {
        self.lease.map(|((client, key), _)| HolderKey::Lease { client, key })
    }

    /// The record in bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![LAYOUT];
        out.put_u64(self.id);
        out.put_u64(self.volatile);
        out.put_bytes(&self.create_guid);
        out.put_bytes(&self.client);
        for text in [self.user.as_bytes(), self.share.as_bytes(), &self.path] {
            out.put_u32(text.len() as u32);
            out.put_bytes(text);
        }
        [self.file.dev, self.file.ino, self.file.generation].into_iter().for_each(|n| out.put_u64(n));
        out.put_u32(self.granted);
        out.put_u32(u32::from(self.share_access.bits()));
        out.put_u32(self.options);
        out.put_u32(self.action);
        out.put_u64(self.timeout_ms);
        put_some(&mut out, self.app_instance.as_ref().map(|id| [id.as_slice()]));
        let v2 = [u8::from(self.lease.is_some_and(|(_, v2)| v2))];
        put_some(&mut out, self.lease.as_ref().map(|((client, key), _)| [client.as_slice(), key, &v2]));
        put_some(&mut out, self.parent.as_ref().map(|(client, key)| [client.as_slice(), key]));
        out.put_u32(wire_state(self.caching));
        out.put_u16(self.epoch);
        out.push(u8::from(self.delete_on_close));
        out.push(u8::from(self.delete_pending));
        out.put_u32(self.locks.len() as u32);
        for lock in &self.locks {
            out.put_u64(lock.offset);
            out.put_u64(lock.len);
            out.push(u8::from(lock.exclusive));
        }
        out.put_u32(self.lock_sequences.len() as u32);
        out.extend(self.lock_sequences.iter().map(|number| number.unwrap_or(NO_SEQUENCE)));
        out
    }

    /// Reads a record; nothing where it is none of this layout.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader::new(bytes);
        if r.u8().ok()? != LAYOUT {
            return None;
        }
        let record = Self {
            id: r.u64().ok()?,
            volatile: r.u64().ok()?,
            create_guid: r.array().ok()?,
            client: r.array().ok()?,
            user: String::from_utf8(sized(&mut r).ok()?).ok()?,
            share: String::from_utf8(sized(&mut r).ok()?).ok()?,
            path: sized(&mut r).ok()?,
            file: FileId { dev: r.u64().ok()?, ino: r.u64().ok()?, generation: r.u64().ok()? },
            granted: r.u32().ok()?,
            share_access: ShareKinds::from_bits_truncate(r.u32().ok()? as u8),
            options: r.u32().ok()?,
            action: r.u32().ok()?,
            timeout_ms: r.u64().ok()?,
            app_instance: some(&mut r, |r| r.array()).ok()?,
            lease: some(&mut r, |r| Ok(((r.array()?, r.array()?), r.u8()? != 0))).ok()?,
            parent: some(&mut r, |r| Ok((r.array()?, r.array()?))).ok()?,
            caching: from_wire_state(r.u32().ok()?),
            epoch: r.u16().ok()?,
            delete_on_close: r.u8().ok()? != 0,
            delete_pending: r.u8().ok()? != 0,
            locks: locks(&mut r).ok()?,
            lock_sequences: sized(&mut r).ok()?.into_iter().map(|n| (n != NO_SEQUENCE).then_some(n)).collect(),
        };
        (r.remaining() == 0).then_some(record)
    }
}

fn put_some<const N: usize>(out: &mut Vec<u8>, parts: Option<[&[u8]; N]>) {
    out.push(u8::from(parts.is_some()));
    parts.into_iter().flatten().for_each(|part| out.put_bytes(part));
}

fn some<T>(
    r: &mut Reader<'_>,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, Truncated>,
) -> Result<Option<T>, Truncated> {
    if r.u8()? == 0 { Ok(None) } else { read(r).map(Some) }
}

fn sized(r: &mut Reader<'_>) -> Result<Vec<u8>, Truncated> {
    let len = r.u32()? as usize;
    Ok(r.bytes(len)?.to_vec())
}

fn locks(r: &mut Reader<'_>) -> Result<Vec<LockRange>, Truncated> {
    let count = r.u32()?;
    (0..count).map(|_| Ok(LockRange { offset: r.u64()?, len: r.u64()?, exclusive: r.u8()? != 0 })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            id: 7,
            volatile: 1 << 32 | 9,
            create_guid: [1; 16],
            client: [2; 16],
            user: "anna".into(),
            share: "Data".into(),
            path: b"a/b".to_vec(),
            file: FileId { dev: 3, ino: 4, generation: 5 },
            granted: 0x0012_019f,
            share_access: ShareKinds::READ | ShareKinds::DELETE,
            options: 0x40,
            action: 2,
            timeout_ms: 60_000,
            app_instance: Some([6; 16]),
            lease: Some((([2; 16], [8; 16]), true)),
            parent: Some(([2; 16], [9; 16])),
            caching: Caching::all(),
            epoch: 0x1234,
            delete_on_close: true,
            delete_pending: false,
            locks: vec![
                LockRange { offset: 1, len: 2, exclusive: true },
                LockRange { offset: u64::MAX, len: 0, exclusive: false },
            ],
            lock_sequences: vec![None, Some(15), Some(0)],
        }
    }

    #[test]
    fn a_record_survives_its_bytes() {
        let plain = Record { app_instance: None, lease: None, parent: None, locks: Vec::new(), ..record() };
        for record in [record(), plain] {
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
    }

    #[test]
    fn what_is_cut_or_of_another_layout_is_no_record() {
        let mut bytes = record().encode();
        for end in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..end]), None, "cut at {end}");
        }
        bytes.push(0);
        assert_eq!(Record::decode(&bytes), None);
        bytes.pop();
        bytes[0] = 1;
        assert_eq!(Record::decode(&bytes), None);
    }
}
