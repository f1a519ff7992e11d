//! The system calls that no safe crate offers. Each is wrapped here in a safe function.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

const SYS_CACHESTAT: libc::c_long = 451;
const PAGE_BYTES: u64 = 4096;

#[repr(C)]
struct CachestatRange {
    off: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether all pages of the range are in the page cache, so that moving them cannot wait for a device. An error where the
/// kernel cannot tell (before 6.5).
pub fn range_is_cached(file: BorrowedFd<'_>, offset_bytes: u64, len_bytes: u64) -> io::Result<bool> {
    if len_bytes == 0 {
        return Ok(true);
    }
    let range = CachestatRange { off: offset_bytes, len: len_bytes };
    let mut stat = Cachestat::default();
    // SAFETY: both structures have the kernel's layout (include/uapi/linux/mman.h) and live through the call.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &range, &mut stat, 0) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let pages = (offset_bytes + len_bytes).div_ceil(PAGE_BYTES) - offset_bytes / PAGE_BYTES;
    Ok(stat.cached >= pages)
}

/// Has readers of a stream socket woken only once this many bytes wait, or the stream has ended (`SO_RCVLOWAT`).
pub fn set_receive_low_water(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    set_option(socket, libc::SO_RCVLOWAT, bytes)
}

/// One of a socket's two buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// What waits to be acknowledged.
    Send,
    /// What waits to be read.
    Receive,
}

/// Sets a buffer's size for good, above the system's limit where the process may; answers the size it has then, as it is
/// counted by who asks (the kernel keeps twice as much, for its own overhead).
pub fn set_socket_buffer(socket: BorrowedFd<'_>, buffer: Buffer, bytes: usize) -> io::Result<usize> {
    let (plain, forced) = match buffer {
        Buffer::Send => (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE),
        Buffer::Receive => (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE),
    };
    if set_option(socket, forced, bytes).is_err() {
        set_option(socket, plain, bytes)?;
    }
    Ok(option(socket, plain)? / 2)
}

/// How long receiving calls look for packets themselves (`SO_BUSY_POLL`).
pub fn set_busy_poll(socket: BorrowedFd<'_>, time: Duration) -> io::Result<()> {
    set_option(socket, libc::SO_BUSY_POLL, usize::try_from(time.as_micros()).unwrap_or(usize::MAX))
}

/// What is set of that.
#[cfg(test)]
pub fn busy_poll(socket: BorrowedFd<'_>) -> io::Result<Duration> {
    option(socket, libc::SO_BUSY_POLL).map(|us| Duration::from_micros(us as u64))
}

fn set_option(socket: BorrowedFd<'_>, name: libc::c_int, value: usize) -> io::Result<()> {
    let value = libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX);
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the option's value is an int, which lives through the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, (&raw const value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// CLOCK_MONOTONIC in nanoseconds. The C library's: it finds its way where others than the kernel run the program, as
/// valgrind does, which counts what is done here.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is the C library's own and lives through the call.
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) } != 0 {
        return 0; // no such clock: Linux always has it
    }
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

fn option(socket: BorrowedFd<'_>, name: libc::c_int) -> io::Result<usize> {
    let mut value: libc::c_int = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the option's value is an int, for which there is room, and both live through the call.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut len) };
    if result == 0 { Ok(usize::try_from(value).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_clock_goes_on_in_nanoseconds() {
        let before = monotonic_ns();
        std::thread::sleep(std::time::Duration::from_millis(10));
        let passed = monotonic_ns() - before;
        assert!((10_000_000..10_000_000_000).contains(&passed), "{passed}");
    }

    #[test]
    fn a_file_just_written_is_cached_and_its_hole_is_not() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 10_000]).unwrap();
        file.set_len(1 << 20).unwrap();
        match range_is_cached(file.as_fd(), 100, 9_000) {
            Ok(cached) => assert!(cached),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSYS)),
        }
        if let Ok(cached) = range_is_cached(file.as_fd(), 512 << 10, 4096) {
            assert!(!cached);
        }
    }

    #[test]
    fn fewer_bytes_than_the_mark_do_not_wake() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        set_receive_low_water(far.as_fd(), 10).unwrap();
        let wakes = |timeout_ms| {
            let mut polled = libc::pollfd { fd: far.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one structure, which lives through the call.
            unsafe { libc::poll(&mut polled, 1, timeout_ms) == 1 }
        };
        near.write_all(&[0; 9]).unwrap();
        assert!(!wakes(50));
        near.write_all(&[0]).unwrap();
        assert!(wakes(10_000));
    }
}
