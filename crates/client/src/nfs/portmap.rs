//! Where a program of an NFS server answers that has no port of its own: on the one the URL names, on that of NFS, or
//! where its portmapper says (RFC 1833). MOUNT and the lock manager of version 3 are found so.

use std::sync::Arc;

use nfs_wire::portmap::{self, IPPROTO_TCP, Mapping, PmapProc};
use nfs_wire::rpc::program;
use nfs_wire::xdr::Xdr;

use super::rpc::driver::{self, Handle};
use super::rpc::{Caller, Dial, Limits, Request};
use crate::error::ErrorKind;
use crate::smb::Failure;

const PROC_NULL: u32 = 0;

/// A program that is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sought {
    pub program: u32,
    pub version: u32,
    /// The port, where it is known.
    pub port: Option<u16>,
    /// What is said when nobody knows it.
    pub unknown: &'static str,
}

/// A connection to where it answers; `nfs` itself where that does.
pub(super) async fn find(
    nfs: &Handle,
    dial: &Arc<dyn Dial>,
    limits: Limits,
    caller: &Caller,
    sought: Sought,
) -> Result<Handle, ErrorKind> {
    if let Some(port) = sought.port {
        return Ok(driver::start(Arc::clone(dial), port, limits, 1).await?);
    }
    match nfs.call(Request::new(caller, sought.program, sought.version, PROC_NULL, |_| {})).await {
        Ok(_) => Ok(nfs.clone()),
        Err(Failure::Denied(_)) => by_portmap(dial, limits, caller, sought).await,
        Err(error) => Err(error.into()),
    }
}

async fn by_portmap(
    dial: &Arc<dyn Dial>,
    limits: Limits,
    caller: &Caller,
    sought: Sought,
) -> Result<Handle, ErrorKind> {
    let rpcbind = driver::start(Arc::clone(dial), portmap::PORT, limits, 1).await?;
    let args = Mapping { program: sought.program, version: sought.version, protocol: IPPROTO_TCP, port: 0 };
    let request = Request::new(caller, program::PORTMAP, 2, PmapProc::GetPort as u32, |out| args.put(out));
    let port: u32 = rpcbind.call(request).await?.decode()?;
    match u16::try_from(port) {
        Ok(port) if port > 0 => Ok(driver::start(Arc::clone(dial), port, limits, 1).await?),
        _ => Err(ErrorKind::Input(sought.unknown)),
    }
}
