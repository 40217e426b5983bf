//! The database is never overrun, and whoever can be served is.
//!
//! The server itself is the judge: its role has a connection limit, so that one connection too many is
//! refused and written to its log, however short its life; and its own count is read all along.

use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};
use gate_tests::raw::{self, Client};
use gate_tests::world::{BUCKET, World};
use gate_tests::{frame, load, wait};

#[test]
fn two_hundred_clients_over_twenty_slots_are_all_served_and_never_have_a_twenty_first() -> Result<()> {
    let world = World::limited_to_20("")?;
    let (results, most) = load::watched(&world.postgres, || {
        Ok(load::at_once(200, |number| {
            for _ in 0..3 {
                let mut client = world.client()?;
                assert_eq!(client.value(&format!("SELECT {number} FROM pg_sleep(0.01)"))?, number.to_string());
                client.terminate()?;
            }
            Ok(())
        }))
    })?;
    results.into_iter().collect::<Result<()>>()?;
    world.assert_never_exceeded(most)
}

#[test]
fn sixty_four_clients_at_once_on_a_cold_pool_are_all_served() -> Result<()> {
    let world = World::limited_to_20("reservoir = { min_ready = 0 }")?;
    assert_eq!(world.postgres.superuser()?.value(gate_tests::postgres::CONNECTIONS)?, "0", "the pool is cold");
    let (results, most) =
        load::watched(&world.postgres, || Ok(load::at_once(64, |_| world.client()?.value("SELECT pg_sleep(0.05)"))))?;
    results.into_iter().collect::<Result<Vec<_>>>()?;
    world.assert_never_exceeded(most)
}

#[test]
fn abandoned_queries_hold_their_slots_until_the_server_has_let_go() -> Result<()> {
    let world = World::limited_to_20("")?;
    let (results, most) = load::watched(&world.postgres, || {
        let abandoned = load::at_once(200, |_| {
            let mut client = world.client()?;
            client.send(&frame::query("SELECT pg_sleep(2)"))?;
            client.reset()
        });
        let newcomers = load::at_once(40, |_| world.client()?.value("SELECT 'served'").map(drop));
        Ok(abandoned.into_iter().chain(newcomers).collect::<Vec<_>>())
    })?;
    results.into_iter().collect::<Result<()>>()?;
    world.assert_never_exceeded(most)
}

#[test]
fn a_query_that_goes_on_after_its_cancellation_holds_its_slot_to_its_end() -> Result<()> {
    let world = World::limited_to_20("")?;
    let stubborn = "DO $$ BEGIN PERFORM pg_sleep(1); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(1); END $$";
    let (results, most) = load::watched(&world.postgres, || {
        let abandoned = load::at_once(40, |_| {
            let mut client = world.client()?;
            client.send(&frame::query(stubborn))?;
            client.reset()
        });
        let newcomers = load::at_once(20, |_| world.client()?.value("SELECT 'served'").map(drop));
        Ok(abandoned.into_iter().chain(newcomers).collect::<Vec<_>>())
    })?;
    results.into_iter().collect::<Result<()>>()?;
    world.assert_never_exceeded(most)
}

#[test]
fn an_abandoned_query_is_cancelled_rather_than_waited_for() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let mut client = world.client()?;
    let backend = client.backend()?;
    client.send(&frame::query("SELECT pg_sleep(60)"))?;
    let mut observer = world.postgres.superuser()?;
    let sleeping = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {backend} AND wait_event = 'PgSleep'");
    wait::until(|| Ok(observer.value(&sleeping)? == "1"))?;
    client.reset()?;
    let start = Instant::now();
    world.client()?.value("SELECT 'served'")?;
    assert!(start.elapsed() < wait::DEADLINE, "{:?}", start.elapsed());
    Ok(())
}

#[test]
fn clients_that_wait_are_served_in_the_order_in_which_they_came() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let served = Mutex::new(Vec::new());
    let mut first = world.client()?;
    thread::scope(|scope| -> Result<()> {
        let mut waiting = Vec::new();
        for number in 0..10 {
            let (world, served) = (&world, &served);
            waiting.push(scope.spawn(move || -> Result<()> {
                let mut client = world.client()?;
                client.value("SELECT 1")?;
                served.lock().map_err(|_| anyhow::anyhow!("poisoned"))?.push(number);
                client.terminate()
            }));
            world.gate.wait_for_number(BUCKET, "waiting", number + 1)?;
        }
        first.value("SELECT 1")?;
        first.terminate()?;
        waiting.into_iter().try_for_each(|client| client.join().map_err(|_| anyhow::anyhow!("panicked"))?)
    })?;
    assert_eq!(served.into_inner()?, (0..10).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn a_client_that_gives_up_waiting_leaves_its_place_to_the_next() -> Result<()> {
    let world = World::trusting("max_connections = 1")?;
    let first = world.client()?;
    let mut impatient = Client::connect(world.gate.address())?;
    impatient.send(&raw::Login::default().packet())?;
    world.gate.wait_for_number(BUCKET, "waiting", 1)?;
    let mut patient = Client::connect(world.gate.address())?;
    patient.send(&raw::Login::default().packet())?;
    world.gate.wait_for_number(BUCKET, "waiting", 2)?;
    impatient.reset()?;
    world.gate.wait_for_number(BUCKET, "waiting", 1)?;
    first.terminate()?;
    patient.wait_until_ready()?;
    assert_eq!(patient.value("SELECT 'served'")?, "served");
    Ok(())
}

#[test]
fn a_client_that_meets_a_limit_is_told_which_one_and_where() -> Result<()> {
    let world = World::start("max_connections = 1\nqueue = { depth = 1, timeout = '1s' }")?;
    let mut first = world.client()?;
    thread::scope(|scope| -> Result<()> {
        let start = Instant::now();
        let waits = scope.spawn(|| raw::server_error(world.client()));
        world.gate.wait_for_number(BUCKET, "waiting", 1)?;
        let refused = raw::server_error(world.client()).context("the queue is full")?;
        assert_eq!((&*refused.severity, &*refused.code), ("FATAL", "53300"), "{refused}");
        assert!(refused.message.contains(BUCKET) && refused.message.contains('1'), "{refused}");

        let timed_out = waits.join().map_err(|_| anyhow::anyhow!("panicked"))??;
        assert!(start.elapsed().as_millis() >= 1000, "{:?}", start.elapsed());
        assert_eq!((&*timed_out.severity, &*timed_out.code), ("FATAL", "53300"), "{timed_out}");
        assert!(timed_out.message.contains(BUCKET), "{timed_out}");
        Ok(())
    })?;
    assert_eq!(first.value("SELECT 'still here'")?, "still here");
    first.terminate()?;
    world.client()?;
    Ok(())
}

#[test]
fn connections_are_opened_no_faster_than_the_rate_allows() -> Result<()> {
    let settings = "max_connections = 20\nreservoir = { min_ready = 0 }\nrate = { per_second = 10, burst = 5 }";
    let world = World::start(settings)?;
    let start = Instant::now();
    // Each has to hold a connection of its own, so that ten must be opened: five at once, five more in half a second.
    let results = load::at_once(10, |_| world.client()?.value("SELECT pg_sleep(0.7)"));
    results.into_iter().collect::<Result<Vec<_>>>()?;
    let log = world.postgres.log()?;
    let opened = log.matches("connection authorized: user=app").count();
    let allowed = 5.0 + 10.0 * start.elapsed().as_secs_f64();
    assert!(opened as f64 <= allowed, "{opened} opened, {allowed:.1} allowed");
    assert!(start.elapsed().as_millis() >= 500, "ten connections after {:?}", start.elapsed());
    Ok(())
}

trait Limited: Sized {
    fn limited_to_20(settings: &str) -> Result<Self>;
    fn assert_never_exceeded(&self, most: u32) -> Result<()>;
}

impl Limited for World {
    fn limited_to_20(settings: &str) -> Result<Self> {
        let postgres = gate_tests::postgres::Postgres::start()?;
        postgres.superuser()?.query("ALTER ROLE app CONNECTION LIMIT 20")?;
        Self::behind(postgres, &format!("max_connections = 20\n{settings}"))
    }

    fn assert_never_exceeded(&self, most: u32) -> Result<()> {
        assert!(most <= 20, "the server counted {most} connections");
        assert!(most > 0, "nobody was there to be counted");
        let log = self.postgres.log()?;
        let refused: Vec<_> = log.lines().filter(|line| line.contains("FATAL") && line.contains("too many")).collect();
        assert!(refused.is_empty(), "the server had to refuse: {refused:?}");
        Ok(())
    }
}
