//! The tools that compile the kernel half: a Rust tool chain that can build `core` for the eBPF target,
//! and the linker that turns its output into an object that the kernel loads.
//!
//! No tool chain comes with `core` for this target, so it is compiled along with the programs: the
//! library's sources must be there (`rust-src`), and unstable flags must be allowed, which
//! `RUSTC_BOOTSTRAP` does for any compiler.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command;

/// The name under which Debian's compiler is linked into rustup.
pub(crate) const LINKED_TOOLCHAIN: &str = "gate-bpf";

/// A tool chain of rustup's that has its library's sources.
#[derive(Debug)]
pub(crate) struct BpfToolchain {
    pub(crate) name: String,
    /// The linker must be built with this version of LLVM or a newer one, to read what rustc writes.
    pub(crate) llvm_major: u32,
}

impl BpfToolchain {
    /// A nightly that is complete, or else the linked one.
    pub(crate) fn find() -> Option<Self> {
        let list = command::output(Command::new("rustup").args(["toolchain", "list"]))?;
        let names = || list.lines().filter_map(|line| line.split_whitespace().next());
        let nightlies = names().filter(|name| name.starts_with("nightly"));
        let linked = names().filter(|name| *name == LINKED_TOOLCHAIN);
        nightlies.chain(linked).find_map(Self::usable)
    }

    /// A tool chain that is listed may be gone or incomplete, so it is asked.
    fn usable(name: &str) -> Option<Self> {
        let rustc = |arguments: &[&str]| command::output(in_toolchain(name, "rustc").args(arguments));
        let version = rustc(&["-vV"])?;
        let llvm = version.lines().find_map(|line| line.strip_prefix("LLVM version: "))?;
        let llvm_major = llvm.split('.').next()?.parse().ok()?;
        let sysroot = rustc(&["--print", "sysroot"])?;
        let sources = Path::new(&sysroot).join("lib/rustlib/src/rust/library/core");
        sources.is_dir().then(|| Self { name: name.to_owned(), llvm_major })
    }

    /// A command of this tool chain.
    pub(crate) fn command(&self, program: &str) -> Command {
        in_toolchain(&self.name, program)
    }

    /// A bpf-linker that can read what this tool chain writes.
    pub(crate) fn find_linker(&self) -> Result<Option<PathBuf>> {
        let installed = cargo_home().map(|home| home.join("bin/bpf-linker"));
        for linker in command::on_path("bpf-linker").into_iter().chain(installed) {
            if self.can_use(&linker)? {
                return Ok(Some(linker));
            }
        }
        Ok(None)
    }

    /// A linker does not say which LLVM it has, so it is given something to link.
    fn can_use(&self, linker: &Path) -> Result<bool> {
        /// Has the kinds of arguments that rustc describes to LLVM by its newest attributes.
        const SOURCE: &str = "#![no_std]\n\
            pub fn probe(a: &[u8], b: &mut u64, c: [u64; 9]) -> Option<u8> { *b += c[1]; a.first().copied() }\n";
        let directory = Path::new("target/ebpf-build/linker-probe");
        let [source, bitcode, object] = ["probe.rs", "probe.bc", "probe.o"].map(|f| directory.join(f));
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(&source, SOURCE))
            .with_context(|| format!("cannot write {}", source.display()))?;

        let mut compile = self.command("rustc");
        compile.args(["--edition=2024", "--crate-type=lib", "--emit=llvm-bc", "-O", "-g", "-o"]);
        let mut link = Command::new(linker);
        link.args(["--target=bpfel-unknown-none", "-o"]).arg(object).arg(&bitcode);
        let compiled = command::output(compile.arg(&bitcode).arg(&source)).is_some();
        Ok(compiled && command::output(&mut link).is_some())
    }
}

fn in_toolchain(name: &str, program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", name, program]);
    // Set by whoever runs this task, these lead to another compiler, or to other libraries or flags.
    for variable in
        ["CARGO", "CARGO_ENCODED_RUSTFLAGS", "LD_LIBRARY_PATH", "RUSTC", "RUSTC_WORKSPACE_WRAPPER", "RUSTUP_TOOLCHAIN"]
    {
        command.env_remove(variable);
    }
    command
}

fn cargo_home() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}
