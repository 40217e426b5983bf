//! `gate check`, as a person or a service manager runs it.

#![allow(clippy::unwrap_used, reason = "a test's helpers are tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const CONFIG: &str = r#"
[listen]
postgres = ["127.0.0.1:6432"]
[[bucket]]
name = "orders"
protocol = "postgres"
endpoints = ["db1:5432"]
clients = { trust = true }
backend = { user = "app", password = "hunter2" }
"#;

fn gate(arguments: &[&str], environment: &[(&str, &str)], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gate"));
    command.args(arguments).env_clear().envs(environment.iter().copied()).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_right_configuration_is_printed_in_full_and_can_be_used_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("gate.toml"), CONFIG).unwrap();
    let environment = [("GATE_BUCKET__ORDERS__MAX_CONNECTIONS", "7")];
    let first = gate(&["check", "--config", "gate.toml"], &environment, folder.path());
    let printed = text(&first.stdout);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(printed.contains("\nmax_connections = 7 # from GATE_BUCKET__ORDERS__MAX_CONNECTIONS\n"), "{printed}");
    assert!(printed.contains("\n#   orders: database *, user * → db1:5432; at most 7 connections"), "{printed}");
    assert!(printed.lines().last().unwrap().starts_with("# The kernel half would "), "{printed}");
    assert!(!printed.contains("hunter2"), "{printed}");

    fs::write(folder.path().join("gate.toml"), printed).unwrap();
    let again = gate(&["check"], &[("GATE_CONFIG", "gate.toml")], folder.path());
    assert_eq!(text(&again.stdout), printed.replace(" # from GATE_BUCKET__ORDERS__MAX_CONNECTIONS", ""));
}

#[test]
fn a_wrong_configuration_fails_with_every_mistake_on_a_line_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("gate.toml"), format!("{CONFIG}\ndispatch_limit = 2\nmax_connections = 0\n")).unwrap();
    let output = gate(&["check", "--config", "gate.toml"], &[], folder.path());
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    let lines: Vec<_> = text(&output.stderr).lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("gate.toml:11: bucket \"orders\": dispatch_limit"), "{lines:?}");
    assert!(lines[1].starts_with("gate.toml:12: bucket \"orders\": max_connections"), "{lines:?}");
}
