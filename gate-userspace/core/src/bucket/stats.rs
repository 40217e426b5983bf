//! What a bucket tells of itself.

use super::Bucket;
use super::pool::Stage;
use crate::refusal::Refusal;
use crate::reservoir::Discard;
use crate::time::Moment;

/// What has happened since the start.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Clients that got a connection.
    pub checkouts: u64,
    /// Clients that had a place and found no ready connection.
    pub empty: u64,
    /// Clients that had to wait.
    pub queued: u64,
    /// Clients that were refused, in the order of [`Refusal::LABELS`].
    pub refused: [u64; Refusal::LABELS.len()],
    /// Connections that were opened.
    pub refills: u64,
    /// Attempts that failed.
    pub refill_failures: u64,
}

/// What is, now. Every slot that is taken is in one of the five stages from `opening` to `closing`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    /// How many connections may be open.
    pub limit: u32,
    /// How many slots are taken.
    pub taken: u32,
    /// Connections being opened.
    pub opening: u32,
    /// Ready ones.
    pub ready: u32,
    /// In clients' hands.
    pub leased: u32,
    /// Being reset.
    pub resetting: u32,
    /// Being closed.
    pub closing: u32,
    /// Clients that wait for a place.
    pub waiting_for_place: u32,
    /// Clients that have one and wait for a connection.
    pub waiting_for_connection: u32,
    /// When the client came that has waited for the longest time.
    pub oldest_waiter: Option<Moment>,
    /// From 0 to 1.
    pub pressure: f64,
    /// Since when the database counts as down.
    pub down_since: Option<Moment>,
}

impl<C> Bucket<C> {
    /// What has happened since the start.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// How many connections were discarded for this reason.
    pub fn discards(&self, reason: Discard) -> u64 {
        self.reservoir.discards(reason)
    }

    /// What is, now.
    pub fn counts(&self) -> Counts {
        Counts {
            limit: self.slots.limit(),
            taken: self.slots.taken(),
            opening: self.pools.sum(Stage::Opening),
            ready: self.reservoir.ready(),
            leased: self.pools.sum(Stage::Leased),
            resetting: self.pools.sum(Stage::Resetting),
            closing: self.closing(),
            waiting_for_place: self.admission.waiting(),
            waiting_for_connection: self.waiting_for_connection(),
            oldest_waiter: self.waiting.longest().map(|(_, arrived)| arrived),
            pressure: self.admission.pressure(),
            down_since: self.health.down_since(),
        }
    }

    /// How many connections should be ready.
    pub fn target(&self, now: Moment) -> u32 {
        self.pools.kept().map(|id| self.level(now, id)).sum()
    }

    /// Whether every pool has as many connections as it needs to begin.
    pub fn is_warm(&self) -> bool {
        self.pools.kept().all(|id| {
            let pool = &self.pools[id];
            let open = self.reservoir.ready_in(id) + pool.stages.get(Stage::Leased) + pool.stages.get(Stage::Resetting);
            open >= pool.level.low_watermark.min(pool.level.min)
        })
    }

    /// Connections that were discarded and whose slot has not come back.
    pub(super) fn closing(&self) -> u32 {
        let open = [Stage::Opening, Stage::Leased, Stage::Resetting].map(|stage| self.pools.sum(stage));
        self.slots.taken() - open.iter().sum::<u32>() - self.reservoir.ready()
    }

    /// Every ticket is with a connection or waits for one.
    pub(super) fn waiting_for_connection(&self) -> u32 {
        self.admission.in_use() - self.pools.sum(Stage::Leased)
    }
}
