use std::num::NonZeroUsize;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::clock::Clock;
use crate::config;
use crate::kernel::Kernel;
use crate::status::Status;

/// Two buckets whose database nobody has asked for a connection yet.
const CONFIG: &str = "
    listen.postgres = ['127.0.0.1:0']
    [[bucket]]
    name = 'orders'
    protocol = 'postgres'
    endpoints = ['127.0.0.1:1', 'db2:5432']
    route.database = ['orders']
    clients.trust = true
    backend = { user = 'app', password = 'hidden-from-all', database = 'orders' }
    [[bucket]]
    name = 'rest'
    protocol = 'postgres'
    endpoints = ['127.0.0.1:1']
    clients.trust = true
";

#[tokio::test]
async fn a_gate_is_ready_when_it_is_warm_and_until_it_drains_and_alive_all_along() {
    let (address, readiness) = start().await;
    for (stage, code, text) in [
        (Stage::Warming, "503", "not warm yet:\norders\n"),
        (Stage::Ready, "200", "ready\n"),
        (Stage::Draining, "503", "draining\n"),
    ] {
        readiness.reach(stage);
        let (head, body) = get(address, "/readyz").await;
        assert!(head.starts_with(&format!("HTTP/1.1 {code} ")), "{head}");
        assert_eq!(body, text);
        assert!(get(address, "/healthz").await.0.starts_with("HTTP/1.1 200 "));
    }
}

#[tokio::test]
async fn every_metric_of_every_bucket_stands_at_zero_from_the_start() {
    let (address, _) = start().await;
    let (head, body) = get(address, "/metrics").await;
    assert!(head.to_ascii_lowercase().contains("content-type: text/plain; version=0.0.4\r\n"), "{head}");
    for line in [
        r#"gate_reservoir_size{bucket="orders"} 0"#,
        r#"gate_reservoir_target{bucket="orders"} 20"#,
        r#"gate_reservoir_target{bucket="rest"} 0"#,
        r#"gate_reservoir_discards_total{bucket="rest",reason="reset_failed"} 0"#,
        r#"gate_reservoir_refill_failures_total{bucket="orders",reason="connect"} 0"#,
        r#"gate_slots_limit{bucket="orders"} 20"#,
        r#"gate_slots_taken{bucket="orders",state="closing"} 0"#,
        r#"gate_waiting{bucket="orders",for="place"} 0"#,
        r#"gate_refusals_total{bucket="orders",reason="queue_full"} 0"#,
        r#"gate_backend_up{bucket="orders"} 1"#,
        "# TYPE gate_reservoir_checkouts_total counter",
        "# TYPE gate_queue_wait_seconds histogram",
        "gate_clients 0",
    ] {
        assert!(body.lines().any(|told| told == line), "no {line} in\n{body}");
    }
}

#[tokio::test]
async fn the_status_names_every_bucket_and_no_secret() {
    let (address, _) = start().await;
    let (head, body) = get(address, "/status.json").await;
    assert!(head.to_ascii_lowercase().contains("content-type: application/json\r\n"), "{head}");
    assert!(!body.contains("hidden-from-all"), "{body}");
    let status: Status = serde_json::from_str(&body).unwrap();
    assert_eq!(status.stage, Stage::Warming);
    let [orders, rest] = &status.buckets[..] else { panic!("{body}") };
    assert_eq!((orders.name.as_str(), orders.share, orders.is_warm), ("orders", 20, false));
    assert_eq!((rest.name.as_str(), rest.waiting, rest.is_warm), ("rest", 0, true));
    let endpoints: Vec<_> = orders.endpoints.iter().map(|endpoint| endpoint.address.as_str()).collect();
    assert_eq!(endpoints, ["127.0.0.1:1", "db2:5432"]);
}

#[tokio::test]
async fn whoever_asks_for_something_else_is_told_what_there_is() {
    let (address, _) = start().await;
    let (head, body) = get(address, "/").await;
    assert!(head.starts_with("HTTP/1.1 404 ") && body.contains("/status.json"), "{head}\n{body}");
    let (head, _) = ask(address, "POST /metrics HTTP/1.1\r\nHost: gate\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 405 ") && head.contains("GET, HEAD"), "{head}");
    let (head, body) = ask(address, "HEAD /metrics HTTP/1.1\r\nHost: gate\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 ") && body.is_empty(), "{head}\n{body}");
}

#[tokio::test]
async fn nobody_can_send_without_end() {
    let (address, _) = start().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").await.unwrap();
    let flood = vec![b'x'; 64 << 10];
    while stream.write_all(&flood).await.is_ok() {}
}

#[tokio::test]
async fn whoever_says_nothing_is_hung_up_on_and_the_next_is_served() {
    let (address, _) = start().await;
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    // From here on time passes as soon as nothing else happens.
    tokio::time::pause();
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }
    tokio::time::resume();
    assert!(get(address, "/healthz").await.0.starts_with("HTTP/1.1 200 "));
}

async fn start() -> (SocketAddr, Arc<Readiness>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), CONFIG).unwrap();
    let config = config::load(file.path(), []).unwrap().config;
    let gate = Gate::new(config, NonZeroUsize::MIN, Clock::start(), Kernel::none("this is a test")).unwrap();
    let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let (address, readiness) = (listener.local_addr().unwrap(), Arc::new(Readiness::default()));
    tokio::spawn(run(listener, Arc::new(gate), Arc::clone(&readiness)));
    (address, readiness)
}

async fn get(address: SocketAddr, path: &str) -> (String, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: gate\r\n\r\n")).await
}

async fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (format!("{head}\r\n"), body.to_owned())
}
