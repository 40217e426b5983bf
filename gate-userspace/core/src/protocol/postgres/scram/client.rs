//! The exchange as the client sees it.

use base64::Engine;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::{BASE64, Keys, Salting, attribute, decode_key, sign, xor};

/// The first words are said.
pub(in super::super) struct Exchange {
    nonce: String,
}

/// All is said, and the server has yet to prove itself.
pub(in super::super) struct Unproven {
    keys: Keys,
    signed: String,
}

/// What the client has: a password and perhaps keys that were derived from it before, or keys alone.
pub(in super::super) struct Knowledge<'a> {
    pub(in super::super) password: Option<&'a SecretString>,
    pub(in super::super) keys: Option<&'a Keys>,
}

/// Why the exchange cannot go on.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Stuck {
    /// The server's message is not SCRAM's, or not for this exchange.
    Malformed,
    /// The keys were derived with another salt, and there is no password to derive them anew.
    OtherSalt,
    /// The server asks for more work than a login is worth.
    TooManyIterations,
}

/// A million iterations take a tenth of a second. An impostor must not be able to ask for more.
const MOST_ITERATIONS: u32 = 1_000_000;

/// No channel binding, and no other identity.
const HEADER: &str = "n,,";

impl Exchange {
    /// Begins; returns the first words too. Postgres takes the user's name from the startup packet, so it is empty here.
    pub(in super::super) fn begin(random: &[u8]) -> (Self, String) {
        let exchange = Self { nonce: BASE64.encode(random) };
        let first = format!("{HEADER}{}", exchange.bare());
        (exchange, first)
    }

    /// Hears the server's first words and returns the answer to them.
    pub(in super::super) fn answer(self, message: &[u8], known: Knowledge<'_>) -> Result<(Unproven, String), Stuck> {
        let server_first = str::from_utf8(message).map_err(|_| Stuck::Malformed)?;
        let (nonce, salting) = self.read(server_first).ok_or(Stuck::Malformed)?;
        if salting.iterations > MOST_ITERATIONS {
            return Err(Stuck::TooManyIterations);
        }
        let keys = known.keys_for(salting)?;
        let unproven = format!("c={},r={nonce}", BASE64.encode(HEADER));
        let signed = format!("{},{server_first},{unproven}", self.bare());
        let signature = sign(&keys.stored_key(), signed.as_bytes());
        let proof = BASE64.encode(*xor(&keys.client_key, &signature));
        Ok((Unproven { keys, signed }, format!("{unproven},p={proof}")))
    }

    fn bare(&self) -> String {
        format!("n=,r={}", self.nonce)
    }

    /// Reads `r=nonce,s=salt,i=iterations`; the nonce must be this exchange's, with the server's behind it.
    fn read<'a>(&self, server_first: &'a str) -> Option<(&'a str, Salting)> {
        let mut attributes = server_first.split(',');
        let nonce = attribute(attributes.next(), 'r')?;
        let salt = BASE64.decode(attribute(attributes.next(), 's')?).ok()?;
        let iterations = attribute(attributes.next(), 'i')?.parse().ok().filter(|&iterations| iterations > 0)?;
        let fresh = nonce.len() > self.nonce.len() && nonce.starts_with(&self.nonce);
        fresh.then_some((nonce, Salting { salt, iterations }))
    }
}

impl Knowledge<'_> {
    fn keys_for(self, salting: Salting) -> Result<Keys, Stuck> {
        match (self.keys, self.password) {
            (Some(keys), _) if keys.salting == salting => Ok(keys.clone()),
            (_, Some(password)) => Ok(Keys::derive(password.expose_secret(), salting)),
            (_, None) => Err(Stuck::OtherSalt),
        }
    }
}

impl Unproven {
    /// Hears the server's last words, `v=signature`. The keys are returned if they show that the server knows them.
    pub(in super::super) fn prove(self, message: &[u8]) -> Option<Keys> {
        let message = str::from_utf8(message).ok()?;
        let signature = decode_key(attribute(message.split(',').next(), 'v')?)?;
        let expected = sign(&self.keys.server_key, self.signed.as_bytes());
        bool::from(signature.ct_eq(&*expected)).then_some(self.keys)
    }
}
