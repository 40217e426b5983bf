//! Connections end and are replaced while clients come and go, and no client notices.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use gate_tests::load;
use gate_tests::world::World;

/// A connection lives 2.5 to 3.5 s, and in its last 1.5 s it is not handed out: never after 2 s.
const SETTINGS: &str = "max_connections = 4\n\
    reservoir = { base_lifetime = '3s', lifetime_jitter = '1s', guard_window = '1500ms' }";
const HANDED_OUT_UNTIL: f64 = 2.0;
/// Between being handed out and the answer to the first query, on a busy machine; still within its life.
const SLACK: f64 = 0.75;

#[test]
fn connections_expire_under_load_and_no_client_notices() -> Result<()> {
    let world = World::start(SETTINGS)?;
    let end = Instant::now() + Duration::from_secs(7);
    let age = "SELECT pid, extract(epoch FROM clock_timestamp() - backend_start) \
               FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    let results = load::at_once(4, |_| {
        let mut backends = HashSet::new();
        while Instant::now() < end {
            let mut client = world.client()?;
            let rows = client.query(age)?;
            let [Some(backend), Some(age)] = &rows[0][..] else { anyhow::bail!("{rows:?}") };
            let age: f64 = age.parse()?;
            ensure!(age < HANDED_OUT_UNTIL + SLACK, "handed out at the age of {age} s");
            backends.insert(backend.clone());
            client.query("SELECT pg_sleep(0.02)")?;
            client.terminate()?;
        }
        Ok(backends)
    });
    let backends: HashSet<String> = results.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    // Seven seconds are more than two lives.
    assert!(backends.len() >= 8, "only {} connections have served", backends.len());
    Ok(())
}

#[test]
fn a_session_that_outlives_its_connections_time_is_not_cut() -> Result<()> {
    let world = World::start(SETTINGS)?;
    let mut client = world.client()?;
    let backend = client.backend()?;
    client.query("SELECT pg_sleep(4)")?;
    assert_eq!(client.backend()?, backend);
    client.terminate()?;
    assert_ne!(world.client()?.backend()?, backend, "it was discarded when it came back");
    Ok(())
}
