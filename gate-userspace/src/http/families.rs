//! What is told of every bucket, and where in its books it stands.

use gate_core::refusal::Refusal;
use gate_core::reservoir::Discard;
use prometheus::proto::MetricType;

use super::metrics::Entry;

/// One metric of all buckets.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: MetricType,
    /// The label that it has besides `bucket`.
    pub(super) label: Option<&'static str>,
    /// Its values, each with the value of that label.
    pub(super) read: fn(&Entry<'_>) -> Vec<(&'static str, f64)>,
}

pub(super) const FAMILIES: [Family; 14] = [
    gauge("gate_reservoir_size", "Ready connections.", |entry| only(entry.counts.ready)),
    gauge("gate_reservoir_target", "How many connections are to be kept ready now.", |entry| {
        only(entry.bucket.target())
    }),
    counter("gate_reservoir_checkouts_total", "Clients that got a connection.", |entry| only(entry.totals.checkouts)),
    counter("gate_reservoir_empty_total", "Clients that had a place and found no ready connection.", |entry| {
        only(entry.totals.empty)
    }),
    by(
        "reason",
        counter("gate_reservoir_discards_total", "Connections that were closed.", |entry| {
            labelled(Discard::ALL.map(Discard::label), entry.discards)
        }),
    ),
    counter("gate_reservoir_refills_total", "Connections that were opened.", |entry| only(entry.totals.refills)),
    gauge("gate_slots_limit", "How many connections this gate may hold open.", |entry| only(entry.counts.limit)),
    by(
        "state",
        gauge("gate_slots_taken", "Connections that count against the limit.", |entry| {
            let counts = &entry.counts;
            let states = ["opening", "ready", "leased", "resetting", "closing"];
            labelled(states, [counts.opening, counts.ready, counts.leased, counts.resetting, counts.closing])
        }),
    ),
    by(
        "for",
        gauge("gate_waiting", "Clients that wait for a place, or have one and wait for a connection.", |entry| {
            let counts = &entry.counts;
            labelled(["place", "connection"], [counts.waiting_for_place, counts.waiting_for_connection])
        }),
    ),
    gauge("gate_pressure", "How near the bucket is to refusing clients, from 0 to 1.", |entry| {
        only(entry.counts.pressure)
    }),
    counter("gate_queued_total", "Clients that had to wait.", |entry| only(entry.totals.queued)),
    by(
        "reason",
        counter("gate_refusals_total", "Clients that were refused.", |entry| {
            labelled(Refusal::LABELS, entry.totals.refused)
        }),
    ),
    counter("gate_sessions_total", "Clients that have used a connection and left.", |entry| {
        only(entry.bucket.metrics.sessions())
    }),
    gauge(
        "gate_backend_up",
        "Whether connections to the database can be opened: 1, or 0 if it counts as down.",
        |entry| only(entry.counts.down_since.is_none()),
    ),
];

/// What can stand for a value. Counts are exact up to 2⁵³.
trait Number {
    fn number(self) -> f64;
}

impl Number for u32 {
    fn number(self) -> f64 {
        self.into()
    }
}

impl Number for u64 {
    fn number(self) -> f64 {
        self as f64
    }
}

impl Number for f64 {
    fn number(self) -> f64 {
        self
    }
}

impl Number for bool {
    fn number(self) -> f64 {
        u32::from(self).number()
    }
}

type Read = fn(&Entry<'_>) -> Vec<(&'static str, f64)>;

const fn gauge(name: &'static str, help: &'static str, read: Read) -> Family {
    Family { name, help, kind: MetricType::GAUGE, label: None, read }
}

const fn counter(name: &'static str, help: &'static str, read: Read) -> Family {
    Family { name, help, kind: MetricType::COUNTER, label: None, read }
}

const fn by(label: &'static str, family: Family) -> Family {
    Family { label: Some(label), ..family }
}

fn only(value: impl Number) -> Vec<(&'static str, f64)> {
    vec![("", value.number())]
}

fn labelled<const N: usize>(labels: [&'static str; N], values: [impl Number; N]) -> Vec<(&'static str, f64)> {
    labels.into_iter().zip(values.map(Number::number)).collect()
}
