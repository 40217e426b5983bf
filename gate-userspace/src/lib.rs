//! The daemon.

pub mod config;
pub mod ebpf;
