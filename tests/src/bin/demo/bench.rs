//! One run of pgbench, watched from the server's side and the gate's.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use gate_tests::gate::Gate;
use gate_tests::postgres::{CONNECTIONS, Postgres};
use gate_tests::program;
use gate_tests::raw::Client;
use gate_tests::template::DATABASE;
use tempfile::NamedTempFile;

use crate::{BUCKET, USER, interrupt};

/// How long each run takes.
const SECONDS: u32 = 5;

/// A query that gives the server some work, and little.
const QUERY: &str = "SELECT sum(n) FROM generate_series(1, 1000) AS n;\n";

/// What to run.
pub(crate) struct Bench {
    pub(crate) title: &'static str,
    pub(crate) clients: u32,
    /// Whether each query comes over a connection of its own.
    pub(crate) reconnect: bool,
}

/// What came of it.
pub(crate) struct Outcome {
    pub(crate) title: String,
    pub(crate) clients: u32,
    pub(crate) queries: u64,
    pub(crate) latency: String,
    /// The most connections that the server counted.
    pub(crate) most: u64,
    /// How many the server accepted.
    pub(crate) opened: usize,
}

impl Bench {
    /// Through the gate, or without one.
    pub(crate) fn run(&self, postgres: &Postgres, gate: Option<&Gate>) -> Result<Outcome> {
        interrupt::check()?;
        let (way, target) = match gate {
            Some(gate) => ("gate", gate.address()),
            None => ("direct", postgres.address()),
        };
        let title = format!("{}, {way}", self.title);
        println!("\n{title} ({} clients, {SECONDS} s)", self.clients);
        let script = script()?;
        let before = accepted(postgres)?;
        let mut watch = Watch { observer: postgres.superuser()?, gate, most: 0, served: gate.map_or(Ok(0), served)? };
        let mut pgbench = Ended(self.command(&script, target)?.spawn().context("cannot run pgbench")?);
        let most = watch.until_end_of(&mut pgbench.0)?;
        interrupt::check()?;
        let (printed, complaint) = pgbench.output()?;
        if let Some(complaint) = complaint {
            bail!("pgbench failed: {complaint}");
        }
        Ok(Outcome {
            title,
            clients: self.clients,
            queries: after(&printed, "transactions actually processed:")?.parse()?,
            latency: after(&printed, "latency average =")?.to_owned(),
            most,
            opened: accepted(postgres)? - before,
        })
    }

    fn command(&self, script: &NamedTempFile, target: SocketAddr) -> Result<Command> {
        let mut command = Command::new(program::of_postgresql("pgbench")?);
        // A thread for each client: one that had several would wait for a connection for one of them, and the others,
        // who hold connections, would wait for it.
        let clients = ["--client", "--jobs"].map(|option| format!("{option}={}", self.clients));
        command.args(["--no-vacuum", &format!("--time={SECONDS}")]).args(clients);
        command.args(self.reconnect.then_some("--connect"));
        command.arg("--file").arg(script.path());
        command.arg(format!("postgres://{USER}@{target}/{DATABASE}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }
}

/// Looks at the server many times a second, and tells how things are once a second.
struct Watch<'g> {
    observer: Client,
    gate: Option<&'g Gate>,
    most: u64,
    served: u64,
}

impl Watch<'_> {
    /// Returns the most connections that the server counted.
    fn until_end_of(&mut self, process: &mut Child) -> Result<u64> {
        let (start, mut second) = (Instant::now(), 1);
        while process.try_wait()?.is_none() && !interrupt::is_interrupted() {
            let open = self.observer.value(CONNECTIONS)?.parse()?;
            self.most = self.most.max(open);
            if start.elapsed() >= Duration::from_secs(second) {
                self.tell(second, open)?;
                second += 1;
            }
            thread::sleep(interrupt::LOOK);
        }
        Ok(self.most)
    }

    fn tell(&mut self, second: u64, open: u64) -> Result<()> {
        print!("{second:>3} s: {open:>3} connections at the server");
        if let Some(gate) = self.gate {
            let now = served(gate)?;
            let by_gate = now - std::mem::replace(&mut self.served, now);
            let [used, waiting] = [gate.number(BUCKET, "in_use")?, gate.number(BUCKET, "waiting")?];
            print!(", {used:>2} of them in use; {by_gate:>5} clients served this second, {waiting:>2} waiting");
        }
        println!();
        Ok(())
    }
}

/// A process that is ended on the way out, however that is.
struct Ended(Child);

impl Ended {
    /// What it printed, and its complaint if it failed.
    fn output(mut self) -> Result<(String, Option<String>)> {
        let (mut printed, mut complaint) = (String::new(), String::new());
        self.0.stdout.take().context("no output")?.read_to_string(&mut printed)?;
        self.0.stderr.take().context("no output")?.read_to_string(&mut complaint)?;
        let has_failed = !self.0.wait()?.success();
        Ok((printed, has_failed.then_some(complaint)))
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            eprintln!("cannot end pgbench: {error}");
        }
    }
}

fn script() -> Result<NamedTempFile> {
    let mut script = NamedTempFile::new()?;
    script.write_all(QUERY.as_bytes())?;
    Ok(script)
}

/// How many logins of the clients' user the server has written down.
fn accepted(postgres: &Postgres) -> Result<usize> {
    Ok(postgres.log()?.matches(&format!("connection authorized: user={USER} ")).count())
}

fn served(gate: &Gate) -> Result<u64> {
    gate.number(BUCKET, "checkouts")
}

/// The rest of the line that has this text.
fn after<'t>(printed: &'t str, text: &str) -> Result<&'t str> {
    let line = printed.lines().find_map(|line| Some(line.split_once(text)?.1.trim()));
    line.with_context(|| format!("no \"{text}\" in what pgbench printed:\n{printed}"))
}
