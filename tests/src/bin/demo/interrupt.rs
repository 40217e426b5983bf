//! Ctrl-C, turned into an error, so that all that was started is ended on the way out.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};

/// How often is looked for it.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on signals that would end the process are only noted.
pub(crate) fn watch() -> Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler = note as extern "C" fn(libc::c_int);
        // SAFETY: the handler does nothing but store to an atomic, which is allowed in a signal handler.
        let result = unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        ensure!(result != libc::SIG_ERR, io::Error::last_os_error());
    }
    Ok(())
}

pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails after Ctrl-C.
pub(crate) fn check() -> Result<()> {
    ensure!(!is_interrupted(), "interrupted");
    Ok(())
}

extern "C" fn note(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}
