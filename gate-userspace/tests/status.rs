//! `gate status`, as a person runs it who does not know yet what is wrong.

#![allow(clippy::unwrap_used, reason = "a test's helpers are tests")]

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Output};

fn gate_status(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gate"));
    command.arg("status").args(arguments).env_remove("GATE_CONFIG").output().unwrap()
}

#[test]
fn without_a_gate_it_says_where_it_looked_and_what_to_do() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.toml");
    fs::write(&file, format!("listen.admin = '{address}'\nlisten.postgres = ['127.0.0.1:6432']\n{BUCKET}")).unwrap();
    for arguments in [["--admin", &address], ["--config", file.to_str().unwrap()]] {
        let output = gate_status(&arguments);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(complaint.contains(&format!("no gate answers at {address}")), "{complaint}");
        assert!(complaint.contains("is it running") && complaint.contains("--admin"), "{complaint}");
    }
}

#[test]
fn a_port_that_the_kernel_chose_has_to_be_named() {
    let output = gate_status(&["--admin", "127.0.0.1:0"]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("listening admin"), "{complaint}");
}

const BUCKET: &str = "
[[bucket]]
name = 'orders'
protocol = 'postgres'
endpoints = ['db1:5432']
clients.trust = true
";
