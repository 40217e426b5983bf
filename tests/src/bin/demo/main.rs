//! `cargo xtask demo`: a private PostgreSQL, the gate in front of it, and many clients.
//!
//! The same clients come twice, to the database itself and through the gate, so that the difference can be seen. All
//! that it starts it ends, also on Ctrl-C.

mod bench;
mod interrupt;
mod measured;
mod report;

use std::env;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use gate_tests::gate::Gate;
use gate_tests::postgres::Postgres;
use gate_tests::program;
use gate_tests::template::DATABASE;

use self::bench::{Bench, Outcome};
use self::measured::Measured;

/// How many connections the gate may hold.
const CONNECTIONS: u32 = 20;
/// How many clients come at once: more than that, and fewer than the hundred that the server would bear itself.
const CLIENTS: u32 = 80;
/// Whom all log in as. Nobody has to prove anything: what is compared is connections, not the hashing of passwords.
const USER: &str = "by_trust";
/// The gate's only bucket.
const BUCKET: &str = "demo";

fn main() -> ExitCode {
    let keep = env::args().any(|argument| argument == "--keep");
    match interrupt::watch().and_then(|()| demo(keep)) {
        Ok(()) => ExitCode::SUCCESS,
        // Servers hear Ctrl-C too, so that anything may have failed.
        Err(_) if interrupt::is_interrupted() => {
            eprintln!("interrupted; everything that was started has been ended");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn demo(keep: bool) -> Result<()> {
    println!("starting a PostgreSQL");
    let postgres = Postgres::start()?;
    let mut outcomes = run_both(&postgres, None)?;
    println!("\nstarting a gate with at most {CONNECTIONS} connections to it");
    // It is dropped before its server, in the reverse order.
    let gate = Gate::start(&config(&postgres), &[])?;
    outcomes.extend(run_both(&postgres, Some(&gate))?);
    outcomes.sort_by(|one, other| one.title.cmp(&other.title));
    println!("\n{}", report::table(&outcomes));
    println!("{}", report::summary(&Measured::of(&gate.get("/metrics")?.1, BUCKET)?));
    if keep {
        println!("{}", invitation(&gate)?);
        std::io::stdout().flush()?;
        while !interrupt::is_interrupted() {
            std::thread::sleep(interrupt::LOOK);
        }
    }
    Ok(())
}

/// Clients that connect for each query, and clients that stay.
fn run_both(postgres: &Postgres, gate: Option<&Gate>) -> Result<Vec<Outcome>> {
    let reconnecting = Bench { title: "a connection for each query", clients: CLIENTS, reconnect: true };
    let steady = Bench { title: "steady connections", clients: CONNECTIONS, reconnect: false };
    [reconnecting, steady].iter().map(|bench| bench.run(postgres, gate).context(bench.title)).collect()
}

fn config(postgres: &Postgres) -> String {
    format!(
        "[listen]\n\
         postgres = ['127.0.0.1:0']\n\
         admin = '127.0.0.1:0'\n\
         [[bucket]]\n\
         name = '{BUCKET}'\n\
         protocol = 'postgres'\n\
         endpoints = ['{}']\n\
         max_connections = {CONNECTIONS}\n\
         clients = {{ trust = true }}\n\
         backend = {{ user = '{USER}', database = '{DATABASE}' }}\n",
        postgres.address()
    )
}

fn invitation(gate: &Gate) -> Result<String> {
    let (clients, admin, program) = (gate.address(), gate.admin(), program::gate()?);
    Ok(format!(
        "It goes on until Ctrl-C. Try:\n  \
         psql 'postgres://{USER}@{clients}/{DATABASE}'\n  \
         pgbench --no-vacuum --connect --client=80 --jobs=80 --time=10 --file=<(echo 'SELECT 1') 'postgres://{USER}@{clients}/{DATABASE}'\n  \
         {} status --admin {admin}\n  \
         curl http://{admin}/status.json\n  \
         curl http://{admin}/metrics",
        program.display()
    ))
}
