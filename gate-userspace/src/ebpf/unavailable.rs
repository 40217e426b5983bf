//! Why the kernel half cannot be used, in words for the person who can change it.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use gate_common::MAX_ENDPOINTS;

/// Why the kernel half, or a part of it, cannot be used. Its text is one line and names the way out.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The cargo feature `ebpf` was off.
    #[error("this gate was built without its kernel half; build it with the cargo feature `ebpf`")]
    NotBuilt,

    /// The kernel said no to this process.
    #[error(
        "{action}: not permitted; the kernel half needs CAP_BPF and CAP_NET_ADMIN: run as root, or grant both \
         (systemd: AmbientCapabilities, Kubernetes: securityContext.capabilities)"
    )]
    NotPermitted {
        /// What was attempted.
        action: &'static str,
    },

    /// It failed on a kernel that lacks what it needs.
    #[error("{action}: {cause}; this is Linux {running}, the kernel half needs 5.11 or newer")]
    KernelTooOld {
        /// What was attempted.
        action: &'static str,
        /// The error, in one line.
        cause: String,
        /// The kernel's version.
        running: String,
    },

    /// It failed for another reason.
    #[error("{action}: {cause}")]
    Failed {
        /// What was attempted.
        action: &'static str,
        /// The error, in one line.
        cause: String,
        /// The error in full: for a program that the kernel refused, with the verifier's log.
        source: Box<dyn Error + Send + Sync>,
    },

    /// No cgroup v2 hierarchy is mounted, so there is nothing to attach to.
    #[error("/proc/mounts names no cgroup v2 hierarchy; mount it: mount -t cgroup2 none /sys/fs/cgroup")]
    NoCgroup,

    /// The process is in the root cgroup, together with others.
    #[error(
        "this process is in the root cgroup, where others' connections would be counted too; give it a cgroup of its \
         own: run it as a service, in a container, or by `systemd-run --scope`"
    )]
    RootCgroup,

    /// What was given as a cgroup is none, or cannot be opened.
    #[error("cannot attach to {}: {error}; it must be a directory of the cgroup v2 hierarchy", path.display())]
    Cgroup {
        /// What was given.
        path: PathBuf,
        /// Why it cannot be used.
        #[source]
        error: io::Error,
    },

    /// The map of endpoints is full.
    #[error("{MAX_ENDPOINTS} endpoints are watched already, and the kernel half has room for no more")]
    TooManyEndpoints,
}
