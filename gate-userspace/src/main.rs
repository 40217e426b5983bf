//! The `gate` command.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> anyhow::Result<ExitCode> {
    cli::Cli::parse().run()
}
