//! The project's own tasks, run as `cargo xtask TASK`.
//!
//! Each task has a file of its own, named after it. They change nothing outside of `target/`, except
//! for `setup`, which installs what is missing and says so.

mod build_ebpf;
mod check;
mod command;
mod demo;
mod drivers;
mod install;
mod kernel_tools;
mod setup;
mod test;

use std::env;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;

fn main() -> ExitCode {
    match run(Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    env::set_current_dir(workspace).with_context(|| format!("cannot enter {workspace}"))?;
    match task {
        Task::Setup => setup::run(),
        Task::BuildEbpf => build_ebpf::run(),
        Task::Demo { keep } => demo::run(keep),
        Task::Test { arguments } => test::run(&arguments),
        Task::Check => build_ebpf::run().and_then(|()| check::run()),
    }
}

/// The project's own tasks.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
enum Task {
    /// Finds or installs all that building and testing needs
    Setup,
    /// Builds the kernel half, which the daemon embeds
    BuildEbpf,
    /// Shows the gate at work, in front of a PostgreSQL of its own
    Demo {
        /// Goes on until Ctrl-C, for you to connect and to look
        #[arg(long)]
        keep: bool,
    },
    /// Sets up, builds both halves, runs all tests, and checks
    Test {
        /// Passed on to `cargo test`: `cargo xtask test -- -p gate-core NAME`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Checks format, lints and documentation of both halves
    Check,
}
