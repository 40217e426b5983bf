//! A status as people read it.

use std::fmt::Write as _;
use std::time::Duration;

use super::{BucketStatus, RefusalStatus, Status};
use crate::readiness::Stage;

/// What stands in a column.
type Cell = fn(&BucketStatus) -> String;

/// The columns of the table. The first is a name, the others are numbers.
const COLUMNS: [(&str, Cell); 11] = [
    ("BUCKET", |bucket| bucket.name.clone()),
    ("LIMIT", |bucket| bucket.share.to_string()),
    ("READY", |bucket| bucket.ready.to_string()),
    ("IN USE", |bucket| bucket.in_use.to_string()),
    ("OPENING", |bucket| bucket.opening.to_string()),
    ("RESET", |bucket| bucket.resetting.to_string()),
    ("CLOSING", |bucket| bucket.closing.to_string()),
    ("WAITING", |bucket| bucket.waiting.to_string()),
    ("LONGEST", |bucket| bucket.oldest_waiter_seconds.map_or_else(|| "-".to_owned(), |wait| format!("{wait:.1} s"))),
    ("PRESSURE", |bucket| format!("{:.2}", bucket.pressure)),
    ("REFUSED", |bucket| bucket.refused.to_string()),
];

impl Status {
    /// A line for the gate, a table of its buckets, and a line for all that is not as it should be.
    pub fn to_table(&self) -> String {
        let mut text = self.summary();
        text.push('\n');
        let header = COLUMNS.iter().map(|(title, _)| (*title).to_owned()).collect();
        let row = |bucket: &BucketStatus| COLUMNS.iter().map(|(_, read)| read(bucket)).collect::<Vec<_>>();
        text += &aligned(std::iter::once(header).chain(self.buckets.iter().map(row)).collect());
        let remarks: String = self.buckets.iter().map(remarks).collect();
        if !remarks.is_empty() {
            text.push('\n');
            text += &remarks;
        }
        text
    }

    fn summary(&self) -> String {
        let stage = match self.stage {
            Stage::Warming => "warming up",
            Stage::Ready => "ready",
            Stage::Draining => "draining",
        };
        let kernel = match &self.kernel_half.reason {
            None => "kernel half live".to_owned(),
            Some(reason) => format!("no kernel half: {reason}"),
        };
        let uptime = humantime::format_duration(Duration::from_secs(self.uptime_seconds as u64));
        let Self { version, clients, max_clients, .. } = self;
        format!("gate {version}, {stage}, up {uptime}, {clients} of at most {max_clients} clients; {kernel}\n")
    }
}

fn remarks(bucket: &BucketStatus) -> String {
    let mut text = String::new();
    let name = &bucket.name;
    // Writing to a string cannot fail.
    for endpoint in bucket.endpoints.iter().filter(|endpoint| !endpoint.is_up) {
        let (since, error) = (endpoint.down_seconds.unwrap_or_default(), endpoint.last_error.as_deref());
        let _ = writeln!(text, "{name}: {} has been down for {since:.1} s: {}", endpoint.address, error.unwrap_or("?"));
    }
    for reason in bucket.why_clients_wait() {
        let _ = writeln!(text, "{name}: clients wait: {reason}");
    }
    for (count, newest) in by_reason(&bucket.last_refusals) {
        let RefusalStatus { seconds_ago, text: why, .. } = newest;
        let _ = writeln!(text, "{name}: {count} of the last refusals, the newest {seconds_ago:.1} s ago: {why}");
    }
    text
}

/// How many of the refusals have which reason, and the newest of each, which come first.
fn by_reason(refusals: &[RefusalStatus]) -> Vec<(usize, &RefusalStatus)> {
    let mut reasons: Vec<(usize, &RefusalStatus)> = Vec::new();
    for refusal in refusals {
        match reasons.iter_mut().find(|(_, newest)| newest.reason == refusal.reason) {
            Some((count, _)) => *count += 1,
            None => reasons.push((1, refusal)),
        }
    }
    reasons
}

/// Columns as wide as their widest cell; numbers end at the same place.
fn aligned(rows: Vec<Vec<String>>) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..COLUMNS.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let numbers = row[1..].iter().zip(&widths[1..]).map(|(cell, width)| format!("  {cell:>width$}"));
        format!("{:<first$}{}\n", row[0], numbers.collect::<String>(), first = widths[0])
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{EndpointStatus, KernelStatus};
    use super::*;
    use crate::config::Mode;

    #[test]
    fn numbers_stand_under_their_titles_and_trouble_below_with_its_reason() {
        let orders = BucketStatus {
            name: "orders".to_owned(),
            in_use: 20,
            waiting: 7,
            waiting_for_place: 7,
            oldest_waiter_seconds: Some(1.25),
            pressure: 1.0,
            refused: 2,
            endpoints: vec![EndpointStatus {
                address: "db1:5432".to_owned(),
                is_up: false,
                down_seconds: Some(3.0),
                last_error: Some("cannot connect to db1:5432: refused".to_owned()),
            }],
            last_refusals: vec![
                refusal(0.5, "queue_full", "7 clients are waiting already, and no more may"),
                refusal(1.0, "timeout_limit", "waited 30.0 s for one of 20 places, all in use"),
                refusal(1.5, "queue_full", "7 clients are waiting already, and no more may"),
            ],
            ..bucket()
        };
        let status = Status {
            version: "1.2.3".to_owned(),
            stage: Stage::Ready,
            uptime_seconds: 3_725.4,
            clients: 27,
            max_clients: 1_000,
            kernel_half: KernelStatus { is_live: true, reason: None },
            buckets: vec![orders, bucket()],
        };
        let expected = "\
gate 1.2.3, ready, up 1h 2m 5s, 27 of at most 1000 clients; kernel half live

BUCKET         LIMIT  READY  IN USE  OPENING  RESET  CLOSING  WAITING  LONGEST  PRESSURE  REFUSED
orders            20      0      20        0      0        0        7    1.2 s      1.00        2
a-long-bucket     20      0       0        0      0        0        0        -      0.00        0

orders: db1:5432 has been down for 3.0 s: cannot connect to db1:5432: refused
orders: clients wait: 7 for a place: all 20 are taken (max_connections = 20)
orders: 2 of the last refusals, the newest 0.5 s ago: 7 clients are waiting already, and no more may
orders: 1 of the last refusals, the newest 1.0 s ago: waited 30.0 s for one of 20 places, all in use
";
        assert_eq!(status.to_table(), expected);
    }

    fn refusal(seconds_ago: f64, reason: &str, text: &str) -> RefusalStatus {
        let at = "2026-01-01T00:00:00.000Z".to_owned();
        RefusalStatus { at, seconds_ago, reason: reason.to_owned(), text: text.to_owned() }
    }

    pub(in super::super) fn bucket() -> BucketStatus {
        BucketStatus {
            name: "a-long-bucket".to_owned(),
            mode: Mode::Session,
            max_connections: 20,
            share: 20,
            dispatch_limit: 1.0,
            tenant_max_connections: None,
            connects_per_second: 100,
            queue_depth: 1_000,
            queue_timeout_seconds: 30.0,
            target_ready: 20,
            is_warm: true,
            ready: 0,
            in_use: 0,
            opening: 0,
            resetting: 0,
            closing: 0,
            waiting: 0,
            waiting_for_place: 0,
            waiting_for_connection: 0,
            oldest_waiter_seconds: None,
            pressure: 0.0,
            down_seconds: None,
            endpoints: Vec::new(),
            checkouts: 0,
            opened: 0,
            discarded: 0,
            refused: 0,
            last_refusals: Vec::new(),
        }
    }
}
