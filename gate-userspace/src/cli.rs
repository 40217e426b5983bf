//! What can be asked of the `gate` command, and how it answers.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use gate::config::{self, Loaded, Problems};
use gate::quick::Address;
use gate::status::{Status, ask};
use gate::{ebpf, serve};

/// Stands between many database clients and a few databases that cannot bear them.
#[derive(Parser)]
#[command(name = "gate", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Checks a configuration, and prints all that would be used as TOML, with every default filled in.
    ///
    /// Variables such as GATE_LISTEN__ADMIN or GATE_BUCKET__ORDERS__MAX_CONNECTIONS override what the file says.
    /// The exit status is 1 if something is wrong; everything that is wrong is told at once.
    Check {
        /// The configuration file.
        #[arg(long, value_name = "FILE", env = "GATE_CONFIG")]
        config: PathBuf,
    },
    /// Asks a running gate how it is, and prints it as a table.
    ///
    /// Each bucket has a line; below the table stands why clients wait, and why the last ones were refused.
    Status {
        /// The gate's listen.admin, if it is not that of the configuration.
        #[arg(long, value_name = "IP:PORT")]
        admin: Option<SocketAddr>,
        /// The configuration file, which says where the gate listens; without one it is where a gate listens by default.
        #[arg(long, value_name = "FILE", env = "GATE_CONFIG")]
        config: Option<PathBuf>,
        /// Prints what the gate answers, for programs.
        #[arg(long)]
        json: bool,
    },
    /// Serves clients until it is told to stop.
    ///
    /// SIGTERM drains: newcomers are refused, sessions may finish for 30 s.
    #[command(group(clap::ArgGroup::new("source").required(true).args(["config", "backend"])))]
    Serve {
        /// The configuration file.
        #[arg(long, value_name = "FILE", env = "GATE_CONFIG")]
        config: Option<PathBuf>,
        /// Without a file: where Postgres clients connect.
        #[arg(long, value_name = "IP:PORT", conflicts_with = "config", default_value = "127.0.0.1:6432")]
        listen: SocketAddr,
        /// Without a file: the database, as postgres://user:password@host:port/database. Clients log in with the same
        /// user and password.
        #[arg(long, value_name = "ADDRESS")]
        backend: Option<String>,
    },
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Check { config } => check(&config),
            Command::Status { admin, config, json } => status(admin, config.as_deref(), json),
            Command::Serve { config, listen, backend } => serve(config.as_deref(), listen, backend.as_deref()),
        }
    }
}

fn serve(file: Option<&Path>, listen: SocketAddr, backend: Option<&str>) -> anyhow::Result<ExitCode> {
    let read = || match (file, backend) {
        (Some(file), _) => Ok(config::load(file, environment()).map(|loaded| loaded.config)),
        (None, Some(backend)) => Ok(Address::parse(backend)?.into_config(listen, environment())),
        (None, None) => anyhow::bail!("name a configuration file (--config) or a database (--backend)"),
    };
    match read()? {
        Ok(config) => {
            tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).with_target(false).init();
            serve::run(config, || Ok(read()??)).map(|()| ExitCode::SUCCESS)
        }
        Err(problems) => Ok(complain(&problems)),
    }
}

fn status(admin: Option<SocketAddr>, file: Option<&Path>, json: bool) -> anyhow::Result<ExitCode> {
    let admin = match (admin, file) {
        (Some(admin), _) => admin,
        (None, None) => config::defaults::ADMIN,
        (None, Some(file)) => match config::load(file, environment()) {
            Ok(loaded) => loaded.config.listen.admin,
            Err(problems) => return Ok(complain(&problems)),
        },
    };
    if admin.port() == 0 {
        bail!(
            "listen.admin leaves the port to the kernel; the gate's log says `listening admin IP:PORT`: give it as --admin"
        );
    }
    let mut answer = ask::status_json(admin)?;
    if !json {
        let status: Status = serde_json::from_str(&answer).with_context(|| ask::not_a_gate(admin))?;
        answer = status.to_table();
    }
    io::stdout().write_all(answer.as_bytes()).context("cannot print the status")?;
    Ok(ExitCode::SUCCESS)
}

fn environment() -> config::Environment {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect()
}

fn complain(Problems(problems): &Problems) -> ExitCode {
    for problem in problems {
        eprintln!("{problem}");
    }
    ExitCode::FAILURE
}

fn check(file: &Path) -> anyhow::Result<ExitCode> {
    match config::load(file, environment()) {
        Ok(loaded) => {
            for note in &loaded.notes {
                eprintln!("note: {note}");
            }
            let answer = answer(file, &loaded)?;
            io::stdout().write_all(answer.as_bytes()).context("cannot print the configuration")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => Ok(complain(&problems)),
    }
}

/// The whole answer is TOML: what is meant for people is a comment, so that it can be kept as a file.
fn answer(file: &Path, loaded: &Loaded) -> anyhow::Result<String> {
    let mut answer = format!("# {} with every default filled in:\n\n", file.display());
    answer += &loaded.to_toml().context("cannot print the configuration")?;
    answer += "\n# In short; the first bucket that fits a login takes it:\n";
    for bucket in &loaded.config.buckets {
        answer += &format!("#   {}\n", bucket.summary());
    }
    answer += &match ebpf::probe() {
        Ok(()) => "# The kernel half would load.\n".to_owned(),
        Err(unavailable) => {
            format!("# The kernel half would not load, and the gate would run without it: {unavailable}\n")
        }
    };
    Ok(answer)
}
