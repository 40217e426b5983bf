//! How long a newcomer would wait, from how long clients have held their places lately.

use std::time::Duration;

/// The usual time between getting a place and leaving it: a moving average.
#[derive(Debug, Default)]
pub(super) struct Holds {
    average: Option<Duration>,
}

/// How much of the average the newest hold replaces: one part of this many.
const WEIGHT: u32 = 16;

impl Holds {
    /// Learns from a client that left.
    ///
    /// A hold counts for at most `longest`, the time that a client may wait: a single session of an hour must not
    /// turn everybody away. Where all sessions are long the estimate is then too low, and the deadline decides.
    pub(super) fn record(&mut self, held: Duration, longest: Duration) {
        let held = held.min(longest);
        self.average = Some(match self.average {
            Some(average) => average - average / WEIGHT + held / WEIGHT,
            None => held,
        });
    }

    /// The time until `ahead` clients and then one more have been given one of `places` places.
    pub(super) fn wait_behind(&self, ahead: u32, places: u32) -> Duration {
        let average = self.average.unwrap_or_default();
        average.saturating_mul(ahead.saturating_add(1)) / places.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_expected_before_anything_is_known() {
        assert_eq!(Holds::default().wait_behind(1_000, 1), Duration::ZERO);
    }

    #[test]
    fn one_very_long_session_does_not_turn_everybody_away() {
        let (mut holds, timeout) = (Holds::default(), Duration::from_secs(30));
        for _ in 0..100 {
            holds.record(Duration::from_millis(50), timeout);
        }
        holds.record(Duration::from_secs(3_600), timeout);
        assert!(holds.wait_behind(10, 10) < Duration::from_secs(3));
    }
}
