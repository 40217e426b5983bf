//! The gate as a client: logs in to a server ("Protocol, Message Flow, Start-up").
//!
//! It asks for protocol 3.0, which every server speaks. What 3.2 adds is a longer cancel key, and that one is known to
//! nobody but the server and the gate.

use std::fmt;

use secrecy::ExposeSecret;

use super::cancel_key::CancelKey;
use super::credential::Credential;
use super::fields::Fields;
use super::message;
use super::parameters::Parameters;
use super::scram::client::{Exchange, Stuck, Unproven};
use super::scram::{Keys, MECHANISM};
use super::server_error::{Fault, ServerError};

/// A login in progress.
pub struct Login {
    user: String,
    database: String,
    credential: Credential,
    random: [u8; RANDOM],
    stage: Stage,
    received: usize,
    session: Session,
}

/// What a server's message led to.
#[derive(Debug)]
pub enum Event {
    /// Nothing yet; the next message is awaited.
    NeedMore,
    /// What was appended is to be sent.
    Send,
    /// The server is ready for queries.
    Ready(Session),
    /// It will not be.
    Failed(LoginError),
}

/// A session at a server, just begun.
#[derive(Debug, Default)]
pub struct Session {
    /// What the server reported.
    pub parameters: Parameters,
    /// How to cancel; a server need not give a key.
    pub cancel_key: Option<CancelKey>,
    /// SCRAM keys, if it was a SCRAM login: [`Credential::remember`] them for the next one.
    pub scram_keys: Option<Keys>,
}

/// Why a login failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginError {
    /// The server said so.
    Refused(ServerError),
    /// The server wants to be convinced in a way that the gate does not know, or not with what it has.
    Unsupported(&'static str),
    /// The server did not prove that it knows the password.
    Impostor,
    /// The server did not keep to the protocol.
    Protocol(&'static str),
}

/// The longest message that a server may send during a login.
pub const LONGEST: usize = 64 * 1024;

/// The most that it may send before it is ready: a server reports a few dozen settings.
const LONGEST_LOGIN: usize = 4 * LONGEST;

/// How many random bytes a login needs. They must not be guessed.
pub const RANDOM: usize = 18;

impl Login {
    /// A login as `user` to `database`.
    pub fn new(user: &str, database: &str, credential: Credential, random: [u8; RANDOM]) -> Self {
        Self {
            user: user.to_owned(),
            database: database.to_owned(),
            credential,
            random,
            stage: Stage::Begun,
            received: 0,
            session: Session::default(),
        }
    }

    /// Appends the first message.
    pub fn first(&self, out: &mut Vec<u8>) {
        message::startup_message(out, 0, [("user", &*self.user), ("database", &*self.database)]);
    }

    /// Takes the server's next message and appends the answer to `out`, if there is one.
    pub fn handle(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Event {
        self.received = self.received.saturating_add(body.len());
        let result = if self.received > LONGEST_LOGIN {
            Err(LoginError::Protocol("it sent far more than a login takes"))
        } else {
            self.message(tag, body, out)
        };
        result.unwrap_or_else(|error| {
            self.stage = Stage::Over;
            Event::Failed(error)
        })
    }

    fn message(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Result<Event, LoginError> {
        const UNEXPECTED: LoginError = LoginError::Protocol("it sent a message that does not belong in a login");
        match (tag, &self.stage) {
            (_, Stage::Over) => return Err(LoginError::Protocol("the login is over")),
            (ERROR_RESPONSE, _) => return Err(LoginError::Refused(ServerError::parse(body))),
            (NOTICE, _) => {}
            (NEGOTIATE_PROTOCOL_VERSION, Stage::Begun) => negotiated(body)?,
            (AUTHENTICATION, Stage::Begun | Stage::Scram(_) | Stage::Unproven(_) | Stage::Proven) => {
                return self.authentication(body, out);
            }
            (PARAMETER_STATUS, Stage::Accepted) => self.session.parameters.note(body).ok_or(MALFORMED)?,
            (BACKEND_KEY_DATA, Stage::Accepted) => {
                let mut fields = Fields::new(body);
                let process_id = fields.int32().ok_or(MALFORMED)?;
                self.session.cancel_key = Some(CancelKey::new(process_id, fields.rest()).ok_or(MALFORMED)?);
            }
            (READY_FOR_QUERY, Stage::Accepted) if body == b"I" => {
                self.stage = Stage::Over;
                return Ok(Event::Ready(std::mem::take(&mut self.session)));
            }
            _ => return Err(UNEXPECTED),
        }
        Ok(Event::NeedMore)
    }

    fn authentication(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Event, LoginError> {
        let mut fields = Fields::new(body);
        let request = fields.int32().ok_or(MALFORMED)?;
        match (request, std::mem::replace(&mut self.stage, Stage::Over)) {
            // A server that began SCRAM must end it: otherwise anybody could pretend to be it.
            (OK, Stage::Scram(_) | Stage::Unproven(_)) => return Err(LoginError::Impostor),
            (OK, _) => self.stage = Stage::Accepted,
            (CLEARTEXT_PASSWORD, Stage::Begun) => {
                let password = self.credential.cleartext().ok_or(LoginError::Unsupported(NO_PASSWORD))?;
                message::password_message(out, password.expose_secret().as_bytes());
                self.stage = Stage::Proven;
                return Ok(Event::Send);
            }
            (MD5_PASSWORD, Stage::Begun) => {
                let salt = fields.array().ok_or(MALFORMED)?;
                let answer = self.credential.md5(&self.user, salt).ok_or(LoginError::Unsupported(NO_MD5))?;
                message::password_message(out, answer.expose_secret().as_bytes());
                self.stage = Stage::Proven;
                return Ok(Event::Send);
            }
            (SASL, Stage::Begun) => return self.begin_scram(fields, out),
            (SASL_CONTINUE, Stage::Scram(exchange)) => return self.answer_scram(exchange, fields.rest(), out),
            (SASL_FINAL, Stage::Unproven(unproven)) => {
                self.session.scram_keys = Some(unproven.prove(fields.rest()).ok_or(LoginError::Impostor)?);
                self.stage = Stage::Proven;
            }
            (SASL_CONTINUE | SASL_FINAL, _) => return Err(LoginError::Protocol("its SASL messages are out of order")),
            _ => return Err(LoginError::Unsupported("it wants an authentication that the gate does not know")),
        }
        Ok(Event::NeedMore)
    }

    fn begin_scram(&mut self, mut mechanisms: Fields<'_>, out: &mut Vec<u8>) -> Result<Event, LoginError> {
        let mut offered = std::iter::from_fn(|| mechanisms.string().filter(|mechanism| !mechanism.is_empty()));
        if !offered.any(|mechanism| mechanism == MECHANISM.as_bytes()) {
            return Err(LoginError::Unsupported("it does not offer SCRAM-SHA-256"));
        }
        if self.credential.scram().is_none() {
            return Err(LoginError::Unsupported(NO_SCRAM));
        }
        let (exchange, words) = Exchange::begin(&self.random);
        message::sasl_initial_response(out, MECHANISM, words.as_bytes());
        self.stage = Stage::Scram(exchange);
        Ok(Event::Send)
    }

    fn answer_scram(&mut self, exchange: Exchange, words: &[u8], out: &mut Vec<u8>) -> Result<Event, LoginError> {
        let known = self.credential.scram().ok_or(LoginError::Unsupported(NO_SCRAM))?;
        let (unproven, answer) = exchange.answer(words, known).map_err(|stuck| match stuck {
            Stuck::Malformed => LoginError::Protocol("its SCRAM message is malformed"),
            Stuck::TooManyIterations => LoginError::Unsupported("it wants more than a million SCRAM iterations"),
            Stuck::OtherSalt => LoginError::Unsupported(
                "its SCRAM verifier is not the one in the user file, and there is no password to log in with",
            ),
        })?;
        message::sasl_response(out, answer.as_bytes());
        self.stage = Stage::Unproven(unproven);
        Ok(Event::Send)
    }
}

impl LoginError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Refused(error) => error.fault(),
            Self::Unsupported(_) => Fault::Login,
            Self::Impostor | Self::Protocol(_) => Fault::Backend,
        }
    }
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "the server refused the login: {error}"),
            Self::Unsupported(why) => write!(f, "cannot log in to the server: {why}"),
            Self::Impostor => f.write_str("the server did not prove that it knows the password"),
            Self::Protocol(why) => write!(f, "the server broke the protocol: {why}"),
        }
    }
}

impl std::error::Error for LoginError {}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).field("database", &self.database).finish_non_exhaustive()
    }
}

/// How far a login is.
enum Stage {
    Begun,
    /// SCRAM has begun.
    Scram(Exchange),
    /// SCRAM is at its end, but for the server's proof.
    Unproven(Unproven),
    /// All is proven that can be; the server has the word.
    Proven,
    /// The server takes the gate for who it says it is.
    Accepted,
    Over,
}

/// Messages of a login.
const AUTHENTICATION: u8 = b'R';
const PARAMETER_STATUS: u8 = b'S';
const BACKEND_KEY_DATA: u8 = b'K';
const READY_FOR_QUERY: u8 = b'Z';
const ERROR_RESPONSE: u8 = b'E';
const NOTICE: u8 = b'N';
const NEGOTIATE_PROTOCOL_VERSION: u8 = b'v';

/// Kinds of authentication request.
const OK: i32 = 0;
const CLEARTEXT_PASSWORD: i32 = 3;
const MD5_PASSWORD: i32 = 5;
const SASL: i32 = 10;
const SASL_CONTINUE: i32 = 11;
const SASL_FINAL: i32 = 12;

const MALFORMED: LoginError = LoginError::Protocol("one of its messages is malformed");
const NO_PASSWORD: &str = "it wants the password in clear text, and the gate does not have it";
const NO_MD5: &str = "it wants an md5 password, and the gate has neither password nor md5 hash";
const NO_SCRAM: &str = "it wants SCRAM, and the gate has neither password nor SCRAM keys";

/// There is no version below 3.0 to go down to, and no option was asked for; a server may say so all the same.
fn negotiated(body: &[u8]) -> Result<(), LoginError> {
    match Fields::new(body).int32() {
        Some(0x0003_0000..) => Ok(()),
        _ => Err(LoginError::Protocol("it speaks another protocol")),
    }
}

#[cfg(test)]
mod tests;
