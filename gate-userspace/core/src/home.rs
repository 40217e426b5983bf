//! How a right that was dropped finds its owner again.
//!
//! Slots, tickets, leases and waiters leave their bucket and travel through tasks that may be cancelled or may panic.
//! A value that is not handed back in words is handed back by its `Drop`: it goes into the owner's inbox, and the
//! owner takes it into the books before its next decision. The books can so be late, never wrong: until then the
//! right counts as held. No lock is needed, and the owner stays plain data.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What to call when something arrived in an inbox, so that the owner's loop need not poll.
///
/// It is called from `Drop`, on whatever thread that happens: it should only wake someone.
#[derive(Clone)]
pub struct Notify(Arc<dyn Fn() + Send + Sync>);

impl Notify {
    /// Calls `wake` for each arrival.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    /// For an owner that looks anyway.
    pub fn nobody() -> Self {
        Self::new(|| ())
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notify")
    }
}

/// The address a right carries with it.
pub(crate) struct Home<T>(Arc<(Sender<T>, Notify)>);

/// The owner's end.
pub(crate) struct Inbox<T>(Receiver<T>);

/// A new inbox and its address.
pub(crate) fn home<T>(notify: Notify) -> (Home<T>, Inbox<T>) {
    let (sender, receiver) = channel();
    (Home(Arc::new((sender, notify))), Inbox(receiver))
}

impl<T> Home<T> {
    /// Sends a value home. If the owner is gone there is nothing left to keep books of.
    pub(crate) fn send(&self, value: T) {
        let (sender, notify) = &*self.0;
        if sender.send(value).is_ok() {
            (notify.0)();
        }
    }

    /// Whether both are the address of the same inbox.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Clone for Home<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Inbox<T> {
    /// The next value that came home, if any.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.try_recv().ok()
    }
}
