//! Real clients work through the gate as they are, and again on connections that others have used before.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use futures_util::{SinkExt as _, StreamExt as _, future, stream};
use gate_tests::program;
use gate_tests::template::{DATABASE, PASSWORD, USER};
use gate_tests::world::{BUCKET, World};
use tokio::runtime;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, error::SqlState};

#[test]
fn psql_works() -> Result<()> {
    let world = World::start(SETTINGS)?;
    for _ in 0..2 {
        let mut psql = world.command(program::of_postgresql("psql")?);
        psql.args(["--no-psqlrc", "--quiet", "--file"]).arg(program::script("with_psql.sql"));
        let output = program::output(&mut psql)?;
        let (printed, notices) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
        ensure!(output.status.success(), "{printed}\n{notices}");
        for expected in ["10000", "psql_rows", "notification \"news\" with payload \"extra\"", "the end"] {
            assert!(printed.contains(expected), "no {expected} in:\n{printed}");
        }
        assert!(notices.contains("NOTICE:  have a look"), "{notices}");
    }
    world.all_given_back()
}

#[test]
fn psql_shows_a_refusal_with_its_reason() -> Result<()> {
    let world = World::start("max_connections = 1\nqueue = { depth = 0 }")?;
    let _first = world.client()?;
    let psql = program::of_postgresql("psql")?;
    let output = program::output(world.command(psql).args(["--no-psqlrc", "--command", "SELECT 1"]))?;
    let complaint = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("FATAL") && complaint.contains(BUCKET), "{complaint}");
    Ok(())
}

#[test]
fn pgbench_works_in_every_mode_of_the_protocol_and_with_a_connection_for_each_transaction() -> Result<()> {
    let world = World::start(SETTINGS)?;
    let pgbench = || -> Result<Command> { Ok(world.command(program::of_postgresql("pgbench")?)) };
    program::run(pgbench()?.args(["--initialize", "--quiet"]))?;
    // More clients than connections would wait for each other to end.
    let some = ["--client=4", "--jobs=2", "--transactions=50", "--no-vacuum"];
    for mode in ["simple", "extended", "prepared"] {
        let printed = program::run(pgbench()?.args(some).arg(format!("--protocol={mode}")))?;
        assert!(printed.contains("200/200"), "{printed}");
    }
    // A thread that waits for a connection does nothing for its other clients, so each has a thread of its own.
    let many = ["--client=16", "--jobs=16", "--transactions=20", "--no-vacuum", "--connect"];
    let printed = program::run(pgbench()?.args(many).arg("--select-only"))?;
    assert!(printed.contains("320/320"), "{printed}");
    let printed = program::run(pgbench()?.args(many).arg("--protocol=prepared"))?;
    assert!(printed.contains("320/320"), "{printed}");
    world.all_given_back()
}

#[test]
fn psycopg_works() -> Result<()> {
    let world = World::start(SETTINGS)?;
    for _ in 0..2 {
        program::run(world.command(program::python()?).arg(program::script("with_psycopg.py")))?;
    }
    world.all_given_back()
}

#[test]
fn asyncpg_works() -> Result<()> {
    let world = World::start(SETTINGS)?;
    for _ in 0..2 {
        program::run(world.command(program::python()?).arg(program::script("with_asyncpg.py")))?;
    }
    world.all_given_back()
}

#[test]
fn node_postgres_works() -> Result<()> {
    let world = World::start(SETTINGS)?;
    for _ in 0..2 {
        let mut node = world.command("node".into());
        node.arg(program::script("with_pg.js")).env("NODE_PATH", program::node_modules()?);
        program::run(&mut node)?;
    }
    world.all_given_back()
}

#[test]
fn tokio_postgres_works() -> Result<()> {
    let world = World::start(SETTINGS)?;
    for _ in 0..2 {
        runtime::Builder::new_current_thread().enable_all().build()?.block_on(use_tokio_postgres(&world))?;
    }
    world.all_given_back()
}

async fn use_tokio_postgres(world: &World) -> Result<()> {
    let (mut client, mut messages) = world.connect(&mut Config::new()).await?;
    queries(&client).await?;
    transactions(&mut client).await?;
    copies(&client).await?;
    client.batch_execute("LISTEN news; NOTIFY news, 'extra'").await?;
    client.batch_execute("DO $$ BEGIN RAISE NOTICE 'have a look'; END $$").await?;
    assert_eq!(messages.recv().await.context("closed")?, "news: extra");
    assert_eq!(messages.recv().await.context("closed")?, "have a look");
    let (observer, _) = world.connect(&mut Config::new()).await?;
    cancel(&client, &observer).await?;

    let mut options = Config::new();
    options.application_name("with tokio-postgres").options("-c work_mem=6MB");
    let (client, _) = world.connect(&mut options).await?;
    assert_eq!(client.query_one("SHOW work_mem", &[]).await?.get::<_, String>(0), "6MB");
    assert_eq!(client.query_one("SHOW application_name", &[]).await?.get::<_, String>(0), "with tokio-postgres");
    Ok(())
}

async fn queries(client: &Client) -> Result<()> {
    let statement = client.prepare("SELECT $1::int4 + 1").await?;
    // All at once on one connection: they are pipelined.
    let numbers: Vec<i32> = (0..100).collect();
    let answers = future::try_join_all(numbers.iter().map(async |number| {
        let row = client.query_one(&statement, &[number]).await?;
        Ok::<_, tokio_postgres::Error>(row.get::<_, i32>(0))
    }));
    assert_eq!(answers.await?, (1..101).collect::<Vec<_>>());
    Ok(())
}

async fn transactions(client: &mut Client) -> Result<()> {
    client.batch_execute("CREATE TEMP TABLE rust_rows (number int4, line text)").await?;
    let transaction = client.transaction().await?;
    transaction.execute("INSERT INTO rust_rows VALUES (1, 'kept')", &[]).await?;
    transaction.commit().await?;
    let transaction = client.transaction().await?;
    transaction.execute("INSERT INTO rust_rows VALUES (2, 'lost')", &[]).await?;
    let error = transaction.execute("SELECT 1/0", &[]).await.err().context("no error")?;
    assert_eq!(error.code(), Some(&SqlState::DIVISION_BY_ZERO));
    drop(transaction);
    let rows = client.query("SELECT line FROM rust_rows", &[]).await?;
    assert_eq!(rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), ["kept"]);
    Ok(())
}

async fn copies(client: &Client) -> Result<()> {
    let sink = client.copy_in("COPY rust_rows FROM STDIN").await?;
    let mut sink = std::pin::pin!(sink);
    for number in 0..100 {
        let lines: String = (0..100).map(|line| format!("{number}\t{line}\n")).collect();
        sink.send(std::io::Cursor::new(lines)).await?;
    }
    assert_eq!(sink.finish().await?, 10_000);
    let mut rows = std::pin::pin!(client.copy_out("COPY rust_rows TO STDOUT").await?);
    let mut count = 0;
    while let Some(row) = rows.next().await {
        row?;
        count += 1;
    }
    assert_eq!(count, 10_001);
    Ok(())
}

async fn cancel(client: &Client, observer: &Client) -> Result<()> {
    let sleep = client.batch_execute("SELECT pg_sleep(20)");
    let cancel = async {
        let sleepers = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        while observer.query_opt(sleepers, &[]).await?.is_none() {}
        client.cancel_token().cancel_query(NoTls).await
    };
    let (slept, cancelled) = future::join(sleep, cancel).await;
    cancelled?;
    assert_eq!(slept.err().context("not cancelled")?.code(), Some(&SqlState::QUERY_CANCELED));
    client.batch_execute("SELECT 'goes on'").await?;
    Ok(())
}

const SETTINGS: &str = "max_connections = 4";

trait Clients {
    fn command(&self, program: std::path::PathBuf) -> Command;
    async fn connect(&self, config: &mut Config) -> Result<(Client, UnboundedReceiver<String>)>;
    fn all_given_back(&self) -> Result<()>;
}

impl Clients for World {
    /// A program that finds the gate in its environment, as libpq's do.
    fn command(&self, program: std::path::PathBuf) -> Command {
        let address = self.gate.address();
        let mut command = Command::new(program);
        command.env("PGHOST", address.ip().to_string()).env("PGPORT", address.port().to_string());
        command.env("PGUSER", USER).env("PGPASSWORD", PASSWORD).env("PGDATABASE", DATABASE);
        command
    }

    /// A client of tokio-postgres, and what comes for it unasked: notices and notifications.
    async fn connect(&self, config: &mut Config) -> Result<(Client, UnboundedReceiver<String>)> {
        let address = self.gate.address();
        config.host(address.ip().to_string()).port(address.port());
        config.user(USER).password(PASSWORD).dbname(DATABASE);
        let (client, mut connection) = config.connect(NoTls).await?;
        let (sender, messages) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut all = stream::poll_fn(|context| connection.poll_message(context));
            while let Some(Ok(message)) = all.next().await {
                let text = match message {
                    AsyncMessage::Notice(notice) => notice.message().to_owned(),
                    AsyncMessage::Notification(news) => format!("{}: {}", news.channel(), news.payload()),
                    _ => continue,
                };
                if sender.send(text).is_err() {
                    continue;
                }
            }
        });
        Ok((client, messages))
    }

    fn all_given_back(&self) -> Result<()> {
        self.gate.wait_for_number(BUCKET, "in_use", 0)
    }
}
