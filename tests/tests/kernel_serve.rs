//! The kernel half of a running gate.

use anyhow::{Context as _, Result};
use gate_tests::cgroup::Cgroup;
use gate_tests::gate::Gate;
use gate_tests::postgres::Postgres;
use gate_tests::world::{World, config, users};
use gate_tests::{require, wait};
use serde_json::Value;

#[test]
fn the_kernels_count_of_connections_is_that_of_the_books() -> Result<()> {
    if !require::kernel_half()? {
        return Ok(());
    }
    let cgroup = Cgroup::new()?;
    let postgres = Postgres::start()?;
    let endpoint = postgres.address().to_string();
    let settings =
        "max_connections = 4\nreservoir = { base_lifetime = '2s', lifetime_jitter = '0s', guard_window = '0s' }";
    let gate = Gate::in_cgroup(&cgroup, &config(&endpoint, settings), &[users()])?;
    let world = World { gate, postgres };

    assert_eq!(kernel_half(&world)?["is_live"], true);
    for _ in 0..3 {
        let mut client = world.client()?;
        client.value("SELECT 1")?;
        client.terminate()?;
    }
    // Connections have expired and were replaced: the kernel has seen each of them come, and the old ones go.
    wait::until(|| Ok(kernel(&world, "closed", &endpoint)? >= 4.0))?;
    wait::until(|| {
        let open = kernel(&world, "established", &endpoint)? - kernel(&world, "closed", &endpoint)?;
        Ok(open == 4.0)
    })
    .context("the kernel's count does not come to the four that the bucket keeps")
}

#[test]
fn a_gate_in_the_root_cgroup_does_without_the_kernel_half_and_says_why() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let kernel_half = kernel_half(&world)?;
    let is_root = std::fs::read_to_string("/proc/self/cgroup")?.lines().any(|line| line == "0::/");
    if is_root {
        assert_eq!(kernel_half["is_live"], false);
        assert!(kernel_half["reason"].as_str().is_some_and(|reason| reason.contains("cgroup of its own")));
    }
    world.client()?.terminate()
}

fn kernel_half(world: &World) -> Result<Value> {
    let (_, status) = world.gate.get("/status.json")?;
    Ok(serde_json::from_str::<Value>(&status)?["kernel_half"].take())
}

fn kernel(world: &World, what: &str, endpoint: &str) -> Result<f64> {
    let (_, metrics) = world.gate.get("/metrics")?;
    let sample = format!("gate_kernel_{what}_total{{endpoint=\"{endpoint}\"}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&sample));
    Ok(value.with_context(|| format!("no {sample}in\n{metrics}"))?.parse()?)
}
