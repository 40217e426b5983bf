//! A network namespace of a test's own: all its ports are free, and nothing in it reaches another host.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::unique_name;

/// A network namespace with nothing but a loopback interface, removed on drop.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes one.
    pub fn new() -> Result<Self> {
        let name = unique_name();
        ip(&["netns", "add", &name])?;
        let namespace = Self { name };
        ip(&["-n", &namespace.name, "link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// The name it has under `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that runs `program` inside. The process that is spawned becomes the program, so its id
    /// is the program's.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if let Err(error) = ip(&["netns", "delete", &self.name]) {
            eprintln!("cannot remove the network namespace {}: {error:#}", self.name);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).output().context("cannot run `ip`")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ip {}`: {}", arguments.join(" "), complaint.trim());
    Ok(())
}
