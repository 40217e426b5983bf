//! `check`: what a reviewer should not have to look for: format, lints, documentation.
//!
//! Both halves are linted, the kernel half by the tool chain and for the target that it is built with:
//! only there its code is what the kernel runs. The daemon is linted with and without its kernel half.

use anyhow::Result;

use crate::build_ebpf;
use crate::command::{self, cargo};

const AS_ERRORS: [&str; 3] = ["--", "-D", "warnings"];

pub(crate) fn run() -> Result<()> {
    command::run(&mut cargo(["fmt", "--all", "--check"]))?;
    command::run(cargo(["clippy", "--locked", "--all-targets"]).args(AS_ERRORS))?;
    let daemon = ["clippy", "--locked", "--package=gate-userspace", "--no-default-features", "--all-targets"];
    command::run(cargo(daemon).args(AS_ERRORS))?;
    command::run(build_ebpf::cargo("clippy")?.args(AS_ERRORS))?;
    command::run(cargo(["doc", "--locked", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    command::run(build_ebpf::cargo("doc")?.arg("--no-deps").env("RUSTDOCFLAGS", "-D warnings"))
}
