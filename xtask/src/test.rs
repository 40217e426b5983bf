//! `test`: everything that a change has to pass, on a machine that may be fresh.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::command::{self, cargo};
use crate::{build_ebpf, check, setup};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut stages = Stages::default();
    stages.run("setup", setup::run)?;
    stages.run("kernel half", build_ebpf::run)?;
    // End-to-end tests run the daemon itself, which cargo does not build for tests of another package alone.
    stages.run("daemon", || command::run(&mut cargo(["build", "--locked"])))?;
    stages.run("tests", || command::run(cargo(["test", "--locked"]).args(arguments)))?;
    stages.run("tests without the kernel half", || {
        let daemon = ["test", "--locked", "--package=gate-userspace", "--no-default-features", "--lib"];
        command::run(cargo(daemon).arg("ebpf::"))
    })?;
    stages.run("check", check::run)?;
    stages.summarise();
    Ok(())
}

/// What has been done so far, and how long it took.
#[derive(Default)]
struct Stages(Vec<(&'static str, Duration)>);

impl Stages {
    fn run(&mut self, name: &'static str, stage: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n=== {name}");
        let start = Instant::now();
        stage().with_context(|| format!("stage `{name}` failed"))?;
        self.0.push((name, start.elapsed()));
        Ok(())
    }

    fn summarise(&self) {
        println!("\n=== all passed");
        for (name, time) in &self.0 {
            println!("{:>7.1} s  {name}", time.as_secs_f32());
        }
        let total: Duration = self.0.iter().map(|(_, time)| *time).sum();
        println!("{:>7.1} s  in all", total.as_secs_f32());
    }
}
