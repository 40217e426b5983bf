use proptest::prelude::*;

use super::*;
use crate::protocol::postgres::message::{Report, Status};

fn reported() -> Parameters {
    let mut reported = Parameters::new();
    for (name, value) in [("client_encoding", "UTF8"), ("TimeZone", "UTC"), ("application_name", "")] {
        reported.set(name.as_bytes(), value.as_bytes());
    }
    reported
}

fn sql(settings: &[(&str, &str)]) -> Option<String> {
    apply(settings).map(|apply| apply.sql)
}

fn apply(settings: &[(&str, &str)]) -> Option<Apply> {
    let settings: Vec<_> = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    Apply::new(&settings, &reported()).unwrap()
}

fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Frame { tag, body }.write(&mut out);
    out
}

fn ready(status: Status) -> Vec<u8> {
    let mut out = Vec::new();
    message::ready_for_query(&mut out, status);
    out
}

fn report(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    message::parameter_status(&mut out, b"TimeZone", value);
    out
}

fn error() -> Vec<u8> {
    let mut out = Vec::new();
    message::error_response(&mut out, &Report::fatal("22023", "no such time zone"));
    out
}

fn success() -> Vec<u8> {
    let row = [frame(b'T', b"\0\x01"), frame(b'D', b"\0\x01\0\0\0\x01x"), frame(b'C', b"SELECT 1\0")].concat();
    [row, report(b"CET"), ready(Status::Idle)].concat()
}

fn changes() -> Parameters {
    let mut changes = Parameters::new();
    changes.set(b"TimeZone", b"CET");
    changes
}

fn applied(bytes: &[u8]) -> Applied {
    apply(&[("TimeZone", "CET")]).unwrap().handle(bytes)
}

#[test]
fn what_the_server_has_already_costs_no_round_trip() {
    assert!(sql(&[("timezone", "UTC"), ("CLIENT_ENCODING", "'utf-8'"), ("application_name", "")]).is_none());
    assert!(sql(&[]).is_none());
}

#[test]
fn what_is_no_setting_is_left_out() {
    assert!(
        sql(&[("user", "a"), ("database", "b"), ("replication", "0"), ("options", "-c"), ("_pq_.x", "1")]).is_none()
    );
}

#[test]
fn the_last_value_of_a_setting_counts() {
    assert!(sql(&[("TimeZone", "CET"), ("timezone", "UTC")]).is_none());
    assert_eq!(
        sql(&[("TimeZone", "UTC"), ("geqo", "off"), ("timezone", "CET")]).unwrap(),
        "SELECT pg_catalog.set_config(E'geqo', E'off', false), pg_catalog.set_config(E'timezone', E'CET', false)"
    );
}

#[test]
fn quotes_and_backslashes_stay_inside_their_literal() {
    let expected = r"SELECT pg_catalog.set_config(E'search_path', E'\\''; DROP TABLE t; --', false)";
    assert_eq!(sql(&[("search_path", r"\'; DROP TABLE t; --")]).unwrap(), expected);
}

#[test]
fn a_nul_is_refused() {
    for setting in [("a\0b", "c"), ("a", "b\0c")].map(|(name, value)| (name.to_owned(), value.to_owned())) {
        assert_eq!(
            Apply::new(std::slice::from_ref(&setting), &reported()).err(),
            Some(NotASetting { name: setting.0 })
        );
    }
}

#[test]
fn applied_settings_are_told_as_the_server_reported_them() {
    assert_eq!(applied(&success()), Applied::Done { changes: changes() });
    let late = [success(), report(b"Asia/Tokyo")].concat();
    let Applied::Done { changes } = applied(&late) else { panic!() };
    assert_eq!(changes.get("TimeZone"), Some(&b"Asia/Tokyo"[..]), "a report may follow at any time");
}

#[test]
fn the_servers_own_error_reaches_the_client_whole() {
    for before in [vec![], [frame(b'T', b""), frame(b'D', b"")].concat()] {
        let bytes = [before, error(), ready(Status::Idle)].concat();
        assert_eq!(applied(&bytes), Applied::Failed { response: error() });
    }
    assert_eq!(applied(&error()), Applied::NeedMore, "the connection is of use only when it is ready again");
}

#[test]
fn any_other_answer_breaks_the_connection() {
    let wrong = [
        ready(Status::Idle),
        [success(), ready(Status::Idle)].concat(),
        [success(), b"S".to_vec()].concat(),
        [error(), ready(Status::Failed)].concat(),
        [error(), error()].concat(),
        [error(), ready(Status::Idle), error()].concat(),
        frame(b'C', b"SET\0"),
        b"T\0\0\0\0".to_vec(),
        b"T\x7f\0\0\0".to_vec(),
        frame(b'S', b"half"),
    ];
    for bytes in wrong {
        assert!(matches!(applied(&bytes), Applied::Broken(_)), "{bytes:?}");
    }
    let mut apply = apply(&[("TimeZone", "CET")]).unwrap();
    assert!(matches!(apply.handle(&success()), Applied::Done { .. }));
    assert!(matches!(apply.handle(&success()), Applied::Broken(_)), "it is told once");
}

/// Reads an `E''` literal as the server does; returns it and what follows.
fn read_literal(sql: &str) -> (String, &str) {
    let mut literal = String::new();
    let mut rest = sql.strip_prefix("E'").unwrap().chars();
    loop {
        match rest.next().unwrap() {
            '\\' => literal.push(rest.next().unwrap()),
            '\'' if rest.as_str().starts_with('\'') => literal.extend(rest.next()),
            '\'' => return (literal, rest.as_str()),
            char => literal.push(char),
        }
    }
}

proptest! {
    #[test]
    fn a_name_and_a_value_are_read_back_as_they_were_whatever_is_in_them(
        name in r"[a-z'\\]{1,9}x", value in r"([^\x00]|'|\\){0,30}"
    ) {
        let sql = sql(&[(&name, &value)]).unwrap();
        let (read_name, rest) = read_literal(sql.strip_prefix("SELECT pg_catalog.set_config(").unwrap());
        let (read_value, rest) = read_literal(rest.strip_prefix(", ").unwrap());
        prop_assert_eq!((read_name, read_value, rest), (name, value, ", false)"));
    }

    #[test]
    fn the_answer_in_any_pieces_gives_the_same(cut in 0..success().len()) {
        let mut apply = apply(&[("TimeZone", "CET")]).unwrap();
        prop_assert_eq!(apply.handle(&success()[..cut]), Applied::NeedMore);
        prop_assert_eq!(apply.handle(&success()[cut..]), Applied::Done { changes: changes() });
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        applied(&bytes);
        applied(&[&frame(b'T', &bytes)[..], &bytes].concat());
    }
}
