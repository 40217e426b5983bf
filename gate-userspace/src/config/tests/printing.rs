//! What is printed can be read again, shows everything, and gives no secret away.

use super::*;

/// Everything that a bucket of four lines means.
const COMPLETE: &str = r#"[listen]
postgres = ["127.0.0.1:6432"]
tds = []
admin = "127.0.0.1:9187"

[[bucket]]
name = "orders"
protocol = "postgres"
endpoints = ["db1:5432"]
mode = "session"
auth = "gate"
max_connections = 20
dispatch_limit = 1.0

[bucket.route]
database = ["*"]
user = ["*"]

[bucket.clients]
trust = true

[bucket.backend]

[bucket.reservoir]
target_ready = 20
min_ready = 20
low_watermark = 20
cool_after = "10m"
base_lifetime = "11m"
lifetime_jitter = "2m"
guard_window = "45s"
empty_wait = "100ms"
connect_timeout = "10s"

[bucket.rate]
per_second = 100
burst = 100

[bucket.queue]
depth = 1000
timeout = "30s"
shed_at = 1.0
"#;

#[test]
fn every_default_is_filled_in() {
    assert_eq!(loaded(BUCKET, &[]).to_toml().unwrap(), COMPLETE);
}

#[test]
fn what_is_printed_reads_as_the_same_configuration() {
    let added = r#"
        tenants = { key = "database", max_connections = 3 }
        route = { database = ["a'b", "c\nd"] }
        backend = { user = "app", password = "hunter2", database = "é\"" }
        reservoir = { base_lifetime = "1h 30m", empty_wait = "0s" }
    "#;
    let environment =
        [("GATE_BUCKET__ORDERS__BACKEND__DATABASE", "two\nlines = 1"), ("GATE_BUCKET__ORDERS__QUEUE__SHED_AT", "0.7")];
    let first = loaded(&format!("{BUCKET}\n{added}"), &environment);
    let printed = first.to_toml().unwrap();
    let again = loaded(&printed, &[]);
    // A password is shown as a mask, so it is the mask that is read again.
    assert_eq!(format!("{:?}", first.config), format!("{:?}", again.config), "{printed}");
}

#[test]
fn what_came_from_the_environment_says_so() {
    let environment = [
        ("GATE_LISTEN__ADMIN", "127.0.0.1:9000"),
        ("GATE_BUCKET__ORDERS__QUEUE__DEPTH", "5"),
        ("GATE_BUCKET__ORDERS__RATE", "{ burst = 5 }"),
    ];
    let printed = loaded(BUCKET, &environment).to_toml().unwrap();
    let marked: Vec<_> = printed.lines().filter(|line| line.contains('#')).collect();
    assert_eq!(
        marked,
        [
            "admin = \"127.0.0.1:9000\" # from GATE_LISTEN__ADMIN",
            "burst = 5 # from GATE_BUCKET__ORDERS__RATE",
            "depth = 5 # from GATE_BUCKET__ORDERS__QUEUE__DEPTH",
        ]
    );
}

#[test]
fn no_secret_is_printed() {
    let loaded = loaded(&format!("{BUCKET}\nbackend = {{ user = 'app', password = 'hunter2' }}"), &[]);
    let printed = loaded.to_toml().unwrap();
    assert!(printed.contains("password = \"***\""), "{printed}");
    assert!(!printed.contains("hunter2") && !format!("{loaded:?}").contains("hunter2"));
}

#[test]
fn a_bucket_is_summed_up_in_one_line() {
    let added = "route.database = ['a', 'b_*', 'c', 'd', 'e']\nreservoir.target_ready = 5\nmode = 'transaction'";
    assert_eq!(
        loaded(&format!("{BUCKET}\n{added}"), &[]).config.buckets[0].summary(),
        "orders: database a | b_* | c | 2 more, user * → db1:5432; at most 20 connections, 5 of them ready; postgres, \
         transaction mode, auth gate"
    );
}
