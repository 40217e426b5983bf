//! Single values: what each kind may be, in words and in types.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::time::Duration;

use gate_core::route::Protocol;
use serde::de::IntoDeserializer;
use serde::{Deserialize, Serialize, Serializer};
use toml::Spanned;
use toml::de::DeValue;

use super::source::Span;
use super::{Auth, Method, Mode, Secret, TenantKey};

/// A kind of value that a key may have.
pub(super) trait Setting: Sized {
    /// Whether a message must not repeat what was written.
    const IS_SECRET: bool = false;

    /// Ends the sentence "the setting must be …".
    fn wants() -> String;

    /// Reads it, or tells what part of it cannot be read.
    fn read(value: Spanned<DeValue<'_>>) -> Result<Self, Span>;
}

/// Kinds of values that serde reads.
macro_rules! settings {
    ($($kind:ty: $wants:literal,)*) => {
        $(impl Setting for $kind {
            fn wants() -> String {
                $wants.to_owned()
            }

            fn read(value: Spanned<DeValue<'_>>) -> Result<Self, Span> {
                let span = value.span();
                Self::deserialize(value.into_deserializer()).map_err(|_| span)
            }
        })*
    };
}

settings! {
    bool: "true or false",
    u32: "a whole number",
    NonZeroU32: "a whole number above 0",
    f64: "a number",
    String: "a string",
    PathBuf: "a path in quotes",
    SocketAddr: r#"an IP address and a port, such as "127.0.0.1:6432" or "[::1]:6432""#,
    Endpoint: r#"a host and a port, such as "db1:5432" or "[2001:db8::1]:5432""#,
    Mode: r#""session", "transaction" or "passthrough""#,
    Auth: r#""gate", "learn" or "passthrough""#,
    Method: r#""scram-sha-256", "md5" or "plain""#,
    TenantKey: r#""user" or "database""#,
}

impl<T: Setting> Setting for Vec<T> {
    fn wants() -> String {
        format!("a list in brackets, each entry {}", T::wants())
    }

    fn read(value: Spanned<DeValue<'_>>) -> Result<Self, Span> {
        let span = value.span();
        match value.into_inner() {
            DeValue::Array(entries) => entries.into_iter().map(T::read).collect(),
            _ => Err(span),
        }
    }
}

impl Setting for Secret {
    const IS_SECRET: bool = true;

    fn wants() -> String {
        String::wants()
    }

    fn read(value: Spanned<DeValue<'_>>) -> Result<Self, Span> {
        String::read(value).map(Self::from)
    }
}

impl Setting for Duration {
    fn wants() -> String {
        r#"a time with its unit, at most a year, such as "100ms", "45s", "11m" or "1h 30m""#.to_owned()
    }

    fn read(value: Spanned<DeValue<'_>>) -> Result<Self, Span> {
        const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);
        let span = value.span();
        let duration = humantime::parse_duration(&String::read(value)?);
        duration.ok().filter(|duration| *duration <= YEAR).ok_or(span)
    }
}

/// Writes a duration as it is read.
pub(super) fn serialize_duration<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*duration))
}

impl Setting for Protocol {
    fn wants() -> String {
        r#""postgres" or "tds""#.to_owned()
    }

    fn read(value: Spanned<DeValue<'_>>) -> Result<Self, Span> {
        let span = value.span();
        ProtocolName::deserialize(value.into_deserializer()).map_err(|_| span)
    }
}

/// The names of the protocols, which the core does not need.
#[derive(Deserialize, Serialize)]
#[serde(remote = "Protocol", rename_all = "lowercase")]
pub(super) enum ProtocolName {
    Postgres,
    Tds,
}

/// Where a database listens: a name or an address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint {
    /// A name to be resolved, or an address; an IPv6 address without its brackets.
    pub host: String,
    /// The port.
    pub port: NonZeroU16,
}

impl TryFrom<String> for Endpoint {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (host, port) = text.rsplit_once(':').ok_or("no port")?;
        let port = port.parse().map_err(|_| "not a port")?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = match bracketed {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => is_name(host),
        };
        let host = bracketed.unwrap_or(host).to_ascii_lowercase();
        if is_host { Ok(Self { host, port }) } else { Err("not a host") }
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.to_string()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Whether this is the name of a host or an IPv4 address: RFC 1123, and the underscore that some use all the same.
fn is_name(host: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_');
    (1..=253).contains(&host.len()) && host.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_and_a_port_and_prints_as_it_is_written() {
        for text in ["db1:5432", "db-1.example.com:1", "10.0.0.1:65535", "[::1]:5432", "[2001:db8::1]:1433"] {
            assert_eq!(Endpoint::try_from(text.to_owned()).unwrap().to_string(), text);
        }
        for text in
            ["", "db1", ":5432", "db1:", "db1:0", "db1:65536", "::1:5432", "[db1]:5432", "a b:1", "postgres://db1:5432"]
        {
            assert!(Endpoint::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_needs_its_unit() {
        let read = |text: &str| Duration::read(DeValue::parse(text).unwrap()).ok();
        assert_eq!(read("'1h 30m'"), Some(Duration::from_secs(5_400)));
        assert_eq!(read("'100ms'"), Some(Duration::from_millis(100)));
        for text in ["45", "4.5", "'45'", "'45 parsecs'", "'-1s'", "''", "'2 years'"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
