//! The Python and Node drivers that tests talk to the gate with, in folders below `target/`.
//!
//! Their versions stand in `tests/clients`. What was installed is kept beside each of them: as long as that says
//! the same, there is nothing to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command;
use crate::install::Installer;
use crate::setup::report;

const PYTHON: &str = "target/clients/python";
const PYTHON_VERSIONS: &str = "tests/clients/requirements.txt";
const NODE: &str = "target/clients/node";
const NODE_PACKAGE: &str = "tests/clients/package.json";
const NODE_VERSIONS: &str = "tests/clients/package-lock.json";

pub(crate) fn install(installer: &mut Installer) -> Result<()> {
    python(installer)?;
    node(installer)
}

fn python(installer: &mut Installer) -> Result<()> {
    if is_installed(PYTHON, PYTHON_VERSIONS) {
        report("Python drivers", PYTHON);
        return Ok(());
    }
    report("Python drivers", format_args!("missing: those of {PYTHON_VERSIONS}"));
    let python = match find_python() {
        Some(python) => python,
        None => {
            installer.packages(&["python3", "python3-venv"])?;
            DEBIAN_PYTHON.into()
        }
    };
    installer.run(Command::new(python).args(["-m", "venv", "--clear", PYTHON]))?;
    let pip = Path::new(PYTHON).join("bin/pip");
    installer.run(Command::new(pip).args(["install", "--quiet", "--requirement", PYTHON_VERSIONS]))?;
    remember(installer, PYTHON, PYTHON_VERSIONS)
}

const DEBIAN_PYTHON: &str = "/usr/bin/python3";

/// One that can make folders of its own for what it installs; Debian's can only with another package.
fn find_python() -> Option<PathBuf> {
    let candidates = command::on_path("python3").into_iter().chain([DEBIAN_PYTHON.into()]);
    let able =
        |python: &PathBuf| command::output(Command::new(python).args(["-c", "import ensurepip, venv"])).is_some();
    candidates.into_iter().find(able)
}

fn node(installer: &mut Installer) -> Result<()> {
    if is_installed(NODE, NODE_VERSIONS) {
        report("Node drivers", NODE);
        return Ok(());
    }
    report("Node drivers", format_args!("missing: those of {NODE_VERSIONS}"));
    installer.run(Command::new("mkdir").args(["-p", NODE]))?;
    installer.run(Command::new("cp").args([NODE_PACKAGE, NODE_VERSIONS, NODE]))?;
    installer.run(Command::new("npm").args(["ci", "--silent", "--no-audit", "--no-fund", "--prefix", NODE]))?;
    remember(installer, NODE, NODE_VERSIONS)
}

/// Whether a folder has what a file of versions asks for.
fn is_installed(folder: &str, versions: &str) -> bool {
    let content = |file: &Path| fs::read(file).ok();
    content(&memory(folder)).is_some_and(|installed| Some(installed) == content(Path::new(versions)))
}

fn remember(installer: &mut Installer, folder: &str, versions: &str) -> Result<()> {
    installer.run(Command::new("cp").arg(versions).arg(memory(folder)))
}

fn memory(folder: &str) -> PathBuf {
    Path::new(folder).join("installed")
}
