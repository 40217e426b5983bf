//! A gate without a configuration file: one listener, one database.
//!
//! The address of the database is turned into the same configuration that a file would give, so that every default and
//! every check is the same.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use percent_encoding::percent_decode_str;

use crate::config::{self, Config, Password, Secret};

/// The bucket's name.
const NAME: &str = "default";

/// What `postgres://user:password@host:port/database` says.
#[derive(Debug)]
pub struct Address {
    user: String,
    password: Option<Secret>,
    host_and_port: String,
    database: String,
}

impl Address {
    /// Reads an address. An error does not repeat it: it may hold a password.
    pub fn parse(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.context("the address must begin with postgres://")?;
        ensure!(!rest.contains(['?', '#']), "the address may have no parameters behind a ?");
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(Secret::from(decode(password)?))),
            None => (login, None),
        };
        let user = decode(user)?;
        ensure!(!user.is_empty(), "the address must name a user: postgres://user:password@host:port/database");
        let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| is_port(port));
        let host_and_port = if has_port { host.to_owned() } else { format!("{host}:5432") };
        let database = if database.is_empty() { user.clone() } else { decode(database)? };
        Ok(Self { user, password, host_and_port, database })
    }

    /// The configuration of a gate that listens there. Clients log in with the user and the password of the address;
    /// if it has no password, nobody needs one.
    pub fn into_config(self, listen: SocketAddr, environment: config::Environment) -> Result<Config, config::Problems> {
        let text = format!(
            "[listen]\npostgres = [{:?}]\n[[bucket]]\nname = {NAME:?}\nprotocol = \"postgres\"\nendpoints = [{}]\n\
             clients = {{ trust = true }}\nbackend = {{ user = {}, database = {} }}\n",
            listen.to_string(),
            quoted(&self.host_and_port),
            quoted(&self.user),
            quoted(&self.database),
        );
        let mut config = config::load_text("the command line", text, environment)?.config;
        for bucket in &mut config.buckets {
            if let Some(password) = &self.password {
                let escape = |text: &str| text.replace('"', "\"\"");
                let users = format!("\"{}\" \"{}\"\n", escape(&self.user), escape(password.expose()));
                bucket.clients.trust = false;
                bucket.clients.list = Some(Secret::from(users));
                bucket.backend.password = Some(Password::Written(Secret::from(password.expose().to_owned())));
            }
        }
        Ok(config)
    }
}

fn decode(text: &str) -> Result<String> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => bail!("the address has a name that is not UTF-8"),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> Config {
        let listen = "127.0.0.1:6432".parse().unwrap();
        Address::parse(url).unwrap().into_config(listen, config::Environment::new()).unwrap()
    }

    #[test]
    fn an_address_becomes_one_bucket_for_everybody_who_knows_its_password() {
        let config = config("postgres://app:p%40ss%22@db1:5433/orders");
        let bucket = &config.buckets[0];
        assert_eq!(bucket.endpoints[0].to_string(), "db1:5433");
        assert_eq!(bucket.backend.user.as_deref(), Some("app"));
        assert_eq!(bucket.backend.database.as_deref(), Some("orders"));
        assert!(!bucket.clients.trust);
        assert_eq!(bucket.clients.list.as_ref().unwrap().expose(), "\"app\" \"p@ss\"\"\"\n");
    }

    #[test]
    fn what_is_left_out_is_what_psql_would_take() {
        let config = config("postgresql://app@[::1]");
        let bucket = &config.buckets[0];
        assert_eq!(bucket.endpoints[0].to_string(), "[::1]:5432");
        assert_eq!(bucket.backend.database.as_deref(), Some("app"));
        assert!(bucket.clients.trust);
    }

    #[test]
    fn an_error_never_repeats_the_address() {
        for url in ["mysql://a:hidden@b", "postgres://:hidden@b", "postgres://a:hidden@b/c?d=e", "hidden"] {
            let error = format!("{:#}", Address::parse(url).unwrap_err());
            assert!(!error.contains("hidden"), "{error}");
        }
    }
}
