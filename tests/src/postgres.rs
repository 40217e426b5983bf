//! A private PostgreSQL on loopback.
//!
//! PostgreSQL refuses to run as root, so a test that is root has it run as the user `postgres` of the
//! system's package. Its data is a copy of a [`template`] and lives in a temporary folder.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::raw::{Client, Login};
use crate::{port, program, template, wait};

/// What every one of them is told: to be quick rather than safe, and to write down who comes.
const SETTINGS: [&str; 9] = [
    "fsync=off",
    "full_page_writes=off",
    "autovacuum=off",
    "shared_buffers=32MB",
    "max_wal_senders=0",
    "wal_level=minimal",
    "log_connections=on",
    "log_line_prefix=%m [%p] ",
    "timezone=UTC",
];

/// A running PostgreSQL, stopped and removed on drop.
#[derive(Debug)]
pub struct Postgres {
    process: Option<Child>,
    address: SocketAddr,
    settings: Vec<String>,
    directory: TempDir,
}

impl Postgres {
    /// Starts one that accepts 100 connections.
    pub fn start() -> Result<Self> {
        Self::with(&[])
    }

    /// Starts one with settings such as `max_connections=10`.
    pub fn with(settings: &[&str]) -> Result<Self> {
        let mut postgres = Self::stopped(settings)?;
        postgres.resume()?;
        Ok(postgres)
    }

    /// One that has its port but does not run yet.
    pub fn stopped(settings: &[&str]) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("gate-test-").tempdir()?;
        own(&directory)?;
        let data = directory.path().join("data");
        template::copy_to(&data)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port::free()?));
        let settings = SETTINGS.iter().chain(settings).map(|setting| (*setting).to_owned()).collect();
        Ok(Self { process: None, address, settings, directory })
    }

    /// Starts it again, on the same port, and returns when it answers.
    pub fn resume(&mut self) -> Result<()> {
        self.spawn()?;
        wait::until(|| {
            if let Some(status) = self.process.as_mut().map(Child::try_wait).transpose()?.flatten() {
                bail!("PostgreSQL has ended ({status}):\n{}", self.log()?);
            }
            Ok(self.superuser().is_ok())
        })
    }

    /// Starts it again without waiting for it.
    pub fn spawn(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log_file())?;
        let mut command = unprivileged("postgres")?;
        command.arg("-D").arg(self.directory.path().join("data"));
        command.arg("-c").arg(format!("port={}", self.address.port()));
        command.arg("-c").arg(format!("unix_socket_directories={}", self.directory.path().display()));
        command.args(["-c", "listen_addresses=127.0.0.1"]);
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        let process = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        self.process = Some(process.context("cannot start PostgreSQL")?);
        Ok(())
    }

    /// Stops it in the orderly way: sessions are told, then cut ("fast shutdown").
    pub fn stop(&mut self) -> Result<()> {
        self.end(libc::SIGINT)
    }

    /// Stops it as a crash would: sessions are cut ("immediate shutdown"), and it has to recover.
    pub fn crash(&mut self) -> Result<()> {
        self.end(libc::SIGQUIT)
    }

    fn end(&mut self, signal: i32) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            program::signal(process.id(), signal)?;
            if let Err(error) = program::wait_for_exit(&mut process) {
                process.kill()?;
                process.wait()?;
                return Err(error.context("PostgreSQL had to be killed"));
            }
        }
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A connection past the gate, to look at what the gate does and to prepare tables.
    pub fn superuser(&self) -> Result<Client> {
        Client::login(self.address, &Login { user: "postgres", ..Login::default() })
    }

    /// All that it has written down so far.
    pub fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(self.log_file())?)
    }

    fn log_file(&self) -> std::path::PathBuf {
        self.directory.path().join("server.log")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Err(error) = self.crash() {
            eprintln!("cannot stop PostgreSQL: {error:#}");
        }
        program::show_log("PostgreSQL", &self.log().unwrap_or_default());
    }
}

/// How many connections the server counts, without those of [`Postgres::superuser`].
pub const CONNECTIONS: &str = "SELECT count(*) FROM pg_stat_activity \
    WHERE backend_type = 'client backend' AND usename IS DISTINCT FROM 'postgres'";

/// A command that runs one of PostgreSQL's programs as a user that may run it.
pub(crate) fn unprivileged(name: &str) -> Result<Command> {
    let mut command = Command::new(program::of_postgresql(name)?);
    if let Some((user, group)) = owner()? {
        command.uid(user).gid(group);
    }
    // The current folder may be closed to that user.
    command.current_dir("/").env("LC_ALL", "C");
    Ok(command)
}

/// Gives a folder to the user that runs PostgreSQL.
pub(crate) fn own(directory: &TempDir) -> Result<()> {
    if let Some((user, group)) = owner()? {
        chown(directory.path(), Some(user), Some(group))?;
    }
    Ok(())
}

/// User and group to run as, where the test itself is root.
fn owner() -> Result<Option<(u32, u32)>> {
    let id = |arguments: &[&str]| -> Result<u32> {
        let id = program::run(Command::new("id").args(arguments))?;
        Ok(id.trim().parse()?)
    };
    if id(&["-u"])? != 0 {
        return Ok(None);
    }
    let missing = "there is no user postgres; install PostgreSQL: `cargo xtask setup`";
    Ok(Some((id(&["-u", "postgres"]).context(missing)?, id(&["-g", "postgres"]).context(missing)?)))
}
