//! Makes a pooled connection the client's own, and tells the client that it is ready.

use std::sync::Arc;

use gate_core::protocol::postgres::cancel_key;
use gate_core::protocol::postgres::message::{self, Status};
use gate_core::protocol::postgres::settings::{Applied, Apply};
use gate_core::protocol::postgres::startup::Startup;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::Client;
use super::farewell::Farewell;
use crate::backend::Attached;
use crate::backend::cancel::{Held, LONG_SECRET};
use crate::bucket::{BackendLease, Bucket, Finish};
use crate::gate::Gate;

/// Applies what the client asked for in its first packet, then answers it. `reply` is what it is owed already.
pub(super) async fn introduce(
    gate: &Gate,
    bucket: &Arc<Bucket>,
    lease: BackendLease,
    hello: &Startup,
    client: &mut Client,
    reply: &mut Vec<u8>,
) -> Result<(Attached<BackendLease>, Held), Farewell> {
    let broken = |why: String| Farewell::Backend { bucket: bucket.name().to_owned(), why };
    let apply = Apply::new(&hello.settings, &lease.parameters)?;
    let length = if hello.takes_long_cancel_keys() { LONG_SECRET } else { cancel_key::SHORTEST };
    let key = gate.cancel_keys.issue(lease.endpoint, lease.cancel_key.clone(), length)?;
    // From here on a lease that is lost goes home, and its connection is discarded.
    let mut connection = Attached::new(lease).map_err(|error| broken(error.to_string()))?;
    connection.parts().0.is_busy = true;
    if let Some(apply) = apply {
        match settle(&mut connection, apply).await.map_err(broken)? {
            None => {}
            Some(response) => {
                bucket.finish(connection.detach(), Finish::Reset(key.release()));
                return Err(Farewell::Settings { response });
            }
        }
    }
    connection.parts().0.parameters.write(reply);
    message::backend_key_data(reply, key.key());
    message::ready_for_query(reply, Status::Idle);
    if let Err(gone) = client.send(reply).await {
        bucket.finish(connection.detach(), Finish::Reset(key.release()));
        return Err(gone);
    }
    Ok((connection, key))
}

/// Has the server apply the client's settings; its error, if it does not want to.
async fn settle(connection: &mut Attached<BackendLease>, mut apply: Apply) -> Result<Option<Vec<u8>>, String> {
    let (backend, stream) = connection.parts();
    let mut request = Vec::new();
    apply.request(&mut request);
    stream.write_all(&request).await.map_err(|error| error.to_string())?;
    let mut answer = [0; 2048];
    loop {
        let read = stream.read(&mut answer).await.map_err(|error| error.to_string())?;
        if read == 0 {
            return Err("the server hung up".to_owned());
        }
        match apply.handle(&answer[..read]) {
            Applied::NeedMore => {}
            Applied::Broken(why) => return Err(why.to_owned()),
            Applied::Failed { response } => return Ok(Some(response)),
            Applied::Done { changes } => {
                backend.parameters.update(&changes);
                return Ok(None);
            }
        }
    }
}
