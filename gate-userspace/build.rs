//! Finds the compiled kernel half for `src/ebpf` to embed, and refuses one that is older than its sources.
//!
//! The kernel half is compiled by another tool chain, so it is built by a command of its own. Embedding
//! a stale object would go unnoticed until the two halves disagree about a map.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs, io};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_EBPF").is_none() {
        return;
    }
    match kernel_half(Path::new("..")) {
        Ok(object) => println!("cargo::rustc-env=GATE_EBPF_OBJECT={}", object.display()),
        Err(problem) => println!(
            "cargo::error={problem}; build it with `cargo xtask build-ebpf`, or build the gate without it: `--no-default-features`"
        ),
    }
}

const OBJECT: &str = "target/ebpf/gate-ebpf.o";

fn kernel_half(workspace: &Path) -> Result<PathBuf, String> {
    let object = workspace.join(OBJECT);
    let sources = workspace.join("gate-ebpf");
    for path in [&object, &sources] {
        println!("cargo::rerun-if-changed={}", path.display());
    }

    let built = fs::metadata(&object).and_then(|object| object.modified());
    let built = built.map_err(|error| format!("there is no kernel half, {OBJECT} ({error})"))?;
    let changed = newest(&sources).map_err(|error| format!("cannot read {}: {error}", sources.display()))?;
    if built < changed {
        return Err(format!("the kernel half, {OBJECT}, is older than its sources"));
    }
    object.canonicalize().map_err(|error| error.to_string())
}

/// When the newest file of a directory and of those below it was changed.
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
