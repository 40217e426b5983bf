//! How many descriptors this process may have, and so how many clients.

use std::io;
use std::num::NonZeroUsize;

use anyhow::{Context as _, Result};

/// What the process needs besides clients and connections: listeners, timers, logs, cancel requests, pipes.
const OTHERS: u64 = 256;

/// Raises the limit of open descriptors as far as it goes, and tells how many clients fit beside `connections`.
pub(crate) fn for_clients(connections: u32) -> Result<NonZeroUsize> {
    let limit = raise_limit().context("cannot read the limit of open files")?;
    let left = limit.saturating_sub(u64::from(connections) + OTHERS);
    let clients = usize::try_from(left).ok().and_then(NonZeroUsize::new);
    clients.with_context(|| {
        format!(
            "{limit} open files are allowed, too few for {connections} connections and their clients; raise the limit \
             (systemd: LimitNOFILE, a shell: ulimit -n), or lower max_connections"
        )
    })
}

fn raise_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the structure.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    // SAFETY: the kernel reads the structure.
    let was_raised = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0;
    Ok(if was_raised { limit.rlim_max } else { limit.rlim_cur })
}
