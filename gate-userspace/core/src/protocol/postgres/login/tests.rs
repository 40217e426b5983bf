use proptest::prelude::*;
use secrecy::SecretString;

use super::*;
use crate::protocol::postgres::authenticate::{Authentication, Method, Step};
use crate::protocol::postgres::frame::Frame;
use crate::protocol::postgres::message::{Report, Severity, Status};
use crate::protocol::postgres::users::Users;

const RANDOM_BYTES: [u8; RANDOM] = *b"eighteen random by";

fn password(text: &str) -> Credential {
    Credential::password(SecretString::from(text))
}

fn begun(credential: Credential) -> Login {
    Login::new("ann", "shop", credential, RANDOM_BYTES)
}

/// Hands over every message in `bytes`; returns the last event.
fn hear(login: &mut Login, bytes: &[u8], out: &mut Vec<u8>) -> Event {
    let (mut at, mut event) = (0, Event::NeedMore);
    while let Some(frame) = Frame::next(&bytes[at..], LONGEST).unwrap() {
        event = login.handle(frame.tag, frame.body, out);
        at += frame.consumed();
    }
    event
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// What a server says after it has accepted a login.
fn welcome() -> Vec<u8> {
    written(|out| {
        message::parameter_status(out, b"TimeZone", b"UTC");
        message::parameter_status(out, b"server_version", b"18.1");
        message::backend_key_data(out, &CancelKey::new(42, &[7; 32]).unwrap());
        let severity = Severity::Warning;
        message::notice_response(out, &Report { severity, ..Report::fatal("01000", "the collation is old") });
        message::ready_for_query(out, Status::Idle);
    })
}

fn accepted() -> Vec<u8> {
    [written(message::authentication_ok), welcome()].concat()
}

fn failed(credential: Credential, bytes: &[u8]) -> LoginError {
    match hear(&mut begun(credential), bytes, &mut Vec::new()) {
        Event::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

/// A whole login at the gate's own server side.
fn at_server(secret: &str, method: Option<Method>, credential: Credential) -> Event {
    let users = Users::parse(&format!("\"ann\" \"{secret}\""), [7; 32]).unwrap();
    let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
    let random = *b"twenty-four random bytes";
    let mut server = match method {
        None => Authentication::begin(&users, "ann", random, &mut to_client),
        Some(method) => Authentication::begin_with(method, &users, "ann", random, &mut to_client),
    };
    let mut login = begun(credential);
    loop {
        match hear(&mut login, &std::mem::take(&mut to_client), &mut to_server) {
            Event::Send => {}
            Event::NeedMore => return hear(&mut login, &welcome(), &mut to_server),
            over => return over,
        }
        let frame = Frame::next(&to_server, LONGEST).unwrap().unwrap();
        if let Step::Refused(refused) = server.handle(frame.tag, frame.body, &mut to_client) {
            refused.write("ann", &mut to_client);
        }
        to_server.clear();
    }
}

fn session(event: Event) -> Session {
    match event {
        Event::Ready(session) => session,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_message_names_user_and_database() {
    let expected = b"\0\0\0\x20\0\x03\0\0user\0ann\0database\0shop\0\0";
    assert_eq!(written(|out| begun(Credential::None).first(out)), expected);
}

#[test]
fn a_session_knows_what_the_server_reported_and_how_to_cancel() {
    let mut login = begun(Credential::None);
    let session = session(hear(&mut login, &accepted(), &mut Vec::new()));
    assert_eq!(session.parameters.get("timezone"), Some(&b"UTC"[..]));
    assert_eq!(session.cancel_key, CancelKey::new(42, &[7; 32]));
    assert!(session.scram_keys.is_none());
    assert!(matches!(login.handle(b'Z', b"I", &mut Vec::new()), Event::Failed(_)), "it is over");
}

#[test]
fn every_method_is_answered_with_a_password() {
    for method in [Method::Cleartext, Method::Md5, Method::Scram] {
        session(at_server("secret", Some(method), password("secret")));
        let Event::Failed(LoginError::Refused(error)) = at_server("secret", Some(method), password("wrong")) else {
            panic!()
        };
        assert_eq!((&*error.sqlstate, &*error.severity, error.fault()), ("28P01", "FATAL", Fault::Login));
    }
}

#[test]
fn what_a_client_showed_logs_in_to_a_server_that_keeps_the_same_secret() {
    let md5 = postgres_protocol::password::md5(b"secret", "ann");
    let scram = postgres_protocol::password::scram_sha_256(b"secret");
    session(at_server(&md5, None, Credential::Md5(md5.clone().into())));
    let keys = session(at_server(&scram, None, password("secret"))).scram_keys.unwrap();
    session(at_server(&scram, None, Credential::Scram(keys.clone())));
    let elsewhere = at_server("secret", None, Credential::Scram(keys.clone()));
    assert!(matches!(elsewhere, Event::Failed(LoginError::Unsupported(_))), "another salt");

    let mut credential = password("not looked at, since the keys fit");
    credential.remember(keys);
    session(at_server(&scram, None, credential));
}

#[test]
fn what_the_gate_does_not_have_it_says() {
    let scram = || postgres_protocol::password::scram_sha_256(b"secret");
    let md5 = || Credential::Md5("md5".into());
    for (method, credential) in [
        (Method::Cleartext, Credential::None),
        (Method::Cleartext, md5()),
        (Method::Md5, Credential::None),
        (Method::Scram, Credential::None),
        (Method::Scram, md5()),
    ] {
        let event = at_server(&scram(), Some(method), credential);
        let Event::Failed(error @ LoginError::Unsupported(_)) = event else { panic!("{event:?}") };
        assert_eq!(error.fault(), Fault::Login);
    }
    let kerberos = failed(password("secret"), b"R\0\0\0\x08\0\0\0\x07");
    assert!(matches!(kerberos, LoginError::Unsupported(_)));
    let plus = written(|out| message::authentication_sasl(out, &["SCRAM-SHA-256-PLUS"]));
    assert!(matches!(failed(password("secret"), &plus), LoginError::Unsupported(_)));
}

#[test]
fn a_server_that_skips_its_proof_is_an_impostor() {
    let sasl = written(|out| message::authentication_sasl(out, &["SCRAM-SHA-256-PLUS", MECHANISM]));
    let skipped = [sasl.clone(), written(message::authentication_ok)].concat();
    assert_eq!(failed(password("secret"), &skipped), LoginError::Impostor);

    let (mut login, mut out) = (begun(password("secret")), Vec::new());
    assert!(matches!(hear(&mut login, &sasl, &mut out), Event::Send));
    let nonce = String::from_utf8_lossy(&out).rsplit_once("r=").unwrap().1.to_owned();
    let first = format!("r={nonce}x,s=YSBzYWx0,i=10");
    let words = written(|out| message::authentication_sasl_continue(out, first.as_bytes()));
    assert!(matches!(hear(&mut login, &words, &mut out), Event::Send));
    let forged = written(|out| message::authentication_sasl_final(out, b"v=AAAA"));
    assert!(matches!(hear(&mut login, &forged, &mut out), Event::Failed(LoginError::Impostor)));
}

#[test]
fn an_older_servers_word_on_the_version_is_heard() {
    let negotiated = written(|out| message::negotiate_protocol_version::<&str>(out, 0, &[]));
    session(hear(&mut begun(Credential::None), &[negotiated, accepted()].concat(), &mut Vec::new()));
}

#[test]
fn a_server_in_trouble_is_told_from_a_wrong_identity() {
    let error =
        |code| failed(Credential::None, &written(|out| message::error_response(out, &Report::fatal(code, "no"))));
    assert_eq!(error("53300").fault(), Fault::Backend);
    assert_eq!(error("57P03").fault(), Fault::Backend);
    assert_eq!(error("3D000").fault(), Fault::Login);
    assert_eq!(error("28000").to_string(), "the server refused the login: FATAL: no (28000)");
}

#[test]
fn what_does_not_belong_in_a_login_ends_it() {
    let wrong: [&[u8]; 9] = [
        b"Z\0\0\0\x05I",
        b"S\0\0\0\x08a\0b\0",
        b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05T",
        b"R\0\0\0\x08\0\0\0\0K\0\0\0\x08\0\0\0\x01",
        b"R\0\0\0\x08\0\0\0\0R\0\0\0\x08\0\0\0\0",
        b"R\0\0\0\x08\0\0\0\x0b",
        b"R\0\0\0\x05\0",
        b"v\0\0\0\x08\0\x02\0\0",
        b"D\0\0\0\x04",
    ];
    for bytes in wrong {
        let error = failed(password("secret"), bytes);
        assert!(matches!(error, LoginError::Protocol(_)), "{bytes:?} {error:?}");
        assert_eq!(error.fault(), Fault::Backend);
    }
}

#[test]
fn a_server_that_never_stops_talking_is_left() {
    let mut login = begun(Credential::None);
    let mut heard = 0;
    while let Event::NeedMore = login.handle(b'N', &[0; 1_000], &mut Vec::new()) {
        heard += 1_000;
        assert!(heard <= LONGEST_LOGIN);
    }
}

#[test]
fn nothing_secret_is_printed() {
    let login = begun(password("hunter2"));
    assert!(!format!("{login:?} {:?}", login.credential).contains("hunter2"));
}

proptest! {
    #[test]
    fn no_message_makes_it_panic(messages in proptest::collection::vec(
        (prop_oneof![Just(b'R'), Just(b'S'), Just(b'K'), Just(b'v'), Just(b'E'), any::<u8>()],
         0..13_u8, proptest::collection::vec(any::<u8>(), 0..60)), 0..6,
    )) {
        let mut login = begun(password("secret"));
        for (tag, kind, body) in messages {
            let body = if tag == b'R' { [&[0, 0, 0, kind][..], &body].concat() } else { body };
            login.handle(tag, &body, &mut Vec::new());
        }
    }
}
