//! The first packet of a connection, which alone has no tag ("Protocol, Message Flow, Start-up").

use std::fmt;

use super::cancel_key::CancelKey;
use super::fields::Fields;
use super::message::{self, CANCEL_REQUEST, Report};
use super::{options, sqlstate};

/// What a client wants first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// TLS; answered by one byte, after which another first packet comes.
    Ssl,
    /// GSSAPI encryption; likewise.
    GssEnc,
    /// Another session's query cancelled. There is no answer, the connection is closed.
    Cancel(CancelKey),
    /// A session.
    Startup(Startup),
}

/// A session as a client asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Startup {
    /// The minor version that is spoken, at most [`NEWEST_MINOR`].
    pub minor: u16,
    /// The minor version that was asked for.
    pub asked_minor: u16,
    /// Who comes.
    pub user: String,
    /// To which database; the user's name, if none was named.
    pub database: String,
    /// Settings in the order in which the server would apply them, those from `options` first; a name may come twice,
    /// and the last one counts.
    pub settings: Vec<(String, String)>,
    /// Whether a replication connection is wanted, which speaks a language of its own.
    pub replication: bool,
    /// Options of the protocol (`_pq_.`) that the gate does not know: all of them.
    pub unknown_options: Vec<String>,
}

/// The newest minor version that the gate speaks. (3.1 was never given out.)
pub const NEWEST_MINOR: u16 = 2;

/// The longest first packet that a server takes: `MAX_STARTUP_PACKET_LENGTH` in its source, and the length itself.
pub const LONGEST: usize = 4 + 10_000;

/// Why a first packet is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartupError {
    /// A TLS handshake without asking first.
    Tls,
    /// An HTTP request.
    Http,
    /// A length that cannot be.
    Length(i32),
    /// A version that the gate does not speak.
    Version {
        /// The major version.
        major: u16,
        /// The minor version.
        minor: u16,
    },
    /// A packet that ends inside a name or a value, or not at its own length.
    Layout,
    /// No user is named.
    NoUser,
    /// A name or a value is not UTF-8.
    NotUtf8 {
        /// Which one.
        parameter: String,
    },
    /// `replication` is neither yes nor no.
    Replication,
    /// `options` has something else than settings.
    Options {
        /// The part that is not a setting.
        argument: String,
    },
    /// A cancel key of a length that cannot be.
    CancelKey,
}

/// Reads the first packet from the beginning of `bytes`, and says how long it was; `None` if it is not complete.
pub fn parse(bytes: &[u8]) -> Result<Option<(First, usize)>, StartupError> {
    let Some(prefix) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = length(prefix)?;
    let Some(packet) = bytes.get(4..length) else { return Ok(None) };
    let mut fields = Fields::new(packet);
    let code = fields.int32().ok_or(StartupError::Layout)?;
    let first = match code {
        SSL_REQUEST if fields.is_empty() => First::Ssl,
        GSS_ENC_REQUEST if fields.is_empty() => First::GssEnc,
        SSL_REQUEST | GSS_ENC_REQUEST => return Err(StartupError::Layout),
        CANCEL_REQUEST => First::Cancel(cancel_key(fields).ok_or(StartupError::CancelKey)?),
        version => First::Startup(startup(version, fields)?),
    };
    Ok(Some((first, length)))
}

impl Startup {
    /// Appends `NegotiateProtocolVersion`, if the client asked for more than the gate speaks. It comes before any
    /// request to authenticate.
    pub fn negotiate(&self, out: &mut Vec<u8>) {
        if self.asked_minor > self.minor || !self.unknown_options.is_empty() {
            message::negotiate_protocol_version(out, self.minor, &self.unknown_options);
        }
    }

    /// Whether the client takes cancel keys longer than four bytes.
    pub fn takes_long_cancel_keys(&self) -> bool {
        self.minor >= 2
    }
}

impl StartupError {
    /// The error's code for a client.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Version { .. } | Self::Options { .. } => sqlstate::FEATURE_NOT_SUPPORTED,
            Self::NoUser => sqlstate::INVALID_AUTHORIZATION,
            Self::NotUtf8 { .. } => sqlstate::CHARACTER_NOT_IN_REPERTOIRE,
            Self::Replication => sqlstate::INVALID_PARAMETER_VALUE,
            Self::Tls | Self::Http | Self::Length(_) | Self::Layout | Self::CancelKey => sqlstate::PROTOCOL_VIOLATION,
        }
    }

    /// Appends what the client is told.
    pub fn write(&self, out: &mut Vec<u8>) {
        message::error_response(out, &Report::fatal(self.sqlstate(), &self.to_string()));
    }
}

impl fmt::Display for StartupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls => f.write_str(
                "the client began a TLS handshake without asking; direct TLS is not served here, use \
                 sslnegotiation=postgres",
            ),
            Self::Http => f.write_str("the client sent an HTTP request; this port speaks the Postgres protocol"),
            Self::Length(length) => write!(f, "invalid length of startup packet: {length}"),
            Self::Version { major, minor } => {
                write!(f, "unsupported frontend protocol {major}.{minor}: the gate speaks 3.0 to 3.{NEWEST_MINOR}")
            }
            Self::Layout => f.write_str("invalid startup packet layout: it does not end where it says"),
            Self::NoUser => f.write_str("no PostgreSQL user name specified in startup packet"),
            Self::NotUtf8 { parameter } => write!(f, "startup parameter {parameter:?} is not valid UTF-8"),
            Self::Replication => {
                f.write_str("invalid value for parameter \"replication\": expected yes, no or database")
            }
            Self::Options { argument } => {
                write!(
                    f,
                    "{argument:?} in startup parameter \"options\" is not a setting (-c name=value or --name=value)"
                )
            }
            Self::CancelKey => f.write_str("invalid length of cancel key"),
        }
    }
}

impl std::error::Error for StartupError {}

/// Codes in place of a version ("Protocol, Message Formats", `SSLRequest` and `GSSENCRequest`).
const SSL_REQUEST: i32 = 80_877_103;
const GSS_ENC_REQUEST: i32 = 80_877_104;

/// What a TLS record with a handshake begins with (RFC 8446, section 5.1): its type, and the major version.
const TLS_HANDSHAKE: [u8; 2] = [22, 3];

/// How requests of HTTP begin.
const HTTP: [&[u8; 4]; 8] = [b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PRI "];

fn length(prefix: &[u8; 4]) -> Result<usize, StartupError> {
    let length = i32::from_be_bytes(*prefix);
    match usize::try_from(length) {
        Ok(length @ 8..=LONGEST) => Ok(length),
        // Every other protocol's beginning, read as a length, is far too long.
        _ if prefix.starts_with(&TLS_HANDSHAKE) => Err(StartupError::Tls),
        _ if HTTP.contains(&prefix) => Err(StartupError::Http),
        _ => Err(StartupError::Length(length)),
    }
}

fn cancel_key(mut fields: Fields<'_>) -> Option<CancelKey> {
    let process_id = fields.int32()?;
    CancelKey::new(process_id, fields.rest())
}

fn startup(version: i32, mut fields: Fields<'_>) -> Result<Startup, StartupError> {
    let [a, b, c, d] = version.to_be_bytes();
    let (major, asked_minor) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    if major != 3 {
        return Err(StartupError::Version { major, minor: asked_minor });
    }
    let mut startup = Startup {
        minor: asked_minor.min(NEWEST_MINOR),
        asked_minor,
        user: String::new(),
        database: String::new(),
        settings: Vec::new(),
        replication: false,
        unknown_options: Vec::new(),
    };
    let mut given = Vec::new();
    loop {
        let name = fields.string().ok_or(StartupError::Layout)?;
        if name.is_empty() {
            break;
        }
        let value = fields.string().ok_or(StartupError::Layout)?;
        startup.take(text(name, name)?, text(name, value)?, &mut given)?;
    }
    if !fields.is_empty() {
        return Err(StartupError::Layout);
    }
    startup.settings.extend(given);
    startup.complete()
}

impl Startup {
    /// Takes a parameter. One that is a setting goes to `given`, since the server applies those of `options` first.
    fn take(&mut self, name: &str, value: &str, given: &mut Vec<(String, String)>) -> Result<(), StartupError> {
        match name {
            "user" => value.clone_into(&mut self.user),
            "database" => value.clone_into(&mut self.database),
            "replication" => self.replication = wants_replication(value).ok_or(StartupError::Replication)?,
            "options" => {
                self.settings = options::settings(value).map_err(|argument| StartupError::Options { argument })?;
            }
            _ if name.starts_with("_pq_.") => self.unknown_options.push(name.to_owned()),
            _ => given.push((name.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    fn complete(mut self) -> Result<Self, StartupError> {
        if self.user.is_empty() {
            return Err(StartupError::NoUser);
        }
        if self.database.is_empty() {
            self.user.clone_into(&mut self.database);
        }
        Ok(self)
    }
}

fn text<'a>(parameter: &[u8], bytes: &'a [u8]) -> Result<&'a str, StartupError> {
    str::from_utf8(bytes)
        .map_err(|_| StartupError::NotUtf8 { parameter: String::from_utf8_lossy(parameter).into_owned() })
}

/// `database`, or a truth value as the server spells them: any beginning of a word that is not ambiguous.
fn wants_replication(value: &str) -> Option<bool> {
    let value = value.to_ascii_lowercase();
    let begins = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    if value == "database" || value == "1" || begins("true", 1) || begins("yes", 1) || value == "on" {
        Some(true)
    } else if value == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2) {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
