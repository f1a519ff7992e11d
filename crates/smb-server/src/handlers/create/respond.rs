//! The response of a CREATE that made an open or found one again (MS-SMB2 2.2.14).

use smb_wire::fscc::AccessMask;
use smb_wire::smb2::{
    CreateContexts, CreateRequest, CreateResponse, DURABLE_PERSISTENT, DURABLE_REQUEST_TAG, DURABLE_V2_REQUEST_TAG,
    DurableV2Response, LEASE_TAG, MAXIMAL_ACCESS_TAG, POSIX_TAG, QUERY_ON_DISK_ID_TAG, RawContext,
};

use coherence::GrantState;
use vfs::Attr;

use crate::durable::{Durability, Version};
use crate::failure::Failure;
use crate::grants::Wanted;
use crate::meta::{Meta, read_dos};
use crate::open::{FileOpen, Open};
use crate::reply::ReplyWriter;

/// What the response tells beside the file itself.
pub struct Answer<'a> {
    /// The request.
    pub asked: &'a CreateRequest<'a>,
    /// The caching it asked for.
    pub wanted: &'a Wanted,
    /// CreateAction.
    pub action: u32,
    /// The rights the user has at most.
    pub maximal: AccessMask,
    /// What the open's client may cache.
    pub caching: GrantState,
    /// The file's attributes, where they are known and nobody can rely on their being of now.
    pub attr: Option<Attr>,
    /// Told if the open was just made durable.
    pub durability: Option<Durability>,
}

impl Answer<'_> {
    /// Appends the response's body.
    pub fn put(&self, open: &Open, file: &FileOpen, out: &mut ReplyWriter) -> Result<(), Failure> {
        let attr = self.attr.map_or_else(|| file.node.attr(), Ok)?;
        let meta = Meta::new(attr, read_dos(&*file.node)?, file.is_hidden()).on(&file.share);
        let state = &self.caching;
        let v2 = file.route.as_ref().is_some_and(|route| route.is_v2());
        let (oplock_level, lease) = self.wanted.response(state.caching, state.epoch, state.breaking_to.is_some(), v2);
        let mut list: Vec<(&[u8], Vec<u8>)> = Vec::new();
        if self.asked.contexts.get(MAXIMAL_ACCESS_TAG).is_some() {
            // QueryStatus 0, then the rights (2.2.14.2.5).
            let mut data = vec![0; 4];
            data.extend(self.maximal.bits().to_le_bytes());
            list.push((MAXIMAL_ACCESS_TAG, data));
        }
        if self.asked.contexts.get(QUERY_ON_DISK_ID_TAG).is_some() {
            let mut data = meta.attr.id.ino.to_le_bytes().to_vec();
            data.extend(u64::from(file.share.volume_serial).to_le_bytes());
            data.resize(32, 0);
            list.push((QUERY_ON_DISK_ID_TAG, data));
        }
        if file.posix {
            list.push((POSIX_TAG, crate::posix::info(&meta).create_context()));
        }
        if let Some(lease) = lease {
            let mut data = Vec::new();
            lease.put(&mut data);
            list.push((LEASE_TAG, data));
        }
        match self.durability.map(|d| (d.version, d)) {
            Some((Some(Version::V1), _)) => list.push((DURABLE_REQUEST_TAG, vec![0; 8])),
            Some((Some(Version::V2 { .. }), Durability { timeout_ms, persistent, .. })) => {
                let mut data = Vec::new();
                let flags = if persistent { DURABLE_PERSISTENT } else { 0 };
                DurableV2Response { timeout_ms: timeout_ms as u32, flags }.put(&mut data);
                list.push((DURABLE_V2_REQUEST_TAG, data));
            }
            _ => {}
        }
        let contexts: Vec<_> = list.iter().map(|(name, data)| RawContext { name, data }).collect();
        CreateResponse {
            oplock_level,
            flags: 0,
            action: self.action,
            times: meta.times(),
            allocation_bytes: meta.allocation_bytes(),
            end_of_file: meta.end_of_file(),
            file_attributes: meta.attributes.bits(),
            handle: open.handle,
            contexts: CreateContexts::default(),
        }
        .put(&contexts, out);
        Ok(())
    }
}
