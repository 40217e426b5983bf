//! Moves bytes from one socket to another without copying them through this process.
//!
//! `splice(2)` moves pages between a socket and a pipe, so a pipe stands between the two sockets. It pays only for bulk:
//! two system calls and the pipe's bookkeeping cost more than copying a small message (measured over loopback: twice
//! the throughput of a copy in bulk, no gain on small messages). Pipes are kept by each worker and lent while bytes are
//! in flight.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use tokio::io::Interest;
use tokio::net::TcpStream;

/// How much a pipe holds: large enough that a system call moves more than it costs.
const CAPACITY: usize = 256 << 10;

/// How many idle pipes a worker keeps. Each costs two descriptors, and memory only while it holds bytes.
const KEPT: usize = 32;

thread_local! {
    static IDLE: RefCell<Vec<Pipe>> = const { RefCell::new(Vec::new()) };
}

/// A pipe that is empty whenever it is not in use.
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// A pipe on loan. It goes back only if it is empty.
pub(super) struct Lent {
    pipe: Option<Pipe>,
    holds: usize,
}

impl Lent {
    /// Takes a pipe.
    pub(super) fn take() -> io::Result<Self> {
        let idle = IDLE.with_borrow_mut(Vec::pop);
        Ok(Self { pipe: Some(idle.map_or_else(Pipe::new, Ok)?), holds: 0 })
    }

    /// Moves up to `limit` bytes, as many as have arrived; nothing at the end of the stream.
    pub(super) async fn carry(&mut self, from: &TcpStream, to: &TcpStream, limit: usize) -> io::Result<usize> {
        let Some(pipe) = &self.pipe else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let (read, write) = (pipe.read.as_raw_fd(), pipe.write.as_raw_fd());
        let moved = from.async_io(Interest::READABLE, || splice(from.as_raw_fd(), write, limit.min(CAPACITY))).await?;
        self.holds = moved;
        while self.holds > 0 {
            self.holds -= to.async_io(Interest::WRITABLE, || splice(read, to.as_raw_fd(), self.holds)).await?;
        }
        Ok(moved)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.holds == 0
            && let Some(pipe) = self.pipe.take()
        {
            IDLE.with_borrow_mut(|idle| {
                if idle.len() < KEPT {
                    idle.push(pipe);
                }
            });
        }
    }
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors to the array.
        check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) })?;
        // SAFETY: the descriptor is new, and owned by nobody else.
        let read = unsafe { OwnedFd::from_raw_fd(ends[0]) };
        // SAFETY: the same.
        let write = unsafe { OwnedFd::from_raw_fd(ends[1]) };
        // A smaller pipe works too: an unprivileged process may be at its limit of pipe memory.
        // SAFETY: the call takes numbers only.
        unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, CAPACITY as libc::c_int) };
        Ok(Self { read, write })
    }
}

fn splice(from: RawFd, to: RawFd, limit: usize) -> io::Result<usize> {
    let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
    // SAFETY: no offsets are passed, and both descriptors are open for the whole call.
    let moved = unsafe { libc::splice(from, std::ptr::null_mut(), to, std::ptr::null_mut(), limit, flags) };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
