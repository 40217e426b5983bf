//! A client's startup parameters, applied to a pooled connection before the client is told that it is ready.
//!
//! One `SELECT set_config(…), …` does it: all of them or none, in one round trip, and values are values, where `SET`
//! would read `search_path` as a list of names. What the server reports to have already is left out, so that most
//! clients cost no round trip at all. A setting that the server does not take is the server's own error.

use std::collections::HashMap;
use std::fmt;

use super::frame::Frame;
use super::message;
use super::parameters::Parameters;
use super::simple_query::{
    Answer, COMMAND_COMPLETE, DATA_ROW, ERROR_RESPONSE, IDLE, READY_FOR_QUERY, ROW_DESCRIPTION, Unreadable,
};

/// Settings being applied.
pub struct Apply {
    sql: String,
    answer: Answer,
    stage: Stage,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// More bytes are awaited.
    NeedMore,
    /// All are applied.
    Done {
        /// What the server reported on the way; the client must be told these values, and the connection's next client
        /// the old ones again.
        changes: Parameters,
    },
    /// The server does not take one of them, and applied none. The connection is idle and in order.
    Failed {
        /// The server's `ErrorResponse`, whole, for the client.
        response: Vec<u8>,
    },
    /// The server answered something else: discard the connection.
    Broken(&'static str),
}

/// A setting that cannot be sent, because its name or its value has a NUL in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotASetting {
    /// Its name.
    pub name: String,
}

/// What comes next.
enum Stage {
    Description,
    Row,
    Complete,
    Ready,
    /// The server has refused, and has yet to be ready.
    Refused(Vec<u8>),
    /// Nothing: it is applied.
    Applied,
    /// Nothing: it is not.
    NotApplied(Vec<u8>),
    /// Nothing: the outcome was told.
    Over,
}

impl Apply {
    /// What must be applied of `settings` to a connection that reported `reported`; `None` if nothing.
    pub fn new(settings: &[(String, String)], reported: &Parameters) -> Result<Option<Self>, NotASetting> {
        let places = settings.iter().enumerate().map(|(at, (name, _))| (name.to_ascii_lowercase(), at));
        let last: HashMap<_, _> = places.collect();
        let mut sql = String::new();
        for (at, (name, value)) in settings.iter().enumerate() {
            let counts = is_setting(name) && last.get(&name.to_ascii_lowercase()) == Some(&at);
            if !counts || is_so_already(name, value, reported) {
                continue;
            }
            if name.contains('\0') || value.contains('\0') {
                return Err(NotASetting { name: name.clone() });
            }
            sql.push_str(if sql.is_empty() { "SELECT " } else { ", " });
            sql.push_str("pg_catalog.set_config(");
            quote(&mut sql, name);
            sql.push_str(", ");
            quote(&mut sql, value);
            sql.push_str(", false)");
        }
        let apply = (!sql.is_empty()).then(|| Self { sql, answer: Answer::default(), stage: Stage::Description });
        Ok(apply)
    }

    /// Appends the query.
    pub fn request(&self, out: &mut Vec<u8>) {
        message::query(out, &self.sql);
    }

    /// Takes the next bytes that the server sent.
    pub fn handle(&mut self, bytes: &[u8]) -> Applied {
        self.advance(bytes).unwrap_or_else(|Broken(why)| {
            self.stage = Stage::Over;
            Applied::Broken(why)
        })
    }

    fn advance(&mut self, bytes: &[u8]) -> Result<Applied, Broken> {
        self.answer.feed(bytes)?;
        while let Some(frame) = self.answer.next()? {
            self.stage = std::mem::replace(&mut self.stage, Stage::Over).after(frame)?;
        }
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Applied | Stage::NotApplied(_) | Stage::Over if !self.answer.is_read() => Err(BEHIND),
            Stage::Applied => Ok(Applied::Done { changes: self.answer.take_changes() }),
            Stage::NotApplied(response) => Ok(Applied::Failed { response }),
            Stage::Over => Err(BEHIND),
            unfinished => {
                self.stage = unfinished;
                Ok(Applied::NeedMore)
            }
        }
    }
}

impl Stage {
    fn after(self, frame: Frame<'_>) -> Result<Self, Broken> {
        match (self, frame.tag) {
            (Self::Description, ROW_DESCRIPTION) => Ok(Self::Row),
            (Self::Row, DATA_ROW) => Ok(Self::Complete),
            (Self::Complete, COMMAND_COMPLETE) => Ok(Self::Ready),
            (Self::Description | Self::Row | Self::Complete, ERROR_RESPONSE) => {
                let mut response = Vec::with_capacity(frame.consumed());
                frame.write(&mut response);
                Ok(Self::Refused(response))
            }
            (Self::Ready, READY_FOR_QUERY) if frame.body == IDLE => Ok(Self::Applied),
            (Self::Refused(response), READY_FOR_QUERY) if frame.body == IDLE => Ok(Self::NotApplied(response)),
            (Self::Applied | Self::NotApplied(_) | Self::Over, _) => Err(BEHIND),
            _ => Err(Broken("the server did not answer as a SELECT is answered")),
        }
    }
}

/// Why a connection is of no use any more.
struct Broken(&'static str);

const BEHIND: Broken = Broken("the server sent something behind its answer");

impl From<Unreadable> for Broken {
    fn from(unreadable: Unreadable) -> Self {
        Self(match unreadable {
            Unreadable::Malformed => "the server's bytes are not messages",
            Unreadable::TooLong => "the server sent far more than an answer",
        })
    }
}

impl fmt::Display for NotASetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "setting {:?} has a NUL in its name or value", self.name)
    }
}

impl std::error::Error for NotASetting {}

/// Startup parameters that choose the session instead of setting something in it.
fn is_setting(name: &str) -> bool {
    !["user", "database", "replication", "options"].contains(&name) && !name.starts_with("_pq_.")
}

fn is_so_already(name: &str, value: &str, reported: &Parameters) -> bool {
    let Some(reported) = reported.get(name) else { return false };
    if name.eq_ignore_ascii_case("client_encoding") {
        // To the server an encoding's name is its letters and digits: drivers say `UTF8`, `utf-8` and `'utf-8'`.
        let essence = |name: &[u8]| -> Vec<u8> {
            name.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase).collect()
        };
        return essence(value.as_bytes()) == essence(reported);
    }
    value.as_bytes() == reported
}

/// Appends a literal that means the same whatever `standard_conforming_strings` is ("String Constants with C-Style
/// Escapes").
fn quote(sql: &mut String, text: &str) {
    sql.push_str("E'");
    for char in text.chars() {
        if matches!(char, '\'' | '\\') {
            sql.push(char);
        }
        sql.push(char);
    }
    sql.push('\'');
}

#[cfg(test)]
mod tests;
