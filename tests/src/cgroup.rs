//! A cgroup of a test's own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::{unique_name, wait};

/// A cgroup v2 directory, removed on drop. Processes in it must have ended by then.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes an empty one.
    pub fn new() -> Result<Self> {
        let path = gate::ebpf::cgroup_mount()?.join(unique_name());
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves a process into it: sockets that it creates from now on belong to this cgroup.
    pub fn add(&self, process: u32) -> Result<()> {
        let members = self.path.join("cgroup.procs");
        fs::write(&members, process.to_string())
            .with_context(|| format!("cannot add process {process} to {}", members.display()))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The kernel lets go of a process that has ended a moment after its parent has learnt of it.
        let removed = wait::until(|| Ok(fs::remove_dir(&self.path).is_ok()));
        if let Err(error) = removed {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}
