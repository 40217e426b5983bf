//! Opens a connection: finds the endpoint, connects, logs in.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gate_core::bucket::Failure;
use gate_core::protocol::postgres::credential::Credential;
use gate_core::protocol::postgres::frame::Frame;
use gate_core::protocol::postgres::login::{self, Event, Login, LoginError, Session};
use gate_core::protocol::postgres::scram::Keys;
use gate_core::protocol::postgres::server_error::Fault;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout_at};

use super::health::{Attempt, Health, Trouble};
use super::{Backend, Identity};
use crate::config::Endpoint;
use crate::kernel::Kernel;
use crate::socket;

/// How the gate reaches one bucket's database, and as whom.
#[derive(Debug)]
pub struct Dialer {
    endpoints: Vec<(Endpoint, Health)>,
    /// The one user for all clients; left out, each client's own.
    user: Option<(Arc<str>, Credential)>,
    /// The one database for all clients; left out, each client's own.
    database: Option<Arc<str>>,
    /// Where to begin, so that connections spread over the endpoints.
    turn: AtomicUsize,
    kernel: Arc<Kernel>,
}

/// Why a connection could not be opened. The text names no secret.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// A name has no address.
    #[error("cannot resolve {endpoint}: {error}")]
    Resolve {
        /// Whose name.
        endpoint: Endpoint,
        /// What the resolver says.
        error: io::Error,
    },
    /// Nobody answers.
    #[error("cannot connect to {endpoint}: {error}")]
    Connect {
        /// Where.
        endpoint: Endpoint,
        /// What the kernel says.
        error: io::Error,
    },
    /// The server hung up, or the connection broke.
    #[error("{address} hung up during the login: {error}")]
    Broken {
        /// Which server.
        address: SocketAddr,
        /// What the kernel says.
        error: io::Error,
    },
    /// The server said no, or said something else.
    #[error("{address}: {error}")]
    Login {
        /// Which server.
        address: SocketAddr,
        /// What it said.
        error: LoginError,
    },
    /// It took too long.
    #[error("no login within {limit:?} (reservoir.connect_timeout)")]
    Timeout {
        /// The time it had.
        limit: Duration,
    },
    /// No random numbers.
    #[error("no random numbers are to be had: {0}")]
    Random(getrandom::Error),
}

/// An attempt that failed.
#[derive(Debug)]
pub struct Failed {
    /// Why.
    pub error: DialError,
    /// The connection, if there was one: the server may still know of it.
    pub stream: Option<TcpStream>,
}

impl From<DialError> for Failed {
    fn from(error: DialError) -> Self {
        Self { error, stream: None }
    }
}

impl Dialer {
    /// A dialer for these endpoints.
    pub fn new(
        endpoints: Vec<Endpoint>,
        user: Option<(Arc<str>, Credential)>,
        database: Option<Arc<str>>,
        kernel: Arc<Kernel>,
    ) -> Self {
        let endpoints = endpoints.into_iter().map(|endpoint| (endpoint, Health::default())).collect();
        Self { endpoints, user, database, turn: AtomicUsize::new(0), kernel }
    }

    /// What is wrong with each endpoint, if something is.
    pub fn health(&self) -> impl Iterator<Item = (&Endpoint, Option<Trouble>)> {
        self.endpoints.iter().map(|(endpoint, health)| (endpoint, health.trouble()))
    }

    /// The identity that serves every client, if there is just one.
    pub fn configured_identity(&self) -> Option<Identity> {
        let (user, _) = self.user.as_ref()?;
        Some(Identity { user: Arc::clone(user), database: Arc::clone(self.database.as_ref()?) })
    }

    /// The identity that serves a client with this login.
    pub fn identity_for(&self, user: &str, database: &str) -> Identity {
        Identity {
            user: self.user.as_ref().map_or_else(|| user.into(), |(user, _)| Arc::clone(user)),
            database: self.database.as_ref().map_or_else(|| database.into(), Arc::clone),
        }
    }

    /// What the gate logs in with, if it does so as one user for all.
    pub fn configured_credential(&self) -> Option<&Credential> {
        self.user.as_ref().map(|(_, credential)| credential)
    }

    /// Opens a connection and logs in, within this time. The keys that a SCRAM login derived spare the next one the work.
    pub async fn dial(
        &self,
        identity: &Identity,
        credential: Credential,
        limit: Duration,
    ) -> Result<(Backend, Option<Keys>), Failed> {
        let (deadline, late) = (Instant::now() + limit, Err(DialError::Timeout { limit }));
        let connected = timeout_at(deadline, self.connect()).await;
        let (mut stream, address, attempt) = connected.unwrap_or(Err(DialError::Timeout { limit }))?;
        let session = timeout_at(deadline, log_in(&mut stream, address, identity, credential)).await.unwrap_or(late);
        attempt.end(session.as_ref().err());
        match session {
            Ok(session) => Ok(ready(stream, address, session).map_err(|error| DialError::Broken { address, error })?),
            Err(error) => Err(Failed { error, stream: Some(stream) }),
        }
    }

    /// Connects to the first endpoint that answers, beginning with the one whose turn it is.
    async fn connect(&self) -> Result<(TcpStream, SocketAddr, Attempt<'_>), DialError> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut last = None;
        for at in 0..self.endpoints.len() {
            let (endpoint, health) = &self.endpoints[(turn + at) % self.endpoints.len()];
            let attempt = health.attempt();
            match connect_to(endpoint, &self.kernel).await {
                Ok((stream, address)) => return Ok((stream, address, attempt)),
                Err(error) => {
                    attempt.end(Some(&error));
                    last = Some(error);
                }
            }
        }
        // A bucket without endpoints does not pass the configuration's checks.
        Err(last.unwrap_or(DialError::Timeout { limit: Duration::ZERO }))
    }
}

impl DialError {
    /// Whose fault it is.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Login { error, .. } if error.fault() == Fault::Login => Failure::Login,
            _ => Failure::Backend,
        }
    }

    /// Every label that [`DialError::label`] gives, for metrics that stand at zero from the start.
    pub const LABELS: [&'static str; 7] = ["resolve", "connect", "broken", "login", "server", "timeout", "internal"];

    /// The reason as a metric's label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Resolve { .. } => "resolve",
            Self::Connect { .. } => "connect",
            Self::Broken { .. } => "broken",
            Self::Login { error, .. } if error.fault() == Fault::Login => "login",
            Self::Login { .. } => "server",
            Self::Timeout { .. } => "timeout",
            Self::Random(_) => "internal",
        }
    }
}

async fn connect_to(endpoint: &Endpoint, kernel: &Kernel) -> Result<(TcpStream, SocketAddr), DialError> {
    let resolved = lookup_host((endpoint.host.as_str(), endpoint.port.get())).await;
    let addresses = resolved.map_err(|error| DialError::Resolve { endpoint: endpoint.clone(), error })?;
    let mut last = io::Error::other("the name has no address");
    for address in addresses {
        kernel.watch(address);
        match TcpStream::connect(address).await {
            Ok(stream) => match socket::tune(&stream) {
                Ok(()) => return Ok((stream, address)),
                Err(error) => last = error,
            },
            Err(error) => last = error,
        }
    }
    Err(DialError::Connect { endpoint: endpoint.clone(), error: last })
}

async fn log_in(
    stream: &mut TcpStream,
    address: SocketAddr,
    identity: &Identity,
    credential: Credential,
) -> Result<Session, DialError> {
    let broken = |error| DialError::Broken { address, error };
    let mut random = [0; login::RANDOM];
    getrandom::fill(&mut random).map_err(DialError::Random)?;
    let mut login = Login::new(&identity.user, &identity.database, credential, random);
    let (mut out, mut received) = (Vec::new(), Vec::with_capacity(1024));
    login.first(&mut out);
    loop {
        stream.write_all(&out).await.map_err(broken)?;
        out.clear();
        if stream.read_buf(&mut received).await.map_err(broken)? == 0 {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
        let mut consumed = 0;
        while let Some(frame) = Frame::next(&received[consumed..], login::LONGEST).map_err(|_| DialError::Login {
            address,
            error: LoginError::Protocol("a message of a length that cannot be"),
        })? {
            consumed += frame.consumed();
            match login.handle(frame.tag, frame.body, &mut out) {
                Event::NeedMore | Event::Send => {}
                Event::Failed(error) => return Err(DialError::Login { address, error }),
                Event::Ready(session) => return Ok(session),
            }
        }
        received.drain(..consumed);
    }
}

fn ready(stream: TcpStream, endpoint: SocketAddr, session: Session) -> io::Result<(Backend, Option<Keys>)> {
    let Session { parameters, cancel_key, scram_keys } = session;
    let socket = Some(stream.into_std()?);
    Ok((Backend { socket, endpoint, parameters, cancel_key, is_busy: false, looks_idle: true }, scram_keys))
}
