//! The first packets of a client, until it has said who it is and what it wants.

use gate_core::protocol::postgres::startup::{First, Startup};
use tracing::debug;

use super::client::Client;
use super::farewell::Farewell;
use crate::gate::Gate;

/// How often a client may ask for encryption before it says what it wants: once for each kind.
const QUESTIONS: usize = 2;

/// What a client wants; nothing, if it wanted only to cancel a query.
pub(super) async fn greet(gate: &Gate, client: &mut Client) -> Result<Option<Startup>, Farewell> {
    for _ in 0..=QUESTIONS {
        match client.first_packet().await? {
            First::Ssl | First::GssEnc => {
                // Bytes behind the question, before its answer, could only be somebody else's.
                if client.has_sent_early() {
                    break;
                }
                client.send(b"N").await?;
            }
            First::Cancel(key) => {
                if let Err(error) = gate.cancel_keys.cancel(&key).await {
                    debug!(%error, "a cancel request did not reach its server");
                }
                return Ok(None);
            }
            First::Startup(startup) if startup.replication => return Err(Farewell::Replication),
            First::Startup(startup) => return Ok(Some(startup)),
        }
    }
    Err(Farewell::Questions)
}
