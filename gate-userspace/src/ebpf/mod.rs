//! The kernel half, seen from the daemon.
//!
//! It makes the gate exact and fast, and nothing depends on it: without privileges, on an old kernel, or
//! built without the cargo feature `ebpf`, the gate runs without it. Whoever asks is told why
//! ([`Unavailable`]), and decides.
//!
//! Only this module names aya. Without the feature a stub with the same signatures takes the place of the
//! real thing, so that no caller needs to know which one it has.

mod cgroup;
#[cfg(feature = "ebpf")]
mod kernel;
#[cfg(not(feature = "ebpf"))]
mod stub;
mod unavailable;

pub use cgroup::{mount as cgroup_mount, own as own_cgroup};
pub use gate_common::EndpointCounts;
#[cfg(feature = "ebpf")]
pub use kernel::KernelHalf;
#[cfg(not(feature = "ebpf"))]
pub use stub::KernelHalf;
pub use unavailable::Unavailable;

/// Whether the kernel half would work here, and if not, why: loads it, attaches nothing, lets go of it again.
pub fn probe() -> Result<(), Unavailable> {
    KernelHalf::load()?;
    cgroup_mount()?;
    Ok(())
}
