//! A client that waits for a connection.
//!
//! What it is given stays in the core until this future picks it up. If the future is dropped before, the client
//! leaves the queue at once and what it was given goes to the next.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use gate_core::bucket::Waiter;
use gate_core::refusal::Refusal;

use super::{BackendLease, Bucket};
use crate::backend::Backend;

/// Becomes a connection, or the reason why there is none.
pub(super) struct Wait<'b> {
    bucket: &'b Arc<Bucket>,
    waiter: Option<Waiter<Backend>>,
    tag: usize,
    since: Instant,
}

impl<'b> Wait<'b> {
    pub(super) fn new(bucket: &'b Arc<Bucket>, waiter: Waiter<Backend>, tag: usize) -> Self {
        Self { bucket, waiter: Some(waiter), tag, since: Instant::now() }
    }
}

impl Future for Wait<'_> {
    type Output = Result<BackendLease, Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let bucket = self.bucket;
        let mut state = bucket.lock();
        let Some(waiter) = self.waiter.take() else { return Poll::Pending };
        match state.core.claim(waiter) {
            Ok(settled) => {
                state.wakers.remove(self.tag);
                Poll::Ready(settled)
            }
            Err(waiter) => {
                state.wakers[self.tag] = Some(context.waker().clone());
                drop(state);
                self.waiter = Some(waiter);
                Poll::Pending
            }
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.bucket.metrics.queue_wait(self.since.elapsed());
        if let Some(waiter) = self.waiter.take() {
            self.bucket.act(|state, now| {
                state.core.cancel(now, waiter);
                state.wakers.remove(self.tag);
            });
        }
    }
}
