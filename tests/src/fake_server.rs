//! A server that speaks just enough Postgres to be taken for one, and does what a test wants at the
//! point where a real one would do right.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use socket2::SockRef;

use crate::frame::{self, Message};
use crate::port;

/// A listening fake. Its connections end with those who opened them.
#[derive(Debug)]
pub struct FakeServer {
    address: SocketAddr,
    counts: Arc<Counts>,
}

/// What has happened so far.
#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicUsize,
    ended: AtomicUsize,
    stopped: AtomicBool,
}

impl FakeServer {
    /// Starts one that treats each connection as the test says.
    pub fn start(treat: impl Fn(Connection) -> Result<()> + Send + Sync + 'static) -> Result<Self> {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, port::free()?)), treat)
    }

    /// The same at an address that is known before.
    pub fn start_at(
        address: SocketAddr,
        treat: impl Fn(Connection) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind(address)?;
        let counts = Arc::new(Counts::default());
        let (treat, seen) = (Arc::new(treat), Arc::clone(&counts));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if seen.stopped.load(Ordering::SeqCst) {
                    break;
                }
                let number = seen.accepted.fetch_add(1, Ordering::SeqCst);
                let (treat, seen) = (Arc::clone(&treat), Arc::clone(&seen));
                thread::spawn(move || {
                    let connection = Connection { number, stream: BufReader::new(stream) };
                    if let Err(error) = treat(connection) {
                        eprintln!("the fake server's connection {number}: {error:#}");
                    }
                    seen.ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Ok(Self { address, counts })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections it has accepted.
    pub fn accepted(&self) -> usize {
        self.counts.accepted.load(Ordering::SeqCst)
    }

    /// How many of them have ended.
    pub fn ended(&self) -> usize {
        self.counts.ended.load(Ordering::SeqCst)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.counts.stopped.store(true, Ordering::SeqCst);
        // The listening thread waits for a connection to notice.
        drop(TcpStream::connect(self.address));
    }
}

/// A connection that the fake has accepted.
#[derive(Debug)]
pub struct Connection {
    /// How many came before it.
    pub number: usize,
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Accepts a login without a password. Whether it was one: a cancel request is none.
    pub fn accept_login(&mut self) -> Result<bool> {
        if !self.read_startup()? {
            return Ok(false);
        }
        self.send(&welcome())?;
        Ok(true)
    }

    /// Reads on to a startup packet, and says no to requests for encryption before it.
    pub fn read_startup(&mut self) -> Result<bool> {
        loop {
            let packet = frame::read_body(&mut self.stream)?;
            let version = packet.first_chunk().context("a short startup packet")?;
            match u32::from_be_bytes(*version) {
                frame::SSL_REQUEST | frame::GSSENC_REQUEST => self.send(b"N")?,
                frame::CANCEL_REQUEST => return Ok(false),
                _ => return Ok(true),
            }
        }
    }

    /// The text of the next query; nothing when the connection has ended.
    pub fn next_query(&mut self) -> Result<Option<String>> {
        let Some(message) = Message::read(&mut self.stream)? else { return Ok(None) };
        match message.kind {
            b'Q' => Ok(message.strings().into_iter().next()),
            b'X' => Ok(None),
            kind => bail!("not a query, but {:?}", char::from(kind)),
        }
    }

    /// Answers queries as a real server would, to the end.
    pub fn serve(&mut self) -> Result<()> {
        while let Some(query) = self.next_query()? {
            self.send(&right_answer(&query))?;
        }
        Ok(())
    }

    /// Sends bytes, whatever they mean.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.get_mut().write_all(bytes)?)
    }

    /// Ends it by a TCP reset.
    pub fn reset(self) -> Result<()> {
        Ok(SockRef::from(self.stream.get_ref()).set_linger(Some(Duration::ZERO))?)
    }

    /// Reads and forgets, to the end.
    pub fn ignore(&mut self) {
        let mut bytes = [0; 4096];
        while self.stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
    }
}

/// What follows a startup packet where no password is asked for.
pub fn welcome() -> Vec<u8> {
    let parameter = |name, value| frame::bytes(b'S', &[frame::text(name), frame::text(value)].concat());
    [
        frame::bytes(b'R', &0_u32.to_be_bytes()),
        parameter("server_version", "15.0"),
        parameter("client_encoding", "UTF8"),
        parameter("standard_conforming_strings", "on"),
        frame::bytes(b'K', &[0, 0, 0, 7, 1, 2, 3, 4]),
        ready(b'I'),
    ]
    .concat()
}

/// ReadyForQuery: `I` idle, `T` in a transaction, `E` in a failed one.
pub fn ready(state: u8) -> Vec<u8> {
    frame::bytes(b'Z', &[state])
}

/// The answer of a real server to `SELECT '…'`, to `SHOW`, and to commands without a result.
pub fn right_answer(query: &str) -> Vec<u8> {
    [result(query), ready(b'I')].concat()
}

/// The same without its ReadyForQuery.
pub fn result(query: &str) -> Vec<u8> {
    match literal(query) {
        Some(value) => row(value),
        None => frame::bytes(b'C', &frame::text(query.trim_end_matches(';'))),
    }
}

/// The answer to a `SELECT` of one text.
pub fn row(value: &str) -> Vec<u8> {
    // One column of type text (25), of variable length (-1), in text format (0).
    let column = [0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0];
    let description = [&[0, 1][..], &frame::text("?column?"), &column].concat();
    let data = [&[0, 1][..], &(value.len() as u32).to_be_bytes(), value.as_bytes()].concat();
    [frame::bytes(b'T', &description), frame::bytes(b'D', &data), frame::bytes(b'C', &frame::text("SELECT 1"))].concat()
}

/// The text that a query such as `SELECT 'text'` asks for.
pub fn literal(query: &str) -> Option<&str> {
    query.strip_prefix("SELECT '")?.split('\'').next()
}
