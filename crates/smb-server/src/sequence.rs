//! The channel sequence of an open (MS-SMB2 3.3.5.2.10): a client whose channel failed counts the sequence up and sends its
//! requests again on another; what still comes from before must not change anything any more. The dispatcher counts each
//! request in when it finds its open and out when it is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use smb_wire::NtStatus;
use smb_wire::smb2::{Command, Flags, Header};

use crate::open::Open;

/// Open.ChannelSequence with the requests under way that carry it, and those that carry an earlier one.
#[derive(Debug)]
pub struct Sequence(AtomicU64);

/// The same, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    at: u16,
    /// OutstandingRequestCount.
    current: u32,
    /// OutstandingPreRequestCount.
    earlier: u32,
}

/// The request is of an earlier sequence, or repeats one that is still under way.
#[derive(Debug, PartialEq, Eq)]
pub struct OutOfSequence;

impl Sequence {
    /// The sequence of an open just made by a request that carries `at`.
    pub fn new(at: u16) -> Self {
        Self(AtomicU64::new(State { at, current: 0, earlier: 0 }.pack()))
    }

    /// Counts a request in.
    fn enter(&self, sequence: u16, replay: bool) -> Result<(), OutOfSequence> {
        let mut entered = false;
        let step = |packed| {
            let mut state = State::unpack(packed);
            entered = state.enter(sequence, replay);
            Some(state.pack())
        };
        let _ = self.0.fetch_update(Relaxed, Relaxed, step);
        if entered { Ok(()) } else { Err(OutOfSequence) }
    }

    /// Counts a request out.
    fn leave(&self, sequence: u16) {
        let step = |packed| {
            let mut state = State::unpack(packed);
            let count = if state.at == sequence { &mut state.current } else { &mut state.earlier };
            *count = count.saturating_sub(1);
            Some(state.pack())
        };
        let _ = self.0.fetch_update(Relaxed, Relaxed, step);
    }
}

impl State {
    /// Requests under way are bounded far below 24 bits by what connections park and sessions have of channels.
    fn pack(self) -> u64 {
        u64::from(self.at) << 48 | u64::from(self.current & 0xff_ffff) << 24 | u64::from(self.earlier & 0xff_ffff)
    }

    fn unpack(packed: u64) -> Self {
        let count = |shift| (packed >> shift) as u32 & 0xff_ffff;
        Self { at: (packed >> 48) as u16, current: count(24), earlier: count(0) }
    }

    fn enter(&mut self, sequence: u16, replay: bool) -> bool {
        let ahead = sequence.wrapping_sub(self.at);
        if ahead > 0x7fff {
            return false;
        }
        if ahead != 0 {
            self.earlier += self.current;
            self.current = 0;
            self.at = sequence;
        }
        if replay && self.earlier != 0 {
            return false;
        }
        self.current += 1;
        true
    }
}

/// A request that was counted in; it is counted out when dropped.
pub struct Counted {
    open: Arc<Open>,
    sequence: u16,
}

impl Counted {
    /// Counts the request of `header` in. What would change something out of its sequence is refused; what does not is
    /// let through uncounted.
    pub fn new(open: &Arc<Open>, header: &Header) -> Result<Option<Self>, NtStatus> {
        // ChannelSequence is where a response has its status (2.2.1.2).
        let sequence = header.status as u16;
        let replay = header.flags.contains(Flags::REPLAY);
        if !replay {
            open.replayable.store(false, Relaxed);
        }
        match open.sequence.enter(sequence, replay) {
            Ok(()) => Ok(Some(Self { open: Arc::clone(open), sequence })),
            Err(OutOfSequence) if changes(header.command) => Err(NtStatus::FILE_NOT_AVAILABLE),
            Err(OutOfSequence) => Ok(None),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.sequence.leave(self.sequence);
    }
}

fn changes(command: u16) -> bool {
    matches!(Command::from_u16(command), Some(Command::Write | Command::SetInfo | Command::Ioctl))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_before_is_refused() {
        let sequence = Sequence::new(0);
        assert_eq!(sequence.enter(0, false), Ok(()));
        assert_eq!(sequence.enter(0x7fff, false), Ok(()));
        assert_eq!(sequence.enter(0x7ffe, false), Err(OutOfSequence));
        assert_eq!(sequence.enter(0xffff, false), Err(OutOfSequence), "0x8000 ahead is behind");
        assert_eq!(sequence.enter(0xfffe, false), Ok(()));
        assert_eq!(sequence.enter(3, false), Ok(()), "it wraps");
        assert_eq!(State::unpack(sequence.0.load(Relaxed)), State { at: 3, current: 1, earlier: 3 });
    }

    #[test]
    fn a_replay_waits_for_what_it_repeats() {
        let sequence = Sequence::new(5);
        assert_eq!(sequence.enter(5, false), Ok(()));
        assert_eq!(sequence.enter(5, true), Ok(()), "nothing is left from before");
        sequence.leave(5);
        assert_eq!(sequence.enter(6, true), Err(OutOfSequence), "the first is still under way");
        assert_eq!(sequence.enter(6, false), Ok(()));
        sequence.leave(5);
        assert_eq!(sequence.enter(6, true), Ok(()));
        sequence.leave(6);
        sequence.leave(6);
        assert_eq!(State::unpack(sequence.0.load(Relaxed)), State { at: 6, current: 0, earlier: 0 });
    }
}
