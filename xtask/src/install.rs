//! Installing, where that is allowed; elsewhere, saying which commands would.
//!
//! Programs come from the system's packages, as root or by a `sudo` that asks for no password. Where
//! neither is possible, the first package that is missing and all that comes after it, since it may need
//! that package, are collected and shown at the end, as commands to copy.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::command;

/// Runs what changes the machine, or collects it.
#[derive(Debug)]
pub(crate) struct Installer {
    privilege: Result<Privilege, &'static str>,
    package_lists_are_new: bool,
    to_be_done: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Privilege {
    Root,
    Sudo,
}

impl Installer {
    pub(crate) fn new() -> Self {
        Self { privilege: privilege(), package_lists_are_new: false, to_be_done: Vec::new() }
    }

    /// Whether commands are only collected by now.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.to_be_done.is_empty()
    }

    /// Installs packages of the system.
    pub(crate) fn packages(&mut self, names: &[&str]) -> Result<()> {
        self.update_package_lists()?;
        // Nothing may be removed: Debian's compiler excludes some other packages of Rust tools.
        let install = ["apt-get", "install", "--quiet=2", "--yes", "--no-install-recommends", "--no-remove"];
        self.privileged(&[&install[..], names].concat())
    }

    /// Stops a service that came with a package and keeps it from starting: tests start servers of
    /// their own. Where systemd is not running, as in a container, packages start none.
    pub(crate) fn disable(&mut self, name: &str) -> Result<()> {
        match Path::new("/run/systemd/system").is_dir() {
            true => self.privileged(&["systemctl", "disable", "--now", name]),
            false => Ok(()),
        }
    }

    /// Runs a command that needs no privileges.
    pub(crate) fn run(&mut self, command: &mut Command) -> Result<()> {
        if self.is_blocked() {
            self.to_be_done.push(command::line(command));
            return Ok(());
        }
        command::run(command)
    }

    /// Adds a line that the collected commands after it need.
    pub(crate) fn collect(&mut self, line: &str) {
        self.to_be_done.push(line.to_owned());
    }

    /// Fails with the commands that could not be run, if there are any.
    pub(crate) fn finish(self) -> Result<()> {
        let Err(reason) = self.privilege else { return Ok(()) };
        if self.to_be_done.is_empty() {
            return Ok(());
        }
        let commands = self.to_be_done.join("\n    ");
        bail!("{reason}. Run these commands, then `cargo xtask setup` again:\n\n    {commands}\n")
    }

    fn update_package_lists(&mut self) -> Result<()> {
        if !self.package_lists_are_new {
            self.package_lists_are_new = true;
            self.privileged(&["apt-get", "update", "--quiet=2"])?;
        }
        Ok(())
    }

    fn privileged(&mut self, words: &[&str]) -> Result<()> {
        let prefix = match self.privilege {
            Ok(Privilege::Root) => &["env"][..],
            Ok(Privilege::Sudo) | Err(_) => &["sudo", "env"],
        };
        let mut command = Command::new(prefix[0]);
        command.args(&prefix[1..]).arg("DEBIAN_FRONTEND=noninteractive").args(words);
        if self.privilege.is_err() {
            self.to_be_done.push(command::line(&command));
            return Ok(());
        }
        command::run(&mut command)
    }
}

/// How packages can be installed here, or why not.
fn privilege() -> Result<Privilege, &'static str> {
    if command::on_path("apt-get").is_none() {
        return Err("Packages can be installed only with apt-get, which is not here; \
             the names are Debian's");
    }
    if command::output(Command::new("id").arg("-u")).is_some_and(|id| id == "0") {
        return Ok(Privilege::Root);
    }
    match command::output(Command::new("sudo").args(["--non-interactive", "true"])) {
        Some(_) => Ok(Privilege::Sudo),
        None => Err("Packages are missing, and may not be installed here: \
             this is neither root nor a user whose sudo asks for no password"),
    }
}
