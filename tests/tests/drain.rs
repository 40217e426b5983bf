//! The gate ends without cutting anybody off, and takes new settings without ending.

use std::thread;

use anyhow::{Result, anyhow};
use gate_tests::raw;
use gate_tests::world::{self, BUCKET, World};

#[test]
fn on_sigterm_sessions_finish_newcomers_are_told_and_the_process_ends_with_0() -> Result<()> {
    let mut world = World::start("max_connections = 2")?;
    let mut client = world.client()?;
    client.query("BEGIN")?;
    world.gate.drain()?;
    world.gate.wait_for_log("drain")?;

    let refused = raw::server_error(world.client())?;
    assert_eq!((&*refused.severity, &*refused.code), ("FATAL", "57P03"), "{refused}");
    assert_eq!(client.value("SELECT 'still here'")?, "still here");
    client.query("COMMIT")?;
    client.terminate()?;
    assert_eq!(world.gate.wait_for_exit()?.code(), Some(0));
    Ok(())
}

#[test]
fn on_sigterm_clients_that_wait_are_told_at_once() -> Result<()> {
    let mut world = World::start("max_connections = 1")?;
    let client = world.client()?;
    thread::scope(|scope| -> Result<()> {
        let waiting = scope.spawn(|| raw::server_error(world.client()));
        world.gate.wait_for_number(BUCKET, "waiting", 1)?;
        world.gate.drain()?;
        let refused = waiting.join().map_err(|_| anyhow!("panicked"))??;
        assert_eq!((&*refused.severity, &*refused.code), ("FATAL", "57P03"), "{refused}");
        Ok(())
    })?;
    client.terminate()?;
    assert_eq!(world.gate.wait_for_exit()?.code(), Some(0));
    Ok(())
}

#[test]
fn a_gate_without_sessions_ends_at_once_and_leaves_no_connection_at_the_server() -> Result<()> {
    let mut world = World::start("max_connections = 3")?;
    world.client()?.terminate()?;
    world.gate.drain()?;
    assert_eq!(world.gate.wait_for_exit()?.code(), Some(0));
    let mut observer = world.postgres.superuser()?;
    gate_tests::wait::until(|| Ok(observer.value(gate_tests::postgres::CONNECTIONS)? == "0"))
}

#[test]
fn while_it_drains_the_gate_is_alive_but_not_ready() -> Result<()> {
    let mut world = World::start("max_connections = 1")?;
    let client = world.client()?;
    assert_eq!(world.gate.get("/readyz")?.0, 200);
    world.gate.drain()?;
    gate_tests::wait::until(|| Ok(world.gate.get("/readyz")?.0 == 503))?;
    assert_eq!(world.gate.get("/healthz")?.0, 200);
    client.terminate()?;
    assert_eq!(world.gate.wait_for_exit()?.code(), Some(0));
    Ok(())
}

#[test]
fn on_sighup_a_session_goes_on_and_the_log_says_what_was_applied() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let mut client = world.client()?;
    let endpoint = world.postgres.address().to_string();
    let logged = world.gate.log().len();
    world.gate.reload(&world::config(&endpoint, "max_connections = 2"))?;
    gate_tests::wait::until(|| Ok(world.gate.log()[logged..].contains("max_connections")))?;
    assert_eq!(client.value("SELECT 'still here'")?, "still here");
    world.client()?.value("SELECT 1")?;
    Ok(())
}

#[test]
fn on_sighup_a_broken_configuration_changes_nothing_and_the_log_says_what_is_wrong() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let mut client = world.client()?;
    let logged = world.gate.log().len();
    world.gate.reload("[listen]\nnonsense = 1\n")?;
    gate_tests::wait::until(|| Ok(world.gate.log()[logged..].contains("nonsense")))?;
    assert_eq!(client.value("SELECT 'still here'")?, "still here");
    client.terminate()?;
    world.client()?.value("SELECT 1")?;
    Ok(())
}
