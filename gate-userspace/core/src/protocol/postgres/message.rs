//! Writes messages, each appended to a buffer ("Protocol, Message Formats").
//!
//! A text ends at its NUL in this protocol, so a NUL inside a text cannot be sent and is left out.

use super::cancel_key::CancelKey;

/// How bad an error or a notice is, as the protocol spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The session is over.
    Fatal,
    /// The statement is over.
    Error,
    /// Something to know of.
    Warning,
    /// Something to read.
    Notice,
}

/// The text of an `ErrorResponse` or a `NoticeResponse`.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// How bad it is.
    pub severity: Severity,
    /// What it is, for programs: five characters, see [`super::sqlstate`].
    pub sqlstate: &'a str,
    /// What it is, for people.
    pub message: &'a str,
    /// More of it.
    pub detail: Option<&'a str>,
    /// What to do about it.
    pub hint: Option<&'a str>,
}

/// A backend's state at the end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Not in a transaction.
    Idle,
    /// In a transaction.
    InTransaction,
    /// In a transaction that has failed.
    Failed,
}

impl<'a> Report<'a> {
    /// An error that ends the session, with neither detail nor hint.
    pub fn fatal(sqlstate: &'a str, message: &'a str) -> Self {
        Self { severity: Severity::Fatal, sqlstate, message, detail: None, hint: None }
    }
}

/// To a client: something went wrong.
pub fn error_response(out: &mut Vec<u8>, report: &Report<'_>) {
    frame(out, b'E', |out| report.write(out));
}

/// To a client: something is worth knowing.
pub fn notice_response(out: &mut Vec<u8>, report: &Report<'_>) {
    frame(out, b'N', |out| report.write(out));
}

/// To a client: it is who it says it is.
pub fn authentication_ok(out: &mut Vec<u8>) {
    authentication(out, 0, &[]);
}

/// To a client: send the password as it is.
pub fn authentication_cleartext_password(out: &mut Vec<u8>) {
    authentication(out, 3, &[]);
}

/// To a client: send the password hashed with this salt.
pub fn authentication_md5_password(out: &mut Vec<u8>, salt: [u8; 4]) {
    authentication(out, 5, &salt);
}

/// To a client: choose one of these mechanisms.
pub fn authentication_sasl(out: &mut Vec<u8>, mechanisms: &[&str]) {
    let mut list = Vec::new();
    mechanisms.iter().for_each(|mechanism| string(&mut list, mechanism.as_bytes()));
    list.push(0);
    authentication(out, 10, &list);
}

/// To a client: the mechanism's next words.
pub fn authentication_sasl_continue(out: &mut Vec<u8>, data: &[u8]) {
    authentication(out, 11, data);
}

/// To a client: the mechanism's last words.
pub fn authentication_sasl_final(out: &mut Vec<u8>, data: &[u8]) {
    authentication(out, 12, data);
}

/// To a client: a setting has this value.
pub fn parameter_status(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    frame(out, b'S', |out| {
        string(out, name);
        string(out, value);
    });
}

/// To a client: the key by which it may cancel.
pub fn backend_key_data(out: &mut Vec<u8>, key: &CancelKey) {
    frame(out, b'K', |out| cancel_key(out, key));
}

/// To a client: the next query may come.
pub fn ready_for_query(out: &mut Vec<u8>, status: Status) {
    frame(out, b'Z', |out| out.push(status.byte()));
}

/// To a client: version 3.`minor` is spoken instead of what it asked for, and these options of the protocol are unknown.
pub fn negotiate_protocol_version<S: AsRef<str>>(out: &mut Vec<u8>, minor: u16, unknown_options: &[S]) {
    frame(out, b'v', |out| {
        out.extend(version(minor).to_be_bytes());
        // The options come from a packet of at most 10,000 bytes.
        out.extend(i32::try_from(unknown_options.len()).unwrap_or(i32::MAX).to_be_bytes());
        unknown_options.iter().for_each(|option| string(out, option.as_ref().as_bytes()));
    });
}

/// To a server: who comes, to which database, with which settings, in version 3.`minor`. It must be the first message.
pub fn startup_message<'a>(out: &mut Vec<u8>, minor: u16, parameters: impl IntoIterator<Item = (&'a str, &'a str)>) {
    untagged(out, |out| {
        out.extend(version(minor).to_be_bytes());
        for (name, value) in parameters {
            string(out, name.as_bytes());
            string(out, value.as_bytes());
        }
        out.push(0);
    });
}

/// To a server, as the only message of a connection of its own: cancel that session's query.
pub fn cancel_request(out: &mut Vec<u8>, key: &CancelKey) {
    untagged(out, |out| {
        out.extend(CANCEL_REQUEST.to_be_bytes());
        cancel_key(out, key);
    });
}

/// To a server: a password, plain or hashed.
pub fn password_message(out: &mut Vec<u8>, password: &[u8]) {
    frame(out, b'p', |out| string(out, password));
}

/// To a server: the mechanism that was chosen and its first words.
pub fn sasl_initial_response(out: &mut Vec<u8>, mechanism: &str, data: &[u8]) {
    frame(out, b'p', |out| {
        string(out, mechanism.as_bytes());
        // A mechanism's words are far below 2 GiB.
        out.extend(i32::try_from(data.len()).unwrap_or(i32::MAX).to_be_bytes());
        out.extend_from_slice(data);
    });
}

/// To a server: the mechanism's next words.
pub fn sasl_response(out: &mut Vec<u8>, data: &[u8]) {
    frame(out, b'p', |out| out.extend_from_slice(data));
}

/// To a server: a simple query.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    frame(out, b'Q', |out| string(out, sql.as_bytes()));
}

/// To a server: good-bye.
pub fn terminate(out: &mut Vec<u8>) {
    frame(out, b'X', |_| {});
}

/// The code in place of a version that asks for a query to be cancelled.
pub(super) const CANCEL_REQUEST: i32 = 80_877_102;

/// A version as one number: the major in the upper half, the minor in the lower.
fn version(minor: u16) -> i32 {
    0x0003_0000 | i32::from(minor)
}

impl Report<'_> {
    /// "Protocol, Error and Notice Message Fields": S may be translated, V never is; the gate speaks English in both.
    fn write(&self, out: &mut Vec<u8>) {
        let severity = self.severity.name();
        let fields = [
            (b'S', Some(severity)),
            (b'V', Some(severity)),
            (b'C', Some(self.sqlstate)),
            (b'M', Some(self.message)),
            (b'D', self.detail),
            (b'H', self.hint),
        ];
        for (field, text) in fields {
            if let Some(text) = text {
                out.push(field);
                string(out, text.as_bytes());
            }
        }
        out.push(0);
    }
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Notice => "NOTICE",
        }
    }
}

impl Status {
    fn byte(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::InTransaction => b'T',
            Self::Failed => b'E',
        }
    }
}

fn authentication(out: &mut Vec<u8>, request: i32, data: &[u8]) {
    frame(out, b'R', |out| {
        out.extend(request.to_be_bytes());
        out.extend_from_slice(data);
    });
}

fn cancel_key(out: &mut Vec<u8>, key: &CancelKey) {
    out.extend(key.process_id().to_be_bytes());
    out.extend_from_slice(key.secret());
}

fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().copied().filter(|&byte| byte != 0));
    out.push(0);
}

fn frame(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    untagged(out, body);
}

/// A length, which counts itself, and a body.
fn untagged(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 4]);
    body(out);
    // No message that the gate writes comes near 2 GiB; a length that cannot be makes the other side hang up.
    let length = i32::try_from(out.len() - start).unwrap_or(-1);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests;
