//! How a session ends that was never served: whose fault it was, and what the client is told.

use std::io;
use std::time::Duration;

use gate_core::protocol::postgres::authenticate::Refused;
use gate_core::protocol::postgres::frame::Malformed;
use gate_core::protocol::postgres::message::{self, Report};
use gate_core::protocol::postgres::settings::NotASetting;
use gate_core::protocol::postgres::sqlstate;
use gate_core::protocol::postgres::startup::StartupError;
use gate_core::refusal::{Refusal, ShortOf};

/// Why a client is not served. The text of each is what its log line says; [`Farewell::write`] is what it is told.
#[derive(Debug, thiserror::Error)]
pub(super) enum Farewell {
    #[error("the client is gone: {0}")]
    Gone(#[from] io::Error),
    #[error("the client's first packet is not one: {0}")]
    Startup(#[from] StartupError),
    #[error("the client does not keep to the protocol: {0}")]
    Malformed(#[from] Malformed),
    #[error("the client took longer than {limit:?} to log in")]
    Slow { limit: Duration },
    #[error("the client asks for encryption again and again")]
    Questions,
    #[error("replication connections cannot be pooled")]
    Replication,
    #[error("no bucket serves database {database:?} for user {user:?}")]
    NoRoute { user: String, database: String },
    #[error("the login of user {user:?} was refused: {refused:?}")]
    Login { user: String, refused: Refused },
    #[error("bucket \"{bucket}\" refused the client: {refusal}")]
    Refused { bucket: String, refusal: Refusal },
    #[error("the gate has {limit} clients, and can serve no more")]
    TooManyClients { limit: usize },
    #[error(transparent)]
    Setting(#[from] NotASetting),
    #[error("the server does not take the client's settings")]
    Settings { response: Vec<u8> },
    #[error("bucket \"{bucket}\": the connection broke before it was used: {why}")]
    Backend { bucket: String, why: String },
    #[error("no random numbers are to be had: {0}")]
    Random(#[from] getrandom::Error),
}

impl Farewell {
    /// Appends what the client is told; nothing, if there is nobody to tell.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let text = self.to_string();
        let (code, hint) = match self {
            Self::Gone(_) => return,
            Self::Startup(error) => return error.write(out),
            Self::Login { user, refused } => return refused.write(user, out),
            Self::Settings { response } => return out.extend_from_slice(response),
            Self::Malformed(_) | Self::Questions | Self::Slow { .. } => (sqlstate::PROTOCOL_VIOLATION, None),
            Self::Replication => (sqlstate::FEATURE_NOT_SUPPORTED, Some("Connect to the database itself.")),
            Self::NoRoute { .. } => (
                sqlstate::UNKNOWN_DATABASE,
                Some("Check the names, or add a bucket whose route fits to the gate's configuration."),
            ),
            Self::Refused { refusal, .. } => refused(refusal),
            Self::TooManyClients { .. } => (sqlstate::TOO_MANY_CONNECTIONS, Some(LATER)),
            Self::Setting(_) => (sqlstate::INVALID_PARAMETER_VALUE, None),
            Self::Backend { .. } => (sqlstate::CONNECTION_FAILURE, Some(LATER)),
            Self::Random(_) => (sqlstate::INTERNAL_ERROR, None),
        };
        let mut report = Report::fatal(code, &text);
        report.hint = hint;
        message::error_response(out, &report);
    }

    /// Whose fault it was, as a metric's label.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Gone(_) => "client_gone",
            Self::Startup(_) | Self::Malformed(_) | Self::Questions | Self::Replication | Self::Setting(_) => {
                "client_protocol"
            }
            Self::Slow { .. } => "client_slow",
            Self::NoRoute { .. } => "no_route",
            Self::Login { .. } => "login",
            Self::Refused { refusal, .. } => refusal.label(),
            Self::TooManyClients { .. } => "too_many_clients",
            Self::Settings { .. } => "settings",
            Self::Backend { .. } => "backend",
            Self::Random(_) => "internal",
        }
    }
}

const LATER: &str = "Try again later.";

fn refused(refusal: &Refusal) -> (&'static str, Option<&'static str>) {
    match refusal {
        Refusal::QueueFull { .. } | Refusal::Shed { .. } | Refusal::WaitTooLong { .. } => {
            (sqlstate::TOO_MANY_CONNECTIONS, Some(LATER))
        }
        Refusal::TimedOut { short_of: ShortOf::Places { .. } | ShortOf::TenantPlaces { .. }, .. } => {
            (sqlstate::TOO_MANY_CONNECTIONS, Some(LATER))
        }
        Refusal::TimedOut { short_of: ShortOf::Connections, .. } | Refusal::BackendDown { .. } | Refusal::Draining => {
            (sqlstate::CANNOT_CONNECT_NOW, Some(LATER))
        }
        Refusal::LoginFailed => (
            sqlstate::INVALID_AUTHORIZATION,
            Some("Whoever runs the gate finds the database's own words in the gate's log."),
        ),
    }
}
