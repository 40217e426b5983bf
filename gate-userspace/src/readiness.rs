//! How far the gate is: whether clients should be sent to it.

use std::sync::atomic::{AtomicU8, Ordering};

use serde::{Deserialize, Serialize};

/// What a gate goes through, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Stage {
    /// It serves, but connections are still being opened for the first clients.
    Warming,
    /// It serves.
    Ready,
    /// It refuses newcomers, and lets sessions finish.
    Draining,
}

/// The stage of this process, for whoever asks.
#[derive(Debug, Default)]
pub struct Readiness(AtomicU8);

impl Readiness {
    /// The present stage.
    pub fn stage(&self) -> Stage {
        match self.0.load(Ordering::Relaxed) {
            0 => Stage::Warming,
            1 => Stage::Ready,
            _ => Stage::Draining,
        }
    }

    /// Goes on to a stage; there is no way back.
    pub fn reach(&self, stage: Stage) {
        self.0.fetch_max(stage as u8, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_that_drains_never_becomes_ready_again() {
        let readiness = Readiness::default();
        assert_eq!(readiness.stage(), Stage::Warming);
        readiness.reach(Stage::Draining);
        readiness.reach(Stage::Ready);
        assert_eq!(readiness.stage(), Stage::Draining);
    }
}
