//! Messages of the Postgres protocol, written and read by hand.
//!
//! PostgreSQL's documentation, chapter "Frontend/Backend Protocol", section "Message Formats".

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::io::{self, Read};

use anyhow::{Context as _, Result, ensure};

/// Protocol 3.0, in a startup packet.
pub const VERSION_3_0: u32 = 3 << 16;
/// Protocol 3.2.
pub const VERSION_3_2: u32 = 3 << 16 | 2;
/// In the version's place: a request to cancel a query.
pub const CANCEL_REQUEST: u32 = 80_877_102;
/// In the version's place: a request for TLS.
pub const SSL_REQUEST: u32 = 80_877_103;
/// In the version's place: a request for GSSAPI encryption.
pub const GSSENC_REQUEST: u32 = 80_877_104;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its first byte.
    pub kind: u8,
    /// What follows its length.
    pub body: Vec<u8>,
}

impl Message {
    /// Reads one, or nothing where the stream ends before it.
    pub fn read(stream: &mut impl Read) -> Result<Option<Self>> {
        let mut kind = [0];
        match stream.read(&mut kind) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error).context("no message"),
        }
        Ok(Some(Self { kind: kind[0], body: read_body(stream)? }))
    }

    /// The message in bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes(self.kind, &self.body)
    }

    /// The columns of a DataRow.
    pub fn columns(&self) -> Result<Vec<Option<String>>> {
        let (count, mut rest) = self.body.split_at_checked(2).context("a short DataRow")?;
        let count = u16::from_be_bytes([count[0], count[1]]);
        let mut columns = Vec::new();
        for _ in 0..count {
            let (length, after) = rest.split_first_chunk().context("a short DataRow")?;
            let length = i32::from_be_bytes(*length);
            let Ok(length) = usize::try_from(length) else {
                columns.push(None);
                rest = after;
                continue;
            };
            let (value, after) = after.split_at_checked(length).context("a short DataRow")?;
            columns.push(Some(String::from_utf8_lossy(value).into_owned()));
            rest = after;
        }
        ensure!(rest.is_empty(), "a long DataRow");
        Ok(columns)
    }

    /// The first strings of the body, which end in zeros.
    pub fn strings(&self) -> Vec<String> {
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        self.body.split(|byte| *byte == 0).map(text).collect()
    }
}

/// Reads the length of a message and what it counts.
pub fn read_body(stream: &mut impl Read) -> Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).context("a message without its length")?;
    let length = u32::from_be_bytes(length).checked_sub(4).context("a length below 4")?;
    let mut body = vec![0; length as usize];
    stream.read_exact(&mut body).context("a message without its end")?;
    Ok(body)
}

/// A message in bytes.
pub fn bytes(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &packet(body)].concat()
}

/// A packet without a kind, as the first one of a connection is.
pub fn packet(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// A startup packet.
pub fn startup(version: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend(text(name));
        body.extend(text(value));
    }
    body.push(0);
    packet(&body)
}

/// A simple query.
pub fn query(sql: &str) -> Vec<u8> {
    bytes(b'Q', &text(sql))
}

/// A string as it stands in messages.
pub fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// An error that came as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// Such as `FATAL`.
    pub severity: String,
    /// The five characters of the SQLSTATE.
    pub code: String,
    /// For people.
    pub message: String,
}

impl ServerError {
    /// Reads an ErrorResponse.
    pub fn read(message: &Message) -> Self {
        let mut fields: HashMap<char, String> = HashMap::new();
        for field in message.strings() {
            let mut characters = field.chars();
            if let Some(name) = characters.next() {
                fields.insert(name, characters.collect());
            }
        }
        let mut take = |name| fields.remove(&name).unwrap_or_default();
        Self { severity: take('S'), code: take('C'), message: take('M') }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity, self.code, self.message)
    }
}

impl Error for ServerError {}
