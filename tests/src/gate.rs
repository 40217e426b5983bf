//! The daemon under test: the real binary with a configuration of the test's own.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::cgroup::Cgroup;
use crate::{http, program, wait};

/// A running gate, killed on drop.
#[derive(Debug)]
pub struct Gate {
    process: Child,
    log: Log,
    address: SocketAddr,
    admin: SocketAddr,
    directory: TempDir,
}

impl Gate {
    /// Starts one with a configuration and the files that it names, and returns when it is ready.
    pub fn start(config: &str, files: &[(&str, &str)]) -> Result<Self> {
        let gate = Self::spawn(config, files)?;
        wait::until(|| Ok(gate.get("/readyz")?.0 == 200))
            .with_context(|| format!("the gate does not get ready:\n{}", gate.log()))?;
        Ok(gate)
    }

    /// Starts one and returns when it listens.
    pub fn spawn(config: &str, files: &[(&str, &str)]) -> Result<Self> {
        Self::spawn_by(Command::new(program::gate()?), config, files)
    }

    /// The same for one that may have no more than so many descriptors.
    pub fn with_descriptors(limit: u32, config: &str, files: &[(&str, &str)]) -> Result<Self> {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={limit}:{limit}")).arg(program::gate()?);
        Self::spawn_by(command, config, files)
    }

    /// The same for one that has a cgroup of its own, as a service has.
    pub fn in_cgroup(cgroup: &Cgroup, config: &str, files: &[(&str, &str)]) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo $$ > "$0"/cgroup.procs && exec "$@""#]).arg(cgroup.path()).arg(program::gate()?);
        Self::spawn_by(command, config, files)
    }

    fn spawn_by(mut command: Command, config: &str, files: &[(&str, &str)]) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("gate-test-").tempdir()?;
        let config_file = directory.path().join("gate.toml");
        fs::write(&config_file, config)?;
        for (name, content) in files {
            fs::write(directory.path().join(name), content)?;
        }
        command.arg("serve").arg("--config").arg(config_file);
        Self::run(command, directory)
    }

    /// Starts one without a configuration file.
    pub fn without_file(arguments: &[&str]) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("gate-test-").tempdir()?;
        let mut command = Command::new(program::gate()?);
        command.arg("serve").args(arguments).env("GATE_LISTEN__ADMIN", "127.0.0.1:0");
        Self::run(command, directory)
    }

    fn run(mut command: Command, directory: TempDir) -> Result<Self> {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let log = Log::of(process.stderr.take().context("no standard error")?);
        let nowhere = SocketAddr::from(([0; 4], 0));
        let mut gate = Self { process, log, address: nowhere, admin: nowhere, directory };
        gate.address = gate.wait_for_listener("postgres")?;
        gate.admin = gate.wait_for_listener("admin")?;
        Ok(gate)
    }

    /// The address that it says to listen on.
    fn wait_for_listener(&mut self, name: &str) -> Result<SocketAddr> {
        let mut address = None;
        wait::until(|| {
            ensure!(self.process.try_wait()?.is_none(), "the gate has ended:\n{}", self.log());
            let log = self.log();
            // A line without its end may lack digits.
            let complete = log.lines().zip(log.matches('\n')).map(|(line, _)| line);
            let mut after = complete.filter_map(|line| Some(line.split_once(&format!("listening {name} "))?.1));
            address = after.find_map(|rest| rest.split_whitespace().next()?.parse().ok());
            Ok(address.is_some())
        })
        .with_context(|| format!("the gate does not listen for {name}:\n{}", self.log()))?;
        address.context("no address")
    }

    /// Where its clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The id of its process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Where it tells how it is.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// All that it has logged so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Waits until its log contains a text.
    pub fn wait_for_log(&self, text: &str) -> Result<()> {
        wait::until(|| Ok(self.log().contains(text))).with_context(|| format!("no {text:?} in:\n{}", self.log()))
    }

    /// Asks its admin endpoint: the HTTP status and the body.
    pub fn get(&self, path: &str) -> Result<(u16, String)> {
        http::get(self.admin, path)
    }

    /// What `/status.json` says of a bucket.
    pub fn bucket(&self, name: &str) -> Result<Value> {
        let (code, body) = self.get("/status.json")?;
        ensure!(code == 200, "status.json: {code} {body}");
        let status: Value = serde_json::from_str(&body)?;
        let buckets = status["buckets"].as_array().context("no buckets in status.json")?;
        let bucket = buckets.iter().find(|bucket| bucket["name"] == name);
        Ok(bucket.with_context(|| format!("no bucket {name} in {body}"))?.clone())
    }

    /// One number of a bucket's status.
    pub fn number(&self, bucket: &str, name: &str) -> Result<u64> {
        let bucket = self.bucket(bucket)?;
        bucket[name].as_u64().with_context(|| format!("no number {name} in {bucket}"))
    }

    /// Waits until a number of a bucket's status has a value.
    pub fn wait_for_number(&self, bucket: &str, name: &str, value: u64) -> Result<()> {
        wait::until(|| Ok(self.number(bucket, name)? == value))
            .with_context(|| format!("{name} is not {value} in {:?}", self.bucket(bucket)))
    }

    /// Replaces its configuration and tells it to read it.
    pub fn reload(&self, config: &str) -> Result<()> {
        fs::write(self.directory.path().join("gate.toml"), config)?;
        program::signal(self.process.id(), libc::SIGHUP)
    }

    /// Tells it to finish.
    pub fn drain(&self) -> Result<()> {
        program::signal(self.process.id(), libc::SIGTERM)
    }

    /// Waits for its end.
    pub fn wait_for_exit(&mut self) -> Result<ExitStatus> {
        program::wait_for_exit(&mut self.process).with_context(|| format!("the gate does not end:\n{}", self.log()))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Err(error) = self.process.kill().and_then(|()| self.process.wait()) {
            eprintln!("cannot end the gate: {error}");
        }
        program::show_log("the gate", &self.log());
    }
}

/// What a process writes to standard error, collected as it comes.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<String>>);

impl Log {
    fn of(stderr: ChildStderr) -> Self {
        let log = Self::default();
        let text = Arc::clone(&log.0);
        thread::spawn(move || {
            let mut stderr = BufReader::new(stderr);
            let mut line = Vec::new();
            while stderr.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                text.lock().unwrap_or_else(PoisonError::into_inner).push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        log
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
