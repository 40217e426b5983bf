//! Who proves what to whom: whether mode, auth, clients and backend fit together.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use gate_core::route::Protocol;

use super::super::{Auth, Mode, Password};
use super::Checked;

pub(super) fn validate(checked: &mut Checked<'_, '_>, environment: &BTreeMap<String, String>) {
    let bucket = checked.bucket;
    if (bucket.mode == Mode::Passthrough) != (bucket.auth == Auth::Passthrough) {
        checked.problem(
            &["mode", "auth"],
            "mode and auth must both be \"passthrough\" or neither: what is passed through untouched can be neither \
             pooled nor verified; change one of them",
        );
    } else if bucket.auth == Auth::Learn && bucket.protocol == Protocol::Postgres {
        checked.problem(
            &["auth"],
            "auth = \"learn\" is for TDS, because a Postgres client does not show its password; say auth = \"gate\" \
             with clients and backend, or auth = \"passthrough\"",
        );
    } else if bucket.auth == Auth::Gate {
        clients(checked);
        backend(checked, environment);
    } else {
        unused(checked);
    }
}

/// How the gate verifies its clients.
fn clients(checked: &mut Checked<'_, '_>) {
    let clients = &checked.bucket.clients;
    match &clients.auth_file {
        None if !clients.trust => {
            let learn = if checked.bucket.protocol == Protocol::Tds { ", or say auth = \"learn\"" } else { "" };
            checked.problem(
                &["clients.auth_file", "auth"],
                format!(
                    "auth = \"gate\" needs to know its clients; add clients = {{ auth_file = \"users.txt\" }}, or \
                     clients = {{ trust = true }} to let everybody in{learn}"
                ),
            );
        }
        Some(_) if clients.trust => checked.problem(
            &["clients.trust", "clients.auth_file"],
            "clients.trust lets everybody in without a look at clients.auth_file; remove one of them",
        ),
        Some(file) => readable(checked, "clients.auth_file", file),
        None => checked.note(&["clients.trust"], "clients.trust lets in everybody who can reach the listener"),
    }
}

/// How the gate logs in.
fn backend(checked: &mut Checked<'_, '_>, environment: &BTreeMap<String, String>) {
    let bucket = checked.bucket;
    match (&bucket.backend.user, &bucket.backend.password) {
        (None, Some(_)) => checked.problem(
            &["backend.password", "backend.password_env", "backend.password_file"],
            "backend has a password but no user; add backend.user, or remove the password to log in as each client \
             with its own",
        ),
        (user, None) if user.is_some() || bucket.clients.trust => no_password(checked, user.as_deref()),
        (_, Some(Password::Variable(name))) if environment.get(name).is_none_or(String::is_empty) => checked.note(
            &["backend.password_env"],
            format!("backend.password_env names {name}, which is not set here; the gate needs it"),
        ),
        (_, Some(Password::File(file))) => readable(checked, "backend.password_file", file),
        _ => {}
    }
}

/// The gate has to log in, and nobody told it a password.
fn no_password(checked: &mut Checked<'_, '_>, user: Option<&str>) {
    let keys = ["backend.user", "backend"];
    let user = user.map_or_else(|| "the client's user".to_owned(), |user| format!("user {user:?}"));
    if checked.bucket.protocol == Protocol::Tds {
        checked.problem(
            &keys,
            format!(
                "backend has no password for {user}, and SQL Server asks for one; add backend.user with \
                 password_env, password_file or password"
            ),
        );
    } else {
        checked.note(&keys, format!("backend has no password, so the server must let {user} in without one"));
    }
}

/// Settings of a login that the gate leaves to its clients.
fn unused(checked: &mut Checked<'_, '_>) {
    let (clients, backend) = (&checked.bucket.clients, &checked.bucket.backend);
    let auth = if checked.bucket.auth == Auth::Learn { "learn" } else { "passthrough" };
    if clients.auth_file.is_some() || clients.trust {
        checked.problem(
            &["clients"],
            format!(
                "clients has no meaning with auth = {auth:?}, where the server verifies everybody; remove it, or say \
                 auth = \"gate\""
            ),
        );
    }
    if backend.user.is_some() || backend.password.is_some() || backend.database.is_some() {
        checked.problem(
            &["backend"],
            format!(
                "backend has no meaning with auth = {auth:?}, where clients log in themselves; remove it, or say \
                 auth = \"gate\""
            ),
        );
    }
}

fn readable(checked: &mut Checked<'_, '_>, key: &str, file: &Path) {
    let opened = match fs::metadata(file) {
        // Opening would succeed, and reading fail.
        Ok(metadata) if metadata.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(_) => File::open(file).map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = opened {
        let text = format!(
            "{key}: cannot read {}: {error}; create the file, or correct the path, which starts at the folder of the \
             configuration",
            file.display()
        );
        checked.problem(&[key], text);
    }
}
