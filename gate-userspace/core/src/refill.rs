//! When the next connection may be opened, as far as the database's health goes.
//!
//! While all is well nothing but slots and rate permits hold an attempt back. After a failure comes a pause, which
//! doubles with each further failure; then a single attempt; then, with each success, one more at a time, so that a
//! database that comes back meets a trickle that grows instead of everybody at once.

use std::time::Duration;

use fastrand::Rng;

use crate::time::{Moment, nanos};

/// The pause after the first failure.
pub const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause. Below a second, so that a database is used again within a second of its return; one attempt at
/// that pace is nothing to a database that is in trouble.
pub const LONGEST_PAUSE: Duration = Duration::from_millis(800);

/// After so many failures in a row waiting clients are told instead of kept.
pub const DOWN_AFTER: u32 = 3;

/// With so many attempts under way at once the database counts as recovered.
const RECOVERED_AT: u32 = 32;

/// The health of a database, seen from the attempts to open connections to it.
#[derive(Debug, Default)]
pub struct Refill {
    failures: u32,
    /// The first failure of the present row, and the last one.
    failing: Option<(Moment, Moment)>,
    pause_until: Option<Moment>,
    /// How many attempts may be under way at once while the database recovers; any number if it has.
    ramp: Option<u32>,
}

/// Whether an attempt may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Now.
    Now,
    /// Not before then.
    At(Moment),
    /// When one that is under way has ended.
    AfterAnother,
}

impl Refill {
    /// Whether one more attempt may be made while so many are under way.
    pub fn attempt(&self, now: Moment, under_way: u32) -> Attempt {
        match (self.pause_until, self.ramp) {
            (Some(until), _) if now < until => Attempt::At(until),
            (_, Some(ramp)) if under_way >= ramp => Attempt::AfterAnother,
            _ => Attempt::Now,
        }
    }

    /// Since when the database counts as down, if it does.
    pub fn down_since(&self) -> Option<Moment> {
        self.failing.filter(|_| self.failures >= DOWN_AFTER).map(|(first, _)| first)
    }

    /// An attempt succeeded.
    pub fn handle_success(&mut self) {
        self.failures = 0;
        self.failing = None;
        self.pause_until = None;
        self.ramp = self.ramp.map(|ramp| ramp + 1).filter(|ramp| *ramp < RECOVERED_AT);
    }

    /// An attempt that began at `started` failed.
    pub fn handle_failure(&mut self, now: Moment, started: Moment, random: &mut Rng) {
        self.ramp = Some(1);
        // Attempts that were under way together fail together: that is one failure.
        if self.failing.is_some_and(|(_, last)| started <= last) {
            return;
        }
        let first = self.failing.map_or(now, |(first, _)| first);
        self.failing = Some((first, now));
        self.pause_until = Some(now + pause(self.failures, random));
        self.failures += 1;
    }
}

/// The pause after so many earlier failures: between half of it and all of it, so that nodes do not march in step.
fn pause(earlier: u32, random: &mut Rng) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << earlier.min(16)).min(LONGEST_PAUSE);
    longest / 2 + Duration::from_nanos(random.u64(..=nanos(longest / 2)))
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Attempts start whenever they may and end in any order and any way.
        #[test]
        fn after_a_failure_no_more_attempts_run_at_once_than_have_succeeded_since_plus_one(
            ends in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), 0..400_u64), 1..300)
        ) {
            let (mut refill, mut random, mut now) = (Refill::default(), Rng::with_seed(7), Moment::START);
            let mut under_way: Vec<Moment> = Vec::new();
            let mut successes_since_failure: Option<u32> = None;
            for (succeeds, pick, millis) in ends {
                now = now + Duration::from_millis(millis);
                while under_way.len() < 100 && refill.attempt(now, under_way.len() as u32) == Attempt::Now {
                    under_way.push(now);
                    if let Some(successes) = successes_since_failure {
                        prop_assert!(under_way.len() as u32 <= 1 + successes);
                    }
                }
                if under_way.is_empty() {
                    continue;
                }
                let started = under_way.swap_remove(pick.index(under_way.len()));
                if succeeds {
                    refill.handle_success();
                    successes_since_failure = successes_since_failure.map(|since| since + 1).filter(|since| since + 1 < RECOVERED_AT);
                } else {
                    refill.handle_failure(now, started, &mut random);
                    successes_since_failure = Some(0);
                }
            }
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_attempts_that_fail_together_count_once() {
        let (mut refill, mut random, mut now) = (Refill::default(), Rng::with_seed(1), Moment::START);
        for longest in [250, 500, 800, 800, 800] {
            let longest = Duration::from_millis(longest);
            let started = now;
            now = now + Duration::from_millis(1);
            for _ in 0..50 {
                refill.handle_failure(now, started, &mut random);
            }
            let Attempt::At(then) = refill.attempt(now, 0) else { panic!("no pause") };
            assert!((longest / 2..=longest).contains(&then.since(now)), "{:?}", then.since(now));
            now = then;
        }
    }

    #[test]
    fn a_database_is_down_after_some_failures_in_a_row_and_up_after_one_success() {
        let (mut refill, mut random) = (Refill::default(), Rng::with_seed(1));
        for second in 1..=u64::from(DOWN_AFTER) {
            assert_eq!(refill.down_since(), None);
            let now = Moment::START + Duration::from_secs(second);
            refill.handle_failure(now, now, &mut random);
        }
        assert_eq!(refill.down_since(), Some(Moment::START + Duration::from_secs(1)));
        refill.handle_success();
        assert_eq!(refill.down_since(), None);
    }
}
