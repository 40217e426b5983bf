//! SCRAM-SHA-256 (RFC 5802, RFC 7677; "Protocol, SASL Authentication"): a client proves that it knows a password, and
//! the server that it has known it, and nobody who listens or keeps the verifier can do either.
//!
//! The exchange is here in both roles because the gate must speak it without rolling dice, log in with keys that a
//! client's login showed, and remember keys instead of deriving them for every connection: a derivation costs as much
//! as thousands of forwarded messages.

pub(super) mod client;
pub(super) mod server;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The mechanism's name. Its sister `SCRAM-SHA-256-PLUS` binds the login to a TLS channel.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// How often a password is hashed, unless the server says otherwise (`scram_iterations`).
pub const ITERATIONS: u32 = 4096;

/// What a server keeps instead of a password: enough to check a login, not enough to make one.
#[derive(Clone)]
pub struct Verifier {
    salting: Salting,
    stored_key: Key,
    server_key: Key,
}

/// What a client needs instead of a password, wherever the server has the same salt and number of iterations.
#[derive(Clone)]
pub struct Keys {
    salting: Salting,
    client_key: Key,
    server_key: Key,
}

/// How a password is made expensive to guess.
#[derive(Clone, PartialEq, Eq)]
struct Salting {
    salt: Vec<u8>,
    iterations: u32,
}

type Key = Zeroizing<[u8; 32]>;

impl Verifier {
    /// Reads a verifier as Postgres stores it: `SCRAM-SHA-256$iterations:salt$stored key:server key`, the last three in
    /// base64 ("System Catalogs, pg_authid").
    pub fn parse(text: &str) -> Option<Self> {
        let (salting, keys) = text.strip_prefix(MECHANISM)?.strip_prefix('$')?.split_once('$')?;
        let (iterations, salt) = salting.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let iterations = iterations.parse().ok().filter(|&iterations| iterations > 0)?;
        let salt = BASE64.decode(salt).ok().filter(|salt| !salt.is_empty())?;
        Some(Self {
            salting: Salting { salt, iterations },
            stored_key: decode_key(stored_key)?,
            server_key: decode_key(server_key)?,
        })
    }

    /// The verifier of a password. This is the expensive step.
    pub fn derive(password: &str, salt: &[u8], iterations: u32) -> Self {
        Keys::derive(password, Salting { salt: salt.to_vec(), iterations }).verifier()
    }

    /// A verifier that no password fits, for a user who does not exist.
    pub(super) fn unmatched(salt: &[u8], iterations: u32, key: [u8; 32]) -> Self {
        let salting = Salting { salt: salt.to_vec(), iterations };
        Self { salting, stored_key: Zeroizing::new(key), server_key: Zeroizing::new(key) }
    }

    /// Whether this is the password, found out the expensive way.
    pub(super) fn fits(&self, password: &str) -> bool {
        let keys = Keys::derive(password, self.salting.clone());
        keys.stored_key().ct_eq(&*self.stored_key).into()
    }

    pub(super) fn iterations(&self) -> u32 {
        self.salting.iterations
    }
}

impl Keys {
    fn derive(password: &str, salting: Salting) -> Self {
        let prepared = prepare(password);
        let mut salted = Zeroizing::new([0; 32]);
        pbkdf2::pbkdf2_hmac::<Sha256>(prepared.as_bytes(), &salting.salt, salting.iterations, &mut *salted);
        let (client_key, server_key) = (sign(&salted, b"Client Key"), sign(&salted, b"Server Key"));
        Self { salting, client_key, server_key }
    }

    fn stored_key(&self) -> Key {
        Zeroizing::new(Sha256::digest(*self.client_key).into())
    }

    fn verifier(&self) -> Verifier {
        Verifier { salting: self.salting.clone(), stored_key: self.stored_key(), server_key: self.server_key.clone() }
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(***)")
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(***)")
    }
}

/// SASLprep (RFC 4013) where it applies; a password that it forbids is used as it is, as the server and libpq do.
fn prepare(password: &str) -> Zeroizing<String> {
    Zeroizing::new(stringprep::saslprep(password).map_or_else(|_| password.to_owned(), Into::into))
}

/// HMAC-SHA-256. A key shorter than a block is padded with zeros by its definition (RFC 2104).
pub(super) fn sign(key: &[u8; 32], text: &[u8]) -> Key {
    let mut block = Zeroizing::new([0; 64]);
    block[..32].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new((&*block).into());
    mac.update(text);
    Zeroizing::new(mac.finalize().into_bytes().into())
}

/// A proof is a key and a signature, one over the other: who has two of the three has the third.
fn xor(one: &[u8; 32], other: &[u8; 32]) -> Key {
    Zeroizing::new(std::array::from_fn(|at| one[at] ^ other[at]))
}

fn decode_key(text: &str) -> Option<Key> {
    let bytes = Zeroizing::new(BASE64.decode(text).ok()?);
    Some(Zeroizing::new(bytes.as_slice().try_into().ok()?))
}

/// The value of the attribute `name=value`.
fn attribute(text: Option<&str>, name: char) -> Option<&str> {
    text?.strip_prefix(name)?.strip_prefix('=')
}

#[cfg(test)]
mod tests;
