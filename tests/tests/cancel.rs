//! A cancel request reaches the query that it is for, and no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use gate_tests::fake_server::{FakeServer, right_answer};
use gate_tests::gate::Gate;
use gate_tests::raw::{self, Client, Login};
use gate_tests::world::{self, BUCKET, World};
use gate_tests::{frame, wait};

#[test]
fn a_cancel_request_stops_the_query_of_its_own_session_and_no_other() -> Result<()> {
    let world = World::start("max_connections = 2")?;
    let mut one = world.client()?;
    let mut other = world.client()?;
    assert_ne!(one.key, other.key);
    let mut observer = world.postgres.superuser()?;
    for client in [&mut one, &mut other] {
        client.send(&frame::query("SELECT pg_sleep(20)"))?;
    }
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    wait::until(|| Ok(observer.value(sleeping)? == "2"))?;
    raw::cancel(world.gate.address(), &one.key)?;
    let error = raw::server_error(one.wait_until_ready())?;
    assert_eq!(error.code, "57014", "{error}");
    assert_eq!(observer.value(sleeping)?, "1", "the other one sleeps on");
    assert_eq!(one.value("SELECT 'goes on'")?, "goes on");
    Ok(())
}

#[test]
fn a_cancel_request_that_comes_late_never_hits_the_next_client() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    for _ in 0..10 {
        let mut first = world.client()?;
        let key = first.key.clone();
        let backend = first.backend()?;
        thread::scope(|scope| -> Result<()> {
            // Requests before, during and after the end of the session that they are for.
            let late = scope.spawn(|| (0..20).try_for_each(|_| raw::cancel(world.gate.address(), &key)));
            first.terminate()?;
            let mut second = world.client()?;
            assert_ne!(second.key, key);
            second.value("SELECT pg_sleep(0.05)").context("a late cancel request")?;
            ensure!(second.backend()? == backend, "the connection was not used again");
            late.join().map_err(|_| anyhow!("panicked"))?
        })?;
    }
    Ok(())
}

#[test]
fn a_cancel_request_with_a_key_that_nobody_has_is_ignored() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let mut client = world.client()?;
    let mut forged = client.key.clone();
    *forged.last_mut().context("no key")? ^= 1;
    let start = Instant::now();
    client.send(&frame::query("SELECT pg_sleep(0.3)"))?;
    while start.elapsed() < Duration::from_millis(200) {
        raw::cancel(world.gate.address(), &forged)?;
        raw::cancel(world.gate.address(), &[0; 8])?;
        raw::cancel(world.gate.address(), &[])?;
    }
    client.wait_until_ready()?;
    Ok(())
}

#[test]
fn a_connection_is_not_handed_on_while_a_cancel_request_for_it_is_under_way() -> Result<()> {
    let (begun, may_end) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let too_early = Arc::<AtomicUsize>::default();
    let (server, gate) = {
        let (begun, may_end, too_early) = (Arc::clone(&begun), Arc::clone(&may_end), Arc::clone(&too_early));
        let server = FakeServer::start(move |mut connection| {
            if !connection.accept_login()? {
                // It takes the server its time to act upon a request; then it hangs up.
                begun.store(true, Ordering::SeqCst);
                return wait::until(|| Ok(may_end.load(Ordering::SeqCst)));
            }
            while let Some(query) = connection.next_query()? {
                if begun.load(Ordering::SeqCst) && !may_end.load(Ordering::SeqCst) {
                    too_early.fetch_add(1, Ordering::SeqCst);
                }
                connection.send(&right_answer(&query))?;
            }
            Ok(())
        })?;
        let config = world::config(&server.address().to_string(), "max_connections = 1");
        (server, Gate::start(&config, &[world::users()])?)
    };
    let first = Client::login(gate.address(), &Login::default())?;
    let key = first.key.clone();
    thread::scope(|scope| -> Result<()> {
        let request = scope.spawn(|| raw::cancel(gate.address(), &key));
        wait::until(|| Ok(begun.load(Ordering::SeqCst)))?;
        first.terminate()?;
        gate.wait_for_number(BUCKET, "in_use", 0)?;
        let next = scope.spawn(|| Client::login(gate.address(), &Login::default())?.value("SELECT 'mine'"));
        gate.wait_for_number(BUCKET, "waiting", 1)?;
        may_end.store(true, Ordering::SeqCst);
        assert_eq!(next.join().map_err(|_| anyhow!("panicked"))??, "mine");
        request.join().map_err(|_| anyhow!("panicked"))?
    })?;
    assert_eq!(too_early.load(Ordering::SeqCst), 0, "queries that the request could have hit");
    assert!(server.accepted() >= 2);
    Ok(())
}
