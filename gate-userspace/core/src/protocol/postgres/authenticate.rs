//! The gate as a server: is this client who it says it is? ("Protocol, Message Flow, Start-up".)
//!
//! A client that is trusted needs no exchange: [`super::message::authentication_ok`] is all.
//!
//! Nobody can find out by trying which users there are: a user who is not known goes through the same exchange, with a
//! secret that nothing fits, and hears the same words at its end.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

use super::credential::Credential;
use super::fields::Fields;
use super::message::{self, Report};
use super::scram::server::Exchange;
use super::scram::{MECHANISM, Verifier};
use super::secret::{Secret, md5_answer, md5_secret, same};
use super::sqlstate;
use super::users::Users;

/// How a client proves itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// It sends the password as it is. Checking it takes as long as a SCRAM derivation, about a millisecond.
    Cleartext,
    /// It sends the password hashed with a salt of four bytes.
    Md5,
    /// SCRAM-SHA-256, which shows nobody the password.
    Scram,
}

/// A login in progress.
pub struct Authentication {
    user: String,
    /// The password, if the gate knows it.
    password: Option<SecretString>,
    expected: Expected,
}

/// What a client's message led to.
#[derive(Debug)]
pub enum Step {
    /// The exchange goes on; what was appended is to be sent.
    Continue,
    /// The client is who it says it is; what was appended, `AuthenticationOk` at its end, is to be sent. With the
    /// credential the gate may log in to a server in the client's name.
    Done(Credential),
    /// It is not, or the exchange was broken. Nothing was appended: see [`Refused::write`].
    Refused(Refused),
}

/// Why a client is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The password is wrong, or there is no such user: nobody can tell.
    Password,
    /// The client did not keep to the protocol.
    Protocol(&'static str),
    /// The client wants something that the gate does not do.
    Unsupported(&'static str),
}

/// The longest message that a client may send in an exchange (`PG_MAX_AUTH_TOKEN_LENGTH` in the server's source).
pub const LONGEST: usize = 65_535;

/// How many random bytes an exchange needs. They must not be guessed.
pub const RANDOM: usize = 24;

impl Authentication {
    /// Begins in the way that suits what is known of the user: SCRAM for a password or a verifier, md5 for an md5 hash.
    /// Appends the request to `out`.
    pub fn begin(users: &Users, user: &str, random: [u8; RANDOM], out: &mut Vec<u8>) -> Self {
        // Drawn for those who are known, too, so that it takes as long.
        let stand_in = users.stand_in(user);
        let method = match users.get(user).unwrap_or(&stand_in) {
            Secret::Plain { .. } | Secret::Scram(_) => Method::Scram,
            Secret::Md5(_) => Method::Md5,
        };
        Self::begin_with(method, users, user, random, out)
    }

    /// Begins in a way of the caller's choice. A user whose secret does not suit it cannot come in.
    pub fn begin_with(method: Method, users: &Users, user: &str, random: [u8; RANDOM], out: &mut Vec<u8>) -> Self {
        let stand_in = users.stand_in(user);
        let secret = users.get(user).unwrap_or(&stand_in);
        let expected = match method {
            Method::Cleartext => {
                message::authentication_cleartext_password(out);
                Expected::Cleartext(secret.clone())
            }
            Method::Md5 => {
                let [a, b, c, d, ..] = random;
                message::authentication_md5_password(out, [a, b, c, d]);
                let stored = match secret {
                    Secret::Plain { password, .. } => md5_secret(user, password.expose_secret()),
                    Secret::Md5(stored) => stored.clone(),
                    Secret::Scram(_) => users.unmatched_md5(user),
                };
                Expected::Md5 { stored, salt: [a, b, c, d] }
            }
            Method::Scram => {
                message::authentication_sasl(out, &[MECHANISM]);
                let verifier = match secret {
                    Secret::Plain { verifier, .. } | Secret::Scram(verifier) => verifier.clone(),
                    Secret::Md5(_) => users.unmatched_verifier(user),
                };
                Expected::Mechanism(Scram { verifier, random })
            }
        };
        let password = match secret {
            Secret::Plain { password, .. } => Some(password.clone()),
            Secret::Md5(_) | Secret::Scram(_) => None,
        };
        Self { user: user.to_owned(), password, expected }
    }

    /// Takes the client's next message and appends the answer to `out`.
    pub fn handle(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Step {
        let expected = std::mem::replace(&mut self.expected, Expected::Nothing);
        if tag != PASSWORD_MESSAGE {
            return Step::Refused(Refused::Protocol("expected a password or a SASL response"));
        }
        let result = match expected {
            Expected::Cleartext(secret) => self.cleartext(&secret, body),
            Expected::Md5 { stored, salt } => md5(stored, salt, body),
            Expected::Mechanism(scram) => self.mechanism(scram, body, out),
            Expected::FirstWords(scram) => self.first_words(scram, body, out),
            Expected::LastWords(exchange) => last_words(*exchange, body, out),
            Expected::Nothing => Err(Refused::Protocol("the authentication is over")),
        };
        match result {
            Ok(Some(shown)) => {
                message::authentication_ok(out);
                Step::Done(self.password.take().map_or(shown, Credential::password))
            }
            Ok(None) => Step::Continue,
            Err(refused) => Step::Refused(refused),
        }
    }
}

impl Refused {
    /// The error's code for a client.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Password => sqlstate::INVALID_PASSWORD,
            Self::Protocol(_) => sqlstate::PROTOCOL_VIOLATION,
            Self::Unsupported(_) => sqlstate::FEATURE_NOT_SUPPORTED,
        }
    }

    /// Appends what the client is told.
    pub fn write(&self, user: &str, out: &mut Vec<u8>) {
        let message = match self {
            Self::Password => format!("password authentication failed for user \"{user}\""),
            Self::Protocol(_) | Self::Unsupported(_) => self.to_string(),
        };
        message::error_response(out, &Report::fatal(self.sqlstate(), &message));
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password => f.write_str("wrong password or unknown user"),
            Self::Protocol(why) => f.write_str(why),
            Self::Unsupported(what) => write!(f, "not supported by the gate: {what}"),
        }
    }
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authentication").field("user", &self.user).finish_non_exhaustive()
    }
}

/// What the client must say next.
enum Expected {
    Cleartext(Secret),
    Md5 { stored: SecretString, salt: [u8; 4] },
    Mechanism(Scram),
    FirstWords(Scram),
    LastWords(Box<Exchange>),
    Nothing,
}

struct Scram {
    verifier: Verifier,
    random: [u8; RANDOM],
}

/// All that a client says here has this tag: `PasswordMessage`, `SASLInitialResponse`, `SASLResponse`.
const PASSWORD_MESSAGE: u8 = b'p';

/// What a message showed, if the exchange is over with it.
type Shown = Result<Option<Credential>, Refused>;

impl Authentication {
    fn cleartext(&self, secret: &Secret, body: &[u8]) -> Shown {
        let password = password(body)?;
        if !secret.fits(&self.user, password) {
            return Err(Refused::Password);
        }
        Ok(Some(Credential::password(password.into())))
    }

    fn mechanism(&mut self, scram: Scram, body: &[u8], out: &mut Vec<u8>) -> Shown {
        const MALFORMED: Refused = Refused::Protocol("malformed SASLInitialResponse");
        let mut fields = Fields::new(body);
        let mechanism = fields.string().ok_or(MALFORMED)?;
        let length = fields.int32().ok_or(MALFORMED)?;
        if mechanism != MECHANISM.as_bytes() {
            return Err(Refused::Protocol("the client chose a SASL mechanism that was not offered"));
        }
        if length == -1 && fields.is_empty() {
            // A client may choose first and speak when it is asked to.
            message::authentication_sasl_continue(out, &[]);
            self.expected = Expected::FirstWords(scram);
            return Ok(None);
        }
        let words = fields.rest();
        if usize::try_from(length) != Ok(words.len()) {
            return Err(MALFORMED);
        }
        self.first_words(scram, words, out)
    }

    fn first_words(&mut self, scram: Scram, words: &[u8], out: &mut Vec<u8>) -> Shown {
        let (exchange, answer) = Exchange::begin(&scram.verifier, &scram.random, words)?;
        message::authentication_sasl_continue(out, answer.as_bytes());
        self.expected = Expected::LastWords(Box::new(exchange));
        Ok(None)
    }
}

fn last_words(exchange: Exchange, words: &[u8], out: &mut Vec<u8>) -> Shown {
    let proven = exchange.finish(words)?;
    message::authentication_sasl_final(out, proven.server_final.as_bytes());
    Ok(Some(Credential::Scram(proven.keys)))
}

fn md5(stored: SecretString, salt: [u8; 4], body: &[u8]) -> Shown {
    if !same(password(body)?, md5_answer(&stored, salt).expose_secret()) {
        return Err(Refused::Password);
    }
    Ok(Some(Credential::Md5(stored)))
}

/// A password that is not UTF-8 cannot be in a file that is.
fn password(body: &[u8]) -> Result<&str, Refused> {
    let mut fields = Fields::new(body);
    let password = fields.string().filter(|_| fields.is_empty());
    let password = password.ok_or(Refused::Protocol("malformed PasswordMessage"))?;
    str::from_utf8(password).map_err(|_| Refused::Password)
}

#[cfg(test)]
mod tests;
