//! This node's ready connections of one bucket.
//!
//! A pool holds those of one identity (user and database). The connection that was used last is handed out first:
//! its server process is the warmest, and what a quiet bucket does not need grows old untouched and is not replaced.

mod discard;
mod guard_window;

use std::collections::VecDeque;

use fastrand::Rng;

pub use self::discard::Discard;
pub use self::guard_window::{Age, Lifetime, Lifetimes};
use crate::slot::Slot;
use crate::time::Moment;

/// The pools of one bucket. `C` is whatever the caller calls a connection.
pub struct Reservoir<C> {
    lifetimes: Lifetimes,
    pools: Vec<VecDeque<Idle<C>>>,
    ready: u32,
    discarded: VecDeque<Closing<C>>,
    discards: [u64; Discard::ALL.len()],
}

/// One identity's pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId(pub(crate) usize);

/// An open connection with all that belongs to it.
pub struct Connection<C> {
    // Dropped before its slot is.
    pub(crate) conn: C,
    pub(crate) slot: Slot,
    pub(crate) pool: PoolId,
    pub(crate) lifetime: Lifetime,
}

/// A connection that has to be closed, and why. Its slot is given back when the server has let go of it.
#[must_use = "close the connection, wait until the server has let go, then give the slot back"]
pub struct Closing<C> {
    /// The connection.
    pub conn: C,
    /// Its slot.
    pub slot: Slot,
    /// The reason.
    pub reason: Discard,
}

struct Idle<C> {
    connection: Connection<C>,
    since: Moment,
}

impl<C> Reservoir<C> {
    /// A reservoir without pools.
    pub fn new(lifetimes: Lifetimes) -> Self {
        Self { lifetimes, pools: Vec::new(), ready: 0, discarded: VecDeque::new(), discards: Default::default() }
    }

    /// Makes sure that there is a place for this pool's connections.
    pub fn make_room_for(&mut self, pool: PoolId) {
        if self.pools.len() <= pool.0 {
            self.pools.resize_with(pool.0 + 1, VecDeque::new);
        }
    }

    /// How many connections are ready in all pools.
    pub fn ready(&self) -> u32 {
        self.ready
    }

    /// How many are ready in this one.
    pub fn ready_in(&self, pool: PoolId) -> u32 {
        self.pools[pool.0].len() as u32
    }

    /// How many connections were discarded for this reason.
    pub fn discards(&self, reason: Discard) -> u64 {
        self.discards[reason as usize]
    }

    /// The time of a connection that was opened now.
    pub fn begin_lifetime(&self, now: Moment, random: &mut Rng) -> Lifetime {
        self.lifetimes.begin(now, random)
    }

    /// Hands out the connection that was used last and is fresh enough.
    pub fn try_checkout(&mut self, now: Moment, pool: PoolId) -> Option<Connection<C>> {
        while let Some(Idle { connection, .. }) = self.pools[pool.0].pop_back() {
            self.ready -= 1;
            match self.lifetimes.age(connection.lifetime, now) {
                Age::Fresh => return Some(connection),
                Age::Guarded => self.discard(connection, Discard::InsufficientRemainingLifetime),
                Age::Expired => self.discard(connection, Discard::ExpiredOnCheckout),
            }
        }
        None
    }

    /// Looks at a connection that comes back or is new: it is handed on if it is fresh enough, else discarded.
    pub fn accept(&mut self, now: Moment, connection: Connection<C>) -> Option<Connection<C>> {
        match self.lifetimes.age(connection.lifetime, now) {
            Age::Fresh => return Some(connection),
            Age::Guarded => self.discard(connection, Discard::InsufficientRemainingLifetime),
            Age::Expired => self.discard(connection, Discard::ExpiredOnReturn),
        }
        None
    }

    /// Takes in a connection that was accepted.
    pub fn put(&mut self, now: Moment, connection: Connection<C>) {
        self.ready += 1;
        self.pools[connection.pool.0].push_back(Idle { connection, since: now });
    }

    /// Evicts what is too near its end before anybody meets it.
    pub fn scan(&mut self, now: Moment) {
        for index in 0..self.pools.len() {
            for _ in 0..self.pools[index].len() {
                let Some(idle) = self.pools[index].pop_front() else { break };
                let reason = match self.lifetimes.age(idle.connection.lifetime, now) {
                    Age::Fresh => {
                        self.pools[index].push_back(idle);
                        continue;
                    }
                    Age::Guarded => Discard::ExpiringSoonOnScan,
                    Age::Expired => Discard::ExpiredOnScan,
                };
                self.ready -= 1;
                self.discard(idle.connection, reason);
            }
        }
    }

    /// Lets go of the connection, of any pool, that nobody has used for the longest time.
    pub fn evict_longest_idle(&mut self) -> bool {
        let fronts = self.pools.iter().enumerate().filter_map(|(index, pool)| Some((pool.front()?.since, index)));
        match fronts.min() {
            Some((_, index)) => self.trim(PoolId(index), self.ready_in(PoolId(index)) - 1) == 1,
            None => false,
        }
    }

    /// Lets go of all but `keep` connections of a pool, the longest idle first; tells of how many.
    pub fn trim(&mut self, pool: PoolId, keep: u32) -> u32 {
        let mut trimmed = 0;
        while self.ready_in(pool) > keep
            && let Some(Idle { connection, .. }) = self.pools[pool.0].pop_front()
        {
            self.ready -= 1;
            trimmed += 1;
            self.discard(connection, Discard::Drained);
        }
        trimmed
    }

    /// Ends a connection that is in nobody's hands.
    pub fn discard(&mut self, connection: Connection<C>, reason: Discard) {
        let Connection { conn, slot, .. } = connection;
        self.discards[reason as usize] += 1;
        self.discarded.push_back(Closing { conn, slot, reason });
    }

    /// The next connection to be closed.
    pub fn poll_close(&mut self) -> Option<Closing<C>> {
        self.discarded.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::home::Notify;
    use crate::slot::Slots;

    const SECOND: Duration = Duration::from_secs(1);
    const OTHER: PoolId = PoolId(1);

    struct World {
        slots: Slots,
        reservoir: Reservoir<u32>,
        pool: PoolId,
    }

    fn world() -> World {
        let lifetimes = Lifetimes { base: 60 * SECOND, jitter: Duration::ZERO, guard_window: 10 * SECOND };
        let mut reservoir = Reservoir::new(lifetimes);
        let pool = PoolId(0);
        reservoir.make_room_for(OTHER);
        World { slots: Slots::new(100, Notify::nobody()), reservoir, pool }
    }

    impl World {
        fn open(&mut self, pool: PoolId, now: Moment, conn: u32) -> Connection<u32> {
            let lifetime = self.reservoir.begin_lifetime(now, &mut Rng::with_seed(0));
            Connection { conn, slot: self.slots.try_take().unwrap(), pool, lifetime }
        }

        fn fill(&mut self, pool: PoolId, now: Moment, conn: u32) {
            let connection = self.open(pool, now, conn);
            self.reservoir.put(now, connection);
        }

        fn closed(&mut self) -> Vec<(u32, Discard)> {
            std::iter::from_fn(|| self.reservoir.poll_close()).map(|closing| (closing.conn, closing.reason)).collect()
        }
    }

    fn at(seconds: u32) -> Moment {
        Moment::START + seconds * SECOND
    }

    #[test]
    fn the_connection_used_last_is_handed_out_first() {
        let mut world = world();
        for conn in 0..3 {
            world.fill(world.pool, at(conn), conn);
        }
        assert_eq!(world.reservoir.try_checkout(at(3), world.pool).unwrap().conn, 2);
    }

    #[test]
    fn checkout_passes_over_what_is_inside_the_guard_window() {
        let mut world = world();
        world.fill(world.pool, at(0), 0);
        world.fill(OTHER, at(0), 1);
        assert!(world.reservoir.try_checkout(at(51), world.pool).is_none());
        assert!(world.reservoir.try_checkout(at(60), OTHER).is_none());
        assert_eq!(world.closed(), [(0, Discard::InsufficientRemainingLifetime), (1, Discard::ExpiredOnCheckout)]);
    }

    #[test]
    fn a_connection_that_aged_in_a_clients_hands_is_not_taken_back() {
        let mut world = world();
        for (conn, back) in [(0, at(50)), (1, at(51)), (2, at(60))] {
            let connection = world.open(world.pool, at(0), conn);
            assert_eq!(world.reservoir.accept(back, connection).is_some(), conn == 0);
        }
        assert_eq!(world.closed(), [(1, Discard::InsufficientRemainingLifetime), (2, Discard::ExpiredOnReturn)]);
    }

    #[test]
    fn the_scan_evicts_what_nears_its_end_and_keeps_the_order_of_the_rest() {
        let mut world = world();
        for (opened, conn) in [(0, 0), (5, 1), (30, 2), (31, 3)] {
            world.fill(world.pool, at(opened), conn);
        }
        world.reservoir.scan(at(60));
        assert_eq!(world.closed(), [(0, Discard::ExpiredOnScan), (1, Discard::ExpiringSoonOnScan)]);
        assert_eq!(world.reservoir.try_checkout(at(60), world.pool).unwrap().conn, 3);
        assert_eq!(world.reservoir.ready(), 1);
    }

    #[test]
    fn the_longest_idle_of_all_pools_gives_way_first() {
        let mut world = world();
        for (pool, used, conn) in [(world.pool, 1, 0), (OTHER, 0, 1), (OTHER, 2, 2)] {
            world.fill(pool, at(used), conn);
        }
        while world.reservoir.evict_longest_idle() {}
        assert_eq!(world.closed(), [(1, Discard::Drained), (0, Discard::Drained), (2, Discard::Drained)]);
    }

    #[test]
    fn each_reason_has_a_place_and_a_label_of_its_own() {
        for (index, reason) in Discard::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            assert_eq!(Discard::ALL.iter().filter(|other| other.label() == reason.label()).count(), 1);
        }
    }
}
