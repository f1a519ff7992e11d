//! Symbolic links of an SMB share, as reparse points (MS-FSCC 2.1.2.4). The facade calls it through [`Share`].

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use smb_wire::fscc::SymlinkReparse;
use smb_wire::name;
use smb_wire::smb2::{Command, IoctlRequest, IoctlResponse, fsctl};

use super::Request;
use super::open::How;
use super::request::RELATED;
use super::share::{Share, good};
use crate::error::ErrorKind;

/// What a reparse point holds at most (MS-FSCC 2.1.2.1).
const MOST_REPARSE_BYTES: u32 = 16 << 10;

impl Share {
    /// Where a link leads, as it says.
    pub async fn read_link(&self, path: &Path) -> Result<PathBuf, ErrorKind> {
        let ask = self.ioctl(fsctl::GET_REPARSE_POINT, RELATED, &[], MOST_REPARSE_BYTES);
        let mut compound = self.compound(path, How::attributes(), vec![ask])?;
        compound.opened().await?;
        let answer = good(compound.next().await?);
        compound.closed().await?;
        let answer = answer?;
        let output = IoctlResponse::decode(answer.message())?.output;
        let link = SymlinkReparse::decode(output).map_err(|_| ErrorKind::Input("it is no symbolic link"))?;
        to_local(link.target)
    }

    /// Makes a link that leads to `target`. One that cannot be made leaves nothing.
    pub async fn symlink(&self, target: &Path, path: &Path) -> Result<(), ErrorKind> {
        let wire = to_wire(target)?;
        let mut input = Vec::new();
        SymlinkReparse { target: &wire, relative: target.is_relative() }.put(&mut input);
        let set = self.ioctl(fsctl::SET_REPARSE_POINT, RELATED, &input, 0);
        let mut compound = self.compound(path, How::new_link(), vec![set])?;
        compound.opened().await?;
        let set = good(compound.next().await?);
        compound.closed().await?;
        if let Err(error) = set {
            // What is there is an empty file of ours; that it cannot be removed is no better news than the first.
            let _ = self.remove(path).await;
            return Err(error);
        }
        Ok(())
    }

    /// A file system control that answers with `output_bytes` at most.
    pub(super) fn ioctl(
        &self,
        code: u32,
        handle: smb_wire::smb2::FileHandle,
        input: &[u8],
        output_bytes: u32,
    ) -> Request {
        let body =
            IoctlRequest { code, handle, input, max_input_response: 0, max_output_response: output_bytes, flags: 1 };
        let payload_bytes = output_bytes.max(u32::try_from(input.len()).unwrap_or(u32::MAX));
        let repeatable = matches!(code, fsctl::GET_REPARSE_POINT | fsctl::SRV_REQUEST_RESUME_KEY);
        Request { repeatable, ..self.request(Command::Ioctl, payload_bytes, |out| body.put(out)) }
    }
}

/// The target of a link, which may lead anywhere: it is text here, and nothing is opened by it.
fn to_wire(target: &Path) -> Result<Vec<u8>, ErrorKind> {
    const BACKSLASH: &[u8] = b"\\\0";
    let mut wire = Vec::new();
    for (i, component) in target.components().enumerate() {
        if i > 0 && !wire.ends_with(BACKSLASH) {
            wire.extend(BACKSLASH);
        }
        match component {
            Component::RootDir => wire.extend(BACKSLASH),
            Component::CurDir => wire.extend(name::utf16le(".")),
            Component::ParentDir => wire.extend(name::utf16le("..")),
            Component::Normal(part) => name::local_to_wire(part.as_bytes(), &mut wire),
            Component::Prefix(_) => return Err(ErrorKind::Input("a link cannot lead to another drive")),
        }
    }
    if wire.is_empty() || wire.len() > MOST_REPARSE_BYTES as usize / 4 {
        return Err(ErrorKind::Input("the link's target is empty or too long"));
    }
    Ok(wire)
}

fn to_local(wire: &[u8]) -> Result<PathBuf, ErrorKind> {
    let (units, rest) = wire.as_chunks::<2>();
    if units.is_empty() || !rest.is_empty() {
        return Err(ErrorKind::Nonsense("the target of a link is no name"));
    }
    let parts = units.split(|unit| *unit == *b"\\\0").map(|part| match part {
        [] => Ok(Vec::new()),
        _ if part.iter().all(|unit| *unit == *b".\0") => Ok(vec![b'.'; part.len()]),
        _ => name::component_to_local(part.as_flattened())
            .or_else(|_| Ok(name::from_utf16le(part.as_flattened()).into_bytes())),
    });
    let parts: Vec<_> = parts.collect::<Result<_, ErrorKind>>()?;
    Ok(OsString::from_vec(parts.join(&b'/')).into())
}

#[cfg(test)]
mod tests {
    use super::super::path;
    use super::*;

    #[test]
    fn targets_go_round() {
        for target in ["a", "../b/c", "/abs/x", "./y", "Größe/é", "a:b?"] {
            assert_eq!(to_local(&to_wire(Path::new(target)).unwrap()).unwrap(), Path::new(target));
        }
        assert!(to_wire(Path::new("")).is_err() && to_local(b"").is_err() && to_local(b"a").is_err());
        assert!(path::to_wire(Path::new("../b")).is_err(), "what is opened never leads out");
    }
}
