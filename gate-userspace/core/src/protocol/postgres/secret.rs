//! What the gate knows of a user's password.

use std::fmt;

use md5::{Digest, Md5};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::scram::Verifier;

/// A user's password, or what stands for it.
#[derive(Clone)]
pub enum Secret {
    /// The password, and what SCRAM needs of it, derived once because it is expensive.
    Plain {
        /// As it is.
        password: SecretString,
        /// Derived from it.
        verifier: Verifier,
    },
    /// `md5` and the hash of password and name in hexadecimal.
    Md5(SecretString),
    /// A SCRAM-SHA-256 verifier.
    Scram(Verifier),
}

impl Secret {
    /// Whether this is the password, in the time that a SCRAM derivation takes (but for an md5 hash).
    pub(super) fn fits(&self, user: &str, password: &str) -> bool {
        match self {
            Self::Plain { verifier, .. } | Self::Scram(verifier) => verifier.fits(password),
            Self::Md5(hash) => same(md5_secret(user, password).expose_secret(), hash.expose_secret()),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// What a server stores of an md5 password ("System Catalogs, pg_authid").
pub(super) fn md5_secret(user: &str, password: &str) -> SecretString {
    md5_text(password.as_bytes(), user.as_bytes())
}

/// The answer to a request for an md5 password: the stored hash, without its prefix, hashed once more with a salt.
pub(super) fn md5_answer(stored: &SecretString, salt: [u8; 4]) -> SecretString {
    let stored = stored.expose_secret();
    md5_text(stored.strip_prefix("md5").unwrap_or(stored).as_bytes(), &salt)
}

/// Compares without telling by the time how much is right. Only lengths, which everybody knows, may show.
pub(super) fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

fn md5_text(secret: &[u8], salt: &[u8]) -> SecretString {
    let digest: Zeroizing<[u8; 16]> =
        Zeroizing::new(Md5::new().chain_update(secret).chain_update(salt).finalize().into());
    md5_hex(&digest)
}

/// A hash as Postgres writes it.
pub(super) fn md5_hex(digest: &[u8; 16]) -> SecretString {
    format!("md5{:032x}", u128::from_be_bytes(*digest)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_is_as_other_clients_and_servers_make_it() {
        let stored = md5_secret("md5_user", "password");
        assert_eq!(stored.expose_secret(), postgres_protocol::password::md5(b"password", "md5_user"));
        for salt in [[0; 4], [0x2a, 0x3d, 0x8f, 0xe0]] {
            let theirs = postgres_protocol::authentication::md5_hash(b"md5_user", b"password", salt);
            assert_eq!(md5_answer(&stored, salt).expose_secret(), theirs);
        }
    }
}
