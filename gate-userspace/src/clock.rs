//! The one clock of the process, in the core's terms.

use std::time::Instant;

use gate_core::time::Moment;

/// Reads the time since the gate started.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// The time.
    pub fn now(&self) -> Moment {
        Moment::START + self.start.elapsed()
    }

    /// A moment as the runtime's timers want it.
    pub fn instant(&self, moment: Moment) -> tokio::time::Instant {
        (self.start + moment.since(Moment::START)).into()
    }
}
