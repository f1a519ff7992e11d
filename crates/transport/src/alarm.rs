//! A timer finer than the runtime's, whose turns are a millisecond: for the few who cannot wait that long.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::read;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use tokio::io::unix::AsyncFd;

/// A timer that is set anew each time it is waited for, unless it still runs.
pub struct Alarm {
    timer: AsyncFd<OwnedFd>,
    patience: Duration,
    is_set: bool,
    /// Nothing was noted since it was set.
    is_idle: bool,
}

impl Alarm {
    /// An alarm that goes off after so long without anything noted, at most after twice as long.
    pub fn new(patience: Duration) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: the descriptor is owned by what is registered, which gives it to nobody and outlives the registration.
        let timer = unsafe { AsyncFd::register(timer) }?;
        Ok(Self { timer, patience, is_set: false, is_idle: true })
    }

    /// Notes that something has come.
    pub fn note(&mut self) {
        self.is_idle = false;
    }

    /// Ready once nothing was noted for as long as patience lasts.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if !self.is_set {
                self.set()?;
            }
            let mut ready = ready!(self.timer.poll_read_ready(cx))?;
            match ready.try_io(|timer| Ok(read(timer.as_fd(), &mut [0; 8])?)) {
                Ok(Ok(_)) if self.is_idle => return Poll::Ready(Ok(())),
                Ok(Ok(_)) => self.is_set = false,
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }

    fn set(&mut self) -> io::Result<()> {
        let it_value =
            Timespec { tv_sec: self.patience.as_secs() as i64, tv_nsec: self.patience.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(self.timer.as_fd(), TimerfdTimerFlags::empty(), &once)?;
        self.is_set = true;
        self.is_idle = true;
        Ok(())
    }
}
