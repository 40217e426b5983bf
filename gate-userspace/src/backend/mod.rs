//! A connection to a database, from its opening to its end.

pub mod cancel;
pub mod close;
pub mod dial;
pub mod health;
pub mod reset;

use std::io;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::sync::Arc;

use gate_core::protocol::postgres::cancel_key::CancelKey;
use gate_core::protocol::postgres::parameters::Parameters;
use tokio::net::TcpStream;

/// An open connection that is logged in.
///
/// Its socket is registered with no runtime while nobody uses it, so that it can serve clients of any worker.
#[derive(Debug)]
pub struct Backend {
    /// The socket; it is elsewhere while the connection is [`Attached`].
    socket: Option<std::net::TcpStream>,
    /// Where it leads.
    pub endpoint: SocketAddr,
    /// What the server last reported of its settings.
    pub parameters: Parameters,
    /// What the server wants to see to cancel a query of this connection, if it takes such requests.
    pub cancel_key: Option<CancelKey>,
    /// Whether the server may be at work for a client: then it is asked to stop before the connection is closed.
    pub is_busy: bool,
    /// Whether the last that the server sent looked like the end of an answer outside of a transaction. Data can look
    /// like it too, so this only spares a reset some work.
    pub looks_idle: bool,
}

impl Backend {
    /// Whether the server has neither hung up nor said anything since the connection was last used.
    pub fn is_sound(&self) -> bool {
        let peeked = self.socket.as_ref().map(|socket| socket.peek(&mut [0]));
        matches!(peeked, Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Who a connection is logged in as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The user.
    pub user: Arc<str>,
    /// The database.
    pub database: Arc<str>,
}

/// A connection that the present worker's runtime watches. However this ends, the socket goes back to its connection:
/// whoever discards it can so wait for the server to let go.
pub struct Attached<H: DerefMut<Target = Backend>> {
    held: Option<(H, TcpStream)>,
}

impl<H: DerefMut<Target = Backend>> Attached<H> {
    /// Registers the connection's socket here.
    pub fn new(mut holder: H) -> io::Result<Self> {
        let socket = holder.socket.take().ok_or(io::ErrorKind::NotConnected)?;
        let stream = TcpStream::from_std(socket)?;
        Ok(Self { held: Some((holder, stream)) })
    }

    /// The connection and its socket.
    pub fn parts(&mut self) -> (&mut Backend, &mut TcpStream) {
        match &mut self.held {
            Some((holder, stream)) => (&mut *holder, stream),
            None => unreachable!("it is emptied only when it is consumed"),
        }
    }

    /// Gives the connection back to whoever holds it.
    pub fn detach(mut self) -> H {
        match self.held.take() {
            Some((holder, stream)) => put_back(holder, stream),
            None => unreachable!("it is emptied only when it is consumed"),
        }
    }
}

impl<H: DerefMut<Target = Backend>> Drop for Attached<H> {
    fn drop(&mut self) {
        if let Some((holder, stream)) = self.held.take() {
            drop(put_back(holder, stream));
        }
    }
}

fn put_back<H: DerefMut<Target = Backend>>(mut holder: H, stream: TcpStream) -> H {
    // If it cannot be taken from the runtime it is closed, and the connection is known to be without a socket.
    holder.socket = stream.into_std().ok();
    holder
}
