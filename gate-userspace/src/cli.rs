//! What can be asked of the `gate` command, and how it answers.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use gate::config::{self, Loaded, Problems};
use gate::ebpf;

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
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Check { config } => check(&config),
        }
    }
}

fn check(file: &Path) -> anyhow::Result<ExitCode> {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let environment = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
    match config::load(file, environment) {
        Ok(loaded) => {
            for note in &loaded.notes {
                eprintln!("note: {note}");
            }
            let answer = answer(file, &loaded)?;
            io::stdout().write_all(answer.as_bytes()).context("cannot print the configuration")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(Problems(problems)) => {
            for problem in &problems {
                eprintln!("{problem}");
            }
            Ok(ExitCode::FAILURE)
        }
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
