//! `/status.json`: how each bucket is at this moment.

use std::time::{Duration, SystemTime};

use gate_core::refusal::Refusal;
use gate_core::time::Moment;

use crate::backend::health::Trouble;
use crate::bucket::Bucket;
use crate::config::Endpoint;
use crate::gate::Gate;
use crate::readiness::Stage;
use crate::status::{BucketStatus, EndpointStatus, KernelStatus, RefusalStatus, Status};

pub(super) fn status(gate: &Gate, stage: Stage) -> Status {
    let now = gate.clock.now();
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        stage,
        uptime_seconds: seconds(now.since(Moment::START)),
        clients: gate.clients(),
        max_clients: gate.max_clients(),
        kernel_half: KernelStatus {
            is_live: gate.kernel.missing().is_none(),
            reason: gate.kernel.missing().map(str::to_owned),
        },
        buckets: gate.buckets.iter().map(|bucket| bucket_status(bucket, now)).collect(),
    }
}

fn bucket_status(bucket: &Bucket, now: Moment) -> BucketStatus {
    let (counts, totals, discards) = bucket.counts();
    let settings = &bucket.settings;
    let since = |moment: Option<Moment>| moment.map(|moment| seconds(now.since(moment)));
    BucketStatus {
        name: bucket.name().to_owned(),
        mode: settings.mode,
        max_connections: counts.limit,
        share: counts.limit,
        dispatch_limit: settings.dispatch_limit,
        tenant_max_connections: settings.tenants.as_ref().and_then(|tenants| tenants.max_connections),
        connects_per_second: settings.rate.per_second.get(),
        queue_depth: settings.queue.depth,
        queue_timeout_seconds: seconds(settings.queue.timeout),
        target_ready: bucket.target(),
        is_warm: bucket.is_warm(),
        ready: counts.ready,
        in_use: counts.leased,
        opening: counts.opening,
        resetting: counts.resetting,
        closing: counts.closing,
        waiting: counts.waiting_for_place + counts.waiting_for_connection,
        waiting_for_place: counts.waiting_for_place,
        waiting_for_connection: counts.waiting_for_connection,
        oldest_waiter_seconds: since(counts.oldest_waiter),
        pressure: counts.pressure,
        down_seconds: since(counts.down_since),
        endpoints: endpoints(bucket),
        checkouts: totals.checkouts,
        opened: totals.refills,
        discarded: discards.iter().sum(),
        refused: totals.refused.iter().sum(),
        last_refusals: last_refusals(bucket),
    }
}

fn endpoints(bucket: &Bucket) -> Vec<EndpointStatus> {
    let of_endpoint = |(endpoint, trouble): (&Endpoint, Option<Trouble>)| EndpointStatus {
        address: endpoint.to_string(),
        is_up: trouble.is_none(),
        down_seconds: trouble.as_ref().map(|trouble| seconds(trouble.since.elapsed())),
        last_error: trouble.map(|trouble| trouble.error),
    };
    bucket.dialer().health().map(of_endpoint).collect()
}

fn last_refusals(bucket: &Bucket) -> Vec<RefusalStatus> {
    let now = SystemTime::now();
    let of_refusal = |(at, refusal): (SystemTime, Refusal)| RefusalStatus {
        at: humantime::format_rfc3339_millis(at).to_string(),
        seconds_ago: seconds(now.duration_since(at).unwrap_or_default()),
        reason: refusal.label().to_owned(),
        text: refusal.to_string(),
    };
    bucket.last_refusals.all().into_iter().map(of_refusal).collect()
}

/// Milliseconds are enough for people and for scripts.
fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}
