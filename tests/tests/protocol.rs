//! What the protocol lets a client do, the gate lets it do.

use std::fs;

use anyhow::{Context as _, Result};
use gate_tests::frame::{self, Message};
use gate_tests::gate::Gate;
use gate_tests::raw::{self, Client, Login};
use gate_tests::template::PASSWORD;
use gate_tests::wait;
use gate_tests::world::World;

#[test]
fn settings_of_a_startup_packet_hold_from_the_first_query_to_the_end_of_the_session() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let parameters = [
        ("application_name", "it's a \"test\""),
        ("client_encoding", "LATIN1"),
        ("DateStyle", "German, DMY"),
        ("TimeZone", "Asia/Tokyo"),
        ("search_path", "pg_catalog, public"),
        ("lock_timeout", "9s"),
        ("options", "-c work_mem=5MB --statement_timeout=1234 -c app.text=a\\ b"),
    ];
    let mut client = world.login(&Login { parameters: &parameters, ..Login::default() })?;
    for name in ["application_name", "client_encoding", "DateStyle", "TimeZone"] {
        let expected = parameters.iter().find(|(parameter, _)| *parameter == name).context("no such parameter")?.1;
        assert_eq!(client.parameters.get(name).map(String::as_str), Some(expected), "as reported");
    }
    let options = [("work_mem", "5MB"), ("statement_timeout", "1234ms"), ("app.text", "a b")];
    for (name, value) in parameters.iter().take(6).chain(&options) {
        assert_eq!(&client.value(&format!("SHOW {name}"))?, value, "{name}");
    }
    client.terminate()?;

    let mut next = world.client()?;
    assert_eq!(next.parameters["client_encoding"], "UTF8");
    assert_eq!(next.value("SHOW work_mem")?, "4MB");
    assert_eq!(next.value("SHOW TimeZone")?, "UTC");
    assert_eq!(next.value("SHOW application_name")?, "");
    Ok(())
}

#[test]
fn a_setting_that_the_server_does_not_take_is_refused_in_its_own_words() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let bad = [("DateStyle", "nonsense"), ("no_such_setting", "1"), ("client_encoding", "KLINGON")];
    for parameter in bad {
        let login = Login { parameters: &[parameter], ..Login::default() };
        let through_gate = raw::server_error(world.login(&login))?;
        let directly = raw::server_error(Client::login(world.postgres.address(), &login))?;
        assert_eq!(through_gate.code, directly.code, "{through_gate}");
        assert_eq!(through_gate.message, directly.message);
    }
    world.client()?.value("SELECT 1")?;
    Ok(())
}

#[test]
fn very_large_rows_and_statements_pass() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let mut client = world.client()?;
    let row = client.value("SELECT repeat('0123456789abcdef', 4 << 20)")?;
    assert_eq!(row.len(), 64 << 20);
    assert!(row.as_bytes().chunks(16).all(|chunk| chunk == b"0123456789abcdef"));
    let statement = format!("SELECT md5('{}')", "fedcba9876543210".repeat(1 << 20));
    assert_eq!(client.value(&statement)?, client.value("SELECT md5(repeat('fedcba9876543210', 1 << 20))")?);
    Ok(())
}

#[test]
fn a_client_that_does_not_read_costs_no_memory_and_no_one_elses_time() -> Result<()> {
    let world = World::start("max_connections = 2")?;
    let before = world.gate.memory()?;
    let mut client = world.client()?;
    let backend = client.backend()?;
    client.send(&frame::query("SELECT repeat('x', 1000) FROM generate_series(1, 300000)"))?;
    let mut observer = world.postgres.superuser()?;
    let stuck = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {backend} AND wait_event = 'ClientWrite'");
    wait::until(|| Ok(observer.value(&stuck)? == "1"))?;
    world.client()?.value("SELECT 1")?;
    let grown = world.gate.memory()?.saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for a client that does not read");
    assert_eq!(client.wait_until_ready()?.iter().filter(|message| message.kind == b'D').count(), 300_000);
    Ok(())
}

#[test]
fn what_a_client_sends_behind_its_login_without_waiting_is_answered_in_order() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let mut client = Client::connect(world.gate.address())?;
    client.send(&Login::default().packet())?;
    client.authenticate(PASSWORD)?;
    client.send(&[frame::query("SELECT 1"), frame::query("SELECT 2")].concat())?;
    client.wait_until_ready()?;
    assert_eq!(values(&client.wait_until_ready()?)?, ["1"]);
    assert_eq!(values(&client.wait_until_ready()?)?, ["2"]);
    client.terminate()?;

    // Where no password is asked for, even in one packet with the login.
    let world = World::trusting("max_connections = 1")?;
    let mut client = Client::connect(world.gate.address())?;
    client.send(&[Login::default().packet(), frame::query("SELECT 3"), frame::query("SELECT 4")].concat())?;
    client.authenticate("")?;
    client.wait_until_ready()?;
    assert_eq!(values(&client.wait_until_ready()?)?, ["3"]);
    assert_eq!(values(&client.wait_until_ready()?)?, ["4"]);
    Ok(())
}

#[test]
fn a_thousand_pipelined_statements_are_answered_in_order() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let mut client = world.client()?;
    let mut pipeline = Vec::new();
    for number in 0..1000 {
        let parse = [&frame::text("")[..], &frame::text(&format!("SELECT {number}")), &[0, 0]].concat();
        pipeline.extend(frame::bytes(b'P', &parse));
        pipeline.extend(frame::bytes(b'B', &[0; 8]));
        pipeline.extend(frame::bytes(b'E', &[0; 5]));
        pipeline.extend(frame::bytes(b'S', &[]));
    }
    client.send(&pipeline)?;
    for number in 0..1000 {
        assert_eq!(values(&client.wait_until_ready()?)?, [number.to_string()]);
    }
    Ok(())
}

#[test]
fn a_login_that_arrives_in_pieces_is_the_same_login() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let packet = Login::default().packet();
    for cut in 1..packet.len() {
        let mut client = Client::connect(world.gate.address())?;
        client.send(&packet[..cut])?;
        client.send(&packet[cut..])?;
        client.authenticate(PASSWORD)?;
        client.wait_until_ready().with_context(|| format!("cut at {cut}"))?;
        client.terminate()?;
    }
    Ok(())
}

#[test]
fn requests_for_encryption_are_declined_and_the_login_goes_on() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let request = |code: u32| frame::packet(&code.to_be_bytes());
    let mut client = Client::connect(world.gate.address())?;
    for code in [frame::GSSENC_REQUEST, frame::SSL_REQUEST] {
        client.send(&request(code))?;
        assert_eq!(client.bytes(1)?, b"N");
    }
    client.send(&Login::default().packet())?;
    client.authenticate(PASSWORD)?;
    client.wait_until_ready()?;
    assert_eq!(client.value("SELECT 1")?, "1");
    Ok(())
}

#[test]
fn newer_versions_of_the_protocol_are_negotiated() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let unknown = [("_pq_.no_such_option", "1")];
    for (version, parameters) in [(frame::VERSION_3_2, &[][..]), (3 << 16 | 999, &unknown[..])] {
        let mut client = world.login(&Login { version, parameters, ..Login::default() })?;
        assert_eq!(client.value("SELECT 1")?, "1");
        let negotiated: Vec<_> = client.asides.iter().filter(|message| message.kind == b'v').collect();
        let agreed = match negotiated[..] {
            [] => version,
            [message] => {
                let newest = message.body.first_chunk().context("a short NegotiateProtocolVersion")?;
                // PostgreSQL sends the minor version, or all of it.
                3 << 16 | (u32::from_be_bytes(*newest) & 0xffff)
            }
            _ => anyhow::bail!("negotiated twice"),
        };
        assert!([frame::VERSION_3_0, frame::VERSION_3_2].contains(&agreed), "{agreed:#x}");
        // Longer keys came with 3.2: 4 bytes of process id and up to 256 of secret.
        let key = client.key.len();
        assert!(key == 8 || (agreed == frame::VERSION_3_2 && (8..=260).contains(&key)), "a key of {key} bytes");
        if version != frame::VERSION_3_2 {
            let text = String::from_utf8_lossy(&negotiated[0].body).into_owned();
            assert!(text.contains("_pq_.no_such_option"), "{text}");
        }
        client.send(&frame::query("SELECT pg_sleep(20)"))?;
        let mut observer = world.postgres.superuser()?;
        let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        wait::until(|| Ok(observer.value(sleeping)? == "1"))?;
        raw::cancel(world.gate.address(), &client.key)?;
        assert_eq!(raw::server_error(client.wait_until_ready())?.code, "57014");
    }
    Ok(())
}

#[test]
fn a_client_that_has_closed_its_own_direction_still_hears_the_answer() -> Result<()> {
    let world = World::start("max_connections = 1")?;
    let mut client = world.client()?;
    client.send(&frame::query("SELECT 'answered' FROM pg_sleep(0.1)"))?;
    client.half_close()?;
    assert_eq!(values(&client.wait_until_ready()?)?, ["answered"]);
    assert_eq!(client.rest()?, b"");
    Ok(())
}

/// The values of the rows among messages.
fn values(messages: &[Message]) -> Result<Vec<String>> {
    let rows = messages.iter().filter(|message| message.kind == b'D').map(Message::columns);
    Ok(rows.collect::<Result<Vec<_>>>()?.into_iter().flatten().flatten().collect())
}

trait Memory {
    fn memory(&self) -> Result<u64>;
}

impl Memory for Gate {
    /// What of it is in memory, in bytes.
    fn memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process_id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(1024 * line.trim().trim_end_matches(" kB").parse::<u64>()?)
    }
}
