//! `build-ebpf`: compiles the kernel half to `target/ebpf/gate-ebpf.o`, where the daemon's build finds it.

use std::env::consts::ARCH;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;
use std::{fs, io};

use anyhow::{Context as _, Result};

use crate::command;
use crate::kernel_tools::BpfToolchain;

/// The kernel runs programs in its own byte order.
const TARGET: &str = if cfg!(target_endian = "big") { "bpfeb-unknown-none" } else { "bpfel-unknown-none" };
/// A directory of its own, since another cargo and another compiler work in it.
const BUILD: &str = "target/ebpf-build";
const OBJECT: &str = "target/ebpf/gate-ebpf.o";
const SOURCES: &str = "gate-ebpf";

pub(crate) fn run() -> Result<()> {
    command::run(&mut cargo("build")?)?;
    publish(&Path::new(BUILD).join(TARGET).join("release/gate-ebpf"))
}

/// A cargo command for the kernel half's package.
pub(crate) fn cargo(subcommand: &str) -> Result<Command> {
    let toolchain = BpfToolchain::find()
        .context("no Rust tool chain here can build the kernel half; get one: `cargo xtask setup`")?;
    let linker = toolchain.find_linker()?.with_context(|| {
        let BpfToolchain { name, llvm_major } = &toolchain;
        format!("no bpf-linker here reads the output of {name} (LLVM {llvm_major}); get one: `cargo xtask setup`")
    })?;

    // The type information (BTF) that maps and the verifier's messages need is made of debug information.
    let flags = format!("--cfg=bpf_target_arch=\"{ARCH}\" -Cdebuginfo=2 -Clink-arg=--btf");
    let linker_variable = format!("CARGO_TARGET_{}_LINKER", TARGET.to_uppercase().replace('-', "_"));
    let mut cargo = toolchain.command("cargo");
    cargo
        .args([subcommand, "--package=gate-ebpf", "--release", "--target", TARGET])
        .args(["-Zbuild-std=core", "--target-dir", BUILD])
        .env("RUSTFLAGS", flags)
        .env(linker_variable, linker)
        .env("RUSTC_BOOTSTRAP", "1");
    Ok(cargo)
}

/// Puts the object where it is looked for, and leaves one that is up to date alone: its time is what
/// makes cargo build the daemon anew.
fn publish(built: &Path) -> Result<()> {
    let content = fs::read(built).with_context(|| format!("cannot read {}", built.display()))?;
    let same = fs::read(OBJECT).is_ok_and(|published| published == content);
    if same && fs::metadata(OBJECT)?.modified()? >= newest(Path::new(SOURCES))? {
        println!("{OBJECT} is up to date");
        return Ok(());
    }
    fs::create_dir_all("target/ebpf")?;
    fs::write(OBJECT, content).with_context(|| format!("cannot write {OBJECT}"))?;
    println!("{OBJECT} is new");
    Ok(())
}

/// When the newest file of a directory and of those below it was changed; the daemon's `build.rs` asks
/// the same question.
fn newest(directory: &Path) -> io::Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let changed = match entry.file_type()?.is_dir() {
            true => self::newest(&entry.path())?,
            false => entry.metadata()?.modified()?,
        };
        newest = newest.max(changed);
    }
    Ok(newest)
}
