//! Waiting for what the kernel does in its own time.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long anything may take that normally takes milliseconds; enough for a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Asks again and again until the answer is yes, and fails when [`DEADLINE`] has passed.
pub fn until(mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    while !done()? {
        if Instant::now() > deadline {
            bail!("it did not happen within {DEADLINE:?}");
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
