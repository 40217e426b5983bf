//! Ends a connection so that the server has let go of it when its slot is given back.
//!
//! Closing is not letting go: a server goes on with a query after its client's socket is closed, and counts the
//! connection until it is done. So a server that may be busy is asked to stop, the sending side is closed, and what
//! still comes is thrown away until the server closes its side. A deadline bounds the wait.

use std::time::Duration;

use gate_core::protocol::postgres::message;
use gate_core::reservoir::Closing;
use gate_core::slot::Slot;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::warn;

use super::{Backend, cancel};

/// How long a server may take to let go. A query that ignores a cancel for so long would hold its slot for ever.
const LIMIT: Duration = Duration::from_secs(60);

/// Closes a connection; its slot comes back when the server has let go, or has had its time.
pub async fn run(bucket: &str, closing: Closing<Backend>) -> Slot {
    let Closing { conn, slot, reason } = closing;
    let endpoint = conn.endpoint;
    if timeout(LIMIT, let_go(conn)).await.is_err() {
        warn!(bucket, %endpoint, reason = reason.label(), "the server did not let go of a connection within {LIMIT:?}; its slot is free all the same");
    }
    slot
}

/// The same for a connection whose login did not come to an end.
pub async fn abandon(bucket: &str, stream: TcpStream) {
    if timeout(LIMIT, hang_up(stream)).await.is_err() {
        warn!(bucket, "the server did not let go of a login within {LIMIT:?}; its slot is free all the same");
    }
}

async fn let_go(backend: Backend) {
    let Backend { socket, endpoint, cancel_key, is_busy, .. } = backend;
    let Some(Ok(socket)) = socket.map(TcpStream::from_std) else { return };
    if is_busy && let Some(key) = cancel_key {
        // If it does not arrive, the query ends by itself, or the deadline comes.
        let _ = cancel::send(endpoint, &key).await;
    }
    hang_up(socket).await;
}

/// Says goodbye, and waits for the server's own end.
async fn hang_up(mut socket: TcpStream) {
    let mut goodbye = Vec::new();
    message::terminate(&mut goodbye);
    // A server that is not reading, or is gone, will not read this either; what counts is its own end.
    let _ = socket.try_write(&goodbye);
    let _ = SockRef::from(&socket).shutdown(std::net::Shutdown::Write);
    let mut rest = vec![0; 16 << 10];
    while matches!(socket.read(&mut rest).await, Ok(1..)) {}
    let _ = socket.shutdown().await;
}
