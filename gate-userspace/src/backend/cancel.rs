//! Cancelling a query of the right client, and never of the next one.
//!
//! The gate gives each client a key of its own. A cancel request that shows it is passed on with the key of the server
//! connection that the client has at that moment. A request that is under way when the client leaves could hit whoever
//! gets the connection next; so a connection is not reset, and so not handed on, before such requests are through.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gate_core::protocol::postgres::cancel_key::{self, CancelKey};
use gate_core::protocol::postgres::message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long passing on a request may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The secret's length for clients that take long ones.
pub const LONG_SECRET: usize = 32;

/// The keys that clients hold.
#[derive(Debug, Default)]
pub struct CancelKeys(Arc<Issued>);

/// By the number that finds the session.
type Issued = Mutex<HashMap<i32, (CancelKey, Arc<Target>)>>;

/// A client's key, for as long as its session lasts.
#[derive(Debug)]
pub struct Held {
    keys: Arc<Issued>,
    key: CancelKey,
    target: Arc<Target>,
}

/// What a client's key cancels.
#[derive(Debug, Default)]
pub struct Target {
    state: Mutex<State>,
    quiet: Notify,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<(SocketAddr, CancelKey)>,
    under_way: u32,
}

impl CancelKeys {
    /// A new key for a client that has this connection, with a secret of this length.
    pub fn issue(&self, endpoint: SocketAddr, server_key: Option<CancelKey>, length: usize) -> io::Result<Held> {
        let state = State { connection: server_key.map(|key| (endpoint, key)), under_way: 0 };
        let target = Arc::new(Target { state: Mutex::new(state), quiet: Notify::new() });
        loop {
            let mut random = [0; 4 + LONG_SECRET];
            getrandom::fill(&mut random).map_err(io::Error::other)?;
            let (process, secret) = random.split_at(4);
            // Drivers take the number for a process id, which is positive.
            let process = i32::from_be_bytes([process[0] & 0x7f, process[1], process[2], process[3]]);
            let key = CancelKey::new(process, &secret[..length.clamp(cancel_key::SHORTEST, LONG_SECRET)]);
            let key = key.ok_or(io::ErrorKind::InvalidInput)?;
            if let Entry::Vacant(entry) = lock(&self.0).entry(process) {
                entry.insert((key.clone(), Arc::clone(&target)));
                return Ok(Held { keys: Arc::clone(&self.0), key, target });
            }
        }
    }

    /// Passes a client's request on; nothing happens if the key is not known or its client has left.
    pub async fn cancel(&self, key: &CancelKey) -> io::Result<()> {
        let known = lock(&self.0).get(&key.process_id()).filter(|(known, _)| known == key).cloned();
        let Some((_, target)) = known else { return Ok(()) };
        let Some((endpoint, server_key)) = target.begin() else { return Ok(()) };
        let sent = send(endpoint, &server_key).await;
        target.end();
        sent
    }
}

impl Held {
    /// The key.
    pub fn key(&self) -> &CancelKey {
        &self.key
    }

    /// The client has left its connection: no further request may reach it.
    pub fn release(self) -> Arc<Target> {
        lock(&self.target.state).connection = None;
        Arc::clone(&self.target)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.target.state).connection = None;
        lock(&self.keys).remove(&self.key.process_id());
    }
}

impl Target {
    /// Waits until no request is under way. Each of them ends within a limit.
    pub async fn quiet(&self) {
        loop {
            let quiet = self.quiet.notified();
            if lock(&self.state).under_way == 0 {
                return;
            }
            quiet.await;
        }
    }

    fn begin(&self) -> Option<(SocketAddr, CancelKey)> {
        let mut state = lock(&self.state);
        let connection = state.connection.clone()?;
        state.under_way += 1;
        Some(connection)
    }

    fn end(&self) {
        lock(&self.state).under_way -= 1;
        self.quiet.notify_waiters();
    }
}

/// Asks a server to stop what it does on a connection. It has done so, or has refused, when it hangs up.
pub async fn send(endpoint: SocketAddr, key: &CancelKey) -> io::Result<()> {
    let request = async {
        let mut server = TcpStream::connect(endpoint).await?;
        let mut bytes = Vec::new();
        message::cancel_request(&mut bytes, key);
        server.write_all(&bytes).await?;
        // Nothing is answered: this waits for the end.
        server.read(&mut [0; 16]).await.map(|_| ())
    };
    timeout(LIMIT, request).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
