//! A client's side of a session before bytes are forwarded: whole messages in, whole answers out.

use std::io;
use std::net::SocketAddr;

use gate_core::protocol::postgres::frame::Frame;
use gate_core::protocol::postgres::startup::{self, First};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::farewell::Farewell;

/// The longest message of a login: a password or a SCRAM message, with room to spare.
const LONGEST_LOGIN_MESSAGE: usize = 16 << 10;

/// How much a client may send ahead while it waits to be served.
const EARLY: usize = 16 << 10;

/// A client and what was received from it but not used yet.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    received: Vec<u8>,
}

impl Client {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr) -> Self {
        Self { stream, peer, received: Vec::new() }
    }

    /// The next first packet.
    pub(super) async fn first_packet(&mut self) -> Result<First, Farewell> {
        loop {
            if let Some((first, length)) = startup::parse(&self.received)? {
                self.received.drain(..length);
                return Ok(first);
            }
            self.receive().await?;
        }
    }

    /// Whether the client sent something before it got an answer.
    pub(super) fn has_sent_early(&self) -> bool {
        !self.received.is_empty()
    }

    /// The next message of a login, given to `handle`.
    pub(super) async fn message<R>(&mut self, handle: impl FnOnce(u8, &[u8]) -> R) -> Result<R, Farewell> {
        loop {
            if let Some(frame) = Frame::next(&self.received, LONGEST_LOGIN_MESSAGE)? {
                let (result, consumed) = (handle(frame.tag, frame.body), frame.consumed());
                self.received.drain(..consumed);
                return Ok(result);
            }
            self.receive().await?;
        }
    }

    /// Sends all of it.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Farewell> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Waits until the client is gone; what it sends meanwhile is kept, up to a limit.
    pub(super) async fn gone(&mut self) -> Farewell {
        loop {
            if self.received.len() >= EARLY {
                std::future::pending::<()>().await;
            }
            if let Err(farewell) = self.receive().await {
                return farewell;
            }
        }
    }

    /// Splits off what the client sent ahead.
    pub(super) fn take_early(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }

    async fn receive(&mut self) -> Result<(), Farewell> {
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(Farewell::Gone(io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(()),
        }
    }
}
