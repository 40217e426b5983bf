//! How an endpoint answers, as far as attempts to log in there tell. For people to look at: whether clients wait for a
//! database or are told that it is down is decided by the core, for all endpoints of a bucket together.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gate_core::bucket::Failure;

use super::dial::DialError;

/// The health of one endpoint.
#[derive(Debug, Default)]
pub struct Health(Mutex<Option<Trouble>>);

/// What is wrong with an endpoint.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// When the first of the failures in a row was.
    pub since: Instant,
    /// What the last one was.
    pub error: String,
}

/// An attempt that is under way. One that is given up has taken too long.
#[must_use = "dropping an attempt counts as no answer"]
#[derive(Debug)]
pub struct Attempt<'h> {
    health: &'h Health,
    is_over: bool,
}

impl Health {
    /// An attempt begins.
    pub fn attempt(&self) -> Attempt<'_> {
        Attempt { health: self, is_over: false }
    }

    /// What is wrong, if something is.
    pub fn trouble(&self) -> Option<Trouble> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, error: Option<String>) {
        let mut trouble = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = trouble.as_ref().map_or_else(Instant::now, |trouble| trouble.since);
        *trouble = error.map(|error| Trouble { since, error });
    }
}

impl Attempt<'_> {
    /// It succeeded, or failed like this.
    pub fn end(mut self, error: Option<&DialError>) {
        self.is_over = true;
        // A server that does not want this user is well.
        let fault = error.filter(|error| error.failure() == Failure::Backend);
        self.health.note(fault.map(ToString::to_string));
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.health.note(Some("no answer in time".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_endpoint_is_down_since_the_first_failure_in_a_row_and_up_after_a_success() {
        let health = Health::default();
        health.attempt().end(Some(&DialError::Timeout { limit: Duration::from_secs(1) }));
        let first = health.trouble().unwrap();
        drop(health.attempt());
        let second = health.trouble().unwrap();
        assert_eq!((second.since, second.error.as_str()), (first.since, "no answer in time"));
        health.attempt().end(None);
        assert!(health.trouble().is_none());
    }
}
