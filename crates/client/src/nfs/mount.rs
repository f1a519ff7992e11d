//! How version 3 comes to its first handles: the MOUNT protocol (RFC 1813 appendix I), wherever `portmap` finds it. An
//! export is mounted when something below it is first asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use nfs_wire::mount::{DirPath, ExportList, MountProc, MountResult, MountStat3};
use nfs_wire::rpc::{Flavor, program};
use nfs_wire::xdr::{Bounded, Xdr};

use super::portmap::{self, Sought};
use super::rpc::driver::Handle;
use super::rpc::{Caller, Dial, Limits, Request, Response};
use super::v3::Three;
use super::v4::locked;
use super::{Fh, Lines};
use crate::error::ErrorKind;
use crate::smb::Failure;

const VERSION: u32 = 3;
const UNKNOWN: &str = "the server's portmapper knows no MOUNT: where it is can be said with mountport= in the URL";

/// What a server exports, and what of it is mounted.
#[derive(Debug)]
pub(crate) struct Mounts {
    mountd: Handle,
    caller: Caller,
    /// The paths of the exports, by component; none where the server does not tell.
    exports: Vec<Vec<Vec<u8>>>,
    share: Vec<u8>,
    mounted: Mutex<HashMap<Vec<u8>, Fh>>,
}

impl Mounts {
    /// Asks what is exported. `port`: where MOUNT is, if that is known.
    pub async fn find(
        lines: &Lines,
        dial: &Arc<dyn Dial>,
        limits: Limits,
        port: Option<u16>,
        share: &str,
    ) -> Result<Self, ErrorKind> {
        let caller = lines.caller.clone();
        let sought = Sought { program: program::MOUNT, version: VERSION, port, unknown: UNKNOWN };
        let mountd = portmap::find(lines.next(), dial, limits, &caller, sought).await?;
        let exports = match call(&mountd, &caller, MountProc::Export, &()).await {
            Ok(response) => response.decode::<ExportList<'_>>()?.iter().map(|e| components(e.path.0)).collect(),
            // A server may keep to itself what it exports.
            Err(ErrorKind::Connection(Failure::Denied(_))) => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { mountd, caller, exports, share: share.into(), mounted: Mutex::default() })
    }

    /// The handle of the export with the longest path that leads to `names` below the share, and how many of the names
    /// its path has.
    pub async fn start(&self, three: &Three, names: &[Vec<u8>]) -> Result<(Fh, usize), ErrorKind> {
        let full: Vec<&[u8]> = [self.share.as_slice()].into_iter().chain(names.iter().map(Vec::as_slice)).collect();
        let leads =
            |export: &&Vec<Vec<u8>>| full.iter().zip(export.iter()).filter(|(a, b)| *a == b).count() == export.len();
        let longest = self.exports.iter().filter(leads).map(Vec::len).max();
        let depth = match longest {
            Some(depth) => depth,
            None if self.exports.is_empty() => 1,
            None => return Err(MountStat3::NOENT.into()),
        };
        let path: Vec<u8> = match full.get(..depth).unwrap_or_default() {
            [] => b"/".to_vec(),
            some => some.iter().flat_map(|name| [b"/", *name]).flatten().copied().collect(),
        };
        Ok((self.mount(three, path).await?, depth.saturating_sub(1)))
    }

    /// Whether the share is one of the exports, or leads to or away from one.
    pub fn has_share(&self) -> bool {
        self.exports.is_empty() || self.exports.iter().any(|e| e.first().is_none_or(|first| *first == self.share))
    }

    async fn mount(&self, three: &Three, path: Vec<u8>) -> Result<Fh, ErrorKind> {
        if let Some(fh) = locked(&self.mounted).get(&path) {
            return Ok(fh.clone());
        }
        let args: DirPath<'_> = Bounded(&path);
        let response = call(&self.mountd, &self.caller, MountProc::Mnt, &args).await?;
        let ok = response.decode::<MountResult<'_>>()??;
        let flavors: Vec<Flavor> = ok.flavors.iter().collect();
        if !flavors.is_empty() && !flavors.iter().any(|f| [Flavor::SYS, Flavor::NONE].contains(f)) {
            return Err(ErrorKind::Input("the export wants Kerberos, which this client does not speak"));
        }
        let fh: Fh = ok.handle.0.into();
        three.keep_to(&three.fsinfo(&fh).await?);
        locked(&self.mounted).insert(path, fh.clone());
        Ok(fh)
    }

    /// A handle is stale: it may be the server that lost its exports.
    pub fn forget(&self) {
        locked(&self.mounted).clear();
    }
}

fn components(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}

async fn call<'a>(
    mountd: &Handle,
    caller: &Caller,
    procedure: MountProc,
    args: &impl Xdr<'a>,
) -> Result<Response, ErrorKind> {
    let request = Request::new(caller, program::MOUNT, VERSION, procedure as u32, |out| args.put(out));
    Ok(mountd.call(request).await?)
}
