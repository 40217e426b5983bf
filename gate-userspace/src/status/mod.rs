//! What `/status.json` tells, and how `gate status` asks for it and shows it.

pub mod ask;
pub mod table;
mod why;

use serde::{Deserialize, Serialize};

use crate::config::Mode;
use crate::readiness::Stage;

/// A gate at one moment. All times are in seconds.
#[derive(Debug, Deserialize, Serialize)]
pub struct Status {
    /// The gate's version.
    pub version: String,
    /// Whether clients should be sent to it.
    pub stage: Stage,
    /// How long it has been running.
    pub uptime_seconds: f64,
    /// How many clients are connected.
    pub clients: usize,
    /// How many could be, with the descriptors that the process may have.
    pub max_clients: usize,
    /// Whether its kernel half works.
    pub kernel_half: KernelStatus,
    /// Every bucket, in the order in which logins are matched.
    pub buckets: Vec<BucketStatus>,
}

/// The kernel half at one moment.
#[derive(Debug, Deserialize, Serialize)]
pub struct KernelStatus {
    /// Whether it is loaded and attached.
    pub is_live: bool,
    /// Why it is not.
    pub reason: Option<String>,
}

/// A bucket at one moment.
#[derive(Debug, Deserialize, Serialize)]
pub struct BucketStatus {
    /// Its name.
    pub name: String,
    /// When its clients give their connections back.
    pub mode: Mode,
    /// How many connections may be open, over all nodes.
    pub max_connections: u32,
    /// How many of them this gate may hold.
    pub share: u32,
    /// The part of its share that may be in use at once.
    pub dispatch_limit: f64,
    /// How many one tenant may use at once.
    pub tenant_max_connections: Option<u32>,
    /// How many connections may be opened each second.
    pub connects_per_second: u32,
    /// How many clients may wait.
    pub queue_depth: u32,
    /// How long they may wait.
    pub queue_timeout_seconds: f64,
    /// How many connections are to be kept ready now.
    pub target_ready: u32,
    /// Whether it has as many connections as it needs to begin.
    pub is_warm: bool,
    /// Connections that are ready.
    pub ready: u32,
    /// Connections in clients' hands.
    pub in_use: u32,
    /// Connections that are being opened.
    pub opening: u32,
    /// Connections that are being reset.
    pub resetting: u32,
    /// Connections that the server has not let go of.
    pub closing: u32,
    /// Clients that wait.
    pub waiting: u32,
    /// Those of them that wait because too many others are being served.
    pub waiting_for_place: u32,
    /// Those of them whose turn it is, but no connection is ready.
    pub waiting_for_connection: u32,
    /// How long the first of them has waited.
    pub oldest_waiter_seconds: Option<f64>,
    /// How near the bucket is to refusing clients, from 0 to 1.
    pub pressure: f64,
    /// How long its database has counted as down.
    pub down_seconds: Option<f64>,
    /// Where its database listens.
    pub endpoints: Vec<EndpointStatus>,
    /// Clients that got a connection, since the start.
    pub checkouts: u64,
    /// Connections that were opened, since the start.
    pub opened: u64,
    /// Connections that were discarded, since the start.
    pub discarded: u64,
    /// Clients that were refused, since the start.
    pub refused: u64,
    /// The last refusals, the newest first.
    pub last_refusals: Vec<RefusalStatus>,
}

/// An endpoint at one moment.
#[derive(Debug, Deserialize, Serialize)]
pub struct EndpointStatus {
    /// Its name or address, and its port.
    pub address: String,
    /// Whether the last attempt to log in there got an answer.
    pub is_up: bool,
    /// How long attempts have failed.
    pub down_seconds: Option<f64>,
    /// Why the last one did.
    pub last_error: Option<String>,
}

/// A client that was refused.
#[derive(Debug, Deserialize, Serialize)]
pub struct RefusalStatus {
    /// When, by the gate's clock (RFC 3339).
    pub at: String,
    /// How long ago that was.
    pub seconds_ago: f64,
    /// The reason's name, as in the metrics.
    pub reason: String,
    /// The reason in words.
    pub text: String,
}
