//! A PostgreSQL and a gate in front of it.

use anyhow::Result;

use crate::gate::Gate;
use crate::postgres::Postgres;
use crate::raw::{Client, Login};
use crate::template::{DATABASE, PASSWORD, USER};

/// The name of the bucket that [`World`]s have.
pub const BUCKET: &str = "orders";

/// Its fields are dropped in this order.
#[derive(Debug)]
pub struct World {
    /// The gate.
    pub gate: Gate,
    /// The server behind it.
    pub postgres: Postgres,
}

impl World {
    /// Starts both, and returns when the gate is ready. `settings` are those of the one bucket.
    pub fn start(settings: &str) -> Result<Self> {
        Self::behind(Postgres::start()?, settings)
    }

    /// Starts a gate in front of a server.
    pub fn behind(postgres: Postgres, settings: &str) -> Result<Self> {
        let endpoint = postgres.address().to_string();
        let gate = Gate::start(&config(&endpoint, settings), &[users()])?;
        Ok(Self { gate, postgres })
    }

    /// Starts both; the gate asks nobody for a password.
    pub fn trusting(settings: &str) -> Result<Self> {
        let postgres = Postgres::start()?;
        let config = config(&postgres.address().to_string(), settings);
        let gate = Gate::start(&config.replace("auth_file = 'users.txt'", "trust = true"), &[])?;
        Ok(Self { gate, postgres })
    }

    /// A client of the gate's, logged in.
    pub fn client(&self) -> Result<Client> {
        self.login(&Login::default())
    }

    /// The same with more to say.
    pub fn login(&self, login: &Login<'_>) -> Result<Client> {
        Client::login(self.gate.address(), login)
    }
}

/// A configuration with one bucket for all who come.
pub fn config(endpoint: &str, settings: &str) -> String {
    format!(
        "[listen]\n\
         postgres = ['127.0.0.1:0']\n\
         admin = '127.0.0.1:0'\n\
         [[bucket]]\n\
         name = '{BUCKET}'\n\
         protocol = 'postgres'\n\
         endpoints = ['{endpoint}']\n\
         clients = {{ auth_file = 'users.txt' }}\n\
         backend = {{ user = '{USER}', password = '{PASSWORD}', database = '{DATABASE}' }}\n\
         {settings}\n"
    )
}

/// The file that says who may come, for [`Gate::start`].
pub fn users() -> (&'static str, &'static str) {
    ("users.txt", "\"app\" \"app-Pa55word\"\n")
}
