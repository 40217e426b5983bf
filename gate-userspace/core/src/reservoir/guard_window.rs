//! How long a connection lives, and from when on nobody gets it any more.
//!
//! Servers, load balancers and tokens end connections at an age of their own choosing. The gate ends them earlier,
//! each at an age of its own so that they do not all end together, and hands out none whose end is so near that it
//! could come during a client's work: that last stretch is the guard window.

use std::time::Duration;

use fastrand::Rng;

use crate::time::{Moment, nanos};

/// What an operator sets.
#[derive(Clone, Debug)]
pub struct Lifetimes {
    /// The middle of the ages at which connections end.
    pub base: Duration,
    /// The distance between the least and the greatest of them.
    pub jitter: Duration,
    /// How long before its end a connection is no longer handed out.
    pub guard_window: Duration,
}

/// One connection's time.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    created_at: Moment,
    length: Duration,
}

/// How a connection stands to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// It may be handed out.
    Fresh,
    /// It works, but is inside the guard window.
    Guarded,
    /// It has reached its end.
    Expired,
}

impl Lifetimes {
    /// The time of a connection that was opened now.
    pub fn begin(&self, now: Moment, random: &mut Rng) -> Lifetime {
        let shortest = self.base.saturating_sub(self.jitter / 2);
        let extra = Duration::from_nanos(random.u64(..=nanos(self.jitter)));
        Lifetime { created_at: now, length: shortest + extra }
    }

    /// How a connection stands to its end now.
    pub fn age(&self, lifetime: Lifetime, now: Moment) -> Age {
        match lifetime.remaining(now) {
            Duration::ZERO => Age::Expired,
            remaining if remaining < self.guard_window => Age::Guarded,
            _ => Age::Fresh,
        }
    }
}

impl Lifetime {
    /// The time left.
    pub fn remaining(self, now: Moment) -> Duration {
        self.length.saturating_sub(now.since(self.created_at))
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn lifetimes() -> Lifetimes {
        Lifetimes { base: 11 * MINUTE, jitter: 2 * MINUTE, guard_window: Duration::from_secs(45) }
    }

    #[test]
    fn a_connection_ages_from_fresh_to_guarded_to_expired() {
        let lifetimes = Lifetimes { jitter: Duration::ZERO, ..lifetimes() };
        let lifetime = lifetimes.begin(Moment::START, &mut Rng::with_seed(1));
        let age_after = |after: Duration| lifetimes.age(lifetime, Moment::START + after);
        let guard = 11 * MINUTE - Duration::from_secs(45);
        assert_eq!(age_after(guard), Age::Fresh);
        assert_eq!(age_after(guard + Duration::from_nanos(1)), Age::Guarded);
        assert_eq!(age_after(11 * MINUTE - Duration::from_nanos(1)), Age::Guarded);
        assert_eq!(age_after(11 * MINUTE), Age::Expired);
    }

    proptest! {
        #[test]
        fn lifetimes_spread_over_the_whole_jitter_and_never_beyond(seed: u64) {
            let mut random = Rng::with_seed(seed);
            let lengths: Vec<_> = (0..200).map(|_| lifetimes().begin(Moment::START, &mut random).length).collect();
            prop_assert!(lengths.iter().all(|length| (10 * MINUTE..=12 * MINUTE).contains(length)));
            prop_assert!(lengths.iter().any(|length| *length < 10 * MINUTE + MINUTE / 2));
            prop_assert!(lengths.iter().any(|length| *length > 12 * MINUTE - MINUTE / 2));
        }
    }
}
