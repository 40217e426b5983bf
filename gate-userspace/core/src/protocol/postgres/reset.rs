//! The nonce-fenced reset: makes a connection as new, and proves it.
//!
//! When a client has gone, the gate does not know what the server still has to say to it: result bytes may be under
//! way, and some of them may look like anything, since a client can ask for any bytes. So the gate sends `ROLLBACK`,
//! `DISCARD ALL`, and asks for a random text that nobody else has seen. Only if the very next bytes are exactly the
//! answers to these three, ending idle with nothing behind them, is the connection clean. Nothing that was under way
//! before can hold that text, so nothing can stand in for the answers, come before them, or shift them.
//!
//! `ROLLBACK` outside of a transaction makes the server write a warning to its log. So it is left out for a connection
//! that looks idle; if it is not, `DISCARD ALL` fails, and the connection is discarded.
//!
//! There is no `Sync` in it, although a server that met an error in the extended protocol ignores all before the next one:
//! it would commit what the client left unfinished. Such a connection does not answer, and is discarded after a while.
//!
//! Three messages rather than one, since `DISCARD ALL` must not stand in a transaction block, as which several
//! statements of one simple query count.

use std::fmt;

use subtle::ConstantTimeEq;

use super::fields::Fields;
use super::frame::Frame;
use super::message;
use super::parameters::Parameters;
use super::simple_query::{
    Answer, COMMAND_COMPLETE, DATA_ROW, ERROR_RESPONSE, IDLE, READY_FOR_QUERY, ROW_DESCRIPTION, Unreadable,
};

/// A reset in progress. The client's stream must have ended at a frame's boundary before it begins.
pub struct Fence {
    /// In hexadecimal, as it is asked for and answered.
    nonce: [u8; 32],
    answer: Answer,
    /// Whether a transaction may have to be rolled back.
    rolls_back: bool,
    /// How many messages of the answer have come, or need not come.
    arrived: usize,
    /// Set once it is over.
    outcome: Option<Dirty>,
}

/// How a reset stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are awaited.
    NeedMore,
    /// The connection is as new.
    Clean {
        /// What the server reported on the way: settings that the last client had changed, as they are again.
        changes: Parameters,
    },
    /// It is not, or nobody can tell: discard it.
    Dirty(Dirty),
}

/// Why a connection is not clean. For logs and labels; nothing of what was received is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dirty {
    /// The server did not do as it was asked.
    Error,
    /// Something else came than the answer to the reset: most likely the rest of a client's results.
    Leftover,
    /// The bytes are not frames.
    Malformed,
    /// Far more bytes came than the answer has.
    TooLong,
    /// The answer was right in all but the nonce.
    WrongNonce,
    /// The server is still in a transaction.
    NotIdle,
    /// Something came behind the answer.
    Behind,
}

impl Fence {
    /// A reset that is proved by this nonce, which must be random and never used before.
    pub fn new(nonce: [u8; 16]) -> Self {
        Self { nonce: hex(nonce), answer: Answer::default(), rolls_back: true, arrived: 0, outcome: None }
    }

    /// The same for a connection that looks as if it were in no transaction.
    pub fn of_idle(nonce: [u8; 16]) -> Self {
        Self { rolls_back: false, arrived: ROLLED_BACK, ..Self::new(nonce) }
    }

    /// Appends the queries.
    pub fn request(&self, out: &mut Vec<u8>) {
        if self.rolls_back {
            message::query(out, "ROLLBACK");
        }
        message::query(out, "DISCARD ALL");
        message::query(out, &format!("SELECT '{}'", String::from_utf8_lossy(&self.nonce)));
    }

    /// Takes the next bytes that the server sent.
    pub fn handle(&mut self, bytes: &[u8]) -> Progress {
        match self.outcome.map_or_else(|| self.advance(bytes), Err) {
            Ok(false) => Progress::NeedMore,
            Ok(true) => {
                self.outcome = Some(Dirty::Behind);
                Progress::Clean { changes: self.answer.take_changes() }
            }
            Err(dirty) => {
                self.outcome = Some(dirty);
                Progress::Dirty(dirty)
            }
        }
    }

    /// Reads on; says whether the answer is complete.
    fn advance(&mut self, bytes: &[u8]) -> Result<bool, Dirty> {
        self.answer.feed(bytes)?;
        while let Some(expected) = EXPECTED.get(self.arrived) {
            let Some(frame) = self.answer.next()? else { return Ok(false) };
            expected.check(frame, &self.nonce)?;
            self.arrived += 1;
        }
        if self.answer.is_read() { Ok(true) } else { Err(Dirty::Behind) }
    }
}

/// A message of the answer.
enum Expected {
    Complete(&'static [u8]),
    Idle,
    OneColumn,
    Nonce,
}

/// The whole answer, in order.
const EXPECTED: [Expected; 8] = [
    Expected::Complete(b"ROLLBACK\0"),
    Expected::Idle,
    Expected::Complete(b"DISCARD ALL\0"),
    Expected::Idle,
    Expected::OneColumn,
    Expected::Nonce,
    Expected::Complete(b"SELECT 1\0"),
    Expected::Idle,
];

/// How many of these answer `ROLLBACK`.
const ROLLED_BACK: usize = 2;

impl Expected {
    fn check(&self, frame: Frame<'_>, nonce: &[u8; 32]) -> Result<(), Dirty> {
        match (self, frame.tag) {
            (_, ERROR_RESPONSE) => Err(Dirty::Error),
            (Self::Complete(command), COMMAND_COMPLETE) if frame.body == *command => Ok(()),
            (Self::Idle, READY_FOR_QUERY) if frame.body == IDLE => Ok(()),
            (Self::Idle, READY_FOR_QUERY) => Err(Dirty::NotIdle),
            (Self::OneColumn, ROW_DESCRIPTION) if describes_one_column(frame.body) => Ok(()),
            (Self::Nonce, DATA_ROW) => match only_value(frame.body) {
                Some(value) if value.ct_eq(nonce).into() => Ok(()),
                Some(_) => Err(Dirty::WrongNonce),
                None => Err(Dirty::Leftover),
            },
            _ => Err(Dirty::Leftover),
        }
    }
}

/// A `RowDescription` of one column: a name, and 18 bytes of what it is.
fn describes_one_column(body: &[u8]) -> bool {
    let mut fields = Fields::new(body);
    fields.int16() == Some(1) && fields.string().is_some() && fields.rest().len() == 18
}

/// The value of a `DataRow` that has just one.
fn only_value(body: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields::new(body);
    (fields.int16()? == 1).then_some(())?;
    let length = usize::try_from(fields.int32()?).ok()?;
    Some(fields.rest()).filter(|value| value.len() == length)
}

fn hex(nonce: [u8; 16]) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|at| DIGITS[usize::from(nonce[at / 2] >> (4 * (1 - at % 2)) & 15)])
}

impl From<Unreadable> for Dirty {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Malformed => Self::Malformed,
            Unreadable::TooLong => Self::TooLong,
        }
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("arrived", &self.arrived).field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl fmt::Display for Dirty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "the server reported an error",
            Self::Leftover => "bytes of the last session were still to come",
            Self::Malformed => "the server's bytes are not messages",
            Self::TooLong => "the server sent far more than the answer",
            Self::WrongNonce => "the server gave another nonce than it was asked for",
            Self::NotIdle => "the server is still in a transaction",
            Self::Behind => "the server sent something behind the answer",
        })
    }
}

#[cfg(test)]
mod tests;
