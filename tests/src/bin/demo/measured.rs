//! What the gate measured, read from its `/metrics`.

use anyhow::{Context as _, Result};

/// The numbers of one bucket, since the start.
pub(crate) struct Measured {
    pub(crate) checkouts: f64,
    pub(crate) opened: f64,
    pub(crate) queued: f64,
    pub(crate) refused: f64,
    pub(crate) queue_wait: Histogram,
    pub(crate) checkout_latency: Histogram,
}

impl Measured {
    pub(crate) fn of(metrics: &str, bucket: &str) -> Result<Self> {
        let samples = Samples { metrics, bucket };
        Ok(Self {
            checkouts: samples.sum("gate_reservoir_checkouts_total")?,
            opened: samples.sum("gate_reservoir_refills_total")?,
            queued: samples.sum("gate_queued_total")?,
            refused: samples.sum("gate_refusals_total")?,
            queue_wait: samples.histogram("gate_queue_wait_seconds_bucket")?,
            checkout_latency: samples.histogram("gate_reservoir_checkout_latency_seconds_bucket")?,
        })
    }
}

/// How many observations were at most so many seconds.
pub(crate) struct Histogram(Vec<(f64, f64)>);

impl Histogram {
    /// A bound that this part of the observations kept; nothing, if there were none.
    pub(crate) fn bound(&self, part: f64) -> Option<f64> {
        let (_, all) = self.0.last().filter(|(_, all)| *all > 0.0)?;
        self.0.iter().find(|(_, count)| *count >= part * all).map(|(bound, _)| *bound)
    }
}

struct Samples<'m> {
    metrics: &'m str,
    bucket: &'m str,
}

impl<'m> Samples<'m> {
    /// Labels and values of a metric.
    fn of(&self, name: &str) -> impl Iterator<Item = (&'m str, f64)> {
        let of_bucket = format!("{name}{{bucket=\"{}\"", self.bucket);
        self.metrics.lines().filter_map(move |line| {
            let (labels, value) = line.strip_prefix(&of_bucket)?.rsplit_once(' ')?;
            Some((labels, value.parse().ok()?))
        })
    }

    fn sum(&self, name: &str) -> Result<f64> {
        let values: Vec<f64> = self.of(name).map(|(_, value)| value).collect();
        (!values.is_empty()).then(|| values.iter().sum()).with_context(|| format!("the gate does not tell {name}"))
    }

    fn histogram(&self, name: &str) -> Result<Histogram> {
        let bound = |labels: &str| labels.split_once("le=\"")?.1.split_once('"')?.0.parse().ok();
        let bounds: Vec<_> = self.of(name).filter_map(|(labels, count)| Some((bound(labels)?, count))).collect();
        (!bounds.is_empty()).then_some(Histogram(bounds)).with_context(|| format!("the gate does not tell {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_bounds_are_those_of_the_bucket() {
        let metrics = "\
            a{bucket=\"demo\",reason=\"x\"} 2\n\
            a{bucket=\"demo\",reason=\"y\"} 3\n\
            a{bucket=\"other\",reason=\"x\"} 100\n\
            h{bucket=\"demo\",le=\"0.1\"} 50\n\
            h{bucket=\"demo\",le=\"1\"} 99\n\
            h{bucket=\"demo\",le=\"+Inf\"} 100\n";
        let samples = Samples { metrics, bucket: "demo" };
        assert_eq!(samples.sum("a").unwrap(), 5.0);
        assert!(samples.sum("b").is_err());
        let histogram = samples.histogram("h").unwrap();
        assert_eq!((histogram.bound(0.5), histogram.bound(0.99)), (Some(0.1), Some(1.0)));
        assert_eq!(histogram.bound(1.0), Some(f64::INFINITY));
    }
}
