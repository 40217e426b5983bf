//! A world around one bucket, in virtual time: clients, a database, and a clock that moves when told to.
//!
//! The database keeps a count of its own. A connection is open there from the moment the bucket says "open" until
//! the world has closed it and given its slot back: the promises are checked against that count, not against the
//! bucket's books.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of the world")]

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use gate_core::admission::{self, Tenant};
use gate_core::bucket::{Arrival, Bucket, Failure, Lease, Level, Opening, Resetting, Settings, Waiter};
use gate_core::home::Notify;
use gate_core::rate::Rate;
use gate_core::refusal::Refusal;
use gate_core::reservoir::{Closing, Discard, Lifetimes, PoolId};
use gate_core::slot::Slot;
use gate_core::time::Moment;

pub type Conn = u32;

pub struct World {
    pub bucket: Bucket<Conn>,
    pub now: Moment,
    pub pools: Vec<PoolId>,
    pub settings: Settings,
    pub openings: Vec<Opening<Conn>>,
    pub waiters: Vec<(u64, Waiter<Conn>)>,
    pub leases: Vec<(u64, Lease<Conn>)>,
    pub resetting: Vec<Resetting<Conn>>,
    pub closing: Vec<Closing<Conn>>,
    /// Slots of connections that could not be opened, and of which the server still knows.
    pub failed: Vec<Slot>,
    /// Tags of clients in the order in which they were served, and those that were refused.
    pub served: Vec<u64>,
    pub refused: Vec<(u64, Refusal)>,
    /// When each connection was opened.
    pub opened_at: HashMap<Conn, Moment>,
    /// When each attempt to open one was made.
    pub attempts: Vec<Moment>,
    /// How each connection ended.
    pub ended: HashMap<Conn, Discard>,
    next_conn: Conn,
    next_client: u64,
}

pub fn settings(max_connections: u32) -> Settings {
    Settings {
        max_connections,
        admission: admission::Settings {
            dispatch_limit: 1.0,
            queue_depth: 1_000,
            queue_timeout: Duration::from_secs(30),
            shed_at: 1.0,
            fair: false,
            tenant_places: None,
        },
        lifetimes: Lifetimes {
            base: Duration::from_secs(660),
            jitter: Duration::from_secs(120),
            guard_window: Duration::from_secs(45),
        },
        rate: Rate::per_second(NonZeroU32::MAX, NonZeroU32::MAX),
        empty_wait: Duration::from_millis(100),
        cool_after: Duration::from_secs(600),
    }
}

impl World {
    /// A bucket with one pool for each level.
    pub fn new(settings: Settings, levels: &[Level]) -> Self {
        let mut bucket = Bucket::new(settings.clone(), 42, Notify::nobody());
        let pools = levels.iter().map(|level| bucket.add_pool(*level)).collect();
        Self {
            bucket,
            now: Moment::START,
            pools,
            settings,
            openings: Vec::new(),
            waiters: Vec::new(),
            leases: Vec::new(),
            resetting: Vec::new(),
            closing: Vec::new(),
            failed: Vec::new(),
            served: Vec::new(),
            refused: Vec::new(),
            opened_at: HashMap::new(),
            attempts: Vec::new(),
            ended: HashMap::new(),
            next_conn: 0,
            next_client: 0,
        }
    }

    /// A bucket with one pool that keeps nothing ready by itself.
    pub fn on_demand(settings: Settings) -> Self {
        Self::new(settings, &[Level::default()])
    }

    pub fn arrive(&mut self, pool: usize, tenant: u64) -> u64 {
        let tag = self.next_client;
        self.next_client += 1;
        match self.bucket.arrive(self.now, self.pools[pool], Tenant(tenant), tag) {
            Arrival::Served(lease) => self.take(tag, lease),
            Arrival::Waiting(waiter) => self.waiters.push((tag, waiter)),
            Arrival::Refused(refusal) => self.refused.push((tag, refusal)),
        }
        self.poll();
        tag
    }

    pub fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        for _ in 0..1_000_000 {
            let Some(next) = self.bucket.poll_timeout().filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            self.bucket.handle_timeout(self.now);
            self.poll();
        }
        panic!("a deadline at {:?} does not go away", self.bucket.poll_timeout());
    }

    pub fn open(&mut self, pick: usize) {
        let opening = self.openings.swap_remove(pick % self.openings.len());
        self.opened_at.insert(self.next_conn, self.now);
        self.bucket.handle_opened(self.now, opening, self.next_conn);
        self.next_conn += 1;
        self.poll();
    }

    pub fn fail(&mut self, pick: usize, failure: Failure) {
        let opening = self.openings.swap_remove(pick % self.openings.len());
        self.failed.extend(self.bucket.handle_open_failed(self.now, opening, failure));
        self.poll();
    }

    /// The server lets go of a connection that could not be opened.
    pub fn let_go(&mut self) {
        if let Some(slot) = self.failed.pop() {
            self.bucket.handle_closed(self.now, slot);
            self.poll();
        }
    }

    pub fn leave(&mut self, pick: usize) {
        let (_, lease) = self.leases.remove(pick % self.leases.len());
        self.resetting.push(self.bucket.leave(self.now, lease));
        self.poll();
    }

    pub fn reset(&mut self, pick: usize) {
        let resetting = self.resetting.swap_remove(pick % self.resetting.len());
        self.bucket.give_back(self.now, resetting);
        self.poll();
    }

    pub fn discard(&mut self, pick: usize, reason: Discard) {
        let resetting = self.resetting.swap_remove(pick % self.resetting.len());
        self.bucket.discard(self.now, resetting, reason);
        self.poll();
    }

    pub fn close(&mut self, pick: usize) {
        let Closing { slot, .. } = self.closing.swap_remove(pick % self.closing.len());
        self.bucket.handle_closed(self.now, slot);
        self.poll();
    }

    pub fn cancel(&mut self, pick: usize) {
        let (_, waiter) = self.waiters.remove(pick % self.waiters.len());
        self.bucket.cancel(self.now, waiter);
        self.poll();
    }

    /// Does what the bucket asks for, as an owner would.
    pub fn poll(&mut self) {
        self.poll_but_leave_settled();
        while let Some(tag) = self.bucket.poll_settled() {
            self.pick_up(tag);
        }
    }

    /// The same, but clients that were served or refused do not notice it yet.
    pub fn poll_but_leave_settled(&mut self) {
        while let Some(opening) = self.bucket.poll_open(self.now) {
            self.attempts.push(self.now);
            self.openings.push(opening);
        }
        while let Some(closing) = self.bucket.poll_close() {
            let before = self.ended.insert(closing.conn, closing.reason);
            assert_eq!(before, None, "connection {} ended twice", closing.conn);
            self.closing.push(closing);
        }
    }

    /// Connections that the database counts.
    pub fn open_at_the_database(&self) -> usize {
        let known =
            self.leases.len() + self.resetting.len() + self.closing.len() + self.openings.len() + self.failed.len();
        known + (self.bucket.counts().ready + self.unclaimed()) as usize
    }

    /// Connections handed over to clients that have not picked them up.
    pub fn unclaimed(&self) -> u32 {
        self.bucket.counts().leased - self.leases.len() as u32
    }

    /// Ends everything in words and lets the database close it all.
    pub fn wind_down(&mut self) {
        while !self.waiters.is_empty() {
            self.cancel(0);
        }
        self.bucket.drain(self.now);
        self.poll();
        while !self.leases.is_empty() {
            self.leave(0);
        }
        while !self.resetting.is_empty() {
            self.reset(0);
        }
        while !self.openings.is_empty() {
            self.open(0);
        }
        while !self.closing.is_empty() {
            self.close(0);
        }
        while !self.failed.is_empty() {
            self.let_go();
        }
    }

    fn pick_up(&mut self, tag: u64) {
        let Some(position) = self.waiters.iter().position(|(name, _)| *name == tag) else { return };
        let (_, waiter) = self.waiters.remove(position);
        match self.bucket.claim(waiter) {
            Ok(Ok(lease)) => self.take(tag, lease),
            Ok(Err(refusal)) => self.refused.push((tag, refusal)),
            Err(_) => panic!("client {tag} was said to be settled and still waits"),
        }
    }

    fn take(&mut self, tag: u64, lease: Lease<Conn>) {
        let Lifetimes { base, jitter, guard_window } = self.settings.lifetimes;
        let age = self.now.since(self.opened_at[&*lease]);
        assert!(age + guard_window <= base + jitter / 2, "a connection of age {age:?} was handed out");
        self.served.push(tag);
        self.leases.push((tag, lease));
    }
}
