//! Whatever a client sends, or a server: a clear answer or none, no slot lost, no secret told, and the
//! others do not notice.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use gate_tests::fake_server::{FakeServer, welcome};
use gate_tests::frame::{self, Message, ServerError};
use gate_tests::gate::Gate;
use gate_tests::postgres::Postgres;
use gate_tests::raw::{self, Client, Login};
use gate_tests::template::PASSWORD;
use gate_tests::world::{self, BUCKET, World};
use gate_tests::{load, program, wait};

#[test]
fn a_wrong_password_and_an_unknown_user_are_refused_alike() -> Result<()> {
    let world = World::start(SETTINGS)?;
    let wrong = refusal(&world, &Login { password: "wr0ng-Pa55word", ..Login::default() })?;
    let unknown = refusal(&world, &Login { user: "nobody", ..Login::default() })?;
    for error in [&wrong, &unknown] {
        assert_eq!((&*error.severity, &*error.code), ("FATAL", "28P01"), "{error}");
    }
    // Who may come is nobody's business.
    assert_eq!(wrong.message.replace("app", "…"), unknown.message.replace("nobody", "…"));
    assert_unharmed(&world)
}

#[test]
fn a_database_that_no_bucket_serves_is_refused_by_its_name() -> Result<()> {
    let world = World::start("max_connections = 2\nroute = { database = ['app'] }")?;
    let error = refusal(&world, &Login { database: "elsewhere", ..Login::default() })?;
    assert_eq!((&*error.severity, &*error.code), ("FATAL", "3D000"), "{error}");
    assert!(error.message.contains("elsewhere"), "{error}");
    assert_unharmed(&world)
}

#[test]
fn a_database_that_the_server_does_not_have_is_refused_and_costs_no_slot() -> Result<()> {
    let postgres = Postgres::start()?;
    let config = world::config(&postgres.address().to_string(), SETTINGS).replace(", database = 'app'", "");
    let gate = Gate::start(&config, &[world::users()])?;
    let world = World { gate, postgres };
    for _ in 0..5 {
        let error = refusal(&world, &Login { database: "elsewhere", ..Login::default() })?;
        assert_eq!(error.severity, "FATAL", "{error}");
        assert!(["28000", "3D000"].contains(&&*error.code) && error.message.contains(BUCKET), "{error}");
    }
    assert!(world.gate.log().contains("elsewhere"), "the operator is told the server's words");
    assert_unharmed(&world)
}

#[test]
fn first_packets_that_are_none_are_answered_by_the_protocol_or_not_at_all() -> Result<()> {
    let world = World::start(SETTINGS)?;
    let tls_hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[7; 512]].concat();
    let no_end = frame::packet(&[&frame::VERSION_3_0.to_be_bytes()[..], b"user"].concat());
    let no_user = frame::startup(frame::VERSION_3_0, &[("database", "app")]);
    let packets: [(&str, &[u8]); 11] = [
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("a TLS hello", &tls_hello),
        ("zeros", &[0; 64]),
        ("a length of 0", &0_u32.to_be_bytes()),
        ("a length of 7", &[0, 0, 0, 7, 0, 3, 0]),
        ("the largest length", &[&u32::MAX.to_be_bytes()[..], &[0, 3, 0, 0]].concat()),
        ("a negative length", &[&0x8000_0000_u32.to_be_bytes()[..], &[0, 3, 0, 0]].concat()),
        ("a length of 100 MB", &[&100_000_000_u32.to_be_bytes()[..], &[0, 3, 0, 0]].concat()),
        ("a string without an end", &no_end),
        ("no user", &no_user),
        ("protocol 2.0", &frame::startup(2 << 16, &[("user", "app")])),
    ];
    for (name, packet) in packets {
        let mut client = Client::connect(world.gate.address())?;
        client.send(packet)?;
        // The gate may be rid of it before all has been sent.
        client.half_close().ok();
        match client.message().context(name)? {
            None => {}
            Some(message) => {
                let error = ServerError::read(&message);
                ensure!(message.kind == b'E' && error.severity == "FATAL", "{name}: {message:?}");
                ensure!(["08P01", "28000", "0A000"].contains(&&*error.code), "{name}: {error}");
            }
        }
    }
    assert_unharmed(&world)
}

#[test]
fn a_message_of_an_impossible_length_ends_only_the_session_that_sent_it() -> Result<()> {
    let world = World::start(SETTINGS)?;
    for length in [0_u32, 3, 0x8000_0000, u32::MAX] {
        let mut client = world.client()?;
        client.send(&[&b"Q"[..], &length.to_be_bytes(), b"SELECT 1\0"].concat())?;
        // Nothing of it is answered. The gate may not know whether the server is between two messages, so it may end
        // the session without a word.
        if let Some(message) = client.message()? {
            let error = ServerError::read(&message);
            assert_eq!((message.kind, &*error.severity, &*error.code), (b'E', "FATAL", "08P01"), "length {length}");
        }
    }
    assert_unharmed(&world)
}

#[test]
fn a_client_that_vanishes_at_any_byte_of_its_login_costs_nothing() -> Result<()> {
    let world = World::start(SETTINGS)?;
    let request = frame::packet(&frame::SSL_REQUEST.to_be_bytes());
    let packet = [&request[..], &Login::default().packet()].concat();
    for end in 0..packet.len() {
        let mut client = Client::connect(world.gate.address())?;
        client.send(&packet[..end])?;
        if end % 2 == 0 { client.reset()? } else { drop(client) }
    }
    // And between the messages that prove who it is, and before it hears that it is ready.
    for messages in 1..=4 {
        let mut client = Client::connect(world.gate.address())?;
        client.send(&Login::default().packet())?;
        client.bytes(messages)?;
        client.reset()?;
        let mut client = Client::connect(world.gate.address())?;
        client.send(&Login::default().packet())?;
        client.authenticate(PASSWORD)?;
        if messages % 2 == 0 { client.reset()? } else { drop(client) }
    }
    assert_unharmed(&world)
}

#[test]
fn thousands_of_half_open_handshakes_keep_nobody_else_from_being_served() -> Result<()> {
    program::allow_descriptors(4096)?;
    let world = World::start(SETTINGS)?;
    let packet = Login::default().packet();
    let half_open = (0..2000).map(|number| {
        let mut client = Client::connect(world.gate.address())?;
        client.send(&packet[..number % packet.len()])?;
        Ok(client)
    });
    let half_open = half_open.collect::<Result<Vec<_>>>()?;
    for _ in 0..20 {
        world.client()?.value("SELECT 1")?;
    }
    assert_eq!(world.gate.number(BUCKET, "waiting")?, 0);
    drop(half_open);
    assert_unharmed(&world)
}

#[test]
fn more_clients_than_the_process_has_descriptors_are_refused_and_those_inside_go_on() -> Result<()> {
    let postgres = Postgres::start()?;
    let config = world::config(&postgres.address().to_string(), SETTINGS);
    let world = World { gate: Gate::with_descriptors(300, &config, &[world::users()])?, postgres };
    let mut inside = world.client()?;
    let mut crowd = (0..400).map(|_| Client::connect(world.gate.address())).collect::<Result<Vec<_>>>()?;
    let mut last = crowd.pop().context("nobody came")?;
    let error = ServerError::read(&last.message()?.context("the connection was closed")?);
    assert_eq!((&*error.severity, &*error.code), ("FATAL", "53300"), "{error}");
    assert_eq!(inside.value("SELECT 'still here'")?, "still here");
    inside.terminate()?;
    drop(crowd);
    wait::until(|| Ok(world.client().is_ok()))?;
    assert_unharmed(&world)
}

#[test]
fn a_server_that_breaks_off_at_any_byte_of_a_login_costs_no_slot() -> Result<()> {
    // One bucket with one slot for each byte: its server breaks off there the first time, and then never again.
    let login = welcome();
    let servers = (0..login.len()).map(|end| {
        let login = login.clone();
        FakeServer::start(move |mut connection| {
            if connection.number > 0 {
                return if connection.accept_login()? { connection.serve() } else { Ok(()) };
            }
            connection.read_startup()?;
            connection.send(&login[..end])?;
            if end % 2 == 0 { connection.reset() } else { Ok(()) }
        })
    });
    let servers = servers.collect::<Result<Vec<_>>>()?;
    let bucket = |(end, server): (usize, &FakeServer)| {
        format!(
            "[[bucket]]\nname = 'cut-{end}'\nprotocol = 'postgres'\nroute = {{ database = ['cut-{end}'] }}\n\
             endpoints = ['{}']\nclients = {{ trust = true }}\nbackend = {{ user = 'app' }}\nmax_connections = 1\n",
            server.address()
        )
    };
    let buckets: String = servers.iter().enumerate().map(bucket).collect();
    let config = format!("[listen]\npostgres = ['127.0.0.1:0']\nadmin = '127.0.0.1:0'\n{buckets}");
    let gate = Gate::start(&config, &[])?;
    let results = load::at_once(servers.len(), |end| {
        let database = &*format!("cut-{end}");
        wait::until(|| match Client::login(gate.address(), &Login { database, ..Login::default() }) {
            Ok(mut client) => Ok(client.value("SELECT 'served'")? == "served"),
            Err(error) => match raw::server_error::<()>(Err(error))? {
                refusal if refusal.code == "57P03" && refusal.message.contains(database) => Ok(false),
                other => Err(other.into()),
            },
        })
        .with_context(|| format!("a login cut at byte {end}"))?;
        gate.wait_for_number(database, "in_use", 0)
    });
    results.into_iter().collect()
}

#[test]
fn a_client_that_sends_too_slowly_is_sent_away() -> Result<()> {
    let world = World::start(SETTINGS)?;
    let start = Instant::now();
    let mut client = Client::connect(world.gate.address())?;
    // It keeps sending, a byte now and then: the deadline is for the whole handshake.
    client.send(&5000_u32.to_be_bytes())?;
    client.send(&frame::VERSION_3_0.to_be_bytes())?;
    let slow = thread::scope(|scope| -> Result<Vec<u8>> {
        let mut sender = client.stream().try_clone()?;
        scope.spawn(move || {
            use std::io::Write as _;
            while start.elapsed() < Duration::from_secs(30) && sender.write_all(b"a").is_ok() {
                thread::sleep(Duration::from_millis(500));
            }
        });
        let rest = client.rest();
        client.stream().shutdown(std::net::Shutdown::Both).ok();
        // A reset is as good an end as any.
        Ok(rest.unwrap_or_default())
    })?;
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    if let Some(message) = Message::read(&mut &slow[..])? {
        assert_eq!((message.kind, &*ServerError::read(&message).code), (b'E', "08P01"));
    }
    assert_unharmed(&world)
}

#[test]
fn nothing_secret_is_ever_logged_or_shown() -> Result<()> {
    let world = World::start(SETTINGS)?;
    world.client()?.terminate()?;
    refusal(&world, &Login { password: "wr0ng-Pa55word", ..Login::default() })?;
    let mut client = world.client()?;
    client.query("SELECT 'a-secret-in-a-query'")?;
    client.reset()?;
    assert_unharmed(&world)?;
    let shown = ["/status.json", "/metrics"].map(|path| world.gate.get(path).map(|(_, body)| body));
    let all = shown.into_iter().collect::<Result<Vec<_>>>()?.concat() + &world.gate.log();
    for secret in [PASSWORD, "wr0ng-Pa55word", "a-secret-in-a-query"] {
        assert!(!all.contains(secret), "{secret} in:\n{all}");
    }
    Ok(())
}

const SETTINGS: &str = "max_connections = 3";

fn refusal(world: &World, login: &Login<'_>) -> Result<ServerError> {
    raw::server_error(world.login(login))
}

/// The gate serves as before, and every slot is there: as many can be used at once as at the start.
fn assert_unharmed(world: &World) -> Result<()> {
    world.gate.wait_for_number(BUCKET, "in_use", 0)?;
    world.gate.wait_for_number(BUCKET, "waiting", 0)?;
    let slots = world.gate.number(BUCKET, "max_connections")?;
    let mut all = (0..slots).map(|_| world.client()).collect::<Result<Vec<_>>>()?;
    for client in &mut all {
        assert_eq!(client.value("SELECT 'served'")?, "served");
    }
    drop(all);
    wait::until(|| Ok(world.gate.number(BUCKET, "in_use")? == 0))
}
