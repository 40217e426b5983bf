//! Why a client is not served. The reason is a metric's label, and in words it is what the client is told.

use std::fmt;
use std::time::Duration;

/// The limit that a client met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal {
    /// As many clients wait as may.
    QueueFull {
        /// The queue's depth.
        depth: u32,
    },
    /// The bucket is near its limits and set to refuse newcomers rather than queue them.
    Shed {
        /// How near, from 0 to 1.
        pressure: f64,
        /// The bucket's threshold.
        shed_at: f64,
    },
    /// The wait would be longer than the client may wait.
    WaitTooLong {
        /// The expected wait.
        estimate: Duration,
        /// The longest wait.
        timeout: Duration,
    },
    /// The client has waited as long as it may.
    TimedOut {
        /// How long.
        waited: Duration,
        /// What for.
        short_of: ShortOf,
    },
    /// No connection to the database can be opened.
    BackendDown {
        /// For how long.
        since: Duration,
    },
    /// The database does not accept the login.
    LoginFailed,
    /// The gate is shutting down.
    Draining,
}

/// What a client waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortOf {
    /// A place among those who use the database.
    Places {
        /// How many there are.
        places: u32,
    },
    /// A place among those of the same tenant.
    TenantPlaces {
        /// How many there are.
        places: u32,
    },
    /// An open connection: there is room for one, but it could not be had in time.
    Connections,
}

impl Refusal {
    /// Every label that [`Refusal::label`] gives, for metrics that stand at zero from the start.
    pub const LABELS: [&'static str; 9] = [
        "queue_full",
        "shed",
        "wait_too_long",
        "timeout_limit",
        "timeout_tenant_limit",
        "timeout_connection",
        "backend_down",
        "login_failed",
        "draining",
    ];

    /// The reason as a metric's label.
    pub fn label(&self) -> &'static str {
        Self::LABELS[self.index()]
    }

    /// The reason's place in [`Refusal::LABELS`].
    pub(crate) fn index(&self) -> usize {
        match self {
            Self::QueueFull { .. } => 0,
            Self::Shed { .. } => 1,
            Self::WaitTooLong { .. } => 2,
            Self::TimedOut { short_of: ShortOf::Places { .. }, .. } => 3,
            Self::TimedOut { short_of: ShortOf::TenantPlaces { .. }, .. } => 4,
            Self::TimedOut { short_of: ShortOf::Connections, .. } => 5,
            Self::BackendDown { .. } => 6,
            Self::LoginFailed => 7,
            Self::Draining => 8,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull { depth } => write!(f, "{depth} clients are waiting already, and no more may"),
            Self::Shed { pressure, shed_at } => {
                write!(f, "pressure {pressure:.2} has reached {shed_at:.2}, from where newcomers are refused")
            }
            Self::WaitTooLong { estimate, timeout } => write!(
                f,
                "the wait would be about {:.1} s, longer than the allowed {:.1} s",
                estimate.as_secs_f64(),
                timeout.as_secs_f64()
            ),
            Self::TimedOut { waited, short_of } => {
                write!(f, "waited {:.1} s for {short_of}", waited.as_secs_f64())
            }
            Self::BackendDown { since } => {
                write!(f, "the database has not accepted a connection for {:.1} s", since.as_secs_f64())
            }
            Self::LoginFailed => f.write_str("the database does not accept this login"),
            Self::Draining => f.write_str("the gate is shutting down"),
        }
    }
}

impl fmt::Display for ShortOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Places { places } => write!(f, "one of {places} places, all in use"),
            Self::TenantPlaces { places } => write!(f, "one of this tenant's {places} places, all in use"),
            Self::Connections => f.write_str("a database connection that could not be opened in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_label_of_its_own() {
        let (waited, timeout) = (Duration::from_secs(1), Duration::from_secs(30));
        let all = [
            Refusal::QueueFull { depth: 1 },
            Refusal::Shed { pressure: 0.7, shed_at: 0.7 },
            Refusal::WaitTooLong { estimate: timeout, timeout },
            Refusal::TimedOut { waited, short_of: ShortOf::Places { places: 1 } },
            Refusal::TimedOut { waited, short_of: ShortOf::TenantPlaces { places: 1 } },
            Refusal::TimedOut { waited, short_of: ShortOf::Connections },
            Refusal::BackendDown { since: waited },
            Refusal::LoginFailed,
            Refusal::Draining,
        ];
        assert_eq!(all.map(|refusal| refusal.label()), Refusal::LABELS);
    }
}
