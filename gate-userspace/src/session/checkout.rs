//! Gets a client a connection, or the reason why there is none.

use std::sync::Arc;

use gate_core::protocol::postgres::credential::Credential;
use gate_core::protocol::postgres::startup::Startup;
use gate_core::reservoir::Discard;

use super::client::Client;
use super::farewell::Farewell;
use crate::bucket::{BackendLease, Bucket, Finish};

/// Waits for a connection, for as long as the client does.
pub(super) async fn checkout(
    bucket: &Arc<Bucket>,
    hello: &Startup,
    shown: Credential,
    client: &mut Client,
) -> Result<BackendLease, Farewell> {
    let identity = bucket.dialer().identity_for(&hello.user, &hello.database);
    let tenant = bucket.tenant(&hello.user, &hello.database);
    loop {
        let served = tokio::select! {
            biased;
            served = bucket.checkout(&identity, shown.clone(), tenant) => served,
            farewell = client.gone() => return Err(farewell),
        };
        let refused = |refusal| Farewell::Refused { bucket: bucket.name().to_owned(), refusal };
        let lease = served.map_err(refused)?;
        // A server that went away has told the sockets of its idle connections; nobody should meet them.
        if lease.is_sound() {
            return Ok(lease);
        }
        bucket.finish(lease, Finish::Discard(Discard::BadConnection));
    }
}
