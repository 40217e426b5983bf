//! The daemon.

pub mod backend;
pub mod bucket;
pub mod clock;
pub mod config;
mod descriptors;
pub mod ebpf;
pub mod gate;
pub mod http;
pub mod kernel;
pub mod metrics;
pub mod quick;
pub mod readiness;
pub mod reload;
pub mod serve;
pub mod server;
mod session;
mod socket;
pub mod status;
