//! The key by which a client asks for its query to be cancelled ("Protocol, Message Flow, Canceling Requests in
//! Progress"): a number that finds the session, and a secret that proves the right.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A session's number and secret. Equality takes the same time wherever the secrets differ.
#[derive(Clone)]
pub struct CancelKey {
    process_id: i32,
    secret: Zeroizing<Vec<u8>>,
}

/// The secret's length in protocol 3.0, and the least in 3.2.
pub const SHORTEST: usize = 4;
/// The secret's greatest length in protocol 3.2.
pub const LONGEST: usize = 256;

impl CancelKey {
    /// A key, if its secret is neither too short nor too long.
    pub fn new(process_id: i32, secret: &[u8]) -> Option<Self> {
        let fits = (SHORTEST..=LONGEST).contains(&secret.len());
        fits.then(|| Self { process_id, secret: Zeroizing::new(secret.to_vec()) })
    }

    /// What finds the session.
    pub fn process_id(&self) -> i32 {
        self.process_id
    }

    /// What proves the right to cancel its query.
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }
}

impl PartialEq for CancelKey {
    fn eq(&self, other: &Self) -> bool {
        self.process_id == other.process_id && self.secret.ct_eq(&other.secret).into()
    }
}

impl Eq for CancelKey {}

impl fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CancelKey({}, ***)", self.process_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_another_if_number_or_secret_differ() {
        let key = CancelKey::new(7, &[1; 32]).unwrap();
        assert_eq!(key, CancelKey::new(7, &[1; 32]).unwrap());
        for other in [CancelKey::new(8, &[1; 32]), CancelKey::new(7, &[2; 32]), CancelKey::new(7, &[1; 31])] {
            assert_ne!(key, other.unwrap());
        }
    }

    #[test]
    fn only_lengths_of_the_protocol_are_keys() {
        for (length, fits) in [(0, false), (3, false), (4, true), (256, true), (257, false)] {
            assert_eq!(CancelKey::new(7, &vec![1; length]).is_some(), fits, "{length}");
        }
    }

    #[test]
    fn the_secret_is_not_printed() {
        assert_eq!(format!("{:?}", CancelKey::new(7, b"1234").unwrap()), "CancelKey(7, ***)");
    }
}
