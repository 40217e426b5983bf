//! `setup`: finds what building and testing needs, and installs what is missing.
//!
//! Looking takes a second and changes nothing. What is there already is used, wherever it came from:
//! a developer's nightly with `rust-src`, or a bpf-linker of any origin that works.

use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::command::{self, cargo};
use crate::drivers;
use crate::install::Installer;
use crate::kernel_tools::{BpfToolchain, LINKED_TOOLCHAIN};

pub(crate) fn run() -> Result<()> {
    let mut installer = Installer::new();
    test_programs(&mut installer)?;
    drivers::install(&mut installer)?;
    let toolchain = bpf_toolchain(&mut installer)?;
    bpf_linker(&mut installer, toolchain.as_ref())?;
    lints(&mut installer, toolchain.as_ref())?;
    installer.finish()
}

/// A program that tests run.
struct Program {
    name: &'static str,
    package: &'static str,
    /// What the package starts of its own accord.
    service: Option<&'static str>,
}

const TEST_PROGRAMS: [Program; 5] = [
    Program { name: "initdb", package: "postgresql", service: Some("postgresql") },
    Program { name: "redis-server", package: "redis-server", service: Some("redis-server") },
    Program { name: "ip", package: "iproute2", service: None },
    Program { name: "node", package: "nodejs", service: None },
    Program { name: "npm", package: "npm", service: None },
];

fn test_programs(installer: &mut Installer) -> Result<()> {
    let mut missing = Vec::new();
    for program in &TEST_PROGRAMS {
        match find_program(program.name) {
            Some(path) => report(program.name, path.display()),
            None => {
                report(program.name, format_args!("missing: package {}", program.package));
                missing.push(program);
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    installer.packages(&missing.iter().map(|program| program.package).collect::<Vec<_>>())?;
    missing.iter().filter_map(|program| program.service).try_for_each(|service| installer.disable(service))
}

/// Debian keeps the programs of each PostgreSQL version apart, and some others off a user's `PATH`.
fn find_program(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let directories = versions.map(|version| version.path().join("bin")).chain(["/usr/sbin".into()]);
    command::on_path(name).or_else(|| directories.map(|directory| directory.join(name)).find(|file| file.is_file()))
}

/// Debian's newest compiler, which comes with its library's sources and has its LLVM in Debian too.
const DEBIAN_TOOLCHAIN: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", DEBIAN_CLIPPY];
const DEBIAN_CLIPPY: &str = "rust-web-clippy";

/// Nothing, if it could not be installed.
fn bpf_toolchain(installer: &mut Installer) -> Result<Option<BpfToolchain>> {
    if let Some(toolchain) = BpfToolchain::find() {
        report("eBPF tool chain", format_args!("{} (LLVM {})", toolchain.name, toolchain.llvm_major));
        return Ok(Some(toolchain));
    }
    report("eBPF tool chain", "missing: Debian's Rust compiler and its sources");
    installer.packages(&DEBIAN_TOOLCHAIN).context(
        "where Debian's packages are not to be had, take a nightly: \
         `rustup toolchain install nightly --component rust-src --component clippy`",
    )?;
    installer.run(Command::new("rustup").args(["toolchain", "link", LINKED_TOOLCHAIN, "/usr"]))?;
    if installer.is_blocked() {
        return Ok(None);
    }
    let toolchain = BpfToolchain::find();
    Ok(Some(toolchain.context("the tool chain that was installed cannot be used: see `rustup toolchain list`")?))
}

/// A release that can be built with any LLVM that a current compiler has.
const BPF_LINKER: [&str; 3] = ["bpf-linker", "--version", "0.13.0"];

fn bpf_linker(installer: &mut Installer, toolchain: Option<&BpfToolchain>) -> Result<()> {
    let llvm = match toolchain {
        Some(toolchain) => {
            if let Some(linker) = toolchain.find_linker()? {
                report("bpf-linker", linker.display());
                return Ok(());
            }
            toolchain.llvm_major.to_string()
        }
        None => {
            installer.collect(&format!(
                r"N=$(rustup run {LINKED_TOOLCHAIN} rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')"
            ));
            "$N".to_owned()
        }
    };
    report("bpf-linker", format_args!("missing: to be built with LLVM {llvm}"));
    let [headers, polly] = [format!("llvm-{llvm}-dev"), format!("libpolly-{llvm}-dev")];
    installer.packages(&["g++", &headers, &polly, "libzstd-dev", "zlib1g-dev"]).with_context(|| {
        format!("where these packages are not to be had, install a bpf-linker that was built with LLVM {llvm}")
    })?;
    // Without the prefix another version of LLVM could be found first, and the release's debug information would take
    // half of the build's time. A linker that is there but does not work is replaced.
    installer.run(
        cargo(["install", "--force", "--locked"])
            .args(BPF_LINKER)
            .args(["--no-default-features", "--features", &format!("llvm-{llvm}")])
            .env("LLVM_PREFIX", format!("/usr/lib/llvm-{llvm}"))
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    )?;
    if let (Some(toolchain), false) = (toolchain, installer.is_blocked()) {
        ensure!(toolchain.find_linker()?.is_some(), "the bpf-linker that was installed does not work");
    }
    Ok(())
}

/// The formatter and the lints are parts of a tool chain that rustup's smallest profile leaves out.
fn lints(installer: &mut Installer, toolchain: Option<&BpfToolchain>) -> Result<()> {
    for (name, subcommand) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        match command::output(&mut cargo([subcommand, "--version"])) {
            Some(version) => report(name, version),
            None => {
                report(name, "missing: a component of the tool chain");
                installer.run(Command::new("rustup").args(["component", "add", name]))?;
            }
        }
    }
    let Some(toolchain) = toolchain else { return Ok(()) };
    let name = toolchain.name.as_str();
    match command::output(toolchain.command("cargo").args(["clippy", "--version"])) {
        Some(version) => report("eBPF clippy", version),
        None if name == LINKED_TOOLCHAIN => {
            report("eBPF clippy", format_args!("missing: package {DEBIAN_CLIPPY}"));
            installer.packages(&[DEBIAN_CLIPPY])?;
        }
        None => {
            report("eBPF clippy", format_args!("missing: a component of {name}"));
            let add = ["component", "add", "--toolchain", name, "clippy"];
            installer.run(Command::new("rustup").args(add))?;
        }
    }
    Ok(())
}

/// One line of what was found.
pub(crate) fn report(what: &str, state: impl Display) {
    println!("{what:<16} {state}");
}
