//! What is measured on the path, where it happens.
//!
//! Most of what `/metrics` tells is in the books of the core, and is read from there when somebody asks
//! (`http/metrics.rs`), at no cost to the path. Here is only what the core cannot know: how long things took, how many
//! bytes went by, whose fault it was. Each bucket looks up its own once ([`Metrics::of_bucket`]), so that an
//! observation is a few atomic additions.

use std::time::Duration;

use gate_core::refusal::Refusal;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry, Result};

use crate::backend::dial::DialError;

/// Bounds in seconds: a ready connection takes microseconds, and a lock that is fought for shows before a millisecond.
const CHECKOUT: [f64; 13] = [1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 1e-2, 1e-1, 1.0];

/// Bounds in seconds: from a reset that is waited for to the longest queue timeout that makes sense.
const QUEUE_WAIT: [f64; 14] = [1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

/// Bounds in seconds: from one statement to a day's work.
const SESSION: [f64; 10] = [1e-3, 1e-2, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 14_400.0, 86_400.0];

/// Why a client may leave unserved, besides what a bucket says ([`Refusal::LABELS`]).
const FAREWELLS: [&str; 9] = [
    "backend",
    "client_gone",
    "client_protocol",
    "client_slow",
    "internal",
    "login",
    "no_route",
    "settings",
    "too_many_clients",
];

/// The metrics of a process.
#[derive(Clone, Debug)]
pub struct Metrics {
    checkout_latency: HistogramVec,
    queue_wait: HistogramVec,
    session: HistogramVec,
    bytes: IntCounterVec,
    refill_failures: IntCounterVec,
    farewells: IntCounterVec,
}

/// The metrics of one bucket.
#[derive(Clone, Debug)]
pub struct BucketMetrics {
    name: String,
    checkout_latency: Histogram,
    queue_wait: Histogram,
    session: Histogram,
    from_clients: IntCounter,
    from_servers: IntCounter,
    refill_failures: IntCounterVec,
}

impl Metrics {
    /// Metrics that nothing has been counted in yet.
    pub fn new() -> Result<Self> {
        let metrics = Self {
            checkout_latency: histogram(
                "gate_reservoir_checkout_latency_seconds",
                "How long it took to hand over a ready connection.",
                &CHECKOUT,
            )?,
            queue_wait: histogram(
                "gate_queue_wait_seconds",
                "How long clients waited that had to, whether they were served or not.",
                &QUEUE_WAIT,
            )?,
            session: histogram("gate_session_seconds", "How long clients used a connection.", &SESSION)?,
            bytes: counter("gate_bytes_total", "Bytes forwarded, by who sent them.", &["bucket", "direction"])?,
            refill_failures: counter(
                "gate_reservoir_refill_failures_total",
                "Connections that could not be opened.",
                &["bucket", "reason"],
            )?,
            farewells: counter(
                "gate_farewells_total",
                "Clients that left unserved; those that a bucket refused are in gate_refusals_total, too.",
                &["reason"],
            )?,
        };
        for reason in FAREWELLS.iter().chain(&Refusal::LABELS) {
            metrics.farewells.get_metric_with_label_values(&[*reason])?;
        }
        Ok(metrics)
    }

    /// Those of a bucket. Every label of theirs stands at zero from now on.
    pub fn of_bucket(&self, name: &str) -> Result<BucketMetrics> {
        for reason in DialError::LABELS {
            self.refill_failures.get_metric_with_label_values(&[name, reason])?;
        }
        Ok(BucketMetrics {
            name: name.to_owned(),
            checkout_latency: self.checkout_latency.get_metric_with_label_values(&[name])?,
            queue_wait: self.queue_wait.get_metric_with_label_values(&[name])?,
            session: self.session.get_metric_with_label_values(&[name])?,
            from_clients: self.bytes.get_metric_with_label_values(&[name, "from_client"])?,
            from_servers: self.bytes.get_metric_with_label_values(&[name, "from_server"])?,
            refill_failures: self.refill_failures.clone(),
        })
    }

    /// A client left unserved; the reason is its farewell's label.
    pub fn farewell(&self, reason: &str) {
        count(&self.farewells, &[reason]);
    }

    /// Has a registry tell them.
    pub fn register(&self, registry: &Registry) -> Result<()> {
        for histogram in [&self.checkout_latency, &self.queue_wait, &self.session] {
            registry.register(Box::new(histogram.clone()))?;
        }
        for counter in [&self.bytes, &self.refill_failures, &self.farewells] {
            registry.register(Box::new(counter.clone()))?;
        }
        Ok(())
    }
}

impl BucketMetrics {
    /// A client got a ready connection.
    pub fn checkout(&self, latency: Duration) {
        self.checkout_latency.observe(latency.as_secs_f64());
    }

    /// A client that had to wait does so no longer.
    pub fn queue_wait(&self, waited: Duration) {
        self.queue_wait.observe(waited.as_secs_f64());
    }

    /// A client left its connection, after so many bytes from it and from its server.
    pub fn session(&self, used: Duration, from_client: u64, from_server: u64) {
        self.session.observe(used.as_secs_f64());
        self.from_clients.inc_by(from_client);
        self.from_servers.inc_by(from_server);
    }

    /// A connection could not be opened; the reason is the error's label.
    pub fn refill_failed(&self, reason: &str) {
        count(&self.refill_failures, &[&self.name, reason]);
    }

    /// How many clients have used a connection and left.
    pub fn sessions(&self) -> u64 {
        self.session.get_sample_count()
    }
}

fn histogram(name: &str, help: &str, bounds: &[f64]) -> Result<HistogramVec> {
    HistogramVec::new(HistogramOpts::new(name, help).buckets(bounds.to_vec()), &["bucket"])
}

fn counter(name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec> {
    IntCounterVec::new(Opts::new(name, help), labels)
}

fn count(counter: &IntCounterVec, labels: &[&str]) {
    // It fails only for another number of labels than the counter was made with.
    if let Ok(counter) = counter.get_metric_with_label_values(labels) {
        counter.inc();
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn what_has_not_happened_yet_stands_at_zero() {
        let metrics = Metrics::new().unwrap();
        metrics.of_bucket("orders").unwrap();
        let text = text(&metrics);
        for line in [
            r#"gate_bytes_total{bucket="orders",direction="from_client"} 0"#,
            r#"gate_reservoir_refill_failures_total{bucket="orders",reason="timeout"} 0"#,
            r#"gate_farewells_total{reason="queue_full"} 0"#,
            r#"gate_farewells_total{reason="no_route"} 0"#,
            r#"gate_queue_wait_seconds_count{bucket="orders"} 0"#,
        ] {
            assert!(text.lines().any(|told| told == line), "no {line} in\n{text}");
        }
    }

    #[test]
    fn what_happens_is_told_under_its_bucket() {
        let metrics = Metrics::new().unwrap();
        let (orders, _other) = (metrics.of_bucket("orders").unwrap(), metrics.of_bucket("other").unwrap());
        orders.checkout(Duration::from_micros(3));
        orders.session(Duration::from_secs(2), 10, 20);
        orders.refill_failed("connect");
        let text = text(&metrics);
        for line in [
            r#"gate_reservoir_checkout_latency_seconds_bucket{bucket="orders",le="0.0000025"} 0"#,
            r#"gate_reservoir_checkout_latency_seconds_bucket{bucket="orders",le="0.000005"} 1"#,
            r#"gate_session_seconds_sum{bucket="orders"} 2"#,
            r#"gate_session_seconds_count{bucket="other"} 0"#,
            r#"gate_bytes_total{bucket="orders",direction="from_server"} 20"#,
            r#"gate_reservoir_refill_failures_total{bucket="orders",reason="connect"} 1"#,
        ] {
            assert!(text.lines().any(|told| told == line), "no {line} in\n{text}");
        }
    }

    fn text(metrics: &Metrics) -> String {
        let registry = Registry::new();
        metrics.register(&registry).unwrap();
        TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }
}
