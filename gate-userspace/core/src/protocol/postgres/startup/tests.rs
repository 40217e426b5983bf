use proptest::prelude::*;

use super::*;

/// A packet with its length in front, whatever is in it.
fn packet(code: i32, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(8 + body.len()).unwrap();
    [&length.to_be_bytes()[..], &code.to_be_bytes(), body].concat()
}

fn session(minor: i32, body: &[u8]) -> Result<Startup, StartupError> {
    let bytes = packet(0x0003_0000 | minor, body);
    match parse(&bytes)? {
        Some((First::Startup(startup), length)) if length == bytes.len() => Ok(startup),
        other => panic!("{other:?}"),
    }
}

fn setting(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn a_session_is_read_with_its_settings_in_the_servers_order() {
    let body = b"user\0ann\0application_name\0psql\0options\0-c geqo=off -c search_path=a\0database\0shop\0\
                 search_path\0b\0replication\0off\0\0";
    let startup = session(0, body).unwrap();
    assert_eq!((&*startup.user, &*startup.database, startup.minor), ("ann", "shop", 0));
    assert_eq!(
        startup.settings,
        [
            setting("geqo", "off"),
            setting("search_path", "a"),
            setting("application_name", "psql"),
            setting("search_path", "b")
        ]
    );
    assert!(!startup.replication && !startup.takes_long_cancel_keys());
}

#[test]
fn the_database_is_named_as_the_user_if_it_is_not_named() {
    assert_eq!(session(0, b"user\0ann\0\0").unwrap().database, "ann");
    assert_eq!(session(0, b"user\0ann\0database\0\0\0").unwrap().database, "ann");
}

#[test]
fn what_a_client_asks_beyond_our_version_is_negotiated_and_nothing_else() {
    let answer = |minor, body: &[u8]| {
        let mut out = Vec::new();
        session(minor, body).unwrap().negotiate(&mut out);
        out
    };
    assert_eq!(answer(0, b"user\0ann\0\0"), b"");
    assert_eq!(answer(2, b"user\0ann\0\0"), b"");
    assert_eq!(answer(9999, b"user\0ann\0\0"), b"v\0\0\0\x0c\0\x03\0\x02\0\0\0\0");
    assert_eq!(answer(0, b"user\0ann\0_pq_.x\0y\0\0"), b"v\0\0\0\x13\0\x03\0\0\0\0\0\x01_pq_.x\0");
    assert!(session(9999, b"user\0ann\0\0").unwrap().takes_long_cancel_keys());
}

#[test]
fn encryption_and_cancel_requests_are_known_by_their_codes() {
    assert_eq!(parse(&packet(SSL_REQUEST, b"")), Ok(Some((First::Ssl, 8))));
    assert_eq!(parse(&packet(GSS_ENC_REQUEST, b"")), Ok(Some((First::GssEnc, 8))));
    assert_eq!(parse(&packet(SSL_REQUEST, b"x")), Err(StartupError::Layout));
    for length in [4, 32, 256] {
        let secret = vec![7; length];
        let key = CancelKey::new(-5, &secret).unwrap();
        let mut bytes = Vec::new();
        message::cancel_request(&mut bytes, &key);
        let whole = bytes.len();
        bytes.extend(b"behind");
        assert_eq!(parse(&bytes), Ok(Some((First::Cancel(key), whole))));
    }
    for length in [0, 3, 257] {
        let body = [&5_i32.to_be_bytes()[..], &vec![7; length]].concat();
        assert_eq!(parse(&packet(CANCEL_REQUEST, &body)), Err(StartupError::CancelKey));
    }
    assert_eq!(parse(&packet(CANCEL_REQUEST, b"")), Err(StartupError::CancelKey));
}

#[test]
fn a_packet_of_an_impossible_length_is_refused_before_it_is_awaited() {
    for length in [i32::MIN, -1, 0, 4, 7, 10_005, i32::MAX] {
        assert_eq!(parse(&length.to_be_bytes()), Err(StartupError::Length(length)));
    }
    for length in [8, 10_004_i32] {
        assert_eq!(parse(&length.to_be_bytes()), Ok(None));
    }
}

#[test]
fn a_client_of_another_protocol_is_told_so() {
    assert_eq!(parse(&[22, 3, 1, 2, 0, 1, 0]), Err(StartupError::Tls));
    assert_eq!(parse(b"GET / HTTP/1.1\r\n"), Err(StartupError::Http));
    assert_eq!(parse(b"PRI * HTTP/2.0\r\n"), Err(StartupError::Http));
    assert_eq!(parse(&packet(0x0002_0000, b"")), Err(StartupError::Version { major: 2, minor: 0 }));
    assert_eq!(parse(&packet(0x0004_0001, b"")), Err(StartupError::Version { major: 4, minor: 1 }));
}

#[test]
fn a_packet_that_does_not_end_where_it_says_is_refused() {
    for body in [&b""[..], b"user", b"user\0", b"user\0ann", b"user\0ann\0", b"user\0ann\0\0x", b"user\0ann\0\0\0"] {
        assert_eq!(session(0, body), Err(StartupError::Layout), "{body:?}");
    }
}

#[test]
fn a_packet_that_names_nobody_or_nonsense_is_refused() {
    assert_eq!(session(0, b"\0"), Err(StartupError::NoUser));
    assert_eq!(session(0, b"user\0\0\0"), Err(StartupError::NoUser));
    assert_eq!(session(0, b"user\0\xff\0\0"), Err(StartupError::NotUtf8 { parameter: "user".to_owned() }));
    assert_eq!(session(0, b"user\0ann\0replication\0perhaps\0\0"), Err(StartupError::Replication));
    let argument = "-W".to_owned();
    assert_eq!(session(0, b"user\0ann\0options\0-W 5\0\0"), Err(StartupError::Options { argument }));
}

#[test]
fn replication_is_wanted_by_every_spelling_of_yes() {
    for yes in ["database", "1", "t", "TRUE", "y", "on"] {
        assert_eq!(wants_replication(yes), Some(true), "{yes}");
    }
    for no in ["0", "f", "False", "n", "no", "of", "off"] {
        assert_eq!(wants_replication(no), Some(false), "{no}");
    }
    for neither in ["", "o", "2", "yess", "databas"] {
        assert_eq!(wants_replication(neither), None, "{neither}");
    }
}

#[test]
fn every_refusal_is_a_message_that_ends_the_session() {
    for bytes in [&b"GET / HTTP"[..], &[22, 3, 1, 0], &[0xff; 4]] {
        let mut out = Vec::new();
        parse(bytes).unwrap_err().write(&mut out);
        assert!(out.starts_with(b"E") && out.windows(7).any(|part| part == b"VFATAL\0"));
    }
}

proptest! {
    #[test]
    fn a_packet_cut_anywhere_is_awaited_and_then_read(
        user in "[^\0]{1,40}",
        values in proptest::collection::vec(("[a-z]{1,10}x", "[^\0]{0,40}"), 0..10),
        behind in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let given = values.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut bytes = Vec::new();
        message::startup_message(&mut bytes, 0, [("user", &*user)].into_iter().chain(given));
        for cut in 0..bytes.len() {
            prop_assert_eq!(parse(&bytes[..cut]), Ok(None));
        }
        let whole = bytes.len();
        bytes.extend(behind);
        let Ok(Some((First::Startup(startup), length))) = parse(&bytes) else { panic!() };
        prop_assert_eq!((startup.user, startup.settings, length), (user, values, whole));
    }

    #[test]
    fn no_bytes_make_it_panic(length in 0_i32..200, code in any::<i32>(), body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&body);
        for code in [code, 0x0003_0000, 0x0003_0002, CANCEL_REQUEST] {
            let _ = parse(&[&length.to_be_bytes()[..], &code.to_be_bytes(), &body].concat());
        }
    }
}
