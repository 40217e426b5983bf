//! How places and connections pass from one client to the next.
//!
//! Everything that frees something ends here: a client that leaves, a connection that is ready, a right that was
//! dropped. What is handed over stays in the bucket until its client picks it up, so that a client that gives up at
//! the same moment takes nothing with it.

use super::pool::Stage;
use super::rights::{Lease, Lost, Waiter};
use super::waiting::State;
use super::{Arrival, Bucket, SCAN_EVERY};
use crate::admission::{Tenant, Ticket};
use crate::refusal::{Refusal, ShortOf};
use crate::reservoir::{Connection, Discard, PoolId};
use crate::time::Moment;
use crate::timer::Timer;

impl<C> Bucket<C> {
    /// Takes home what was dropped elsewhere. Every method that decides does this first.
    pub(super) fn collect(&mut self, now: Moment) {
        self.slots.collect();
        self.admission.collect();
        while let Some(lost) = self.inbox.take() {
            match lost {
                Lost::Waiter(index) => self.forget(now, index),
                Lost::Opening(pool, slot) => {
                    self.slots.release(slot);
                    self.pools.exit(pool, Stage::Opening);
                    self.want(pool);
                }
                Lost::Lease(connection, ticket, since) => {
                    self.pools.exit(connection.pool, Stage::Leased);
                    self.admission.leave(ticket, now.since(since));
                    self.end(connection, Discard::LeaseLost);
                }
                Lost::Resetting(connection) => {
                    self.pools.exit(connection.pool, Stage::Resetting);
                    self.end(connection, Discard::LeaseLost);
                }
            }
        }
        self.serve(now);
    }

    /// Gives free places to those who wait for one, and connections to those of them for whom there is one.
    pub(super) fn serve(&mut self, now: Moment) {
        while let Some((index, ticket)) = self.admission.poll_admitted() {
            let pool = self.waiting.get(index).pool;
            if let Some(connection) = self.reservoir.try_checkout(now, pool) {
                self.hand_over(now, index, connection, ticket);
            } else {
                self.totals.empty += 1;
                let spot = self.pools[pool].line.push_back(&mut self.line_nodes, index);
                self.waiting.change(index, State::Connection(ticket, spot));
                self.want(pool);
            }
        }
    }

    /// Takes in a clean connection: for the client that waits first, or for later.
    pub(super) fn keep(&mut self, now: Moment, connection: Connection<C>) {
        let pool = connection.pool;
        if self.draining {
            return self.end(connection, Discard::Drained);
        }
        // This one is in no stage at the moment, so these are the others that are not being closed.
        if self.slots.taken() - self.closing() >= self.slots.limit() {
            return self.end(connection, Discard::ReservoirFull);
        }
        let Some(connection) = self.reservoir.accept(now, connection) else {
            return self.want(pool);
        };
        let first = self.pools[pool].line.front(&self.line_nodes).copied();
        if let Some(index) = first
            && let Some(ticket) = self.take_ticket(index)
        {
            return self.hand_over(now, index, connection, ticket);
        }
        self.reservoir.put(now, connection);
        if !self.timers.is_set(Timer::Scan) {
            self.timers.set(Timer::Scan, Some(now + SCAN_EVERY));
        }
    }

    fn hand_over(&mut self, now: Moment, index: usize, connection: Connection<C>, ticket: Ticket) {
        let lease = self.lease(now, connection, ticket);
        self.waiting.change(index, State::Served(lease));
        self.settled.push_back(self.waiting.get(index).tag);
    }

    pub(super) fn lease(&mut self, now: Moment, connection: Connection<C>, ticket: Ticket) -> Lease<C> {
        self.pools.enter(connection.pool, Stage::Leased);
        self.totals.checkouts += 1;
        Lease { held: Some((connection, ticket)), since: now, home: self.home.clone() }
    }

    /// Discards a connection that is in no stage any more.
    pub(super) fn end(&mut self, connection: Connection<C>, reason: Discard) {
        let pool = connection.pool;
        self.reservoir.discard(connection, reason);
        self.want(pool);
    }

    pub(super) fn wait(&mut self, now: Moment, pool: PoolId, tenant: Tenant, tag: u64, state: State<C>) -> Arrival<C> {
        self.totals.queued += 1;
        self.pools[pool].waiters += 1;
        let index = self.waiting.add(now, pool, tenant, tag, state);
        Arrival::Waiting(Waiter { index: Some(index), home: self.home.clone() })
    }

    /// Forgets a client that waits no longer.
    pub(super) fn remove_waiter(&mut self, index: usize) -> State<C> {
        let client = self.waiting.remove(index);
        self.pools[client.pool].waiters -= 1;
        client.state
    }

    /// Takes a client that is gone out of wherever it stands.
    pub(super) fn forget(&mut self, now: Moment, index: usize) {
        self.leave_line(index);
        if let State::Served(mut lease) = self.remove_waiter(index)
            && let Some((connection, ticket)) = lease.held.take()
        {
            // Nobody has touched the connection: it is as clean as it was.
            self.pools.exit(connection.pool, Stage::Leased);
            self.admission.leave_unused(ticket);
            self.keep(now, connection);
        }
        self.serve(now);
    }

    pub(super) fn refuse(&mut self, index: usize, refusal: Refusal) {
        let refusal = self.count(refusal);
        self.leave_line(index);
        self.waiting.change(index, State::Refused(refusal));
        self.settled.push_back(self.waiting.get(index).tag);
    }

    /// Ends a client's wait, if it still waits, and frees the place that it may have had.
    fn leave_line(&mut self, index: usize) {
        let client = self.waiting.get(index);
        match client.state {
            State::Place(spot) => self.admission.give_up(client.tenant, spot),
            State::Connection(..) => {
                if let Some(ticket) = self.take_ticket(index) {
                    self.admission.leave_unused(ticket);
                }
            }
            State::Between | State::Served(_) | State::Refused(_) => {}
        }
    }

    /// Takes a client out of its pool's line.
    fn take_ticket(&mut self, index: usize) -> Option<Ticket> {
        let pool = self.waiting.get(index).pool;
        match self.waiting.change(index, State::Between) {
            State::Connection(ticket, spot) => {
                self.pools[pool].line.remove(&mut self.line_nodes, spot);
                Some(ticket)
            }
            _ => None,
        }
    }

    pub(super) fn tell_those_who_waited_long_enough(&mut self, now: Moment) {
        let down = self.health.down_since();
        while let Some((index, arrived)) = self.waiting.longest() {
            let waited = now.since(arrived);
            let refusal = match down {
                Some(since) if waited >= self.empty_wait => Refusal::BackendDown { since: now.since(since) },
                _ if waited >= self.queue_timeout => Refusal::TimedOut { waited, short_of: self.short_of(index) },
                _ => break,
            };
            self.refuse(index, refusal);
        }
        self.serve(now);
    }

    fn short_of(&self, index: usize) -> ShortOf {
        let client = self.waiting.get(index);
        match client.state {
            State::Place(_) => self.admission.short_of(client.tenant),
            _ => ShortOf::Connections,
        }
    }

    /// Whether it is known already that a connection will not come in time.
    pub(super) fn reason_not_to_wait(&self, now: Moment, pool: PoolId) -> Option<Refusal> {
        if self.login_refused_until(now, pool).is_some() {
            return Some(Refusal::LoginFailed);
        }
        if self.empty_wait.is_zero()
            && let Some(since) = self.health.down_since()
        {
            return Some(Refusal::BackendDown { since: now.since(since) });
        }
        let (estimate, timeout) = (self.expected_wait_for_connection(now), self.queue_timeout);
        (estimate > timeout).then_some(Refusal::WaitTooLong { estimate, timeout })
    }

    pub(super) fn count(&mut self, refusal: Refusal) -> Refusal {
        self.totals.refused[refusal.index()] += 1;
        refusal
    }

    /// Evicts what is too near its end, and what a pool without clients does not need.
    pub(super) fn scan(&mut self, now: Moment) {
        self.reservoir.scan(now);
        for id in self.pools.ids() {
            if self.is_cold(now, id) {
                self.reservoir.trim(id, self.pools[id].level.min);
            }
        }
        if self.reservoir.ready() > 0 {
            self.timers.set(Timer::Scan, Some(now + SCAN_EVERY));
        }
    }
}
