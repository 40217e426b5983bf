//! An error that a server reported, and whose fault it is.

use std::fmt;

use super::fields::Fields;
use super::sqlstate;

/// What the gate keeps of an `ErrorResponse`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    /// How bad it is, in English (`FATAL`, `ERROR`, …).
    pub severity: String,
    /// What it is, for programs.
    pub sqlstate: String,
    /// What it is, for people; in the server's language.
    pub message: String,
}

/// Whose fault it is that a login failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The identity's: its user, password or database. Others may be served.
    Login,
    /// The server's, or its limits'. It may serve again later.
    Backend,
}

impl ServerError {
    /// Reads the body of an `ErrorResponse` ("Protocol, Error and Notice Message Fields"). What is missing is empty.
    pub fn parse(body: &[u8]) -> Self {
        let mut error = Self::default();
        let mut fields = Fields::new(body);
        while let (Some(field @ 1..), Some(text)) = (fields.byte(), fields.string()) {
            let text = || String::from_utf8_lossy(text).into_owned();
            match field {
                b'V' => error.severity = text(),
                // Servers before 9.6 send no V; S may be translated.
                b'S' if error.severity.is_empty() => error.severity = text(),
                b'C' => error.sqlstate = text(),
                b'M' => error.message = text(),
                _ => {}
            }
        }
        error
    }

    /// Whose fault it is, if it came in answer to a login. In doubt it is the server's: that is tried again, later.
    pub fn fault(&self) -> Fault {
        let codes = [sqlstate::UNKNOWN_DATABASE, sqlstate::INSUFFICIENT_PRIVILEGE, sqlstate::DATABASE_CLOSED];
        let login = self.sqlstate.starts_with(sqlstate::AUTHORIZATION_CLASS) || codes.contains(&&*self.sqlstate);
        if login { Fault::Login } else { Fault::Backend }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.severity, self.message, self.sqlstate)
    }
}

impl std::error::Error for ServerError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_read_whatever_order_its_fields_have() {
        let expected =
            ServerError { severity: "FATAL".to_owned(), sqlstate: "28P01".to_owned(), message: "nein".to_owned() };
        assert_eq!(ServerError::parse(b"SFATAL\0VFATAL\0C28P01\0Mnein\0Fauth.c\0\0"), expected);
        assert_eq!(ServerError::parse(b"Mnein\0VFATAL\0C28P01\0SSCHWER\0\0"), expected);
        assert_eq!(ServerError::parse(b"SFATAL\0C28P01\0Mnein\0\0"), expected);
        assert_eq!(expected.to_string(), "FATAL: nein (28P01)");
    }

    #[test]
    fn a_broken_error_is_still_an_error() {
        for body in [&b""[..], b"\0", b"M", b"Mcut", b"\0Mbehind\0"] {
            assert_eq!(ServerError::parse(body), ServerError::default());
        }
    }

    #[test]
    fn a_wrong_identity_is_told_from_a_server_in_trouble() {
        let fault = |code: &str| ServerError { sqlstate: code.to_owned(), ..ServerError::default() }.fault();
        for code in ["28P01", "28000", "3D000", "42501", "55000"] {
            assert_eq!(fault(code), Fault::Login, "{code}");
        }
        for code in ["53300", "57P03", "57P01", "XX000", "08P01", "", "53200"] {
            assert_eq!(fault(code), Fault::Backend, "{code}");
        }
    }
}
