//! Brings a connection back to a clean state after its client has left, and has the server prove it.
//!
//! The proof is a nonce that nobody can guess: whatever of the last client's results is still on its way cannot be
//! taken for the answer. Only then is the connection handed on.

use std::sync::Arc;
use std::time::Duration;

use gate_core::bucket::Resetting;
use gate_core::protocol::postgres::reset::{Fence, Progress};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::cancel::Target;
use super::{Attached, Backend};

/// How long a reset may take.
const LIMIT: Duration = Duration::from_secs(5);

/// A connection that the server did not prove to be clean, and why.
pub struct Dirty {
    /// The connection; it is gone home by itself if it could not even be watched.
    pub resetting: Option<Resetting<Backend>>,
    /// For the log.
    pub why: String,
}

/// Resets a connection once these cancel requests are through.
pub async fn run(resetting: Resetting<Backend>, cancels: Arc<Target>) -> Result<Resetting<Backend>, Dirty> {
    // A cancel request that is still under way would hit the next client.
    cancels.quiet().await;
    let attached = Attached::new(resetting);
    let mut attached = attached.map_err(|error| Dirty { resetting: None, why: error.to_string() })?;
    let reset = timeout(LIMIT, fence(&mut attached)).await;
    let resetting = attached.detach();
    match reset.unwrap_or_else(|_| Err("the server took too long".to_owned())) {
        Ok(()) => Ok(resetting),
        Err(why) => Err(Dirty { resetting: Some(resetting), why }),
    }
}

async fn fence(attached: &mut Attached<Resetting<Backend>>) -> Result<(), String> {
    let (backend, stream) = attached.parts();
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
    let mut fence = if backend.looks_idle { Fence::of_idle(nonce) } else { Fence::new(nonce) };
    let mut question = Vec::new();
    fence.request(&mut question);
    stream.write_all(&question).await.map_err(|error| error.to_string())?;
    let mut answer = [0; 1024];
    loop {
        let read = stream.read(&mut answer).await.map_err(|error| error.to_string())?;
        if read == 0 {
            return Err("the server hung up".to_owned());
        }
        match fence.handle(&answer[..read]) {
            Progress::NeedMore => {}
            Progress::Dirty(why) => return Err(why.to_string()),
            Progress::Clean { changes } => {
                backend.parameters.update(&changes);
                backend.is_busy = false;
                backend.looks_idle = true;
                return Ok(());
            }
        }
    }
}
