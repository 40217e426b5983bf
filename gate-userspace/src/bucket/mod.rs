//! A bucket of this process: the core's decisions under a lock, and the tasks that carry them out.
//!
//! Whoever changes the core does so through `act`, which also does at once what the core then asks for:
//! wakes clients that were served or refused, and starts tasks that open and close connections. Time alone is left to
//! one loop ([`Bucket::keep_time`]), which sleeps until the core's next deadline or until it is called.

mod last_refusals;
mod open;
mod wait;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Instant, SystemTime};

use gate_core::admission::{self, Tenant};
use gate_core::bucket::{self as core, Counts, Lease, Level, Resetting, Totals};
use gate_core::home;
use gate_core::protocol::postgres::credential::Credential;
use gate_core::rate::Rate;
use gate_core::refusal::Refusal;
use gate_core::reservoir::{Discard, Lifetimes, PoolId};
use gate_core::time::Moment;
use slab::Slab;
use tokio::sync::Notify;
use tracing::debug;

pub use self::last_refusals::LastRefusals;
use self::wait::Wait;
use crate::backend::cancel::Target;
use crate::backend::dial::Dialer;
use crate::backend::reset::Dirty;
use crate::backend::{Backend, Identity, close, reset};
use crate::clock::Clock;
use crate::config::{self, TenantKey};
use crate::metrics::BucketMetrics;

/// So many identities are kept without a look at who uses them.
const SWEEP_AT: usize = 1024;

/// A connection in a client's hands.
pub type BackendLease = Lease<Backend>;

/// One bucket.
pub struct Bucket {
    /// What an operator set.
    pub settings: config::Bucket,
    /// What is measured on the path.
    pub metrics: BucketMetrics,
    /// Why clients were refused lately.
    pub last_refusals: LastRefusals,
    dialer: Dialer,
    clock: Clock,
    /// Turns names into numbers that nobody outside can aim at.
    hasher: RandomState,
    state: Mutex<State>,
    /// Calls the timekeeper.
    bell: Arc<Notify>,
    /// When the timekeeper will look next, in nanoseconds of the clock.
    next_look: AtomicU64,
}

struct State {
    core: core::Bucket<Backend>,
    pools: HashMap<Identity, PoolId>,
    /// Whom to log in as for each pool, and with what.
    logins: HashMap<PoolId, (Identity, Credential)>,
    /// With so many identities, those that nobody uses are forgotten.
    sweep_at: usize,
    /// Clients that wait, by their tag.
    wakers: Slab<Option<Waker>>,
}

/// What [`Bucket::act`] found to do.
struct Work {
    openings: Vec<core::Opening<Backend>>,
    closings: Vec<gate_core::reservoir::Closing<Backend>>,
    next_look: Option<Moment>,
}

impl Bucket {
    /// A bucket that has no connections yet.
    pub fn new(settings: config::Bucket, dialer: Dialer, metrics: BucketMetrics, clock: Clock, seed: u64) -> Arc<Self> {
        let bell = Arc::new(Notify::new());
        let notify = home::Notify::new({
            let bell = Arc::clone(&bell);
            move || bell.notify_one()
        });
        let state = State {
            core: core::Bucket::new(core_settings(&settings), seed, notify),
            pools: HashMap::new(),
            logins: HashMap::new(),
            sweep_at: SWEEP_AT,
            wakers: Slab::new(),
        };
        let bucket = Self {
            settings,
            metrics,
            last_refusals: LastRefusals::default(),
            dialer,
            clock,
            hasher: RandomState::new(),
            state: Mutex::new(state),
            bell,
            next_look: AtomicU64::new(u64::MAX),
        };
        if let Some(identity) = bucket.dialer.configured_identity() {
            let reservoir = &bucket.settings.reservoir;
            let level = Level {
                target: reservoir.target_ready,
                min: reservoir.min_ready,
                low_watermark: reservoir.low_watermark,
            };
            let mut state = bucket.lock();
            let pool = state.pool(clock.now(), &identity, level);
            let credential = bucket.dialer.configured_credential().cloned().unwrap_or(Credential::None);
            state.logins.insert(pool, (identity, credential));
        }
        Arc::new(bucket)
    }

    /// What logs, metrics and messages call it.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// How the gate logs in to this bucket's database.
    pub fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Whom a client shares its turn with.
    pub fn tenant(&self, user: &str, database: &str) -> Tenant {
        Tenant(match self.settings.tenants.as_ref().map(|tenants| tenants.key) {
            None => 0,
            Some(TenantKey::User) => self.hasher.hash_one(user),
            Some(TenantKey::Database) => self.hasher.hash_one(database),
        })
    }

    /// A connection for a client of this identity; waits for its turn if it must.
    pub async fn checkout(
        self: &Arc<Self>,
        identity: &Identity,
        shown: Credential,
        tenant: Tenant,
    ) -> Result<BackendLease, Refusal> {
        let start = Instant::now();
        let (arrival, tag) = self.act(|state, now| {
            // An identity that nobody configured keeps nothing ready by itself: its first client warms it.
            let pool = state.pool(now, identity, Level::default());
            match (self.dialer.configured_credential(), state.logins.get_mut(&pool)) {
                // A password may have changed: what a client has just shown is the newest.
                (None, Some((_, credential))) => *credential = shown,
                (Some(configured), None) => {
                    state.logins.insert(pool, (identity.clone(), configured.clone()));
                }
                (None, None) => {
                    state.logins.insert(pool, (identity.clone(), shown));
                }
                (Some(_), Some(_)) => {}
            }
            let tag = state.wakers.vacant_key();
            let arrival = state.core.arrive(now, pool, tenant, tag as u64);
            if matches!(arrival, core::Arrival::Waiting(_)) {
                state.wakers.insert(None);
            }
            (arrival, tag)
        });
        let served = match arrival {
            core::Arrival::Served(lease) => {
                self.metrics.checkout(start.elapsed());
                Ok(lease)
            }
            core::Arrival::Refused(refusal) => Err(refusal),
            core::Arrival::Waiting(waiter) => Wait::new(self, waiter, tag).await,
        };
        served.inspect_err(|refusal| self.last_refusals.note(SystemTime::now(), *refusal))
    }

    /// Ends a client's use of a connection. One that may be clean is reset, out of the client's way, and kept if the
    /// server proves that it is.
    pub fn finish(self: &Arc<Self>, lease: BackendLease, end: Finish) {
        let resetting = self.act(|state, now| state.core.leave(now, lease));
        match end {
            Finish::Reset(cancels) => {
                tokio::spawn(Arc::clone(self).reset(resetting, cancels));
            }
            Finish::Discard(reason) => self.discard(resetting, reason),
        }
    }

    async fn reset(self: Arc<Self>, resetting: Resetting<Backend>, cancels: Arc<Target>) {
        match reset::run(resetting, cancels).await {
            Ok(resetting) => self.act(|state, now| state.core.give_back(now, resetting)),
            Err(Dirty { resetting, why }) => {
                debug!(bucket = self.name(), why, "a connection is not clean");
                if let Some(resetting) = resetting {
                    self.discard(resetting, Discard::ResetFailed);
                }
            }
        }
    }

    fn discard(self: &Arc<Self>, resetting: Resetting<Backend>, reason: Discard) {
        debug!(bucket = self.name(), reason = reason.label(), "discarding a connection");
        self.act(|state, now| state.core.discard(now, resetting, reason));
    }

    /// How many connections there may be from now on; tells whether that is a change.
    pub fn set_limit(self: &Arc<Self>, limit: u32) -> bool {
        let changes = self.lock().core.counts().limit != limit;
        self.act(|state, now| state.core.set_limit(now, limit));
        changes
    }

    /// No new clients, no new connections; who is served may finish.
    pub fn drain(self: &Arc<Self>) {
        self.act(|state, now| state.core.drain(now));
    }

    /// What is, and what has been.
    pub fn counts(&self) -> (Counts, Totals, [u64; Discard::ALL.len()]) {
        let state = self.lock();
        (state.core.counts(), state.core.totals().clone(), Discard::ALL.map(|reason| state.core.discards(reason)))
    }

    /// How many connections should be ready now.
    pub fn target(&self) -> u32 {
        self.lock().core.target(self.clock.now())
    }

    /// Whether it has as many connections as it needs to begin.
    pub fn is_warm(&self) -> bool {
        self.lock().core.is_warm()
    }

    /// Looks at the core whenever one of its deadlines comes, or when something that was dropped came home. Ends when
    /// the bucket is no longer used.
    pub async fn keep_time(self: Arc<Self>) {
        loop {
            self.act(|state, now| state.core.handle_timeout(now));
            let next = self.next_look.load(Ordering::Relaxed);
            let sleep = async {
                match next {
                    u64::MAX => std::future::pending().await,
                    next => tokio::time::sleep_until(self.clock.instant(Moment::from_nanos(next))).await,
                }
            };
            tokio::select! {
                () = sleep => {}
                () = self.bell.notified() => {}
            }
        }
    }

    /// Changes the state, then does what the core asks for.
    fn act<R>(self: &Arc<Self>, change: impl FnOnce(&mut State, Moment) -> R) -> R {
        let now = self.clock.now();
        let (result, work) = {
            let mut state = self.lock();
            let result = change(&mut state, now);
            (result, state.work(now))
        };
        self.carry_out(work);
        result
    }

    /// Not generic as [`Bucket::act`] is: the tasks that it starts call that again.
    fn carry_out(self: &Arc<Self>, work: Work) {
        let next = work.next_look.map_or(u64::MAX, Moment::as_nanos);
        if next < self.next_look.swap(next, Ordering::Relaxed) {
            self.bell.notify_one();
        }
        for opening in work.openings {
            tokio::spawn(Arc::clone(self).open(opening));
        }
        for closing in work.closings {
            let bucket = Arc::clone(self);
            tokio::spawn(async move {
                let slot = close::run(bucket.name(), closing).await;
                bucket.act(|state, now| state.core.handle_closed(now, slot));
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic inside the core would be a bug of ours; its books are still the best there are.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What becomes of a connection whose client has left.
#[derive(Debug)]
pub enum Finish {
    /// It may be clean: ask the server, once these cancel requests are through.
    Reset(Arc<Target>),
    /// It is not, or nobody can know.
    Discard(Discard),
}

impl State {
    fn pool(&mut self, now: Moment, identity: &Identity, level: Level) -> PoolId {
        if let Some(pool) = self.pools.get(identity) {
            return *pool;
        }
        if self.pools.len() >= self.sweep_at {
            self.forget_unused(now);
        }
        let pool = self.core.add_pool(level);
        self.pools.insert(identity.clone(), pool);
        pool
    }

    /// Forgets identities that nobody uses, so that a stream of new names does not fill the memory.
    fn forget_unused(&mut self, now: Moment) {
        let Self { core, pools, logins, .. } = self;
        pools.retain(|_, pool| {
            let is_forgotten = core.forget_pool(now, *pool);
            if is_forgotten {
                logins.remove(pool);
            }
            !is_forgotten
        });
        self.sweep_at = SWEEP_AT.max(2 * self.pools.len());
    }

    fn work(&mut self, now: Moment) -> Work {
        let openings = std::iter::from_fn(|| self.core.poll_open(now)).collect();
        let closings = std::iter::from_fn(|| self.core.poll_close()).collect();
        while let Some(tag) = self.core.poll_settled() {
            let waker = self.wakers.get_mut(tag as usize).and_then(Option::take);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        Work { openings, closings, next_look: self.core.poll_timeout() }
    }
}

fn core_settings(bucket: &config::Bucket) -> core::Settings {
    core::Settings {
        max_connections: bucket.max_connections,
        admission: admission::Settings {
            dispatch_limit: bucket.dispatch_limit,
            queue_depth: bucket.queue.depth,
            queue_timeout: bucket.queue.timeout,
            shed_at: bucket.queue.shed_at,
            fair: bucket.tenants.is_some(),
            tenant_places: bucket.tenants.as_ref().and_then(|tenants| tenants.max_connections),
        },
        lifetimes: Lifetimes {
            base: bucket.reservoir.base_lifetime,
            jitter: bucket.reservoir.lifetime_jitter,
            guard_window: bucket.reservoir.guard_window,
        },
        rate: Rate::per_second(bucket.rate.per_second, bucket.rate.burst),
        empty_wait: bucket.reservoir.empty_wait,
        cool_after: bucket.reservoir.cool_after,
    }
}
