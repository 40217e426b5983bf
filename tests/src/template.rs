//! The data of a new PostgreSQL: made once, kept in cargo's build folder, copied for each test.
//!
//! Making it takes a second, copying it a tenth of that.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context as _, Result, ensure};

use crate::postgres::{own, unprivileged};
use crate::{program, unique_name};

/// The database, its owner and that user's password, for most tests.
pub const DATABASE: &str = "app";
/// See [`DATABASE`].
pub const USER: &str = "app";
/// See [`DATABASE`].
pub const PASSWORD: &str = "app-Pa55word";
/// The password of the users whose names say how they prove it to the server.
pub const OTHER_PASSWORD: &str = "0ther-Pa55word";

/// One statement a line, as PostgreSQL's single-user mode wants it.
const STATEMENTS: &str = "\
CREATE ROLE app LOGIN PASSWORD 'app-Pa55word'
CREATE ROLE helper
GRANT helper TO app
CREATE ROLE by_scram LOGIN PASSWORD '0ther-Pa55word'
CREATE ROLE by_plain_text LOGIN PASSWORD '0ther-Pa55word'
CREATE ROLE by_trust LOGIN
SET password_encryption = 'md5'
CREATE ROLE by_md5 LOGIN PASSWORD '0ther-Pa55word'
CREATE DATABASE app OWNER app
";

/// The superuser needs no password, since it only ever comes from the test itself.
const LOGINS: &str = "\
host all postgres      127.0.0.1/32 trust
host all by_trust      127.0.0.1/32 trust
host all by_md5        127.0.0.1/32 md5
host all by_plain_text 127.0.0.1/32 password
host all all           127.0.0.1/32 scram-sha-256
";

/// Makes a data directory.
pub(crate) fn copy_to(data: &Path) -> Result<()> {
    let template = template()?;
    program::run(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(template).arg(data))?;
    Ok(())
}

fn template() -> Result<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let program = program::of_postgresql("postgres")?;
    let mut content = DefaultHasher::new();
    (&program, STATEMENTS, LOGINS).hash(&mut content);
    let folder = program::build_directory()?;
    let template = folder.join(format!("postgres-template-{:016x}", content.finish()));
    if !template.exists() {
        let new = folder.join(unique_name());
        make(&new)?;
        // Another process may have been quicker, and its template is as good.
        if fs::rename(&new, &template).is_err() {
            fs::remove_dir_all(&new)?;
        }
    }
    Ok(template)
}

/// It is made in a temporary folder, because the user that makes it may not enter cargo's.
fn make(target: &Path) -> Result<()> {
    let directory = tempfile::Builder::new().prefix("gate-test-").tempdir()?;
    own(&directory)?;
    let data = directory.path().join("data");
    let locale = ["--encoding=UTF8", "--locale=C", "--username=postgres", "--auth=trust"];
    let size = ["--no-sync", "--wal-segsize=1"];
    program::run(unprivileged("initdb")?.arg("-D").arg(&data).args(locale).args(size))?;
    fs::write(data.join("pg_hba.conf"), LOGINS)?;

    let mut single = unprivileged("postgres")?;
    single.args(["--single", "-c", "fsync=off", "-D"]).arg(&data).arg("postgres");
    let mut single = single.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    single.stdin.take().context("no standard input")?.write_all(STATEMENTS.as_bytes())?;
    let output = single.wait_with_output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && !complaint.contains("ERROR"), "PostgreSQL's template: {complaint}");

    program::run(Command::new("cp").arg("--archive").arg(data).arg(target))?;
    Ok(())
}
