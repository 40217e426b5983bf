//! A Postgres client that does everything by hand, also what no real client would do: stop in the
//! middle of a message, leave without a word, never read.

use std::collections::HashMap;
use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use socket2::SockRef;

use crate::frame::{self, Message, ServerError};
use crate::template::{DATABASE, PASSWORD, USER};

/// How long it waits for an answer: longer than a client may be kept in a queue.
const PATIENCE: Duration = Duration::from_secs(35);

/// Who logs in, to what, and with which settings.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// The user.
    pub user: &'a str,
    /// Its password.
    pub password: &'a str,
    /// The database.
    pub database: &'a str,
    /// Further parameters of the startup packet.
    pub parameters: &'a [(&'a str, &'a str)],
    /// The protocol's version.
    pub version: u32,
}

impl Default for Login<'_> {
    fn default() -> Self {
        Self { user: USER, password: PASSWORD, database: DATABASE, parameters: &[], version: frame::VERSION_3_0 }
    }
}

impl Login<'_> {
    /// The startup packet.
    pub fn packet(&self) -> Vec<u8> {
        let names = [("user", self.user), ("database", self.database)];
        frame::startup(self.version, &[&names[..], self.parameters].concat())
    }
}

/// A row of text.
pub type Row = Vec<Option<String>>;

/// A connection, closed on drop.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
    /// What the server said of its settings.
    pub parameters: HashMap<String, String>,
    /// The body of BackendKeyData: the process and its secret.
    pub key: Vec<u8>,
    /// The transaction's state at the last ReadyForQuery.
    pub state: u8,
    /// Messages that nobody asked for: notices, notifications, version negotiation.
    pub asides: Vec<Message>,
}

impl Client {
    /// Connects and logs in.
    pub fn login(address: SocketAddr, login: &Login<'_>) -> Result<Self> {
        let mut client = Self::connect(address)?;
        client.send(&login.packet())?;
        client.authenticate(login.password)?;
        client.wait_until_ready()?;
        Ok(client)
    }

    /// Only connects.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let stream = BufReader::new(stream);
        Ok(Self { stream, parameters: HashMap::new(), key: Vec::new(), state: 0, asides: Vec::new() })
    }

    /// Sends bytes, whatever they mean.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.get_mut().write_all(bytes)?)
    }

    /// Proves who it is, by whichever way it is asked to, until it is accepted.
    pub fn authenticate(&mut self, password: &str) -> Result<()> {
        let mut scram = None;
        loop {
            let message = self.receive()?;
            let (kind, rest) = message.body.split_first_chunk().context("a short Authentication")?;
            match (message.kind, u32::from_be_bytes(*kind)) {
                (b'R', 0) => return Ok(()),
                (b'R', 3) => self.send(&frame::bytes(b'p', &frame::text(password)))?,
                (b'R', 10) => {
                    let state = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
                    let length = (state.message().len() as u32).to_be_bytes();
                    let first = [&frame::text("SCRAM-SHA-256")[..], &length, state.message()].concat();
                    self.send(&frame::bytes(b'p', &first))?;
                    scram = Some(state);
                }
                (b'R', 11) => {
                    let state = scram.as_mut().context("SCRAM has not begun")?;
                    state.update(rest)?;
                    let message = frame::bytes(b'p', state.message());
                    self.send(&message)?;
                }
                (b'R', 12) => scram.as_mut().context("SCRAM has not begun")?.finish(rest)?,
                (kind, code) => bail!("asked to authenticate by {:?} {code}", char::from(kind)),
            }
        }
    }

    /// The next message as it comes, or nothing at the end of the stream.
    pub fn message(&mut self) -> Result<Option<Message>> {
        Message::read(&mut self.stream)
    }

    /// The next message; an ErrorResponse is an error ([`ServerError`]), and so is the end of the stream.
    /// What nobody asked for is put aside.
    pub fn receive(&mut self) -> Result<Message> {
        loop {
            let message = self.message()?.context("the connection was closed")?;
            match message.kind {
                b'E' => return Err(ServerError::read(&message).into()),
                b'S' => {
                    let mut pair = message.strings().into_iter();
                    self.parameters.insert(pair.next().unwrap_or_default(), pair.next().unwrap_or_default());
                }
                b'K' => self.key = message.body,
                b'A' | b'N' | b'v' => self.asides.push(message),
                b'Z' => {
                    self.state = message.body.first().copied().unwrap_or_default();
                    return Ok(message);
                }
                _ => return Ok(message),
            }
        }
    }

    /// Reads on to the next ReadyForQuery, and returns what came before.
    pub fn wait_until_ready(&mut self) -> Result<Vec<Message>> {
        let mut messages = Vec::new();
        let mut error = None;
        loop {
            match self.receive() {
                Ok(message) if message.kind == b'Z' => break,
                Ok(message) => messages.push(message),
                // The answer to a query goes on after an error, that to a login does not.
                Err(failure) => match failure.downcast_ref::<ServerError>() {
                    Some(reason) if reason.severity == "ERROR" => error = Some(failure),
                    _ => return Err(error.unwrap_or(failure)),
                },
            }
        }
        error.map_or(Ok(messages), Err)
    }

    /// Reads on to a message of one kind.
    pub fn wait_for(&mut self, kind: u8) -> Result<Message> {
        loop {
            let message = self.receive()?;
            if message.kind == kind {
                return Ok(message);
            }
        }
    }

    /// Runs a simple query and returns its rows.
    pub fn query(&mut self, sql: &str) -> Result<Vec<Row>> {
        self.send(&frame::query(sql))?;
        let messages = self.wait_until_ready().with_context(|| sql.chars().take(200).collect::<String>())?;
        messages.iter().filter(|message| message.kind == b'D').map(Message::columns).collect()
    }

    /// Runs a simple query and returns its only value; NULL is empty.
    pub fn value(&mut self, sql: &str) -> Result<String> {
        match &mut self.query(sql)?[..] {
            [row] if row.len() == 1 => Ok(row[0].take().unwrap_or_default()),
            rows => bail!("{sql}: not one value, but {rows:?}"),
        }
    }

    /// The process that serves it.
    pub fn backend(&mut self) -> Result<u32> {
        Ok(self.value("SELECT pg_backend_pid()")?.parse()?)
    }

    /// Leaves as it should.
    pub fn terminate(mut self) -> Result<()> {
        self.send(&frame::bytes(b'X', &[]))
    }

    /// Closes its own direction and goes on reading.
    pub fn half_close(&mut self) -> Result<()> {
        Ok(self.stream.get_ref().shutdown(Shutdown::Write)?)
    }

    /// Leaves by a TCP reset: what it has not read is lost, and nobody waits for it.
    pub fn reset(self) -> Result<()> {
        Ok(SockRef::from(self.stream.get_ref()).set_linger(Some(Duration::ZERO))?)
    }

    /// Reads to the end of the stream and returns what came.
    pub fn rest(&mut self) -> Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest)?;
        Ok(rest)
    }

    /// Reads so many bytes, whatever they mean.
    pub fn bytes(&mut self, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// The connection itself.
    pub fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }
}

/// Asks for the cancellation of what the session with this key runs, and returns when the answer came:
/// the end of the connection.
pub fn cancel(address: SocketAddr, key: &[u8]) -> Result<()> {
    let mut client = Client::connect(address)?;
    client.send(&frame::packet(&[&frame::CANCEL_REQUEST.to_be_bytes(), key].concat()))?;
    client.rest()?;
    Ok(())
}

/// The error that came as a message, if it was one.
pub fn server_error<T>(result: Result<T>) -> Result<ServerError> {
    match result {
        Ok(_) => bail!("it should have failed"),
        Err(error) => match error.downcast_ref::<ServerError>() {
            Some(reason) => Ok(reason.clone()),
            None => Err(error.context("not an error that the protocol tells")),
        },
    }
}
