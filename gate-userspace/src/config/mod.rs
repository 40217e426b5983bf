//! What an operator sets: one [`Config`], complete and checked.
//!
//! ```text
//!  gate.toml ─┐                                                                      ┌─▶ Config, notes
//!             ├─▶ source ──────▶ read ──────────────────────▶ validate ──────────────┤
//!  GATE_… ────┘   one document,  each key once, or its       what each value means,  └─▶ problems
//!                 each value     default; unknown keys       alone and together
//!                 with its place
//! ```
//!
//! The file is read key by key (`read`) rather than by one derived `Deserialize`, for three reasons: an operator
//! hears of every mistake at once and not only of the first, a default may follow another setting, and each value
//! keeps the place where it was written for the messages of `validate`. Single values still come through serde.

pub mod defaults;
mod environment;
mod problem;
mod read;
mod report;
mod secret;
mod section;
mod setting;
mod show;
mod source;
mod validate;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gate_core::route::Protocol;
use serde::{Deserialize, Serialize};

pub use self::problem::{Place, Problem, Problems};
use self::report::Report;
pub use self::secret::Secret;
pub use self::setting::Endpoint;
use self::source::Source;

/// Everything an operator sets, with every default filled in.
#[derive(Debug, Serialize)]
pub struct Config {
    /// Where the gate listens.
    pub listen: Listen,
    /// Who is served by which database, and within which limits. The first bucket that matches a login takes it.
    #[serde(rename = "bucket")]
    pub buckets: Vec<Bucket>,
}

/// Where the gate listens.
#[derive(Debug, Serialize)]
pub struct Listen {
    /// Addresses for Postgres clients.
    pub postgres: Vec<SocketAddr>,
    /// Addresses for SQL Server clients.
    pub tds: Vec<SocketAddr>,
    /// The address for metrics, health and status.
    pub admin: SocketAddr,
}

/// A group of clients, the database that serves them, and its limits.
#[derive(Debug, Serialize)]
pub struct Bucket {
    /// What logs, metrics and messages call it.
    pub name: String,
    /// What its clients and its database speak.
    #[serde(serialize_with = "setting::ProtocolName::serialize")]
    pub protocol: Protocol,
    /// Where its database listens.
    pub endpoints: Vec<Endpoint>,
    /// When a client gives its connection back.
    pub mode: Mode,
    /// Who logs in to the database.
    pub auth: Auth,
    /// How many connections to the database may be open, over all nodes.
    pub max_connections: u32,
    /// The part of them that may be in use at once.
    pub dispatch_limit: f64,
    /// Whose logins it serves.
    pub route: Route,
    /// Whom waiting clients are told apart by; left out, they wait in one line.
    pub tenants: Option<Tenants>,
    /// How clients prove who they are.
    pub clients: Clients,
    /// How the gate logs in.
    pub backend: Backend,
    /// The connections that are kept ready.
    pub reservoir: Reservoir,
    /// How fast connections are opened.
    pub rate: Rate,
    /// Where clients wait.
    pub queue: Queue,
}

/// The names that a login must bear; `*` stands for any run of characters, `?` for one.
#[derive(Debug, Serialize)]
pub struct Route {
    /// Patterns for the name of the database.
    pub database: Vec<String>,
    /// Patterns for the name of the user.
    pub user: Vec<String>,
}

/// When a client gives its connection back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// When it disconnects.
    Session,
    /// After each transaction.
    Transaction,
    /// Never: bytes go through untouched, and the connection is closed with the client.
    Passthrough,
}

/// Who logs in to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// The gate does, after it verified the client.
    Gate,
    /// The first client of its kind does; the gate recognises the same login when it comes again.
    Learn,
    /// Each client does, through the gate.
    Passthrough,
}

/// How clients are told apart, so that none takes all.
#[derive(Debug, Serialize)]
pub struct Tenants {
    /// What makes a tenant.
    pub key: TenantKey,
    /// How many connections one tenant may use at once.
    pub max_connections: Option<u32>,
}

/// What makes a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TenantKey {
    /// The user that it logs in as.
    User,
    /// The database that it asks for.
    Database,
}

/// How clients prove who they are, if the gate is to know.
#[derive(Debug, Serialize)]
pub struct Clients {
    /// A file of users and their passwords or verifiers, in PgBouncer's format.
    pub auth_file: Option<PathBuf>,
    /// How they show their password; left out, by the safest way that what the file has of it allows.
    pub method: Option<Method>,
    /// Whether everybody is who they say they are.
    pub trust: bool,
    /// The same as a file's text, from a command line that has no file.
    #[serde(skip)]
    pub list: Option<Secret>,
}

/// How a client shows its password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// It proves that it knows it, and shows it to nobody.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// It sends it hashed.
    Md5,
    /// It sends it as it is.
    Plain,
}

/// How the gate logs in to the database.
#[derive(Debug, Serialize)]
pub struct Backend {
    /// The user; left out, the client's.
    pub user: Option<String>,
    /// Where the user's password is.
    #[serde(flatten)]
    pub password: Option<Password>,
    /// The database; left out, the client's.
    pub database: Option<String>,
}

/// Where a password is.
#[derive(Debug, Serialize)]
pub enum Password {
    /// In the configuration.
    #[serde(rename = "password")]
    Written(Secret),
    /// In a variable of the environment.
    #[serde(rename = "password_env")]
    Variable(String),
    /// In a file of its own.
    #[serde(rename = "password_file")]
    File(PathBuf),
}

/// The connections that are kept ready.
#[derive(Debug, Serialize)]
pub struct Reservoir {
    /// How many are kept ready while the bucket is in use.
    pub target_ready: u32,
    /// How many are kept ready while it is not.
    pub min_ready: u32,
    /// How many must be ready for the gate to call itself ready.
    pub low_watermark: u32,
    /// How long after its last client a bucket counts as unused.
    #[serde(serialize_with = "setting::serialize_duration")]
    pub cool_after: Duration,
    /// How long a connection lives, on average.
    #[serde(serialize_with = "setting::serialize_duration")]
    pub base_lifetime: Duration,
    /// How far lifetimes spread, half of it each way.
    #[serde(serialize_with = "setting::serialize_duration")]
    pub lifetime_jitter: Duration,
    /// How long before its end a connection is no longer handed out.
    #[serde(serialize_with = "setting::serialize_duration")]
    pub guard_window: Duration,
    /// How long a client waits for a connection before the rules of the queue apply.
    #[serde(serialize_with = "setting::serialize_duration")]
    pub empty_wait: Duration,
    /// How long opening a connection may take, login and all.
    #[serde(serialize_with = "setting::serialize_duration")]
    pub connect_timeout: Duration,
}

/// How fast connections are opened, over all nodes.
#[derive(Debug, Serialize)]
pub struct Rate {
    /// How many each second.
    pub per_second: NonZeroU32,
    /// How many at once after a pause.
    pub burst: NonZeroU32,
}

/// Where clients wait.
#[derive(Debug, Serialize)]
pub struct Queue {
    /// How many may wait.
    pub depth: u32,
    /// How long they may wait.
    #[serde(serialize_with = "setting::serialize_duration")]
    pub timeout: Duration,
    /// The pressure from which newcomers are refused instead of queued; at 1 only a full queue refuses.
    pub shed_at: f64,
}

/// Names and values of variables.
pub type Environment = BTreeMap<String, String>;

/// A configuration that holds no contradiction.
#[derive(Debug)]
pub struct Loaded {
    /// What to use.
    pub config: Config,
    /// What is not wrong but deserves a look.
    pub notes: Vec<Problem>,
    /// Which settings came from which variable, by the setting's key.
    overrides: BTreeMap<report::Key, String>,
}

/// Reads a configuration file and the variables that override it, and checks the whole.
///
/// Paths in the file are relative to the file's folder. The environment comes as an argument, so that a test needs
/// none of its own.
pub fn load(file: &Path, environment: impl IntoIterator<Item = (String, String)>) -> Result<Loaded, Problems> {
    let environment = environment.into_iter().collect();
    let source = Source::open(file, &environment)?;
    load_from(&source, &environment)
}

/// The same for a text that is no file; messages call it `name`.
pub fn load_text(name: &str, text: String, environment: Environment) -> Result<Loaded, Problems> {
    load_from(&Source::new(Path::new(name), text.into(), &environment), &environment)
}

fn load_from(source: &Source, environment: &Environment) -> Result<Loaded, Problems> {
    let mut report = Report::new(source);
    let document = source.document(&mut report);
    let config = read::config(document, &mut report);
    // A setting that could not be read has no meaning to check.
    if !report.has_problems() {
        validate::validate(&config, environment, &mut report);
    }
    let overrides = report.overrides();
    let notes = report.finish()?;
    Ok(Loaded { config, notes, overrides })
}

#[cfg(test)]
mod tests;
