//! The answer to simple queries, message by message, from bytes that arrive in any pieces ("Protocol, Message Flow,
//! Simple Query").
//!
//! Notices, notifications and reported settings may come between any two messages; they are not part of the answer, but
//! the settings are kept, because the next client must be told the truth.

use super::frame::Frame;
use super::parameters::Parameters;

/// What has arrived of an answer.
#[derive(Default)]
pub(super) struct Answer {
    received: Vec<u8>,
    at: usize,
    changes: Parameters,
}

/// Why an answer cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// A frame that cannot be.
    Malformed,
    /// More bytes than the answers awaited here can have.
    TooLong,
}

/// The answers that the gate awaits have a few hundred bytes. Notices of a client's doings may come before them.
pub(super) const LONGEST: usize = 64 * 1024;

impl Answer {
    /// Takes the next bytes. All that arrives is kept until the answer ends, so the limit is on the whole.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), Unreadable> {
        if self.received.len() + bytes.len() > LONGEST {
            return Err(Unreadable::TooLong);
        }
        self.received.extend_from_slice(bytes);
        Ok(())
    }

    /// The answer's next message, if it is complete.
    pub(super) fn next(&mut self) -> Result<Option<Frame<'_>>, Unreadable> {
        loop {
            let frame = Frame::next(&self.received[self.at..], LONGEST).map_err(|_| Unreadable::Malformed)?;
            let Some(frame) = frame else { return Ok(None) };
            self.at += frame.consumed();
            match frame.tag {
                NOTICE | NOTIFICATION => {}
                PARAMETER_STATUS => self.changes.note(frame.body).ok_or(Unreadable::Malformed)?,
                _ => return Ok(Some(frame)),
            }
        }
    }

    /// Whether every byte that arrived has been read.
    pub(super) fn is_read(&self) -> bool {
        self.at == self.received.len()
    }

    /// What the server reported meanwhile.
    pub(super) fn take_changes(&mut self) -> Parameters {
        std::mem::take(&mut self.changes)
    }
}

/// Messages that may come at any time ("Protocol, Message Flow, Asynchronous Operations").
const NOTICE: u8 = b'N';
const NOTIFICATION: u8 = b'A';
const PARAMETER_STATUS: u8 = b'S';

/// The messages of an answer.
pub(super) const ROW_DESCRIPTION: u8 = b'T';
pub(super) const DATA_ROW: u8 = b'D';
pub(super) const COMMAND_COMPLETE: u8 = b'C';
pub(super) const READY_FOR_QUERY: u8 = b'Z';
pub(super) const ERROR_RESPONSE: u8 = b'E';

/// The body of a `ReadyForQuery` outside of any transaction.
pub(super) const IDLE: &[u8] = b"I";
