//! The clients that were refused last, for whoever asks why.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use gate_core::refusal::Refusal;

/// How many are remembered.
const KEPT: usize = 16;

/// When the last refusals were, and why.
#[derive(Debug, Default)]
pub struct LastRefusals(Mutex<VecDeque<(SystemTime, Refusal)>>);

impl LastRefusals {
    /// A client is being refused.
    pub fn note(&self, at: SystemTime, refusal: Refusal) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.truncate(KEPT - 1);
        last.push_front((at, refusal));
    }

    /// The newest first.
    pub fn all(&self) -> Vec<(SystemTime, Refusal)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_newest_are_kept_and_come_first() {
        let last = LastRefusals::default();
        for depth in 0..40 {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(depth.into());
            last.note(at, Refusal::QueueFull { depth });
        }
        let all = last.all();
        assert_eq!(all.len(), KEPT);
        assert_eq!(all[0].1, Refusal::QueueFull { depth: 39 });
        assert_eq!(all[15].1, Refusal::QueueFull { depth: 24 });
    }
}
