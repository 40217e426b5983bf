//! Brings a connection back to a clean state after its client has left, and has the server prove it.
//!
//! The proof is a nonce that nobody can guess: whatever of the last client's results is still on its way cannot be
//! taken for the answer. Only then is the connection handed on.

use std::sync::Arc;
use std::time::Duration;

use gate_core::bucket::Resetting;
use gate_core::protocol::postgres::reset::{Fence, Progress};
use gate_core::reservoir::Discard;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tracing::debug;

use super::cancel::Target;
use super::{Attached, Backend};
use crate::bucket::Bucket;

/// How long a reset may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Resets a connection and gives it back to its bucket, or discards it.
pub async fn run(bucket: Arc<Bucket>, resetting: Resetting<Backend>, cancels: Arc<Target>) {
    // A cancel request that is still under way would hit the next client.
    cancels.quiet().await;
    let mut attached = match Attached::new(resetting) {
        Ok(attached) => attached,
        // The connection goes home with its holder, and is discarded there.
        Err(_) => return,
    };
    let reset =
        timeout(LIMIT, fence(&mut attached)).await.unwrap_or_else(|_| Err("the server took too long".to_owned()));
    let resetting = attached.detach();
    match reset {
        Ok(()) => bucket.give_back(resetting),
        Err(why) => {
            debug!(bucket = bucket.name(), why, "a connection is not clean");
            bucket.discard(resetting, Discard::ResetFailed);
        }
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
