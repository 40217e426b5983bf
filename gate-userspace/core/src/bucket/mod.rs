//! One bucket on one node: admission, reservoir, slots, rate and health put together.
//!
//! A state machine with four kinds of methods. Clients and connections come in by the mutators (`arrive`, `claim`,
//! `cancel`, …) and `handle_*` (what happened outside); what has to be done goes out by `poll_*`, which the owner
//! calls after every change until they say `None`:
//!
//! - [`Bucket::poll_settled`]: a waiting client was served or refused; let it call [`Bucket::claim`].
//! - [`Bucket::poll_open`]: open a connection.
//! - [`Bucket::poll_close`]: close one.
//! - [`Bucket::poll_timeout`]: when to call [`Bucket::handle_timeout`] at the latest.
//!
//! A client that has a ticket never waits for somebody without one, and within an identity connections go to tickets
//! in their order; so the whole wait is first come, first served.

mod handover;
mod open;
mod pool;
mod rights;
mod stats;
mod waiting;

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;

pub use self::pool::Level;
use self::pool::{Pools, Stage};
use self::rights::Lost;
pub use self::rights::{Lease, Opening, Resetting, Waiter};
pub use self::stats::{Counts, Totals};
use self::waiting::{State, Waiting};
use crate::admission::{self, Admission, Decision, Tenant};
use crate::home::{Home, Inbox, Notify, home};
use crate::line::Nodes;
use crate::rate::Rate;
use crate::refill::Refill;
use crate::refusal::Refusal;
use crate::reservoir::{Closing, Discard, Lifetimes, PoolId, Reservoir};
use crate::slot::{Slot, Slots};
use crate::time::Moment;
use crate::timer::{Timer, Timers};

/// How often idle connections are looked at. A second is far below any guard window, and a look costs nanoseconds.
const SCAN_EVERY: Duration = Duration::from_secs(1);

/// What an operator sets.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many connections may be open at once.
    pub max_connections: u32,
    /// Places and queue.
    pub admission: admission::Settings,
    /// The age of connections.
    pub lifetimes: Lifetimes,
    /// How often a connection may be opened.
    pub rate: Rate,
    /// How long a client waits for a connection before it is told that the database is down.
    pub empty_wait: Duration,
    /// How long after its last client a pool falls back to its least level.
    pub cool_after: Duration,
}

/// The state of one bucket on this node. `C` is whatever the owner calls a connection.
pub struct Bucket<C> {
    slots: Slots,
    rate: Rate,
    health: Refill,
    admission: Admission<usize>,
    reservoir: Reservoir<C>,
    pools: Pools,
    /// Clients of all pools' lines.
    line_nodes: Nodes<usize>,
    /// Pools with unserved clients, each once, in turn.
    wanted: VecDeque<PoolId>,
    waiting: Waiting<C>,
    settled: VecDeque<u64>,
    timers: Timers,
    random: Rng,
    draining: bool,
    totals: Totals,
    queue_timeout: Duration,
    empty_wait: Duration,
    cool_after: Duration,
    home: Home<Lost<C>>,
    inbox: Inbox<Lost<C>>,
}

/// What becomes of a client that arrives.
pub enum Arrival<C> {
    /// Here is its connection.
    Served(Lease<C>),
    /// It waits; [`Bucket::poll_settled`] will give its tag.
    Waiting(Waiter<C>),
    /// It is told no.
    Refused(Refusal),
}

/// Whose fault it was that a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The database's, or the way's to it: nobody can be served until it is better.
    Backend,
    /// The identity's: only its own clients are told.
    Login,
}

impl<C> Bucket<C> {
    /// An empty bucket. `notify` is called when a right that was dropped came home, so that the owner may poll.
    pub fn new(settings: Settings, seed: u64, notify: Notify) -> Self {
        let (home, inbox) = home(notify.clone());
        Self {
            slots: Slots::new(settings.max_connections, notify.clone()),
            rate: settings.rate,
            health: Refill::default(),
            queue_timeout: settings.admission.queue_timeout,
            admission: Admission::new(settings.admission, settings.max_connections, notify),
            reservoir: Reservoir::new(settings.lifetimes),
            pools: Pools::default(),
            line_nodes: Nodes::new(),
            wanted: VecDeque::new(),
            waiting: Waiting::new(),
            settled: VecDeque::new(),
            timers: Timers::default(),
            random: Rng::with_seed(seed),
            draining: false,
            totals: Totals::default(),
            empty_wait: settings.empty_wait,
            cool_after: settings.cool_after,
            home,
            inbox,
        }
    }

    /// Adds a pool for one more identity.
    pub fn add_pool(&mut self, level: Level) -> PoolId {
        let id = self.pools.add(level);
        self.reservoir.make_room_for(id);
        id
    }

    /// Forgets an identity that has no clients and no connections; tells whether it did. Its id may then be given to
    /// another.
    pub fn forget_pool(&mut self, now: Moment, id: PoolId) -> bool {
        self.collect(now);
        let is_unused = self.pools[id].is_unused() && self.reservoir.ready_in(id) == 0;
        // Whoever was refused lately is remembered, so that the database is not asked again at once.
        let is_forgotten = is_unused && self.login_refused_until(now, id).is_none();
        if is_forgotten {
            self.pools.forget(id);
        }
        is_forgotten
    }

    /// A client wants a connection. `tag` is the owner's name for it, should it have to wait.
    pub fn arrive(&mut self, now: Moment, pool: PoolId, tenant: Tenant, tag: u64) -> Arrival<C> {
        self.collect(now);
        self.pools[pool].last_used = Some(now);
        let ticket = match self.admission.arrive(tenant, self.waiting.next_index()) {
            Decision::Admitted(ticket) => ticket,
            Decision::Queued(spot) => return self.wait(now, pool, tenant, tag, State::Place(spot)),
            Decision::Refused(refusal) => return Arrival::Refused(self.count(refusal)),
        };
        if let Some(connection) = self.reservoir.try_checkout(now, pool) {
            return Arrival::Served(self.lease(now, connection, ticket));
        }
        self.totals.empty += 1;
        if let Some(refusal) = self.reason_not_to_wait(now, pool) {
            self.admission.leave_unused(ticket);
            return Arrival::Refused(self.count(refusal));
        }
        let spot = self.pools[pool].line.push_back(&mut self.line_nodes, self.waiting.next_index());
        self.want(pool);
        self.wait(now, pool, tenant, tag, State::Connection(ticket, spot))
    }

    /// What became of a client that waited; itself, if it still waits.
    pub fn claim(&mut self, mut waiter: Waiter<C>) -> Result<Result<Lease<C>, Refusal>, Waiter<C>> {
        let settled =
            |index: &mut usize| matches!(self.waiting.get(*index).state, State::Served(_) | State::Refused(_));
        match waiter.index.take_if(settled).map(|index| self.remove_waiter(index)) {
            Some(State::Served(lease)) => Ok(Ok(lease)),
            Some(State::Refused(refusal)) => Ok(Err(refusal)),
            _ => Err(waiter),
        }
    }

    /// A client that waited has gone. What it was given goes to the next.
    pub fn cancel(&mut self, now: Moment, mut waiter: Waiter<C>) {
        self.collect(now);
        if let Some(index) = waiter.index.take() {
            self.forget(now, index);
        }
    }

    /// The client has left; its place is free, its connection has to be reset or discarded.
    pub fn leave(&mut self, now: Moment, mut lease: Lease<C>) -> Resetting<C> {
        self.collect(now);
        let connection = lease.held.take().map(|(connection, ticket)| {
            self.pools.exit(connection.pool, Stage::Leased);
            self.pools.enter(connection.pool, Stage::Resetting);
            self.pools[connection.pool].last_used = Some(now);
            self.admission.leave(ticket, now.since(lease.since));
            connection
        });
        self.serve(now);
        Resetting { connection, home: lease.home.clone() }
    }

    /// The connection is as good as new.
    pub fn give_back(&mut self, now: Moment, mut resetting: Resetting<C>) {
        self.collect(now);
        if let Some(connection) = resetting.connection.take() {
            self.pools.exit(connection.pool, Stage::Resetting);
            self.keep(now, connection);
        }
    }

    /// The connection is not, or nobody knows.
    pub fn discard(&mut self, now: Moment, mut resetting: Resetting<C>, reason: Discard) {
        self.collect(now);
        if let Some(connection) = resetting.connection.take() {
            self.pools.exit(connection.pool, Stage::Resetting);
            self.end(connection, reason);
        }
    }

    /// The server has let go of a connection from [`Bucket::poll_close`], or of one that could not be opened.
    pub fn handle_closed(&mut self, now: Moment, slot: Slot) {
        self.slots.release(slot);
        self.collect(now);
    }

    /// A deadline may have come.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.collect(now);
        while let Some(timer) = self.timers.expire(now) {
            match timer {
                Timer::Scan => self.scan(now),
                Timer::Waiters => self.tell_those_who_waited_long_enough(now),
                Timer::Refill => {}
            }
        }
    }

    /// How many connections this node may hold from now on. What it holds above that it lets go, idle ones at once.
    pub fn set_limit(&mut self, now: Moment, limit: u32) {
        self.collect(now);
        self.slots.set_limit(limit);
        self.admission.set_slots(limit);
        let held = self.slots.taken() - self.closing();
        for _ in limit..held {
            if !self.reservoir.evict_longest_idle() {
                break;
            }
        }
        self.serve(now);
    }

    /// No new clients, no new connections; who is served may finish.
    pub fn drain(&mut self, now: Moment) {
        self.collect(now);
        self.draining = true;
        self.admission.drain();
        while let Some((index, _)) = self.waiting.longest() {
            self.refuse(index, Refusal::Draining);
        }
        while self.reservoir.evict_longest_idle() {}
    }

    /// The next waiting client, by its tag, that was served or refused.
    pub fn poll_settled(&mut self) -> Option<u64> {
        self.settled.pop_front()
    }

    /// The next connection to be closed.
    pub fn poll_close(&mut self) -> Option<Closing<C>> {
        self.reservoir.poll_close()
    }

    /// When to call [`Bucket::handle_timeout`], if nothing happens before.
    pub fn poll_timeout(&mut self) -> Option<Moment> {
        let patience = if self.health.down_since().is_some() { self.empty_wait } else { self.queue_timeout };
        let longest = self.waiting.longest();
        self.timers.set(Timer::Waiters, longest.map(|(_, arrived)| arrived + patience.min(self.queue_timeout)));
        self.timers.next()
    }
}
