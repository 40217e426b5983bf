//! `demo`: the gate at work, in front of a database of its own.

use std::os::unix::process::CommandExt as _;

use anyhow::{Context as _, Result};

use crate::command::{self, cargo};
use crate::{build_ebpf, setup};

pub(crate) fn run(keep: bool) -> Result<()> {
    setup::run()?;
    build_ebpf::run()?;
    let programs = ["--release", "--package=gate-userspace", "--package=gate-tests", "--bin=gate", "--bin=demo"];
    command::run(cargo(["build", "--locked"]).args(programs))?;
    let mut demo = cargo(["run", "--locked", "--quiet"]);
    demo.args(["--release", "--package=gate-tests", "--bin=demo", "--"]).args(keep.then_some("--keep"));
    // It takes the place of this process: Ctrl-C is its own business, and the shell waits until it has cleaned up.
    Err(demo.exec()).context("cannot run the demo")
}
