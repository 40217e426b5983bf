//! A server that goes away is missed only by those who were using it, and is used again as soon as it is back.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use gate_tests::fake_server::{FakeServer, welcome};
use gate_tests::frame::ServerError;
use gate_tests::gate::Gate;
use gate_tests::postgres::Postgres;
use gate_tests::raw::{self, Client, Login};
use gate_tests::world::{self, BUCKET, World};
use gate_tests::{load, port, wait};

#[test]
fn a_restart_under_load_is_felt_only_by_sessions_that_were_in_it_and_for_a_second_after() -> Result<()> {
    restarted_under_load(Postgres::stop)
}

#[test]
fn a_crash_under_load_is_felt_only_by_sessions_that_were_in_it_and_for_a_second_after() -> Result<()> {
    restarted_under_load(Postgres::crash)
}

/// What became of a client's visit.
#[derive(Debug)]
enum Visit {
    Served,
    /// The session had begun.
    CutOff(anyhow::Error),
    /// It had not.
    Refused(anyhow::Error),
}

fn restarted_under_load(end: fn(&mut Postgres) -> Result<()>) -> Result<()> {
    let mut world = World::start("max_connections = 10")?;
    let address = world.gate.address();
    let over = AtomicBool::new(false);
    let visits = AtomicUsize::new(0);
    let clients = |_| -> Result<Vec<(Instant, Visit)>> {
        let mut log = Vec::new();
        while !over.load(Ordering::Relaxed) {
            log.push((Instant::now(), visit(address)));
            visits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(log)
    };
    let (stopped, back, logs) = thread::scope(|scope| -> Result<_> {
        let load = scope.spawn(|| load::at_once(20, clients));
        // Whatever happens here, the clients must hear that it is over.
        let events = (|| -> Result<_> {
            wait::until(|| Ok(visits.load(Ordering::Relaxed) > 100))?;
            let stopped = Instant::now();
            end(&mut world.postgres)?;
            world.postgres.resume()?;
            let back = Instant::now();
            wait::until(|| Ok(back.elapsed() > Duration::from_secs(3)))?;
            Ok((stopped, back))
        })();
        over.store(true, Ordering::Relaxed);
        let logs = load.join().map_err(|_| anyhow!("panicked"))?;
        let (stopped, back) = events?;
        Ok((stopped, back, logs.into_iter().collect::<Result<Vec<_>>>()?))
    })?;

    let visits: Vec<_> = logs.into_iter().flatten().collect();
    for (began, visit) in &visits {
        match visit {
            Visit::Served => {}
            Visit::CutOff(error) => {
                // Visits are short, so one that was cut began just before the end.
                let early = stopped.saturating_duration_since(*began);
                ensure!(early < Duration::from_secs(1), "cut off {early:?} before the server's end: {error:#}");
                ensure!(*began < back, "cut off after the server's return: {error:#}");
            }
            Visit::Refused(error) => {
                let code = error.downcast_ref::<ServerError>().map(|error| &*error.code);
                ensure!(code == Some("57P03"), "not a refusal that the protocol knows: {error:#}");
                let late = began.saturating_duration_since(back);
                ensure!(late < Duration::from_secs(1), "refused {late:?} after the server's return: {error:#}");
            }
        }
    }
    let served_after = visits.iter().filter(|(began, visit)| *began > back && matches!(visit, Visit::Served));
    let first = served_after.map(|(began, _)| *began - back).min().context("nobody was served any more")?;
    ensure!(first < Duration::from_secs(1), "served only {first:?} after the server's return");
    Ok(())
}

fn visit(address: std::net::SocketAddr) -> Visit {
    let mut client = match Client::login(address, &Login::default()) {
        Ok(client) => client,
        Err(error) => return Visit::Refused(error),
    };
    match client.value("SELECT pg_sleep(0.005)").and_then(|_| client.terminate()) {
        Ok(()) => Visit::Served,
        Err(error) => Visit::CutOff(error),
    }
}

#[test]
fn a_gate_whose_server_is_down_says_so_and_serves_within_a_second_of_its_start() -> Result<()> {
    let mut postgres = Postgres::stopped(&[])?;
    let config = world::config(&postgres.address().to_string(), "max_connections = 5");
    let gate = Gate::spawn(&config, &[world::users()])?;
    assert_eq!(gate.get("/healthz")?.0, 200);
    assert_eq!(gate.get("/readyz")?.0, 503);
    let refused = raw::server_error(Client::login(gate.address(), &Login::default()))?;
    assert_eq!((&*refused.severity, &*refused.code), ("FATAL", "57P03"), "{refused}");
    assert!(refused.message.contains(BUCKET), "{refused}");

    postgres.resume()?;
    let back = Instant::now();
    wait::until(|| Ok(Client::login(gate.address(), &Login::default()).is_ok()))?;
    assert!(back.elapsed() < Duration::from_secs(1), "served {:?} after the server's start", back.elapsed());
    wait::until(|| Ok(gate.get("/readyz")?.0 == 200))
}

#[test]
fn a_server_at_its_own_limit_serves_whom_it_can_and_the_others_hear_why() -> Result<()> {
    // Three of these are reserved for superusers.
    let postgres = Postgres::with(&["max_connections=8"])?;
    let config = world::config(&postgres.address().to_string(), "max_connections = 20\nqueue = { timeout = '1s' }");
    let gate = Gate::spawn(&config, &[world::users()])?;
    let mut served = Vec::new();
    wait::until(|| {
        served.extend(Client::login(gate.address(), &Login::default()).ok());
        Ok(served.len() == 5)
    })?;
    let refused = raw::server_error(Client::login(gate.address(), &Login::default()))?;
    assert!(["53300", "57P03"].contains(&&*refused.code), "{refused}");
    assert!(refused.message.contains(BUCKET), "{refused}");
    for client in &mut served {
        assert_eq!(client.value("SELECT 'still here'")?, "still here");
    }
    // A place that is given back is used, and nobody's refusal has cost another one.
    served.pop().context("nobody was served")?.terminate()?;
    wait::until(|| Ok(Client::login(gate.address(), &Login::default()).is_ok()))?;
    Ok(())
}

#[test]
fn on_the_return_of_a_server_connections_are_opened_one_more_for_each_that_succeeded() -> Result<()> {
    let address = ([127, 0, 0, 1], port::free()?).into();
    let config = world::config(&format!("{address}"), "max_connections = 20");
    let gate = Gate::spawn(&config, &[world::users()])?;
    // The gate has seen that it is down.
    wait::until(|| Ok(Client::login(gate.address(), &Login::default()).is_err()))?;

    let (begun, succeeded, stampede) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::default());
    let counts = (Arc::clone(&begun), Arc::clone(&succeeded), Arc::<AtomicUsize>::clone(&stampede));
    let _server = FakeServer::start_at(address, move |mut connection| {
        let (begun, succeeded, stampede) = &counts;
        let succeeded_before = succeeded.load(Ordering::SeqCst);
        let in_flight = begun.fetch_add(1, Ordering::SeqCst) + 1 - succeeded_before;
        if in_flight > succeeded_before + 1 {
            stampede.fetch_max(in_flight, Ordering::SeqCst);
        }
        if !connection.read_startup()? {
            return Ok(());
        }
        // A login that takes its time lets those that do not wait for it show.
        thread::sleep(Duration::from_millis(20));
        succeeded.fetch_add(1, Ordering::SeqCst);
        connection.send(&welcome())?;
        connection.serve()
    })?;
    wait::until(|| Ok(succeeded.load(Ordering::SeqCst) == 20)).context("the pool is not filled again")?;
    assert_eq!(stampede.load(Ordering::SeqCst), 0, "so many at once, with fewer successes before");
    Ok(())
}

#[test]
fn a_session_whose_server_connection_breaks_is_told_by_the_protocol() -> Result<()> {
    let world = World::start("max_connections = 2")?;
    let mut client = world.client()?;
    let backend = client.backend()?;
    let mut other = world.client()?;
    world.postgres.superuser()?.query(&format!("SELECT pg_terminate_backend({backend})"))?;
    let error = raw::server_error(client.query("SELECT 1"))?;
    assert_eq!((&*error.severity, &*error.code), ("FATAL", "57P01"), "the server's own words: {error}");
    assert_eq!(other.value("SELECT 'still here'")?, "still here");
    world.client()?.value("SELECT 1")?;
    Ok(())
}

#[test]
fn a_ready_connection_that_broke_in_the_meantime_is_not_handed_out() -> Result<()> {
    let world = World::start("max_connections = 3")?;
    let mut observer = world.postgres.superuser()?;
    for _ in 0..5 {
        let ended =
            observer.query("SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")?;
        // Once a process is gone, its end of the connection is, too.
        let is_gone = |pid: &String| !Path::new("/proc").join(pid).exists();
        wait::until(|| Ok(ended.iter().filter_map(|row| row[0].as_ref()).all(is_gone)))?;
        for _ in 0..3 {
            world.client()?.value("SELECT 1")?;
        }
    }
    Ok(())
}
