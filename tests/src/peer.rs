//! A process that opens and closes TCP connections on demand, in the namespace and cgroup of a test.
//!
//! The process is this package's binary `tcp-peer`; its file describes the commands. It ends when its
//! standard input does, so it never outlives the test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use anyhow::{Context as _, Result, bail};

use crate::cgroup::Cgroup;
use crate::netns::Netns;
use crate::wait::DEADLINE;

/// A running `tcp-peer`, killed on drop.
#[derive(Debug)]
pub struct Peer {
    process: Child,
    commands: ChildStdin,
    replies: Receiver<String>,
}

impl Peer {
    /// Starts `program`, a path to `tcp-peer`, in a namespace and, if one is given, in a cgroup.
    pub fn start(program: &str, namespace: &Netns, cgroup: Option<&Cgroup>) -> Result<Self> {
        let mut process = namespace
            .command(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let commands = process.stdin.take().context("no standard input")?;
        let output = process.stdout.take().context("no standard output")?;

        let (sender, replies) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });

        let peer = Self { process, commands, replies };
        if let Some(cgroup) = cgroup {
            // It has no socket yet: it creates them on command.
            cgroup.add(peer.process.id())?;
        }
        Ok(peer)
    }

    /// Has it carry out a command, and returns when that is done.
    pub fn ask(&mut self, command: &str) -> Result<()> {
        writeln!(self.commands, "{command}").with_context(|| format!("{command}: it has ended"))?;
        let reply = self.replies.recv_timeout(DEADLINE);
        match reply.with_context(|| format!("{command}: no reply"))?.as_str() {
            "ok" => Ok(()),
            error => bail!("{command}: {error}"),
        }
    }

    /// Kills it, and with it its connections, as `kill -9` would.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("cannot end a tcp-peer: {error}");
        }
    }
}
