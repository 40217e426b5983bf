//! Text that must not be seen.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, Serializer};

/// A password or the like: shown as `***` wherever it is printed, and wiped from memory when it is dropped.
pub struct Secret(SecretString);

const MASK: &str = "***";

impl Secret {
    /// The text itself, for whoever must send it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_however_it_is_printed() {
        let secret = Secret::from("hunter2".to_owned());
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert_eq!(toml::Value::try_from(&secret).unwrap().as_str(), Some("***"));
        assert_eq!(secret.expose(), "hunter2");
    }
}
