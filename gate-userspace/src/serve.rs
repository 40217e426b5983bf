//! `gate serve`: from a configuration to a running gate, and to its end.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use gate_core::route::Protocol;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use crate::clock::Clock;
use crate::config::{Auth, Bucket, Config, Mode};
use crate::descriptors;
use crate::gate::Gate;
use crate::http;
use crate::kernel::Kernel;
use crate::readiness::{Readiness, Stage};
use crate::reload::{self, Reloaded};
use crate::server::{self, Listeners};

/// How long start-up waits for warm connections before the gate calls itself ready all the same.
const WARM_UP: Duration = Duration::from_secs(30);

/// How long sessions may go on after the gate was told to stop.
const DRAIN: Duration = Duration::from_secs(30);

/// How often the two are looked at. Neither happens often, and nobody waits for either by the millisecond.
const LOOK: Duration = Duration::from_millis(20);

/// Serves until the process is told to stop. `read_again` gives the configuration as it is now; it is asked on SIGHUP.
pub fn run(config: Config, read_again: impl Fn() -> Result<Config>) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(config, read_again))
}

/// A configuration may ask for more than this gate can do; it then says so instead of doing something else.
fn refuse_what_cannot_be_served(config: &Config) -> Result<()> {
    for bucket in &config.buckets {
        let what = match bucket {
            Bucket { protocol: Protocol::Tds, .. } => "protocol = \"tds\"",
            Bucket { mode: Mode::Transaction, .. } => "mode = \"transaction\"",
            Bucket { mode: Mode::Passthrough, .. } => "mode = \"passthrough\"",
            Bucket { auth: Auth::Learn, .. } => "auth = \"learn\"",
            _ => continue,
        };
        bail!("bucket \"{}\": {what} is not served yet; remove the bucket, or serve it in session mode", bucket.name);
    }
    Ok(())
}

async fn serve(config: Config, read_again: impl Fn() -> Result<Config>) -> Result<()> {
    refuse_what_cannot_be_served(&config)?;
    let mut signals = Signals::new()?;
    let workers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let addresses: Vec<_> = config.listen.postgres.iter().map(|address| (Protocol::Postgres, *address)).collect();
    let listeners = Listeners::bind(&addresses, workers)?;
    let admin = http::bind(config.listen.admin).await?;
    let max_clients = descriptors::for_clients(config.buckets.iter().map(|bucket| bucket.max_connections).sum())?;
    let gate = Arc::new(Gate::new(config, max_clients, Clock::start(), Kernel::start())?);
    for bucket in &gate.buckets {
        tokio::spawn(Arc::clone(bucket).keep_time());
    }
    let readiness = Arc::new(Readiness::default());
    tokio::spawn(http::run(admin, Arc::clone(&gate), Arc::clone(&readiness)));
    server::start_workers(&gate, listeners)?;

    let reload = || match read_again().and_then(|config| reload::apply(&gate, &config)) {
        Ok(Reloaded { applied, left }) => {
            info!("reloaded; in force: [{}]; after a restart: [{}]", applied.join(", "), left.join(", "));
        }
        Err(error) => warn!("not reloaded, everything stays as it is: {error:#}"),
    };
    tokio::select! {
        () = async { warm_up(&gate).await; readiness.reach(Stage::Ready); std::future::pending().await } => {}
        () = signals.until_told_to_stop(reload) => {}
    }
    readiness.reach(Stage::Draining);
    drain(&gate).await;
    Ok(())
}

/// Waits until every bucket has the connections it needs to begin.
async fn warm_up(gate: &Gate) {
    let start = Instant::now();
    let warm = async {
        while !gate.buckets.iter().all(|bucket| bucket.is_warm()) {
            sleep(LOOK).await;
        }
    };
    match timeout(WARM_UP, warm).await {
        Ok(()) => info!("ready after {:.1?}", start.elapsed()),
        Err(_) => {
            let cold: Vec<_> = gate.buckets.iter().filter(|bucket| !bucket.is_warm()).map(|b| b.name()).collect();
            warn!("ready, but not warm after {WARM_UP:?}: {}", cold.join(", "));
        }
    }
}

/// Lets sessions finish, refuses newcomers, and ends what takes too long.
async fn drain(gate: &Gate) {
    info!("draining: {} clients may finish within {DRAIN:?}, newcomers are refused", gate.clients());
    gate.drain();
    let done = async {
        while gate.clients() > 0 || gate.buckets.iter().any(|bucket| bucket.counts().0.taken > 0) {
            sleep(LOOK).await;
        }
    };
    match timeout(DRAIN, done).await {
        Ok(()) => info!("drained"),
        Err(_) => warn!("{} clients did not finish in time", gate.clients()),
    }
}

/// What an operator tells the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    async fn until_told_to_stop(&mut self, reload: impl Fn()) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => reload(),
            }
        }
    }
}
