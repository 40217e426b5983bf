//! Whoever runs the gate can see what it does, and why clients wait.

use std::process::Command;

use anyhow::{Context as _, Result};
use gate_tests::world::{BUCKET, World};
use gate_tests::{program, raw, wait};

#[test]
fn metrics_count_each_client_and_each_byte_of_it() -> Result<()> {
    let world = World::start("max_connections = 2")?;
    for _ in 0..3 {
        let mut client = world.client()?;
        client.value("SELECT repeat('x', 1000)")?;
        client.terminate()?;
    }
    wait::until(|| Ok(metric(&world, "gate_session_seconds_count", "")? == 3.0))?;
    assert_eq!(metric(&world, "gate_reservoir_checkouts_total", "")?, 3.0);
    assert!(metric(&world, "gate_bytes_total", ",direction=\"from_server\"")? > 3000.0);
    let taken_at_once = metric(&world, "gate_reservoir_checkout_latency_seconds_count", "")?;
    assert_eq!(taken_at_once + metric(&world, "gate_queue_wait_seconds_count", "")?, 3.0);
    wait::until(|| Ok(metric(&world, "gate_reservoir_size", "")? >= 1.0))
}

#[test]
fn the_status_tells_who_waits_and_why_and_who_was_refused() -> Result<()> {
    let world = World::start("max_connections = 1\nqueue = { depth = 1, timeout = '30s' }")?;
    let first = world.client()?;
    std::thread::scope(|scope| -> Result<()> {
        let waits = scope.spawn(|| world.client()?.value("SELECT 'served'"));
        world.gate.wait_for_number(BUCKET, "waiting", 1)?;
        raw::server_error(world.client()).context("the queue is full")?;

        let table = gate_status(&world)?;
        assert!(table.contains("clients wait: 1 for a place: all 1 are taken (max_connections = 1)"), "{table}");
        assert!(table.contains("1 clients are waiting already"), "{table}");
        assert_eq!(world.gate.bucket(BUCKET)?["last_refusals"][0]["reason"], "queue_full");
        assert_eq!(metric(&world, "gate_waiting", ",for=\"place\"")?, 1.0);
        assert_eq!(metric(&world, "gate_refusals_total", ",reason=\"queue_full\"")?, 1.0);
        first.terminate()?;
        assert_eq!(waits.join().map_err(|_| anyhow::anyhow!("panicked"))??, "served");
        Ok(())
    })
}

#[test]
fn an_endpoint_that_is_down_is_named_with_its_error() -> Result<()> {
    let mut world = World::start("max_connections = 2\nreservoir = { min_ready = 0 }")?;
    world.postgres.stop()?;
    raw::server_error(world.client())?;
    let table = gate_status(&world)?;
    let endpoint = world.postgres.address();
    assert!(table.contains(&format!("{BUCKET}: {endpoint} has been down for ")), "{table}");
    assert!(table.contains("Connection refused"), "{table}");
    world.postgres.resume()?;
    wait::until(|| Ok(world.client().is_ok()))?;
    assert!(!gate_status(&world)?.contains("has been down"));
    Ok(())
}

fn gate_status(world: &World) -> Result<String> {
    program::run(Command::new(program::gate()?).args(["status", "--admin", &world.gate.admin().to_string()]))
}

/// A value of the one bucket's.
fn metric(world: &World, name: &str, labels: &str) -> Result<f64> {
    let (_, metrics) = world.gate.get("/metrics")?;
    let sample = format!("{name}{{bucket=\"{BUCKET}\"{labels}}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&sample));
    Ok(value.with_context(|| format!("no {sample}in\n{metrics}"))?.parse()?)
}
