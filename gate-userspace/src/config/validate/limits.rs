//! Numbers and times that contradict each other.

use std::time::Duration;

use humantime::format_duration;

use super::Checked;

pub(super) fn validate(checked: &mut Checked<'_, '_>) {
    connections(checked);
    lifetimes(checked);
    waits(checked);
    endpoints(checked);
}

fn connections(checked: &mut Checked<'_, '_>) {
    let bucket = checked.bucket;
    let (max, reservoir) = (bucket.max_connections, &bucket.reservoir);
    part_of_one(
        checked,
        "dispatch_limit",
        bucket.dispatch_limit,
        "the part of max_connections that may be in use at once; 1.0 means all of them",
    );
    if max == 0 {
        checked.problem(
            &["max_connections"],
            "max_connections is 0, so nobody could be served; set it to what the database can bear, or remove the \
             bucket",
        );
        // Whatever else is above it is not the mistake.
        return;
    }
    let target = reservoir.target_ready;
    if target > max {
        checked.problem(
            &["reservoir.target_ready", "max_connections"],
            format!(
                "reservoir.target_ready ({target}) is above max_connections ({max}), so it can never be reached; \
                 lower target_ready or raise max_connections"
            ),
        );
    }
    for (key, value) in [("min_ready", reservoir.min_ready), ("low_watermark", reservoir.low_watermark)] {
        if value > target {
            checked.problem(
                &[&format!("reservoir.{key}"), "reservoir.target_ready"],
                format!(
                    "reservoir.{key} ({value}) is above reservoir.target_ready ({target}), so it can never be \
                     reached; lower {key} or raise target_ready"
                ),
            );
        }
    }
    let tenant = bucket.tenants.as_ref().and_then(|tenants| tenants.max_connections);
    if let Some(tenant) = tenant.filter(|tenant| *tenant == 0 || *tenant > max) {
        checked.problem(
            &["tenants.max_connections", "max_connections"],
            format!(
                "tenants.max_connections ({tenant}) must be at least 1 and at most max_connections ({max}); change \
                 it, or leave it out for no cap"
            ),
        );
    }
}

fn lifetimes(checked: &mut Checked<'_, '_>) {
    let reservoir = &checked.bucket.reservoir;
    let (base, jitter, guard) = (reservoir.base_lifetime, reservoir.lifetime_jitter, reservoir.guard_window);
    let shortest = base.saturating_sub(jitter / 2);
    if shortest.is_zero() {
        checked.problem(
            &["reservoir.lifetime_jitter", "reservoir.base_lifetime"],
            format!(
                "reservoir.lifetime_jitter ({}) must be shorter than twice reservoir.base_lifetime ({}), or \
                 connections would be over before they are open; lower lifetime_jitter or raise base_lifetime",
                format_duration(jitter),
                format_duration(base),
            ),
        );
    } else if guard >= shortest {
        checked.problem(
            &["reservoir.guard_window", "reservoir.base_lifetime", "reservoir.lifetime_jitter"],
            format!(
                "reservoir.guard_window ({}) must be shorter than reservoir.base_lifetime - lifetime_jitter/2 ({}), \
                 or connections would never be handed out; lower guard_window or raise base_lifetime",
                format_duration(guard),
                format_duration(shortest),
            ),
        );
    }
    if reservoir.connect_timeout.is_zero() {
        checked.problem(
            &["reservoir.connect_timeout"],
            "reservoir.connect_timeout is 0, so no connection could be opened; set a time such as \"10s\"",
        );
    }
}

fn waits(checked: &mut Checked<'_, '_>) {
    let bucket = checked.bucket;
    let (timeout, empty_wait) = (bucket.queue.timeout, bucket.reservoir.empty_wait);
    if timeout == Duration::ZERO {
        checked.problem(
            &["queue.timeout"],
            "queue.timeout is 0, so whoever has to wait would be refused; set a time such as \"30s\", or \
             queue.depth = 0 if that is meant",
        );
    } else if empty_wait > timeout {
        checked.problem(
            &["reservoir.empty_wait", "queue.timeout"],
            format!(
                "reservoir.empty_wait ({}) is longer than queue.timeout ({}), so clients would wait longer than they \
                 may; lower empty_wait or raise timeout",
                format_duration(empty_wait),
                format_duration(timeout),
            ),
        );
    }
    part_of_one(
        checked,
        "queue.shed_at",
        bucket.queue.shed_at,
        "the pressure from which newcomers are refused; 1.0 means to queue until the queue is full",
    );
}

fn part_of_one(checked: &mut Checked<'_, '_>, key: &str, value: f64, meaning: &str) {
    if !(value > 0.0 && value <= 1.0) {
        checked.problem(&[key], format!("{key} ({value}) must be above 0 and at most 1: it is {meaning}"));
    }
}

fn endpoints(checked: &mut Checked<'_, '_>) {
    let endpoints = &checked.bucket.endpoints;
    if endpoints.is_empty() {
        checked.problem(&["endpoints"], "endpoints is an empty list; name the host and port of the bucket's database");
    }
    for (at, endpoint) in endpoints.iter().enumerate() {
        if endpoints[..at].contains(endpoint) {
            checked.problem(&["endpoints"], format!("endpoints has {endpoint} twice; remove one of them"));
        }
    }
}
