//! Fixtures of the end-to-end tests.
//!
//! Each of them makes what it needs under a name of its own and removes it when it is dropped, also
//! when the test panics. Every wait has a deadline.

pub mod cgroup;
pub mod fake_server;
pub mod frame;
pub mod gate;
pub mod http;
pub mod load;
pub mod netns;
pub mod peer;
pub mod port;
pub mod postgres;
pub mod program;
pub mod raw;
pub mod require;
pub mod template;
pub mod wait;
pub mod world;

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A name that no other test, of this process or of another, uses at the same time.
fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("gate-test-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
