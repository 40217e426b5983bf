//! `/metrics`: what the path measured, and what is in the buckets' books at this moment.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use gate_core::bucket::{Counts, Totals};
use gate_core::reservoir::Discard;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Registry, Result, TextEncoder};

use super::families::{FAMILIES, Family};
use crate::bucket::Bucket;
use crate::ebpf::EndpointCounts;
use crate::gate::Gate;

/// All that is told.
pub(super) struct Exposition(Registry);

impl Exposition {
    pub(super) fn new(gate: &Arc<Gate>) -> Result<Self> {
        let registry = Registry::new();
        gate.metrics.register(&registry)?;
        registry.register(Box::new(Books::new(Arc::clone(gate))?))?;
        Ok(Self(registry))
    }

    /// In the text format of Prometheus.
    pub(super) fn text(&self) -> Result<String> {
        TextEncoder::new().encode_to_string(&self.0.gather())
    }
}

/// A bucket's books, read at one moment.
pub(super) struct Entry<'g> {
    pub(super) bucket: &'g Bucket,
    pub(super) counts: Counts,
    pub(super) totals: Totals,
    pub(super) discards: [u64; Discard::ALL.len()],
}

/// Reads the books of all buckets whenever it is asked, so that nothing has to be kept up to date.
struct Books {
    gate: Arc<Gate>,
    clients: Desc,
    kernel: [Desc; KERNEL.len()],
    families: Vec<Desc>,
}

/// What the kernel half counted, by endpoint.
const KERNEL: [(&str, &str); 2] = [
    ("gate_kernel_established_total", "Connections of this gate that the kernel saw established."),
    ("gate_kernel_closed_total", "Connections of this gate that the kernel saw closed."),
];

const CLIENTS: (&str, &str) = ("gate_clients", "Clients that are connected, whatever they do.");

impl Books {
    fn new(gate: Arc<Gate>) -> Result<Self> {
        let describe = |family: &Family| {
            let labels = ["bucket"].into_iter().chain(family.label).map(str::to_owned).collect();
            Desc::new(family.name.to_owned(), family.help.to_owned(), labels, HashMap::new())
        };
        let of_endpoint =
            |(name, help): (&str, &str)| Desc::new(name.into(), help.into(), vec!["endpoint".into()], HashMap::new());
        let [established, closed] = KERNEL.map(of_endpoint);
        Ok(Self {
            gate,
            kernel: [established?, closed?],
            clients: Desc::new(CLIENTS.0.to_owned(), CLIENTS.1.to_owned(), Vec::new(), HashMap::new())?,
            families: FAMILIES.iter().map(describe).collect::<Result<_>>()?,
        })
    }
}

impl Collector for Books {
    fn desc(&self) -> Vec<&Desc> {
        self.families.iter().chain(&self.kernel).chain([&self.clients]).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let entries: Vec<_> = self.gate.buckets.iter().map(|bucket| read(bucket)).collect();
        let of_family = |family: &Family| {
            let of_bucket = |entry| (family.read)(entry).into_iter().map(|sample| metric(family, entry, sample));
            let metrics = entries.iter().flat_map(of_bucket).collect();
            metric_family(family.name, family.help, family.kind, metrics)
        };
        let clients = value(MetricType::GAUGE, Vec::new(), self.gate.clients() as f64);
        let clients = metric_family(CLIENTS.0, CLIENTS.1, MetricType::GAUGE, vec![clients]);
        FAMILIES.iter().map(of_family).chain([clients]).chain(self.kernel()).collect()
    }
}

impl Books {
    /// Nothing, if there is no kernel half or it has seen nothing yet.
    fn kernel(&self) -> Vec<MetricFamily> {
        let counts = self.gate.kernel.counts();
        let of = |(name, help): (&str, &str), read: fn(&EndpointCounts) -> u64| {
            let metric = |(endpoint, counts): &(SocketAddr, EndpointCounts)| {
                value(MetricType::COUNTER, vec![pair("endpoint", &endpoint.to_string())], read(counts) as f64)
            };
            metric_family(name, help, MetricType::COUNTER, counts.iter().map(metric).collect())
        };
        let [established, closed] = KERNEL;
        let families = [of(established, |counts| counts.established), of(closed, |counts| counts.closed)];
        families.into_iter().filter(|_| !counts.is_empty()).collect()
    }
}

fn read(bucket: &Bucket) -> Entry<'_> {
    let (counts, totals, discards) = bucket.counts();
    Entry { bucket, counts, totals, discards }
}

fn metric_family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn metric(family: &Family, entry: &Entry<'_>, (label, number): (&str, f64)) -> Metric {
    let own = family.label.map(|name| pair(name, label));
    let labels = [pair("bucket", entry.bucket.name())].into_iter().chain(own).collect();
    value(family.kind, labels, number)
}

fn value(kind: MetricType, labels: Vec<LabelPair>, number: f64) -> Metric {
    let mut metric = Metric::from_label(labels);
    if kind == MetricType::COUNTER {
        let mut counter = Counter::default();
        counter.set_value(number);
        metric.set_counter(counter);
    } else {
        let mut gauge = Gauge::default();
        gauge.set_value(number);
        metric.set_gauge(gauge);
    }
    metric
}

fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}
