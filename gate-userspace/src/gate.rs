//! Everything that one process serves: its buckets, and who may come to which.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context as _, Result, bail};
use gate_core::protocol::postgres::credential::Credential;
use gate_core::protocol::postgres::startup::Startup;
use gate_core::protocol::postgres::users::Users;
use gate_core::route::{Hello, Protocol, Route, Router};
use secrecy::zeroize::Zeroizing;

use crate::backend::cancel::CancelKeys;
use crate::backend::dial::Dialer;
use crate::bucket::Bucket;
use crate::clock::Clock;
use crate::config::{self, Config, Password};
use crate::kernel::Kernel;
use crate::metrics::Metrics;

/// The state that all sessions share.
pub struct Gate {
    /// In the order of the configuration, which is the order of the routes.
    pub buckets: Vec<Arc<Bucket>>,
    /// What is measured on the path.
    pub metrics: Metrics,
    /// The clock of the process.
    pub clock: Clock,
    /// The kernel half.
    pub kernel: Arc<Kernel>,
    /// The keys by which clients cancel their queries.
    pub cancel_keys: CancelKeys,
    /// Who may come to each bucket; nobody has to prove anything where there are none.
    users: Vec<RwLock<Option<Arc<Users>>>>,
    router: Router,
    clients: AtomicUsize,
    max_clients: NonZeroUsize,
}

/// A client that was let in; it leaves when this is dropped.
#[derive(Debug)]
pub struct Entered<'g>(&'g AtomicUsize);

impl Gate {
    /// What a configuration asks for. Reads passwords and user files; connects to nobody yet.
    pub fn new(config: Config, max_clients: NonZeroUsize, clock: Clock, kernel: Kernel) -> Result<Self> {
        let kernel = Arc::new(kernel);
        let mut gate = Self {
            buckets: Vec::new(),
            metrics: Metrics::new()?,
            clock,
            kernel,
            cancel_keys: CancelKeys::default(),
            users: Vec::new(),
            router: Router::new(config.buckets.iter().map(route)),
            clients: AtomicUsize::new(0),
            max_clients,
        };
        for bucket in config.buckets {
            let name = bucket.name.clone();
            gate.users.push(RwLock::new(users(&bucket)?.map(Arc::new)));
            let dialer = dialer(&bucket, &gate.kernel).with_context(|| format!("bucket \"{name}\""))?;
            let metrics = gate.metrics.of_bucket(&name)?;
            gate.buckets.push(Bucket::new(bucket, dialer, metrics, clock, u64::from_ne_bytes(random()?)));
        }
        Ok(gate)
    }

    /// The bucket that serves a login, and who may come to it.
    pub fn route(&self, hello: &Startup) -> Option<(&Arc<Bucket>, Option<Arc<Users>>)> {
        let hello = Hello { protocol: Protocol::Postgres, database: &hello.database, user: &hello.user };
        let at = self.router.route(&hello)?;
        let users = self.users[at].read().unwrap_or_else(PoisonError::into_inner).clone();
        Some((&self.buckets[at], users))
    }

    /// Changes who may come to a bucket; tells whether anybody has to prove anything there.
    pub fn set_users(&self, at: usize, users: Option<Users>) -> bool {
        let proves = users.is_some();
        *self.users[at].write().unwrap_or_else(PoisonError::into_inner) = users.map(Arc::new);
        proves
    }

    /// Lets one more client in, or tells how many there may be.
    pub fn enter(&self) -> Result<Entered<'_>, usize> {
        let entered = Entered(&self.clients);
        if self.clients.fetch_add(1, Ordering::Relaxed) < self.max_clients.get() {
            Ok(entered)
        } else {
            Err(self.max_clients.get())
        }
    }

    /// How many clients are here now.
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// How many may be.
    pub fn max_clients(&self) -> usize {
        self.max_clients.get()
    }

    /// No new clients; who is served may finish.
    pub fn drain(&self) {
        self.buckets.iter().for_each(Bucket::drain);
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn route(bucket: &config::Bucket) -> Route {
    Route::new(bucket.protocol, &bucket.route.database, &bucket.route.user)
}

/// Who may come to a bucket, read anew.
pub(crate) fn users(bucket: &config::Bucket) -> Result<Option<Users>> {
    if let Some(list) = &bucket.clients.list {
        return Ok(Some(Users::parse(list.expose(), random()?)?));
    }
    let Some(file) = &bucket.clients.auth_file else { return Ok(None) };
    let users = Users::parse(&read_secret(file)?, random()?)
        .with_context(|| format!("bucket \"{}\": {}", bucket.name, file.display()))?;
    Ok(Some(users))
}

fn dialer(bucket: &config::Bucket, kernel: &Arc<Kernel>) -> Result<Dialer> {
    let user = match &bucket.backend.user {
        Some(user) => Some((user.as_str().into(), credential(bucket.backend.password.as_ref())?)),
        None => None,
    };
    let database = bucket.backend.database.as_deref().map(Into::into);
    Ok(Dialer::new(bucket.endpoints.clone(), user, database, Arc::clone(kernel)))
}

fn credential(password: Option<&Password>) -> Result<Credential> {
    Ok(match password {
        None => Credential::None,
        Some(Password::Written(secret)) => Credential::password(secret.expose().into()),
        Some(Password::Variable(name)) => match std::env::var(name) {
            Ok(password) => Credential::password(password.into()),
            Err(_) => bail!("backend.password_env names {name}, which is not set; set it, or name another variable"),
        },
        Some(Password::File(file)) => Credential::password(read_secret(file)?.trim_end_matches('\n').into()),
    })
}

fn read_secret(file: &Path) -> Result<Zeroizing<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Zeroizing::new(text))
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).context("no random numbers are to be had")?;
    Ok(bytes)
}
