//! What takes the kernel half's place in a build without it: it cannot be loaded, and says so.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;

use super::{EndpointCounts, Unavailable};

/// The kernel half that this build does not have: there is no value of this type.
#[derive(Debug)]
pub struct KernelHalf(Infallible);

impl KernelHalf {
    /// Always [`Unavailable::NotBuilt`].
    pub fn load() -> Result<Self, Unavailable> {
        Err(Unavailable::NotBuilt)
    }

    /// Cannot be called, since nothing can be loaded.
    pub fn count_connections_of(&mut self, _cgroup: &Path) -> Result<(), Unavailable> {
        match self.0 {}
    }

    /// Cannot be called, since nothing can be loaded.
    pub fn watch(&mut self, _endpoint: SocketAddr) -> Result<(), Unavailable> {
        match self.0 {}
    }

    /// Cannot be called, since nothing can be loaded.
    pub fn endpoint_counts(&self, _endpoint: SocketAddr) -> Result<Option<EndpointCounts>, Unavailable> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use crate::ebpf::probe;

    #[test]
    fn a_gate_without_its_kernel_half_says_so_and_how_to_get_it() {
        let reason = probe().unwrap_err().to_string();
        assert!(reason.contains("built without"), "{reason}");
        assert!(reason.contains("feature `ebpf`"), "{reason}");
    }
}
