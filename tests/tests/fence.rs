//! A connection is used again only after the server has proved that it is clean: by a nonce that nobody can guess.

use anyhow::{Context as _, Result};
use gate_tests::fake_server::{self, Connection, FakeServer};
use gate_tests::frame;
use gate_tests::gate::Gate;
use gate_tests::raw::{Client, Login};
use gate_tests::wait;
use gate_tests::world::{self, World};

#[test]
fn answers_to_queries_that_imitate_a_reset_never_bring_back_a_dirty_connection() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let guesses = ["", "00000000000000000000000000000000", "'||'"];
    for guess in guesses {
        for end in [Client::terminate, close, Client::reset] {
            let mut client = world.client()?;
            client.query("SELECT pg_advisory_lock(42)")?;
            // Its answers are those of a reset but for the nonce, and they are left unread. The last query
            // makes the connection dirty while the gate may believe that it has been reset.
            for _ in 0..20 {
                client.send(&frame::query("ROLLBACK"))?;
                client.send(&frame::query("DISCARD ALL"))?;
                client.send(&frame::query(&format!("SELECT '{guess}'")))?;
            }
            client.send(&frame::query("SELECT pg_sleep(0.02), set_config('app.leftover', 'yes', false)"))?;
            end(client)?;
            visit(&world).with_context(|| format!("after the guess {guess:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn bytes_of_a_result_that_are_a_resets_answer_never_bring_back_a_dirty_connection() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    // A client can have any bytes sent to it: here, copies of a whole answer, as binary data.
    let answer =
        ["ROLLBACK", "DISCARD ALL", "SELECT '00000000000000000000000000000000'"].map(fake_server::right_answer);
    let answer: String = answer.concat().iter().map(|byte| format!("{byte:02x}")).collect();
    let copy = format!(
        "COPY (SELECT decode(repeat('{answer}', 100), 'hex') FROM generate_series(1, 5000)) TO STDOUT (FORMAT binary)"
    );
    for end in [Client::terminate, close, Client::reset] {
        let mut client = world.client()?;
        client.query("SET app.leftover = 'yes'")?;
        client.send(&frame::query(&copy))?;
        client.wait_for(b'd')?;
        end(client)?;
        visit(&world)?;
    }
    Ok(())
}

#[test]
fn a_server_that_answers_all_of_a_reset_rightly_keeps_its_connection() -> Result<()> {
    let (server, gate) = behind_fake(|connection| connection.serve())?;
    for _ in 0..5 {
        hello(&gate)?;
    }
    assert_eq!((server.accepted(), server.ended()), (1, 0));
    Ok(())
}

#[test]
fn a_server_that_answers_all_but_the_nonce_rightly_loses_its_connection() -> Result<()> {
    loses_its_connection(|_| [fake_server::row("not what was asked for"), fake_server::ready(b'I')].concat())
}

#[test]
fn a_server_that_does_not_end_its_reset_idle_loses_its_connection() -> Result<()> {
    loses_its_connection(|query| [fake_server::result(query), fake_server::ready(b'T')].concat())
}

#[test]
fn a_server_that_says_more_than_a_reset_asks_for_loses_its_connection() -> Result<()> {
    // Twice the right row: the answer of a query before it may end in the same bytes.
    loses_its_connection(|query| [fake_server::result(query), fake_server::right_answer(query)].concat())
}

#[test]
fn a_server_that_goes_on_after_its_reset_is_complete_loses_its_connection() -> Result<()> {
    loses_its_connection(|query| [fake_server::right_answer(query), fake_server::right_answer("SELECT 'x'")].concat())
}

#[test]
fn a_server_that_cannot_reset_loses_its_connection() -> Result<()> {
    loses_its_connection(|_| {
        let error = [&b"SERROR\0C42501\0Mpermission denied\0"[..], &[0]].concat();
        [frame::bytes(b'E', &error), fake_server::ready(b'I')].concat()
    })
}

#[test]
fn a_result_that_only_looks_as_if_it_were_complete_costs_the_connection() -> Result<()> {
    // The first half of a row ends in the bytes of ReadyForQuery, idle; the rest comes when the client has left.
    let row = fake_server::row(&format!("looks{}idle", String::from_utf8(fake_server::ready(b'I'))?));
    let half = row.windows(6).position(|bytes| bytes == fake_server::ready(b'I')).context("no such bytes")? + 6;
    let (first, rest) = (row[..half].to_vec(), [&row[half..], &fake_server::ready(b'T')].concat());
    let (server, gate) = behind_fake(move |connection| {
        let mut owed = Vec::new();
        while let Some(query) = connection.next_query()? {
            if query == "SELECT half" {
                connection.send(&first)?;
                owed.clone_from(&rest);
            } else {
                let answer = fake_server::right_answer(&query);
                connection.send(&[std::mem::take(&mut owed), answer].concat())?;
            }
        }
        Ok(())
    })?;
    let mut client = Client::login(gate.address(), &Login::default())?;
    client.send(&frame::query("SELECT half"))?;
    client.bytes(half)?;
    client.terminate()?;
    hello(&gate)?;
    wait::until(|| Ok(server.ended() == 1)).context("the connection is still open")?;
    assert_eq!(server.accepted(), 2, "the second client had another connection");
    Ok(())
}

/// A server whose first connection answers the nonce of a reset in the given way.
fn loses_its_connection(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Result<()> {
    let (server, gate) = behind_fake(move |connection| {
        if connection.number > 0 {
            return connection.serve();
        }
        let mut is_reset = false;
        while let Some(query) = connection.next_query()? {
            is_reset |= query.starts_with("DISCARD ALL");
            match fake_server::literal(&query) {
                Some(_) if is_reset => connection.send(&answer(&query))?,
                _ => connection.send(&fake_server::right_answer(&query))?,
            }
        }
        Ok(())
    })?;
    hello(&gate)?;
    hello(&gate)?;
    wait::until(|| Ok(server.ended() == 1)).context("the connection is still open")?;
    assert_eq!(server.accepted(), 2, "the second client had another connection");
    hello(&gate)?;
    assert_eq!(server.accepted(), 2, "and that one is used again");
    Ok(())
}

/// A gate with one slot in front of a fake server.
fn behind_fake(treat: impl Fn(&mut Connection) -> Result<()> + Send + Sync + 'static) -> Result<(FakeServer, Gate)> {
    let server = FakeServer::start(move |mut connection| match connection.accept_login()? {
        true => treat(&mut connection),
        false => Ok(()),
    })?;
    let config = world::config(&server.address().to_string(), "max_connections = 1");
    let gate = Gate::start(&config, &[world::users()])?;
    Ok((server, gate))
}

/// A whole session.
fn hello(gate: &Gate) -> Result<()> {
    let mut client = Client::login(gate.address(), &Login::default())?;
    assert_eq!(client.value("SELECT 'hello'")?, "hello");
    client.terminate()
}

/// A session that finds nothing left of the one before.
fn visit(world: &World) -> Result<()> {
    let mut client = world.client()?;
    assert_eq!(client.state, b'I');
    assert_eq!(client.value("SELECT 'mine'")?, "mine");
    assert_eq!(client.value("SELECT current_setting('app.leftover', true)")?, "");
    assert_eq!(client.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")?, "0");
    client.terminate()
}

fn close(client: Client) -> Result<()> {
    drop(client);
    Ok(())
}
