//! Whether to open another connection now, and for whom.
//!
//! Clients who wait come first, pool by pool in turn; then pools are filled to their level. Nothing is spent that
//! cannot be used: first there must be a slot, then the database's health must allow an attempt, then a rate permit
//! is taken. If all slots are held, an idle connection of another identity gives way to a client who waits.

use std::time::Duration;

use super::pool::Stage;
use super::rights::Opening;
use super::{Bucket, Failure};
use crate::refill::Attempt;
use crate::refusal::Refusal;
use crate::reservoir::{Connection, PoolId};
use crate::slot::Slot;
use crate::time::Moment;
use crate::timer::Timer;

impl<C> Bucket<C> {
    /// The next connection to be opened.
    pub fn poll_open(&mut self, now: Moment) -> Option<Opening<C>> {
        self.collect(now);
        self.timers.set(Timer::Refill, None);
        if self.draining {
            return None;
        }
        let pool = match self.next_unserved() {
            Some(_) if self.slots.free() == 0 => {
                self.make_room();
                return None;
            }
            Some(pool) => pool,
            None if self.slots.free() == 0 => return None,
            None => self.next_below_level(now)?,
        };
        match self.health.attempt(now, self.pools.sum(Stage::Opening)) {
            Attempt::Now => {}
            Attempt::AfterAnother => return None,
            Attempt::At(then) => return self.not_before(then),
        }
        let Some(_spent) = self.rate.try_take(now) else {
            return self.not_before(self.rate.next(now));
        };
        let slot = self.slots.try_take()?;
        self.pools.enter(pool, Stage::Opening);
        self.end_turn(pool);
        Some(Opening { pool, started: now, slot: Some(slot), home: self.home.clone() })
    }

    /// A connection was opened and logged in.
    pub fn handle_opened(&mut self, now: Moment, mut opening: Opening<C>, conn: C) {
        self.collect(now);
        if let Some(slot) = opening.slot.take() {
            self.pools.exit(opening.pool, Stage::Opening);
            self.pools[opening.pool].login.handle_success();
            self.health.handle_success();
            self.totals.refills += 1;
            let lifetime = self.reservoir.begin_lifetime(now, &mut self.random);
            self.keep(now, Connection { conn, slot, pool: opening.pool, lifetime });
        }
    }

    /// A connection could not be opened. Its slot is to be given back ([`Bucket::handle_closed`]) when the server knows
    /// nothing of it any more.
    #[must_use = "the slot has to be given back when the server has let go"]
    pub fn handle_open_failed(&mut self, now: Moment, mut opening: Opening<C>, failure: Failure) -> Option<Slot> {
        self.collect(now);
        let slot = opening.slot.take();
        if slot.is_some() {
            self.pools.exit(opening.pool, Stage::Opening);
            self.totals.refill_failures += 1;
            match failure {
                Failure::Backend => self.health.handle_failure(now, opening.started, &mut self.random),
                Failure::Login => self.refuse_login(now, opening.pool, opening.started),
            }
            self.want(opening.pool);
            self.serve(now);
        }
        slot
    }

    /// Puts a pool on the list if it has clients for whom no connection is coming.
    pub(super) fn want(&mut self, id: PoolId) {
        let pool = &mut self.pools[id];
        if pool.unserved() > 0 && !pool.is_wanted {
            pool.is_wanted = true;
            self.wanted.push_back(id);
        }
    }

    /// Until when asking for this identity is no use, because the database lately refused it.
    pub(super) fn login_refused_until(&self, now: Moment, id: PoolId) -> Option<Moment> {
        match self.pools[id].login.attempt(now, 0) {
            Attempt::At(then) => Some(then),
            Attempt::Now | Attempt::AfterAnother => None,
        }
    }

    /// Whether a pool has been without clients for so long that it keeps only its least level.
    pub(super) fn is_cold(&self, now: Moment, id: PoolId) -> bool {
        let pool = &self.pools[id];
        pool.stages.get(Stage::Leased) == 0 && pool.last_used.is_none_or(|last| now.since(last) >= self.cool_after)
    }

    /// How many ready connections a pool should have.
    pub(super) fn level(&self, now: Moment, id: PoolId) -> u32 {
        let level = &self.pools[id].level;
        if self.is_cold(now, id) { level.min } else { level.target }
    }

    /// How long a client that has a place would wait for a connection: until one can be opened for it, or until one
    /// of those in use comes back, whichever is expected first.
    pub(super) fn expected_wait_for_connection(&self, now: Moment) -> Duration {
        // It has its ticket, so it is one of these itself.
        let waiting = self.waiting_for_connection();
        let coming = self.pools.sum(Stage::Opening) + self.pools.sum(Stage::Resetting);
        let by_opening = self.rate.nth(now, waiting.saturating_sub(coming).max(1).into()).since(now);
        match self.pools.sum(Stage::Leased) {
            0 => by_opening,
            leased => by_opening.min(self.admission.expected_wait_behind(waiting.saturating_sub(1), leased)),
        }
    }

    fn not_before(&mut self, then: Moment) -> Option<Opening<C>> {
        self.timers.set(Timer::Refill, Some(then));
        None
    }

    /// The pool whose turn it is among those with unserved clients.
    fn next_unserved(&mut self) -> Option<PoolId> {
        while let Some(id) = self.wanted.front().copied() {
            if self.pools[id].unserved() > 0 {
                return Some(id);
            }
            self.wanted.pop_front();
            self.pools[id].is_wanted = false;
        }
        None
    }

    /// Sends a pool that was at the front of the list to its back, or off it.
    fn end_turn(&mut self, id: PoolId) {
        if self.wanted.front() == Some(&id) {
            self.wanted.pop_front();
            self.pools[id].is_wanted = false;
            self.want(id);
        }
    }

    /// A pool that has, or will have, fewer ready connections than it should keep.
    fn next_below_level(&mut self, now: Moment) -> Option<PoolId> {
        let mut retry = None;
        let found = self.pools.kept().find(|id| {
            let pool = &self.pools[*id];
            let level = self.level(now, *id);
            let spare = (self.reservoir.ready_in(*id) + pool.coming()).saturating_sub(pool.line.len());
            match self.login_refused_until(now, *id) {
                _ if spare >= level => false,
                Some(then) => {
                    retry = Some(retry.map_or(then, |earlier: Moment| earlier.min(then)));
                    false
                }
                None => true,
            }
        });
        self.timers.set(Timer::Refill, retry);
        found
    }

    /// Lets idle connections go for clients of other identities, one for each who has no slot coming.
    fn make_room(&mut self) {
        let unserved: u32 = self.wanted.iter().map(|id| self.pools[*id].unserved()).sum();
        for _ in self.closing()..unserved {
            if !self.reservoir.evict_longest_idle() {
                break;
            }
        }
    }

    /// Tells all clients of an identity that the database does not want it.
    fn refuse_login(&mut self, now: Moment, id: PoolId, started: Moment) {
        self.pools[id].login.handle_failure(now, started, &mut self.random);
        while let Some(index) = self.pools[id].line.front(&self.line_nodes).copied() {
            self.refuse(index, Refusal::LoginFailed);
        }
    }
}
