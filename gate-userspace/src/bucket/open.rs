//! Opens one connection, and tells the core how it went.

use std::sync::Arc;

use gate_core::bucket::Opening;
use tracing::{debug, warn};

use super::Bucket;
use crate::backend::dial::Failed;
use crate::backend::{Backend, close};

impl Bucket {
    pub(super) async fn open(self: Arc<Self>, opening: Opening<Backend>) {
        let Some((identity, credential)) = self.lock().logins.get(&opening.pool()).cloned() else { return };
        let limit = self.settings.reservoir.connect_timeout;
        match self.dialer.dial(&identity, credential, limit).await {
            Ok((backend, keys)) => {
                debug!(bucket = self.name(), endpoint = %backend.endpoint, user = &*identity.user, "opened a connection");
                self.act(|state, now| {
                    if let (Some(keys), Some((_, credential))) = (keys, state.logins.get_mut(&opening.pool())) {
                        credential.remember(keys);
                    }
                    state.core.handle_opened(now, opening, backend);
                });
            }
            Err(Failed { error, stream }) => {
                self.metrics.refill_failed(error.label());
                warn!(bucket = self.name(), user = &*identity.user, database = &*identity.database, %error, "cannot open a connection");
                let slot = self.act(|state, now| state.core.handle_open_failed(now, opening, error.failure()));
                if let Some(stream) = stream {
                    close::abandon(self.name(), stream).await;
                }
                if let Some(slot) = slot {
                    self.act(|state, now| state.core.handle_closed(now, slot));
                }
            }
        }
    }
}
