//! Listeners and workers.
//!
//! Each worker is a thread with a runtime of its own and its own listening socket for every address (`SO_REUSEPORT`):
//! a client and its connection are moved by one thread, with no work stealing in between. The main thread keeps the
//! buckets' time and listens for signals.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use gate_core::route::Protocol;
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tracing::{error, info, warn};

use crate::gate::Gate;
use crate::{session, socket};

/// How many connections the kernel keeps for a worker that is busy.
const BACKLOG: i32 = 4096;

/// How long a worker waits before it accepts again when the process or the host has run out of something.
const PAUSE: Duration = Duration::from_millis(50);

/// The listening sockets of one worker.
#[derive(Debug, Default)]
pub struct Listeners(Vec<(Protocol, std::net::TcpListener)>);

impl Listeners {
    /// Binds every address once for each of `workers` workers. A port of 0 becomes the same free port for all of them.
    pub fn bind(addresses: &[(Protocol, SocketAddr)], workers: usize) -> Result<Vec<Self>> {
        let mut all: Vec<Self> = (0..workers).map(|_| Self::default()).collect();
        for (protocol, address) in addresses {
            let mut address = *address;
            for listeners in &mut all {
                let listener = bind(address).with_context(|| format!("cannot listen on {address}"))?;
                address = listener.local_addr()?;
                listeners.0.push((*protocol, listener));
            }
            info!("listening {} {address}", name(*protocol));
        }
        Ok(all)
    }
}

/// Starts one thread for each set of listeners. The threads serve until the process ends.
pub fn start_workers(gate: &Arc<Gate>, listeners: Vec<Listeners>) -> Result<()> {
    for (number, listeners) in listeners.into_iter().enumerate() {
        let gate = Arc::clone(gate);
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
            runtime.block_on(async {
                for (protocol, listener) in listeners.0 {
                    tokio::spawn(accept(Arc::clone(&gate), protocol, listener));
                }
                std::future::pending::<()>().await;
            });
        })?;
    }
    Ok(())
}

async fn accept(gate: Arc<Gate>, protocol: Protocol, listener: std::net::TcpListener) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return error!(%error, "a worker cannot listen"),
    };
    loop {
        match listener.accept().await {
            Ok((client, peer)) => welcome(&gate, protocol, client, peer),
            // A client that left before it was accepted is nobody's fault.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                warn!(%error, "cannot accept clients for the moment; if descriptors are short, raise LimitNOFILE");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn welcome(gate: &Arc<Gate>, protocol: Protocol, client: TcpStream, peer: SocketAddr) {
    if let Err(error) = socket::tune(&client) {
        return warn!(%peer, %error, "cannot set up a client's socket");
    }
    match protocol {
        Protocol::Postgres => {
            tokio::spawn(session::run(Arc::clone(gate), client, peer));
        }
        // No listener of another protocol is bound.
        Protocol::Tds => {}
    }
}

fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Postgres => "postgres",
        Protocol::Tds => "tds",
    }
}
