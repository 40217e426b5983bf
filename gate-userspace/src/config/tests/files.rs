//! Files: the configuration itself, and those that it names.

use std::fs;

use super::*;
use crate::config;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/gate.example.toml");

#[test]
fn the_example_configuration_is_right() {
    let Loaded { config, .. } = config::load(Path::new(EXAMPLE), []).unwrap();
    assert!(config.buckets.len() > 1);
}

#[test]
fn a_file_cut_anywhere_is_told_what_is_missing_and_never_brings_the_gate_down() {
    let text = fs::read_to_string(EXAMPLE).unwrap();
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        let _ = load(&text[..end], &[]).map_err(|problems| problems.to_string());
    }
}

#[test]
fn paths_start_at_the_folder_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.toml");
    fs::write(&file, BUCKET.replace("trust = true", "auth_file = 'users.txt'")).unwrap();
    let problems = config::load(&file, []).unwrap_err().to_string();
    assert!(problems.contains("gate.toml:8: bucket \"orders\": clients.auth_file: cannot read"), "{problems}");
    fs::write(folder.path().join("users.txt"), "").unwrap();
    let Loaded { config, .. } = config::load(&file, []).unwrap();
    assert_eq!(config.buckets[0].clients.auth_file, Some(folder.path().join("users.txt")));
}

#[test]
fn a_file_that_is_missing_too_large_or_not_text_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.toml");
    let message = || config::load(&file, []).unwrap_err().to_string();
    assert!(message().ends_with("gate.toml: cannot read it: No such file or directory (os error 2); name the right file with --config or GATE_CONFIG"), "{}", message());
    fs::write(&file, [b'a', 0xff]).unwrap();
    assert!(message().contains("gate.toml: cannot read it: "), "{}", message());
    fs::File::create(&file).unwrap().set_len((16 << 20) + 1).unwrap();
    assert!(message().ends_with("gate.toml: it is larger than 16 MiB, which no configuration is"), "{}", message());
}

#[test]
fn a_password_variable_that_is_not_set_here_is_noted_but_not_a_mistake() {
    let text = format!("{BUCKET}\nbackend = {{ user = 'app', password_env = 'ORDERS_PW' }}");
    let notes = |environment: &[(&str, &str)]| {
        let loaded = loaded(&text, environment);
        loaded.notes.iter().map(Problem::to_string).filter(|note| note.contains("ORDERS_PW")).collect::<Vec<_>>()
    };
    assert_eq!(
        notes(&[]),
        [
            "gate.toml:9: bucket \"orders\": backend.password_env names ORDERS_PW, which is not set here; the gate needs it"
        ]
    );
    assert_eq!(notes(&[("ORDERS_PW", "x")]), [""; 0]);
}
