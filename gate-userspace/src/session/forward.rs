//! Moves bytes between a client and its connection until one of them ends the session.
//!
//! From the client only frame headers are looked at, because the end of the session must be seen and kept from the
//! server. From the server nothing is looked at. Both directions run in one task, each at its own pace: a side that
//! does not read stops the other side's reading, and no more than one buffer is ever held for it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use gate_core::protocol::postgres::frame::Walker;
use gate_core::protocol::postgres::message;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::pipe::Lent;

/// How much is read at once. A read that fills it is bulk, and what follows is spliced.
const BUFFER: usize = 64 << 10;

thread_local! {
    /// Every session of a worker reads into the same buffer: it is used between two waits only.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER].into_boxed_slice());
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The client said so, between two frames.
    Terminated,
    /// The client closed its side between two frames without a word; the server has answered all it asked, and left.
    Finished,
    /// The client is gone, or left in the middle of a frame.
    ClientLost,
    /// The client sent what is no frame.
    Malformed,
    /// The server is gone.
    BackendLost,
}

/// What went which way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    /// Bytes from the client.
    pub(super) up: u64,
    /// Bytes from the server.
    pub(super) down: u64,
    /// Whether the last of those look like the end of an answer outside of a transaction.
    pub(super) looks_idle: bool,
}

/// `ReadyForQuery`, idle.
const IDLE: &[u8] = b"Z\0\0\0\x05I";

/// Forwards until the session ends. `early` is what the client sent before it was served.
pub(super) async fn run(client: &mut TcpStream, backend: &mut TcpStream, early: Vec<u8>, traffic: &mut Traffic) -> End {
    let (client_read, client_write) = client.split();
    let (backend_read, backend_write) = backend.split();
    let up = Up { walker: Walker::new(), held: early, from: client_read, to: backend_write, bytes: &mut traffic.up };
    let looks_idle = &mut traffic.looks_idle;
    *looks_idle = true;
    let down = Down { from: backend_read, to: client_write, bytes: &mut traffic.down, looks_idle };
    let mut down = pin!(down.run());
    let ended = tokio::select! {
        biased;
        ended = up.run() => ended,
        ended = &mut down => return ended,
    };
    match ended {
        // Whoever has closed only its sending side still waits for answers. The server gives them, then leaves.
        End::Finished => match down.await {
            End::BackendLost => End::Finished,
            ended => ended,
        },
        ended => ended,
    }
}

/// From the client to the server.
struct Up<'s> {
    walker: Walker,
    /// An incomplete header, or what the client sent early.
    held: Vec<u8>,
    from: ReadHalf<'s>,
    to: WriteHalf<'s>,
    bytes: &'s mut u64,
}

/// What a read from the client led to.
#[derive(Default)]
struct Step {
    /// What could not be passed on without waiting.
    rest: Vec<u8>,
    /// Whether more of its kind is to be expected.
    is_bulk: bool,
    /// Whether it ends the session, once the rest is passed on.
    end: Option<End>,
}

impl From<End> for Step {
    fn from(end: End) -> Self {
        Self { end: Some(end), ..Self::default() }
    }
}

impl Up<'_> {
    async fn run(mut self) -> End {
        let early = std::mem::take(&mut self.held);
        let mut step = self.pass(&early, false);
        loop {
            if !step.rest.is_empty() && self.to.write_all(&step.rest).await.is_err() {
                return End::BackendLost;
            }
            match step.end {
                Some(End::Finished) => return self.finish().await,
                Some(end) => return end,
                None => {}
            }
            if step.is_bulk
                && let Err(end) = self.splice_body().await
            {
                return end;
            }
            step = poll_fn(|context| self.poll_step(context)).await;
        }
    }

    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        SCRATCH.with_borrow_mut(|scratch| {
            let held = self.held.len();
            scratch[..held].copy_from_slice(&self.held);
            let mut buffer = ReadBuf::new(&mut scratch[..]);
            buffer.set_filled(held);
            if ready!(Pin::new(&mut self.from).poll_read(context, &mut buffer)).is_err() {
                return Poll::Ready(End::ClientLost.into());
            }
            if buffer.filled().len() == held {
                let is_between_frames = held == 0 && self.walker.at_boundary();
                let end = if is_between_frames { End::Finished } else { End::ClientLost };
                return Poll::Ready(end.into());
            }
            *self.bytes += (buffer.filled().len() - held) as u64;
            let is_full = buffer.remaining() == 0;
            Poll::Ready(self.pass(buffer.filled(), is_full))
        })
    }

    /// Passes on what may be passed on, without waiting. What is behind a goodbye is meant for nobody.
    fn pass(&mut self, bytes: &[u8], is_bulk: bool) -> Step {
        let Ok(walk) = self.walker.walk(bytes) else { return End::Malformed.into() };
        let (now, later) = bytes.split_at(walk.forward);
        let rest = match self.to.try_write(now) {
            _ if now.is_empty() => Vec::new(),
            Ok(written) => now[written..].to_vec(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => now.to_vec(),
            Err(_) => return End::BackendLost.into(),
        };
        self.held.clear();
        self.held.extend_from_slice(later);
        Step { rest, is_bulk, end: walk.terminate.then_some(End::Terminated) }
    }

    /// Moves the rest of a large body without looking at it.
    async fn splice_body(&mut self) -> Result<(), End> {
        while self.walker.body_left() >= BUFFER {
            let mut pipe = Lent::take().map_err(|_| End::ClientLost)?;
            match pipe.carry(self.from.as_ref(), self.to.as_ref(), self.walker.body_left()).await {
                Ok(0) | Err(_) => return Err(End::ClientLost),
                Ok(moved) => {
                    self.walker.skip(moved);
                    *self.bytes += moved as u64;
                }
            }
        }
        Ok(())
    }

    /// Says goodbye to the server in the name of a client that left without a word.
    async fn finish(&mut self) -> End {
        let mut goodbye = Vec::new();
        message::terminate(&mut goodbye);
        match self.to.write_all(&goodbye).await {
            Ok(()) => End::Finished,
            Err(_) => End::BackendLost,
        }
    }
}

/// From the server to the client.
struct Down<'s> {
    from: ReadHalf<'s>,
    to: WriteHalf<'s>,
    bytes: &'s mut u64,
    looks_idle: &'s mut bool,
}

impl Down<'_> {
    async fn run(mut self) -> End {
        loop {
            let (rest, is_bulk) = match poll_fn(|context| self.poll_step(context)).await {
                Ok(passed) => passed,
                Err(end) => return end,
            };
            if !rest.is_empty() && self.to.write_all(&rest).await.is_err() {
                return End::ClientLost;
            }
            if is_bulk && let Err(end) = self.splice().await {
                return end;
            }
        }
    }

    /// Passes on one read: what has to wait, and whether more of its kind is to be expected.
    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Result<(Vec<u8>, bool), End>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(&mut scratch[..]);
            let read = ready!(Pin::new(&mut self.from).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(Err(End::BackendLost));
            }
            *self.bytes += buffer.filled().len() as u64;
            *self.looks_idle = buffer.filled().ends_with(IDLE);
            let is_bulk = buffer.remaining() == 0;
            let rest = match self.to.try_write(buffer.filled()) {
                Ok(written) => buffer.filled()[written..].to_vec(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => buffer.filled().to_vec(),
                Err(_) => return Poll::Ready(Err(End::ClientLost)),
            };
            Poll::Ready(Ok((rest, is_bulk)))
        })
    }

    /// Moves bulk until there is less of it.
    async fn splice(&mut self) -> Result<(), End> {
        *self.looks_idle = false;
        let mut pipe = Lent::take().map_err(|_| End::ClientLost)?;
        loop {
            let moved = pipe.carry(self.from.as_ref(), self.to.as_ref(), usize::MAX).await;
            match moved {
                Ok(0) => return Err(End::BackendLost),
                Err(_) => return Err(End::ClientLost),
                Ok(moved) => *self.bytes += moved as u64,
            }
            if moved.is_ok_and(|moved| moved < BUFFER) {
                return Ok(());
            }
        }
    }
}
