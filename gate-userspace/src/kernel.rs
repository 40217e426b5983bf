//! The kernel half of a running gate: loaded and attached if it can be, and asked what it has counted.
//!
//! It counts the sockets of the gate's own cgroup, so the gate must have one: as a service or a container it has. Without
//! the kernel half everything else works, and the status says why it is missing.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::{info, warn};

use crate::ebpf::{self, EndpointCounts, KernelHalf, Unavailable};

/// The kernel half, or the reason why there is none.
#[derive(Debug)]
pub struct Kernel(Result<Mutex<Live>, String>);

#[derive(Debug)]
struct Live {
    half: KernelHalf,
    watched: BTreeSet<SocketAddr>,
}

impl Kernel {
    /// Loads and attaches it, before the first connection is opened: a socket is counted only if it was seen opening.
    pub fn start() -> Self {
        match attach() {
            Ok(half) => {
                info!("the kernel half counts connections");
                Self(Ok(Mutex::new(Live { half, watched: BTreeSet::new() })))
            }
            Err(unavailable) => {
                info!("running without the kernel half: {unavailable}");
                Self(Err(unavailable.to_string()))
            }
        }
    }

    /// A gate without one.
    pub fn none(reason: &str) -> Self {
        Self(Err(reason.to_owned()))
    }

    /// Why there is none, if there is none.
    pub fn missing(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    /// Counts connections to this address from now on.
    pub fn watch(&self, endpoint: SocketAddr) {
        let Ok(live) = &self.0 else { return };
        let mut live = lock(live);
        if !live.watched.contains(&endpoint) {
            match live.half.watch(endpoint) {
                Ok(()) => {
                    live.watched.insert(endpoint);
                }
                Err(error) => warn!(%endpoint, %error, "the kernel half does not count an endpoint"),
            }
        }
    }

    /// What it has counted.
    pub fn counts(&self) -> Vec<(SocketAddr, EndpointCounts)> {
        let Ok(live) = &self.0 else { return Vec::new() };
        let live = lock(live);
        let counts = |endpoint: &SocketAddr| Some((*endpoint, live.half.endpoint_counts(*endpoint).ok()??));
        live.watched.iter().filter_map(counts).collect()
    }
}

fn attach() -> Result<KernelHalf, Unavailable> {
    let cgroup = ebpf::own_cgroup()?;
    let mut half = KernelHalf::load()?;
    half.count_connections_of(&cgroup)?;
    Ok(half)
}

fn lock(live: &Mutex<Live>) -> MutexGuard<'_, Live> {
    live.lock().unwrap_or_else(PoisonError::into_inner)
}
