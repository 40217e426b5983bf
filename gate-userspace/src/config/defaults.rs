//! Every default, with its unit and its reason.
//!
//! A default that follows another setting is a function of it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use super::{Auth, Mode};

/// `listen.admin`: loopback only, since what it tells is nobody else's business; the port after Postgres exporters.
pub const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9187);

/// `max_connections`, connections: what a small database bears beside its other work, and what PgBouncer takes.
pub const MAX_CONNECTIONS: u32 = 20;

/// `dispatch_limit`, a part of 1: all connections may be in use. Writers that can slow down do well with 0.8, which
/// keeps some back for the rest.
pub const DISPATCH_LIMIT: f64 = 1.0;

/// `route.database` and `route.user`: everybody.
pub const EVERYTHING: &str = "*";

/// `clients.trust`: nobody is let in unproved unless the operator says so.
pub const TRUST: bool = false;

/// `mode`: a session keeps its connection, which is safe for every client; passthrough if the logins are passed
/// through, since nothing else can be done with them.
pub fn mode(auth: Option<Auth>) -> Mode {
    if auth == Some(Auth::Passthrough) { Mode::Passthrough } else { Mode::Session }
}

/// `auth`: the gate logs in, so that connections can be warm; passthrough if the bytes are passed through.
pub fn auth(mode: Option<Mode>) -> Auth {
    if mode == Some(Mode::Passthrough) { Auth::Passthrough } else { Auth::Gate }
}

/// `reservoir.target_ready`, connections: all that there may be, so that no client ever waits for one to open.
pub fn target_ready(max_connections: u32) -> u32 {
    max_connections
}

/// `reservoir.min_ready`, connections: the same, so that the first client after a quiet night is served as fast as
/// any other. Where buckets are many and mostly unused, 0 costs the databases nothing.
pub fn min_ready(target_ready: u32) -> u32 {
    target_ready
}

/// `reservoir.low_watermark`, connections: ready means full.
pub fn low_watermark(target_ready: u32) -> u32 {
    target_ready
}

/// `reservoir.cool_after`: long enough to bridge a coffee break.
pub const COOL_AFTER: Duration = Duration::from_secs(10 * 60);

/// `reservoir.base_lifetime`: far below the hour after which managed databases cut connections, and short enough for a
/// failover or a changed password to take effect soon.
pub const BASE_LIFETIME: Duration = Duration::from_secs(11 * 60);

/// `reservoir.lifetime_jitter`: connections that were opened together end spread over two minutes, so that replacing
/// them stays far below the connect rate.
pub const LIFETIME_JITTER: Duration = Duration::from_secs(2 * 60);

/// `reservoir.guard_window`: longer than nearly every transaction, so that none outlives its connection.
pub const GUARD_WINDOW: Duration = Duration::from_secs(45);

/// `reservoir.empty_wait`: a returning connection is usually back within this; nobody notices the wait.
pub const EMPTY_WAIT: Duration = Duration::from_millis(100);

/// `reservoir.connect_timeout`: an endpoint that needs longer for a login is not healthy.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// `rate.per_second`, connections: a login costs a server some milliseconds of CPU, so this is at most half a core.
/// It is also the limit of an Aurora DSQL cluster.
pub const RATE_PER_SECOND: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// `rate.burst`, connections: what a second allows. A database that has just come up should not meet more at once.
pub fn burst(per_second: NonZeroU32) -> NonZeroU32 {
    per_second
}

/// `queue.depth`, clients: a waiting client costs a socket and a few kilobytes.
pub const QUEUE_DEPTH: u32 = 1_000;

/// `queue.timeout`: drivers commonly give up after 15 to 60 seconds; an answer before that says why.
pub const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);

/// `queue.shed_at`, pressure from 0 to 1: newcomers queue until the queue is full. Writers that can slow down do well
/// with 0.7, which tells them early.
pub const SHED_AT: f64 = 1.0;
