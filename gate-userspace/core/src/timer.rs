//! When a bucket wants to be looked at again, by what for.
//!
//! A bucket has few kinds of deadlines, so they stand in a table instead of a heap: setting one is a store, finding
//! the next is a look at each. The shell sleeps until [`Timers::next`] or until something happens.

use crate::time::Moment;

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Look for idle connections that are too near their end.
    Scan,
    /// A rate permit is there again, or a backoff is over.
    Refill,
    /// The longest-waiting client has waited long enough.
    Waiters,
}

impl Timer {
    const ALL: [Self; 3] = [Self::Scan, Self::Refill, Self::Waiters];
}

/// One deadline of each kind, or none.
#[derive(Debug, Default)]
pub struct Timers([Option<Moment>; Timer::ALL.len()]);

impl Timers {
    /// Sets a deadline, or clears it with `None`.
    pub fn set(&mut self, timer: Timer, at: Option<Moment>) {
        self.0[timer as usize] = at;
    }

    /// Whether this deadline is set.
    pub fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_some()
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Moment> {
        self.0.iter().flatten().min().copied()
    }

    /// Takes one deadline that has come.
    pub fn expire(&mut self, now: Moment) -> Option<Timer> {
        Timer::ALL.into_iter().find(|timer| self.0[*timer as usize].take_if(|at| *at <= now).is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_deadline_expires_once_and_never_early() {
        let (mut timers, soon, late) =
            (Timers::default(), Moment::START + Duration::from_secs(1), Moment::from_nanos(9));
        timers.set(Timer::Waiters, Some(soon));
        timers.set(Timer::Scan, Some(late));
        assert_eq!(timers.next(), Some(late));
        assert_eq!(timers.expire(Moment::from_nanos(8)), None);
        assert_eq!(timers.expire(late), Some(Timer::Scan));
        assert_eq!(timers.expire(late), None);
        assert_eq!(timers.expire(soon), Some(Timer::Waiters));
        assert_eq!((timers.expire(soon), timers.next()), (None, None));
    }
}
