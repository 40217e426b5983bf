//! Everybody who waits, in the order in which their time runs out.
//!
//! A client waits first for a place (in the admission's queue) and then for a connection (in its pool's line). All
//! may wait equally long, so the order of arrival is the order of the deadlines, and one line serves as the clock.

use slab::Slab;

use super::rights::Lease;
use crate::admission::{Spot as QueueSpot, Tenant, Ticket};
use crate::line::{Line, Nodes, Spot};
use crate::refusal::Refusal;
use crate::reservoir::PoolId;
use crate::time::Moment;

pub(super) struct Waiting<C> {
    clients: Slab<Client<C>>,
    clock: Line,
    nodes: Nodes<usize>,
}

pub(super) struct Client<C> {
    pub(super) pool: PoolId,
    pub(super) tenant: Tenant,
    pub(super) tag: u64,
    pub(super) arrived: Moment,
    pub(super) state: State<C>,
    on_clock: Option<Spot>,
}

pub(super) enum State<C> {
    /// In the admission's queue.
    Place(QueueSpot),
    /// In its pool's line.
    Connection(Ticket, Spot),
    /// Served; to be picked up.
    Served(Lease<C>),
    /// Out of its line; whoever took it out settles or forgets it in the same breath.
    Between,
    /// Refused; to be told.
    Refused(Refusal),
}

impl<C> Waiting<C> {
    pub(super) fn new() -> Self {
        Self { clients: Slab::new(), clock: Line::default(), nodes: Nodes::new() }
    }

    /// The number that the next client will have.
    pub(super) fn next_index(&self) -> usize {
        self.clients.vacant_key()
    }

    pub(super) fn add(&mut self, now: Moment, pool: PoolId, tenant: Tenant, tag: u64, state: State<C>) -> usize {
        let index = self.clients.vacant_key();
        let on_clock = Some(self.clock.push_back(&mut self.nodes, index));
        self.clients.insert(Client { pool, tenant, tag, arrived: now, state, on_clock })
    }

    pub(super) fn get(&self, index: usize) -> &Client<C> {
        &self.clients[index]
    }

    /// Changes a client's state and hands out the old one. A client that is served or refused is off the clock.
    pub(super) fn change(&mut self, index: usize, state: State<C>) -> State<C> {
        if matches!(state, State::Served(_) | State::Refused(_)) {
            self.stop_clock(index);
        }
        std::mem::replace(&mut self.clients[index].state, state)
    }

    /// Forgets a client.
    pub(super) fn remove(&mut self, index: usize) -> Client<C> {
        self.stop_clock(index);
        self.clients.remove(index)
    }

    /// Who waits for the longest time.
    pub(super) fn longest(&self) -> Option<(usize, Moment)> {
        self.clock.front(&self.nodes).map(|index| (*index, self.clients[*index].arrived))
    }

    fn stop_clock(&mut self, index: usize) {
        if let Some(spot) = self.clients[index].on_clock.take() {
            self.clock.remove(&mut self.nodes, spot);
        }
    }
}
