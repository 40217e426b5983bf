//! Where the programs are that tests run, and how they end.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::wait;

/// The folder into which cargo builds: that of this program, or the one above if this is a test.
pub fn build_directory() -> Result<PathBuf> {
    let program = env::current_exe()?;
    let directory = program.ancestors().nth(if is_test() { 2 } else { 1 });
    Ok(directory.with_context(|| format!("{} is not where cargo builds", program.display()))?.to_owned())
}

/// Whether this is a test rather than the demo, which uses the same fixtures: cargo builds tests among dependencies.
fn is_test() -> bool {
    let folder = env::current_exe().ok().and_then(|program| program.parent().map(Path::to_owned));
    folder.is_some_and(|folder| folder.ends_with("deps"))
}

/// Shows what a server wrote down, where the test has failed: the test runner keeps it to itself if not.
pub fn show_log(whose: &str, log: &str) {
    if is_test() {
        eprintln!("--- the log of {whose}:\n{log}");
    }
}

/// The daemon, built beside this test. `cargo test` builds it anew along with all packages, but not for this one alone.
pub fn gate() -> Result<PathBuf> {
    let program = build_directory()?.join("gate");
    ensure!(program.is_file(), "{} is not there; build it: `cargo build`", program.display());
    Ok(program)
}

/// A program of PostgreSQL's, which Debian keeps apart by version; the newest one is taken.
pub fn of_postgresql(name: &str) -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<_> = versions.map(|version| version.path()).collect();
    debian.sort_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let debian = debian.into_iter().rev().map(|version| version.join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let found = debian.chain(env::split_paths(&path)).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.with_context(|| format!("PostgreSQL's {name} is not here; install it: `cargo xtask setup`"))
}

/// The Python that has the Postgres drivers.
pub fn python() -> Result<PathBuf> {
    client("python/bin/python")
}

/// Node's folder of modules that has the Postgres drivers.
pub fn node_modules() -> Result<PathBuf> {
    client("node/node_modules")
}

/// A script in `tests/clients`.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name)
}

fn client(path: &str) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/clients").join(path);
    ensure!(path.exists(), "{} is not there; install it: `cargo xtask setup`", path.display());
    Ok(path)
}

/// Runs a program to its end, which must come within [`wait::DEADLINE`] several times over, and returns
/// what it printed. It fails if the program does.
pub fn run(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{printed}\n{complaint}", output.status);
    Ok(printed)
}

/// The same for a program that may fail.
pub fn output(command: &mut Command) -> Result<Output> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.with_context(|| format!("cannot run {command:?}"))?;
    let id = child.id();
    // Its output is read while it runs: a full pipe would stop it.
    let reader = thread::spawn(move || child.wait_with_output());
    let deadline = Instant::now() + 4 * wait::DEADLINE;
    while !reader.is_finished() {
        if Instant::now() > deadline {
            signal(id, libc::SIGKILL)?;
            bail!("{command:?} did not end within {:?}", 4 * wait::DEADLINE);
        }
        thread::sleep(Duration::from_millis(1));
    }
    match reader.join() {
        Ok(output) => Ok(output?),
        Err(_) => bail!("the output of {command:?} could not be read"),
    }
}

/// Lets this process have so many descriptors at least.
pub fn allow_descriptors(count: u32) -> Result<()> {
    let process = format!("--pid={}", process::id());
    run(Command::new("prlimit").arg(process).arg(format!("--nofile={count}:"))).map(drop)
}

/// Sends a signal to a process that has not been waited for.
pub fn signal(process: u32, signal: i32) -> Result<()> {
    let process = libc::pid_t::try_from(process)?;
    // SAFETY: kill takes no pointer.
    let result = unsafe { libc::kill(process, signal) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error().into()) }
}

/// Waits for the end of a process.
pub fn wait_for_exit(process: &mut Child) -> Result<ExitStatus> {
    let mut status = None;
    wait::until(|| {
        status = process.try_wait()?;
        Ok(status.is_some())
    })?;
    status.context("no exit status")
}
