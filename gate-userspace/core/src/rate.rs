//! How often a bucket may open a connection: a token bucket of integers, a pure function of `now`.
//!
//! It is kept as one number, the moment at which the bucket will be full again. A permit moves that moment one
//! interval on; it may be given while the moment lies at most a burst of intervals ahead. Rounding is always towards
//! fewer permits, so that in no window of length T more than `burst + T / interval` are given.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::time::{Moment, nanos};

/// A token bucket: a steady rate, and a burst that may be spent at once after a pause.
#[derive(Clone, Debug)]
pub struct Rate {
    interval: u64,
    burst: u64,
    full_at: Moment,
}

/// The right to open one connection now. It is spent when it is given: dropping it gives nothing back, because the
/// database may have seen the attempt.
#[must_use = "a permit is spent whether it is used or not"]
#[derive(Debug)]
pub struct Permit(());

impl Rate {
    /// `per_second` permits each second, at most `burst` of them at once; full at the start.
    pub fn per_second(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        Self::every(Duration::from_nanos(1_000_000_000_u64.div_ceil(per_second.get().into())), burst)
    }

    /// One permit each `interval`, at most `burst` at once; for shares of a rate below one a second.
    pub fn every(interval: Duration, burst: NonZeroU32) -> Self {
        Self { interval: nanos(interval).max(1), burst: burst.get().into(), full_at: Moment::START }
    }

    /// Spends a permit, if there is one.
    pub fn try_take(&mut self, now: Moment) -> Option<Permit> {
        if now < self.next(now) {
            return None;
        }
        self.full_at = self.full_at.max(now) + Duration::from_nanos(self.interval);
        Some(Permit(()))
    }

    /// When the next permit can be had: `now`, if there is one already.
    pub fn next(&self, now: Moment) -> Moment {
        self.nth(now, 1)
    }

    /// When the `n`th permit from now can be had, if nobody else takes one.
    pub fn nth(&self, now: Moment, n: u64) -> Moment {
        let spent = self.full_at.max(now) + Duration::from_nanos(n.saturating_mul(self.interval));
        let reach = self.burst.saturating_mul(self.interval);
        now.max(Moment::from_nanos(spent.as_nanos().saturating_sub(reach)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: u32, burst: u32) -> Rate {
        Rate::per_second(NonZeroU32::new(per_second).unwrap(), NonZeroU32::new(burst).unwrap())
    }

    fn drain(rate: &mut Rate, now: Moment) -> u32 {
        std::iter::from_fn(|| rate.try_take(now)).count().try_into().unwrap()
    }

    #[test]
    fn a_rested_bucket_gives_its_burst_and_then_its_rate() {
        let mut rate = rate(100, 1_000);
        let mut now = Moment::START;
        assert_eq!(drain(&mut rate, now), 1_000);
        assert_eq!(rate.next(now), now + Duration::from_millis(10));
        for _ in 0..50 {
            now = now + Duration::from_secs(1);
            assert_eq!(drain(&mut rate, now), 100);
        }
        now = now + Duration::from_secs(3_600);
        assert_eq!(drain(&mut rate, now), 1_000);
    }

    #[test]
    fn the_promised_next_moment_is_the_first_that_gives() {
        let mut rate = rate(7, 3);
        let _ = drain(&mut rate, Moment::START);
        let next = rate.next(Moment::START);
        assert!(rate.clone().try_take(Moment::from_nanos(next.as_nanos() - 1)).is_none());
        assert!(rate.try_take(next).is_some());
    }
}
