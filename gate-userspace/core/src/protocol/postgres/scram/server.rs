//! The exchange as the server sees it.

use base64::Engine;
use subtle::ConstantTimeEq;

use super::{BASE64, Keys, Verifier, attribute, decode_key, sign, xor};
use crate::protocol::postgres::authenticate::Refused;

/// A client's first words, heard and answered.
pub(in super::super) struct Exchange {
    verifier: Verifier,
    /// Base64 of the header that the client's last words must repeat.
    binding: String,
    /// The client's random text and the gate's behind it.
    nonce: String,
    /// The two messages so far, as they will be signed.
    transcript: String,
}

/// Proof for proof: what the client is told, and with what the gate may log in for it.
pub(in super::super) struct Proven {
    pub(in super::super) server_final: String,
    pub(in super::super) keys: Keys,
}

/// A client's messages are a few dozen bytes; libpq's are below 200.
const LONGEST: usize = 4096;

impl Exchange {
    /// Hears the client's first words; returns the answer to them too.
    pub(in super::super) fn begin(
        verifier: &Verifier,
        random: &[u8],
        message: &[u8],
    ) -> Result<(Self, String), Refused> {
        let message = text(message)?;
        let (header, bare) = split_header(message)?;
        let client_nonce = client_nonce(bare)?;
        let nonce = format!("{client_nonce}{}", BASE64.encode(random));
        let salting = &verifier.salting;
        let server_first = format!("r={nonce},s={},i={}", BASE64.encode(&salting.salt), salting.iterations);
        let exchange = Self {
            verifier: verifier.clone(),
            binding: BASE64.encode(header),
            nonce,
            transcript: format!("{bare},{server_first}"),
        };
        Ok((exchange, server_first))
    }

    /// Hears its last words, `c=binding,r=nonce,…,p=proof`.
    pub(in super::super) fn finish(self, message: &[u8]) -> Result<Proven, Refused> {
        let message = text(message)?;
        let (signed, proof) = message.rsplit_once(",p=").ok_or(MALFORMED)?;
        let proof = decode_key(proof).ok_or(MALFORMED)?;
        let mut attributes = signed.split(',');
        if attribute(attributes.next(), 'c').ok_or(MALFORMED)? != self.binding {
            return Err(Refused::Protocol("SCRAM channel binding check failed"));
        }
        if attribute(attributes.next(), 'r').ok_or(MALFORMED)? != self.nonce {
            return Err(Refused::Protocol("SCRAM nonce does not match"));
        }
        let signed = format!("{},{signed}", self.transcript);
        let Verifier { salting, stored_key, server_key } = self.verifier;
        let client_key = xor(&proof, &sign(&stored_key, signed.as_bytes()));
        let keys = Keys { salting, client_key, server_key };
        if !bool::from(keys.stored_key().ct_eq(&*stored_key)) {
            return Err(Refused::Password);
        }
        let server_final = format!("v={}", BASE64.encode(*sign(&keys.server_key, signed.as_bytes())));
        Ok(Proven { server_final, keys })
    }
}

const MALFORMED: Refused = Refused::Protocol("malformed SCRAM message");

fn text(message: &[u8]) -> Result<&str, Refused> {
    let short = message.len() <= LONGEST;
    str::from_utf8(message).ok().filter(|_| short).ok_or(MALFORMED)
}

/// Divides the first message into the GS2 header (binding flag, other identity) and the rest (RFC 5802, section 7).
fn split_header(message: &str) -> Result<(&str, &str), Refused> {
    let (flag, rest) = message.split_once(',').ok_or(MALFORMED)?;
    let (identity, bare) = rest.split_once(',').ok_or(MALFORMED)?;
    match flag {
        // `y`: the client could bind, and rightly believes that the gate cannot.
        "n" | "y" => {}
        _ if flag.starts_with("p=") => {
            return Err(Refused::Protocol("channel binding was not offered, but the client asks for it"));
        }
        _ => return Err(MALFORMED),
    }
    if !identity.is_empty() {
        return Err(Refused::Unsupported(
            "logging in as one user and acting as another (SCRAM authorization identity)",
        ));
    }
    Ok((&message[..message.len() - bare.len()], bare))
}

/// Finds the random text in `n=user,r=nonce,…`. The user's name there is empty or a repetition, and not looked at.
fn client_nonce(bare: &str) -> Result<&str, Refused> {
    if bare.starts_with("m=") {
        return Err(Refused::Unsupported("mandatory SCRAM extensions"));
    }
    let mut attributes = bare.split(',');
    attribute(attributes.next(), 'n').ok_or(MALFORMED)?;
    let nonce = attribute(attributes.next(), 'r').ok_or(MALFORMED)?;
    let printable = nonce.bytes().all(|byte| byte.is_ascii_graphic());
    if nonce.is_empty() || !printable { Err(MALFORMED) } else { Ok(nonce) }
}
