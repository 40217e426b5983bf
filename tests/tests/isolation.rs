//! Two sessions never share state, however the first one ends.
//!
//! There is one slot, so that whoever comes second gets the first one's connection to the server, if that
//! connection is ever used again.

use anyhow::{Context as _, Result};
use gate_tests::frame;
use gate_tests::raw::Client;
use gate_tests::wait;
use gate_tests::world::World;

#[test]
fn after_terminate_the_connection_is_used_again_and_nothing_is_left_on_it() -> Result<()> {
    let world = World::start(ONE_SLOT)?;
    let first = world.leave(|client| client.terminate())?;
    let second = world.visit()?;
    assert_eq!(first, second, "a connection that was given back cleanly is to be used again");
    assert_eq!(world.visit()?, second);
    Ok(())
}

#[test]
fn a_client_that_closes_its_socket_or_resets_it_leaves_nothing() -> Result<()> {
    let world = World::start(ONE_SLOT)?;
    world.leave(|client| {
        drop(client);
        Ok(())
    })?;
    world.visit().context("after FIN")?;
    world.leave(Client::reset)?;
    world.visit().context("after RST")?;
    Ok(())
}

#[test]
fn a_transaction_that_is_open_or_failed_is_rolled_back_and_leaves_nothing() -> Result<()> {
    let world = World::start(ONE_SLOT)?;
    world.postgres.superuser()?.query("CREATE TABLE kept (number int); GRANT ALL ON kept TO PUBLIC")?;
    for (name, statement) in [("open", "SELECT 1"), ("failed", "SELECT 1/0")] {
        for end in [Client::terminate, Client::reset] {
            world.leave(|mut client| {
                client.query("BEGIN")?;
                client.query("INSERT INTO public.kept VALUES (1)")?;
                let failed = client.query(statement).is_err();
                assert_eq!((failed, client.state), if failed { (true, b'E') } else { (false, b'T') });
                end(client)
            })?;
            world.visit().with_context(|| format!("after an {name} transaction"))?;
            assert_eq!(world.client()?.value("SELECT count(*) FROM kept")?, "0", "{name}");
        }
    }
    Ok(())
}

#[test]
fn a_connection_whose_client_stopped_in_the_middle_of_a_message_is_never_used_again() -> Result<()> {
    let world = World::start(ONE_SLOT)?;
    // Cut in the kind, in the length, in the body; and a body so large that it is forwarded in parts.
    let large = frame::query(&format!("SELECT '{}'", "x".repeat(1 << 20)));
    let small = frame::query("SELECT 'leftover'");
    let cuts = [&small[..1], &small[..3], &small[..5], &small[..small.len() - 1], &large[..1 << 19]];
    for cut in cuts {
        for end in [close, Client::reset] {
            let first = world.leave(|mut client| {
                client.send(cut)?;
                end(client)
            })?;
            let second = world.visit().with_context(|| format!("after {} bytes", cut.len()))?;
            assert_ne!(first, second, "after {} bytes", cut.len());
        }
    }
    Ok(())
}

#[test]
fn a_client_that_leaves_during_a_result_leaves_none_of_it_to_the_next() -> Result<()> {
    let world = World::start(ONE_SLOT)?;
    // More than all buffers on the way can hold.
    let rows = frame::query("SELECT 'leftover', repeat('x', 1000) FROM generate_series(1, 50000)");
    for end in [Client::terminate, close, Client::reset] {
        world.leave(|mut client| {
            client.send(&rows)?;
            client.wait_for(b'D')?;
            end(client)
        })?;
        world.visit()?;
    }
    Ok(())
}

#[test]
fn a_client_that_leaves_during_a_query_leaves_neither_its_result_nor_its_cancellation() -> Result<()> {
    let world = World::start(ONE_SLOT)?;
    for end in [Client::terminate, close, Client::reset] {
        world.leave(|mut client| {
            let backend = client.backend()?;
            client.send(&frame::query("SELECT 'leftover' FROM pg_sleep(1)"))?;
            world.wait_until_active(backend)?;
            end(client)
        })?;
        world.visit()?;
    }
    Ok(())
}

#[test]
fn a_client_that_leaves_during_copy_from_stdin_leaves_neither_rows_nor_the_copy() -> Result<()> {
    let world = World::start(ONE_SLOT)?;
    world.postgres.superuser()?.query("CREATE TABLE copied (line text); GRANT ALL ON copied TO PUBLIC")?;
    let line = frame::bytes(b'd', b"leftover\n");
    for cut in [&line[..], &line[..7]] {
        for end in [Client::terminate, close, Client::reset] {
            world.leave(|mut client| {
                client.send(&frame::query("COPY public.copied FROM STDIN"))?;
                client.wait_for(b'G')?;
                client.send(&line)?;
                client.send(cut)?;
                end(client)
            })?;
            world.visit()?;
            assert_eq!(world.client()?.value("SELECT count(*) FROM copied")?, "0");
        }
    }
    Ok(())
}

#[test]
fn a_client_that_leaves_during_copy_to_stdout_leaves_none_of_it_to_the_next() -> Result<()> {
    let world = World::start(ONE_SLOT)?;
    let copy = "COPY (SELECT 'leftover', repeat('x', 1000) FROM generate_series(1, 50000)) TO STDOUT";
    for end in [Client::terminate, close, Client::reset] {
        world.leave(|mut client| {
            client.send(&frame::query(copy))?;
            client.wait_for(b'd')?;
            end(client)
        })?;
        world.visit()?;
    }
    Ok(())
}

#[test]
fn a_pipeline_without_its_sync_leaves_nothing() -> Result<()> {
    let world = World::start(ONE_SLOT)?;
    world.postgres.superuser()?.query("CREATE TABLE kept (number int); GRANT ALL ON kept TO PUBLIC")?;
    let failing = [parse("", "SELECT 1/0"), bind(""), execute()].concat();
    let insert = "INSERT INTO public.kept VALUES (1) RETURNING 'leftover'";
    let complete = [parse("half_done", insert), bind("half_done"), execute()].concat();
    // After an error the server ignores all that comes before a Sync, also what a reset would be made of.
    for (pipeline, flush) in [(&failing, b'E'), (&complete, b'D')] {
        for end in [Client::terminate, close, Client::reset] {
            world.leave(|mut client| {
                client.send(&[&pipeline[..], &frame::bytes(b'H', &[])].concat())?;
                while client.message()?.context("closed")?.kind != flush {}
                end(client)
            })?;
            world.visit().with_context(|| format!("after {:?}", char::from(flush)))?;
            assert_eq!(world.client()?.value("SELECT count(*) FROM kept")?, "0", "what has no Sync is not committed");
        }
    }
    Ok(())
}

#[test]
fn clients_that_follow_one_another_quickly_never_see_each_other() -> Result<()> {
    let world = World::start("max_connections = 2")?;
    let results = gate_tests::load::at_once(8, |number| {
        for round in 0..25 {
            let mut client = world.client()?;
            let mine = format!("{number}-{round}");
            assert_eq!(client.value("SELECT current_setting('app.leftover', true)")?, "");
            client.query(&format!("SET app.leftover = '{mine}'"))?;
            client.query("CREATE TEMP TABLE leftover AS SELECT 1")?;
            assert_eq!(client.value("SELECT current_setting('app.leftover')")?, mine);
            // Half of them leave with an answer on its way.
            if round % 2 == 0 {
                client.send(&frame::query("SELECT 'leftover' FROM generate_series(1, 100)"))?;
            }
            if round % 3 == 0 { client.reset()? } else { client.terminate()? }
        }
        Ok(())
    });
    results.into_iter().collect()
}

const ONE_SLOT: &str = "max_connections = 1";

/// Everything that a session can leave behind, as far as a query can make it.
const LEFTOVERS: [&str; 9] = [
    "SET app.leftover = 'yes'",
    "SET work_mem = '7MB'",
    "SET search_path = pg_catalog",
    "CREATE TEMP TABLE leftover (number int)",
    "PREPARE leftover AS SELECT 1",
    "DECLARE leftover CURSOR WITH HOLD FOR SELECT 1",
    "SELECT pg_advisory_lock(42)",
    "LISTEN leftover",
    "SET ROLE helper",
];

/// Finds each of them: one row, all of it as in a session that nobody has used.
const TRACES: &str = "SELECT current_setting('app.leftover', true), current_setting('work_mem'), \
    current_setting('search_path'), to_regclass('pg_temp.leftover'), \
    (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors), \
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), \
    (SELECT count(*) FROM pg_listening_channels()), current_user, session_user";
const NO_TRACES: [&str; 10] = ["", "4MB", "\"$user\", public", "", "0", "0", "0", "0", "app", "app"];

trait Isolation {
    fn leave(&self, end: impl FnOnce(Client) -> Result<()>) -> Result<u32>;
    fn visit(&self) -> Result<u32>;
    fn wait_until_active(&self, backend: u32) -> Result<()>;
}

impl Isolation for World {
    /// Has a client leave all kinds of state and end as the test says. Returns the process that served it.
    fn leave(&self, end: impl FnOnce(Client) -> Result<()>) -> Result<u32> {
        let mut client = self.client()?;
        let backend = client.backend()?;
        for statement in LEFTOVERS {
            client.query(statement)?;
        }
        client.send(&[parse("by_protocol", "SELECT 1"), frame::bytes(b'S', &[])].concat())?;
        client.wait_until_ready()?;
        end(client)?;
        Ok(backend)
    }

    /// Has another client look for it. Returns the process that served it.
    fn visit(&self) -> Result<u32> {
        let mut client = self.client()?;
        assert_eq!(client.state, b'I', "a new session is in no transaction");
        let traces = client.query(TRACES)?;
        let traces: Vec<_> = traces.iter().flatten().map(|value| value.as_deref().unwrap_or_default()).collect();
        assert_eq!(traces, NO_TRACES);
        self.postgres.superuser()?.query("NOTIFY leftover")?;
        let backend = client.backend()?;
        assert_eq!(client.asides, [], "a new session has asked for no notifications");
        client.terminate()?;
        Ok(backend)
    }

    fn wait_until_active(&self, backend: u32) -> Result<()> {
        let mut observer = self.postgres.superuser()?;
        let query = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = {backend} AND state = 'active' AND wait_event = 'PgSleep'"
        );
        wait::until(|| Ok(observer.value(&query)? == "1"))
    }
}

fn close(client: Client) -> Result<()> {
    drop(client);
    Ok(())
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    frame::bytes(b'P', &[&frame::text(name)[..], &frame::text(sql), &[0, 0]].concat())
}

/// Binds a statement without parameters to the unnamed portal.
fn bind(statement: &str) -> Vec<u8> {
    frame::bytes(b'B', &[&frame::text("")[..], &frame::text(statement), &[0; 6]].concat())
}

/// Runs the unnamed portal to its end.
fn execute() -> Vec<u8> {
    frame::bytes(b'E', &[0; 5])
}
