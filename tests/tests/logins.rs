//! Who may come, and how the gate itself logs in.

use std::process::Command;

use anyhow::{Context as _, Result};
use gate_tests::gate::Gate;
use gate_tests::postgres::Postgres;
use gate_tests::raw::{Client, Login, server_error};
use gate_tests::template::{DATABASE, OTHER_PASSWORD, PASSWORD, USER};
use gate_tests::{program, wait, world};

#[test]
fn the_gate_logs_in_to_the_server_by_whichever_way_it_is_asked() -> Result<()> {
    let postgres = Postgres::start()?;
    let users = ["by_scram", "by_md5", "by_plain_text", "by_trust"];
    let file: String = users.iter().map(|user| format!("\"{user}\" \"{OTHER_PASSWORD}\"\n")).collect();
    let gate = Gate::start(&each_its_own(&postgres), &[("users.txt", &file)])?;
    for user in users {
        let login = Login { user, password: OTHER_PASSWORD, ..Login::default() };
        let mut client = Client::login(gate.address(), &login).context(user)?;
        assert_eq!(client.value("SELECT session_user")?, user);
    }
    Ok(())
}

#[test]
fn users_who_share_the_slots_of_a_bucket_never_get_each_others_connections() -> Result<()> {
    let postgres = Postgres::start()?;
    let file = format!("\"app\" \"{PASSWORD}\"\n\"by_scram\" \"{OTHER_PASSWORD}\"\n");
    let gate = Gate::start(&each_its_own(&postgres), &[("users.txt", &file)])?;
    // There are two slots: whoever needs one that idles for another user gets it.
    for _ in 0..5 {
        for (user, password) in [("app", PASSWORD), ("by_scram", OTHER_PASSWORD)] {
            let login = Login { user, password, ..Login::default() };
            let mut both = [Client::login(gate.address(), &login)?, Client::login(gate.address(), &login)?];
            for client in &mut both {
                assert_eq!(client.value("SELECT session_user")?, user);
            }
            both.into_iter().try_for_each(Client::terminate)?;
        }
    }
    Ok(())
}

#[test]
fn a_client_can_be_verified_by_what_the_server_keeps_instead_of_its_password() -> Result<()> {
    let postgres = Postgres::start()?;
    let verifier = postgres.superuser()?.value("SELECT rolpassword FROM pg_authid WHERE rolname = 'app'")?;
    assert!(verifier.starts_with("SCRAM-SHA-256$"), "{verifier}");
    let config = world::config(&postgres.address().to_string(), "max_connections = 1");
    let gate = Gate::start(&config, &[("users.txt", &format!("\"app\" \"{verifier}\"\n"))])?;
    Client::login(gate.address(), &Login::default())?.value("SELECT 1")?;
    let wrong = Login { password: "wr0ng-Pa55word", ..Login::default() };
    assert_eq!(server_error(Client::login(gate.address(), &wrong))?.code, "28P01");
    Ok(())
}

#[test]
fn a_client_shows_its_password_in_the_way_that_the_bucket_asks_for() -> Result<()> {
    let postgres = Postgres::start()?;
    for method in ["scram-sha-256", "md5", "plain"] {
        let config = world::config(&postgres.address().to_string(), "max_connections = 1");
        let asked = format!("method = '{method}', auth_file");
        let gate = Gate::start(&config.replace("auth_file", &asked), &[world::users()])?;
        let psql = |password: &str| {
            let mut psql = Command::new(program::of_postgresql("psql")?);
            psql.env("PGPASSWORD", password).args([
                "-XAtc",
                "SELECT 'served'",
                "-h",
                "127.0.0.1",
                "-U",
                USER,
                DATABASE,
            ]);
            program::run(psql.args(["-p", &gate.address().port().to_string()]))
        };
        assert_eq!(psql(PASSWORD).context(method)?.trim(), "served");
        let refused = format!("{:#}", psql("wr0ng-Pa55word").unwrap_err());
        assert!(refused.contains("password authentication failed"), "{method}: {refused}");
    }
    Ok(())
}

#[test]
fn a_password_that_the_server_does_not_take_is_told_to_clients_and_logged_without_it() -> Result<()> {
    let postgres = Postgres::start()?;
    let config = world::config(&postgres.address().to_string(), "max_connections = 1");
    let gate = Gate::spawn(&config.replace(PASSWORD, "0utdated-Pa55word"), &[world::users()])?;
    let refused = server_error(Client::login(gate.address(), &Login::default()))?;
    assert_eq!((&*refused.severity, &*refused.code), ("FATAL", "28000"), "{refused}");
    assert!(refused.message.contains(world::BUCKET), "{refused}");
    wait::until(|| Ok(gate.log().contains("28P01") || gate.log().contains("password authentication failed")))
        .with_context(|| gate.log())?;
    assert!(!gate.log().contains("0utdated-Pa55word") && !refused.message.contains("0utdated-Pa55word"));
    Ok(())
}

#[test]
fn one_line_without_a_file_is_enough_for_a_first_try() -> Result<()> {
    let postgres = Postgres::start()?;
    let backend = format!("postgres://app:{PASSWORD}@{}/app", postgres.address());
    let gate = Gate::without_file(&["--listen", "127.0.0.1:0", "--backend", &backend])?;
    let mut client = Client::login(gate.address(), &Login::default())?;
    assert_eq!(client.value("SELECT current_user")?, "app");
    let wrong = Login { password: "wr0ng-Pa55word", ..Login::default() };
    assert_eq!(server_error(Client::login(gate.address(), &wrong))?.code, "28P01");
    assert!(!gate.log().contains(PASSWORD));
    Ok(())
}

/// A configuration whose clients are logged in to the server as they are.
fn each_its_own(postgres: &Postgres) -> String {
    let config = world::config(&postgres.address().to_string(), "max_connections = 2\nreservoir = { min_ready = 0 }");
    config.lines().filter(|line| !line.starts_with("backend")).map(|line| format!("{line}\n")).collect()
}
