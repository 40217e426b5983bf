//! A port that a server of a test can have, and have again after a restart.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};

/// The lowest port that is given away.
const FIRST: u32 = 15_000;

/// A port of 127.0.0.1 on which nobody listens.
///
/// It lies below those that the kernel gives to outgoing connections. One of these could otherwise take
/// it while the server is down, and a client that tries to reach the server could even meet itself.
pub fn free() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let end = first_outgoing()?;
    let count = end.checked_sub(FIRST).context("all ports are for outgoing connections")?;
    let mut ports = (0..count).map(|_| {
        // Test programs that run at the same time start at different ports.
        let offset = process::id().wrapping_mul(101).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        (FIRST + offset % count) as u16
    });
    ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).context("no port is free")
}

fn first_outgoing() -> Result<u32> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
    let first = range.split_whitespace().next().context("no range of ports")?;
    Ok(first.parse()?)
}
