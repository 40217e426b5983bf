//! The rights that leave a bucket: to open a connection, to use one, to clean one, to wait for one.
//!
//! Each is given back in words to a method of the [`Bucket`](super::Bucket). One that is dropped instead goes home
//! as [`Lost`], and the bucket does the safe thing with it.

use std::ops::{Deref, DerefMut};

use crate::admission::Ticket;
use crate::home::Home;
use crate::reservoir::{Connection, PoolId};
use crate::slot::Slot;
use crate::time::Moment;

/// The right to open one connection: a slot is held and a rate permit spent.
#[must_use = "open the connection, then say how it went"]
pub struct Opening<C> {
    pub(super) pool: PoolId,
    pub(super) started: Moment,
    pub(super) slot: Option<Slot>,
    pub(super) home: Home<Lost<C>>,
}

/// A connection in a client's hands. Dropping it discards the connection.
#[must_use = "dropping a lease discards its connection"]
pub struct Lease<C> {
    pub(super) held: Option<(Connection<C>, Ticket)>,
    pub(super) since: Moment,
    pub(super) home: Home<Lost<C>>,
}

/// A connection whose client has left, to be brought back to a clean state. Dropping it discards the connection.
#[must_use = "reset the connection, then say whether it is clean"]
pub struct Resetting<C> {
    pub(super) connection: Option<Connection<C>>,
    pub(super) home: Home<Lost<C>>,
}

/// A client that waits. Dropping it leaves the queue.
#[must_use = "dropping a waiter leaves the queue"]
pub struct Waiter<C> {
    pub(super) index: Option<usize>,
    pub(super) home: Home<Lost<C>>,
}

/// What came home by being dropped.
pub(super) enum Lost<C> {
    Opening(PoolId, Slot),
    Lease(Connection<C>, Ticket, Moment),
    Resetting(Connection<C>),
    Waiter(usize),
}

impl<C> Opening<C> {
    /// The identity to log in with.
    pub fn pool(&self) -> PoolId {
        self.pool
    }
}

impl<C> Lease<C> {
    /// The identity that the connection is logged in with.
    pub fn pool(&self) -> PoolId {
        self.connection().pool
    }

    fn connection(&self) -> &Connection<C> {
        match &self.held {
            Some((connection, _)) => connection,
            None => unreachable!("a lease is emptied only when it is consumed"),
        }
    }
}

impl<C> Deref for Lease<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.connection().conn
    }
}

impl<C> DerefMut for Lease<C> {
    fn deref_mut(&mut self) -> &mut C {
        match &mut self.held {
            Some((connection, _)) => &mut connection.conn,
            None => unreachable!("a lease is emptied only when it is consumed"),
        }
    }
}

impl<C> Deref for Resetting<C> {
    type Target = C;

    fn deref(&self) -> &C {
        match &self.connection {
            Some(connection) => &connection.conn,
            None => unreachable!("it is emptied only when it is consumed"),
        }
    }
}

impl<C> DerefMut for Resetting<C> {
    fn deref_mut(&mut self) -> &mut C {
        match &mut self.connection {
            Some(connection) => &mut connection.conn,
            None => unreachable!("it is emptied only when it is consumed"),
        }
    }
}

impl<C> Drop for Opening<C> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.home.send(Lost::Opening(self.pool, slot));
        }
    }
}

impl<C> Drop for Lease<C> {
    fn drop(&mut self) {
        if let Some((connection, ticket)) = self.held.take() {
            self.home.send(Lost::Lease(connection, ticket, self.since));
        }
    }
}

impl<C> Drop for Resetting<C> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.home.send(Lost::Resetting(connection));
        }
    }
}

impl<C> Drop for Waiter<C> {
    fn drop(&mut self) {
        if let Some(index) = self.index.take() {
            self.home.send(Lost::Waiter(index));
        }
    }
}
