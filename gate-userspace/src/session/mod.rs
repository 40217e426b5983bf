//! One client, from its first byte to its last.
//!
//! [`serve`] is the straight line; each of its steps has a file of its own.

mod authenticate;
mod checkout;
mod client;
mod farewell;
mod forward;
mod handshake;
mod pipe;
mod prepare;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gate_core::protocol::postgres::startup::Startup;
use gate_core::protocol::postgres::users::Users;
use gate_core::reservoir::Discard;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::{debug, info};

use self::client::Client;
use self::farewell::Farewell;
use self::forward::{End, Traffic};
use crate::backend::Attached;
use crate::backend::cancel::Held;
use crate::bucket::{BackendLease, Bucket, Finish};
use crate::gate::Gate;

/// How long a client may take from its first byte until it has proved who it is.
const LOGIN_LIMIT: Duration = Duration::from_secs(15);

/// How long a client may take to read why it was not served.
const FAREWELL_LIMIT: Duration = Duration::from_secs(5);

/// Serves one Postgres client.
pub(crate) async fn run(gate: Arc<Gate>, stream: TcpStream, peer: SocketAddr) {
    let mut client = Client::new(stream, peer);
    let served = match gate.enter() {
        Ok(_entered) => serve(&gate, &mut client).await,
        Err(limit) => Err(Farewell::TooManyClients { limit }),
    };
    if let Err(farewell) = served {
        gate.metrics.farewell(farewell.label());
        info!(%peer, reason = farewell.label(), "{farewell}");
        let mut last_words = Vec::new();
        farewell.write(&mut last_words);
        // Whoever does not listen is not waited for.
        let _ = timeout(FAREWELL_LIMIT, async {
            client.send(&last_words).await?;
            Ok::<_, Farewell>(client.stream.shutdown().await?)
        })
        .await;
    }
}

/// The straight line.
async fn serve(gate: &Arc<Gate>, client: &mut Client) -> Result<(), Farewell> {
    let login = timeout(LOGIN_LIMIT, async {
        let Some(hello) = handshake::greet(gate, client).await? else { return Ok(None) };
        let (bucket, users) = route(gate, &hello)?;
        let (credential, reply) =
            authenticate::verify(users.as_deref(), bucket.settings.clients.method, &hello, client).await?;
        Ok(Some((hello, bucket, credential, reply)))
    });
    let login = login.await.unwrap_or(Err(Farewell::Slow { limit: LOGIN_LIMIT }))?;
    let Some((hello, bucket, credential, mut reply)) = login else { return Ok(()) };

    let lease = checkout::checkout(bucket, &hello, credential, client).await?;
    let (mut connection, key) = prepare::introduce(gate, bucket, lease, &hello, client, &mut reply).await?;
    let mut traffic = Traffic::default();
    let early = client.take_early();
    let start = Instant::now();
    let end = forward::run(&mut client.stream, connection.parts().1, early, &mut traffic).await;
    bucket.metrics.session(start.elapsed(), traffic.up, traffic.down);
    debug!(bucket = bucket.name(), peer = %client.peer, ?end, ?traffic, "a session ended");
    connection.parts().0.looks_idle = traffic.looks_idle;
    finish(bucket, connection, key, end);
    Ok(())
}

fn route<'g>(gate: &'g Gate, hello: &Startup) -> Result<(&'g Arc<Bucket>, Option<Arc<Users>>), Farewell> {
    let unknown = || Farewell::NoRoute { user: hello.user.clone(), database: hello.database.clone() };
    gate.route(hello).ok_or_else(unknown)
}

/// Takes the connection from the client, and says what is to become of it.
fn finish(bucket: &Arc<Bucket>, mut connection: Attached<BackendLease>, key: Held, end: End) {
    let finish = match end {
        End::Terminated => Finish::Reset(key.release()),
        End::Finished => Finish::Discard(Discard::Drained),
        End::ClientLost | End::Malformed | End::BackendLost => Finish::Discard(Discard::BadConnection),
    };
    // What a client asked for before it said goodbye is done, as it would be without a gate. What a client that
    // vanished has left behind is cancelled, because it holds a slot that others wait for.
    connection.parts().0.is_busy = matches!(end, End::ClientLost | End::Malformed);
    bucket.finish(connection.detach(), finish);
}
