//! Work on ranges of a file by reading and writing, for backends that have nothing better. `backend.rs` calls it as the
//! default of the calls of these names, and a backend where its own way fails.

use crate::{Node, VfsError, VfsResult, Wait};

/// Bytes moved at a time.
const STEP_BYTES: u64 = 1 << 20;

/// [`Node::copy_range`] by way of a buffer. `same`: both are one file.
pub fn copy<N: Node + ?Sized>(
    same: bool,
    from: &N,
    offset_bytes: u64,
    to: &dyn Node,
    to_bytes: u64,
    len_bytes: u64,
) -> VfsResult<u64> {
    let end = from.attr()?.len_bytes;
    let len = len_bytes.min(end.saturating_sub(offset_bytes));
    to_bytes.checked_add(len).ok_or(VfsError::TooLarge)?;
    let mut buf = vec![0; len.min(STEP_BYTES) as usize];
    let backwards = same && offset_bytes < to_bytes && to_bytes - offset_bytes < len;
    let mut done = 0;
    while done < len {
        let step = (len - done).min(STEP_BYTES);
        let at = if backwards { len - done - step } else { done };
        let room = buf.get_mut(..step as usize).unwrap_or_default();
        let count = from.read(offset_bytes + at, room, Wait::Allowed)?;
        to.write(to_bytes + at, room.get(..count).unwrap_or_default(), Wait::Allowed)?;
        if (count as u64) < step && !backwards {
            return Ok(done + count as u64); // the file was cut meanwhile
        }
        done += step;
    }
    Ok(done)
}

/// [`Node::zero_range`] by writing.
pub fn write_zeros<N: Node + ?Sized>(node: &N, offset_bytes: u64, len_bytes: u64) -> VfsResult<()> {
    let end = node.attr()?.len_bytes.min(offset_bytes.saturating_add(len_bytes));
    let zeros = vec![0; end.saturating_sub(offset_bytes).min(STEP_BYTES) as usize];
    let mut at = offset_bytes;
    while at < end {
        let step = (end - at).min(STEP_BYTES);
        node.write(at, zeros.get(..step as usize).unwrap_or_default(), Wait::Allowed)?;
        at += step;
    }
    // Nothing lies in the file: whoever may not write it is told all the same.
    if offset_bytes >= end { node.write(offset_bytes, &[], Wait::Allowed) } else { Ok(()) }
}
