//! What the gate logs in with at a server.

use secrecy::{ExposeSecret, SecretString};

use super::scram::Keys;
use super::scram::client::Knowledge;
use super::secret::{md5_answer, md5_secret};

/// A password, or what can stand for it in the login that it fits.
#[derive(Clone, Debug)]
pub enum Credential {
    /// Nothing: the server must trust the gate.
    None,
    /// The password: fits every login.
    Password {
        /// As it is.
        password: SecretString,
        /// SCRAM keys that an earlier login derived from it, which spare this one the derivation.
        keys: Option<Keys>,
    },
    /// `md5` and the hash of password and name: fits md5 logins.
    Md5(SecretString),
    /// SCRAM keys as a client's login showed them: fit SCRAM logins where the server keeps the same verifier.
    Scram(Keys),
}

impl Credential {
    /// A password that was not used yet.
    pub fn password(password: SecretString) -> Self {
        Self::Password { password, keys: None }
    }

    /// Keeps the keys that a login derived ([`super::login::Session::scram_keys`]), for the next one.
    pub fn remember(&mut self, derived: Keys) {
        if let Self::Password { keys, .. } = self {
            *keys = Some(derived);
        }
    }

    /// What to send to a server that wants to see the password.
    pub(super) fn cleartext(&self) -> Option<&SecretString> {
        match self {
            Self::Password { password, .. } => Some(password),
            _ => None,
        }
    }

    /// What to send to a server that wants the password hashed with a salt.
    pub(super) fn md5(&self, user: &str, salt: [u8; 4]) -> Option<SecretString> {
        match self {
            Self::Password { password, .. } => Some(md5_answer(&md5_secret(user, password.expose_secret()), salt)),
            Self::Md5(stored) => Some(md5_answer(stored, salt)),
            _ => None,
        }
    }

    /// What to answer SCRAM with.
    pub(super) fn scram(&self) -> Option<Knowledge<'_>> {
        match self {
            Self::Password { password, keys } => Some(Knowledge { password: Some(password), keys: keys.as_ref() }),
            Self::Scram(keys) => Some(Knowledge { password: None, keys: Some(keys) }),
            _ => None,
        }
    }
}
