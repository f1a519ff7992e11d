//! NFS version 3 (RFC 1813): each operation as its call and what the answer must be. A call that is not done twice
//! without harm is made once: when its answer is lost, whether it was done is not known, and the caller is told so.

pub(super) mod lock;
pub(super) mod lockd;
mod names;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytes::Bytes;
use nfs_wire::NfsStat3;
use nfs_wire::nfs3::{
    CommitArgs, CommitRes, Failed, FsinfoOk, FsinfoRes, FsstatRes, GetattrRes, Nfs3Proc, ReadArgs, ReadRes,
    SetattrArgs, SetattrRes, StableHow, VERSION, WriteHead, WriteRes,
};
use nfs_wire::rpc::program;
use nfs_wire::xdr::{Bounded, Reader, Xdr};

use super::attr::Wanted;
use super::open::Written;
use super::pace::Pace;
use super::rpc::{Request, Response};
use super::{Fh, Lines};
use crate::error::ErrorKind;
use crate::stat::{Space, Stat};
use crate::stream::Part;

/// A server that speaks version 3.
#[derive(Debug)]
pub(crate) struct Three {
    pub lines: Lines,
    /// What one READ and one WRITE move at most.
    read_bytes: AtomicU32,
    write_bytes: AtomicU32,
    /// What one listing asks for.
    pub listing_bytes: AtomicU32,
    pub lockd: Arc<lockd::Lockd>,
}

impl Three {
    pub fn new(lines: Lines, transfer_bytes: u32, lockd: Arc<lockd::Lockd>) -> Self {
        Self {
            lines,
            read_bytes: AtomicU32::new(transfer_bytes),
            write_bytes: AtomicU32::new(transfer_bytes),
            listing_bytes: AtomicU32::new(64 << 10),
            lockd,
        }
    }

    pub fn read_bytes(&self) -> u32 {
        self.read_bytes.load(Relaxed).max(1)
    }

    pub fn write_bytes(&self) -> u32 {
        self.write_bytes.load(Relaxed).max(1)
    }

    /// What the server allows is kept to. The export that allows least decides for all.
    pub fn keep_to(&self, info: &FsinfoOk) {
        let least = |cell: &AtomicU32, bytes: u32| {
            cell.fetch_min(bytes.max(512), Relaxed);
        };
        least(&self.read_bytes, info.read_max_bytes);
        least(&self.write_bytes, info.write_max_bytes);
    }

    /// The request of a call that may be repeated.
    pub fn request(&self, procedure: Nfs3Proc, put: impl FnOnce(&mut Vec<u8>)) -> Request {
        Request::new(&self.lines.caller, program::NFS, VERSION, procedure as u32, put)
    }

    /// A call that may be repeated.
    pub async fn call<'a>(&self, procedure: Nfs3Proc, args: &impl Xdr<'a>) -> Result<Response, ErrorKind> {
        self.insist(|| self.request(procedure, |out| args.put(out))).await
    }

    /// One that may not.
    async fn call_once<'a>(&self, procedure: Nfs3Proc, args: &impl Xdr<'a>) -> Result<Response, ErrorKind> {
        self.insist(|| self.request(procedure, |out| args.put(out)).once()).await
    }

    /// Asks again while the server says "not now" (JUKEBOX).
    async fn insist(&self, request: impl Fn() -> Request) -> Result<Response, ErrorKind> {
        let mut pace = Pace::new(self.lines.timeout);
        loop {
            let response = self.lines.next().call(request()).await?;
            if status(&response)? != NfsStat3::JUKEBOX || !pace.wait().await {
                return Ok(response);
            }
        }
    }

    pub async fn getattr(&self, fh: &Fh) -> Result<Stat, ErrorKind> {
        let response = self.call(Nfs3Proc::Getattr, &Bounded::<64>(fh)).await?;
        Ok(Stat::from(&good(response.decode::<GetattrRes>()?)?))
    }

    pub async fn setattr(&self, fh: &Fh, wanted: &Wanted) -> Result<(), ErrorKind> {
        let args = SetattrArgs { handle: Bounded(fh), attributes: wanted.sattr(), guard_ctime: None };
        good(self.call(Nfs3Proc::Setattr, &args).await?.decode::<SetattrRes>()?).map(drop)
    }

    pub async fn fsinfo(&self, fh: &Fh) -> Result<FsinfoOk, ErrorKind> {
        good(self.call(Nfs3Proc::Fsinfo, &Bounded::<64>(fh)).await?.decode::<FsinfoRes>()?)
    }

    pub async fn space(&self, fh: &Fh) -> Result<Space, ErrorKind> {
        let ok = good(self.call(Nfs3Proc::Fsstat, &Bounded::<64>(fh)).await?.decode::<FsstatRes>()?)?;
        Ok(Space { total_bytes: ok.total_bytes, free_bytes: ok.free_bytes, available_bytes: ok.available_bytes })
    }

    pub fn read(&self, fh: &Fh, offset_bytes: u64, count_bytes: u32) -> Request {
        let args = ReadArgs { handle: Bounded(fh), offset_bytes, count_bytes };
        self.request(Nfs3Proc::Read, |out| args.put(out))
    }

    /// The first `count_bytes` of a file.
    pub async fn read_start(&self, fh: &Fh, count_bytes: u32) -> Result<Vec<u8>, ErrorKind> {
        let (Part { buf, range }, _) = was_read(self.insist(|| self.read(fh, 0, count_bytes)).await?)?;
        Ok(buf.get(range).unwrap_or_default().to_vec())
    }

    pub fn write(&self, fh: &Fh, offset_bytes: u64, data: Bytes) -> Request {
        let count_bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let head = WriteHead { handle: Bounded(fh), offset_bytes, count_bytes, stable: StableHow::Unstable };
        self.request(Nfs3Proc::Write, |out| (head, count_bytes).put(out)).with_body(data)
    }

    pub fn commit(&self, fh: &Fh) -> Request {
        let args = CommitArgs { handle: Bounded(fh), offset_bytes: 0, count_bytes: 0 };
        self.request(Nfs3Proc::Commit, |out| args.put(out))
    }
}

/// The word every result begins with.
pub(super) fn status(response: &Response) -> Result<NfsStat3, ErrorKind> {
    Ok(NfsStat3::decode(&mut Reader::new(response.results()))?)
}

pub(super) fn good<T, F>(result: Result<T, Failed<F>>) -> Result<T, ErrorKind> {
    result.map_err(|failed| failed.status.into())
}

/// What a READ brought, and whether the file ends there.
pub(super) fn was_read(response: Response) -> Result<(Part, bool), ErrorKind> {
    let ok = good(response.decode::<ReadRes<'_>>()?)?;
    if ok.count_bytes as usize != ok.data.len() {
        return Err(ErrorKind::Nonsense("it says it read another number of bytes than it sends"));
    }
    let (range, eof) = (response.range_of(ok.data), ok.eof);
    Ok((Part { buf: response.into_record(), range }, eof))
}

pub(super) fn was_written(response: &Response) -> Result<Written, ErrorKind> {
    let ok = good(response.decode::<WriteRes>()?)?;
    Ok(Written { count_bytes: ok.count_bytes, is_safe: ok.committed != StableHow::Unstable, verifier: ok.verifier })
}

pub(super) fn was_committed(response: &Response) -> Result<[u8; 8], ErrorKind> {
    Ok(good(response.decode::<CommitRes>()?)?.verifier)
}
