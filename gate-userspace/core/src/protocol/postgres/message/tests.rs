//! Every message is held against `postgres-protocol`, which wrote or reads it in thousands of programs.

use bytes::BytesMut;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use super::*;

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = b"before".to_vec();
    write(&mut out);
    assert!(out.starts_with(b"before"), "messages are appended");
    out.split_off(6)
}

/// Reads a message back with the other implementation, which must find nothing behind it.
fn read(write: impl FnOnce(&mut Vec<u8>)) -> Message {
    let mut bytes = BytesMut::from(&*written(write));
    let message = Message::parse(&mut bytes).unwrap().unwrap();
    assert!(bytes.is_empty());
    message
}

fn theirs(write: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
    let mut out = BytesMut::new();
    write(&mut out);
    out.to_vec()
}

#[test]
fn what_a_client_sends_is_what_other_clients_send() {
    let parameters = [("user", "ann"), ("database", "shop")];
    let key = CancelKey::new(7, &9_i32.to_be_bytes()).unwrap();
    let pairs = [
        (written(|out| query(out, "SELECT 1")), theirs(|out| frontend::query("SELECT 1", out).unwrap())),
        (written(terminate), theirs(frontend::terminate)),
        (
            written(|out| startup_message(out, 0, parameters)),
            theirs(|out| frontend::startup_message(parameters, out).unwrap()),
        ),
        (written(|out| cancel_request(out, &key)), theirs(|out| frontend::cancel_request(7, 9, out))),
        (
            written(|out| password_message(out, b"secret")),
            theirs(|out| frontend::password_message(b"secret", out).unwrap()),
        ),
        (
            written(|out| sasl_initial_response(out, "SCRAM-SHA-256", b"n,,")),
            theirs(|out| frontend::sasl_initial_response("SCRAM-SHA-256", b"n,,", out).unwrap()),
        ),
        (written(|out| sasl_response(out, b"c=")), theirs(|out| frontend::sasl_response(b"c=", out).unwrap())),
    ];
    for (ours, theirs) in pairs {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn requests_to_authenticate_are_read_as_meant() {
    assert!(matches!(read(authentication_ok), Message::AuthenticationOk));
    assert!(matches!(read(authentication_cleartext_password), Message::AuthenticationCleartextPassword));
    let Message::AuthenticationMd5Password(body) = read(|out| authentication_md5_password(out, [1, 2, 3, 4])) else {
        panic!()
    };
    assert_eq!(body.salt(), [1, 2, 3, 4]);
    assert!(matches!(read(|out| authentication_sasl(out, &["A", "B"])), Message::AuthenticationSasl(_)));
    assert_eq!(written(|out| authentication_sasl(out, &["A", "B"])), b"R\0\0\0\x0d\0\0\0\x0aA\0B\0\0");
    let Message::AuthenticationSaslContinue(body) = read(|out| authentication_sasl_continue(out, b"r=")) else {
        panic!()
    };
    assert_eq!(body.data(), b"r=");
    let Message::AuthenticationSaslFinal(body) = read(|out| authentication_sasl_final(out, b"v=")) else { panic!() };
    assert_eq!(body.data(), b"v=");
}

#[test]
fn the_rest_of_a_login_is_read_as_meant() {
    let Message::ParameterStatus(body) = read(|out| parameter_status(out, b"TimeZone", b"UTC")) else { panic!() };
    assert_eq!((body.name().unwrap(), body.value().unwrap()), ("TimeZone", "UTC"));
    let key = CancelKey::new(7, &9_i32.to_be_bytes()).unwrap();
    let Message::BackendKeyData(body) = read(|out| backend_key_data(out, &key)) else { panic!() };
    assert_eq!((body.process_id(), body.secret_key()), (7, 9));
    for (status, byte) in [(Status::Idle, b'I'), (Status::InTransaction, b'T'), (Status::Failed, b'E')] {
        let Message::ReadyForQuery(body) = read(|out| ready_for_query(out, status)) else { panic!() };
        assert_eq!(body.status(), byte);
    }
}

#[test]
fn a_report_has_all_that_it_was_given() {
    let report =
        Report { detail: Some("all 20 are in use"), hint: Some("come again"), ..Report::fatal("53300", "too many") };
    assert!(matches!(read(|out| error_response(out, &report)), Message::ErrorResponse(_)));
    let body = b"SFATAL\0VFATAL\0C53300\0Mtoo many\0Dall 20 are in use\0Hcome again\0\0";
    assert_eq!(&written(|out| error_response(out, &report))[5..], body);
    let notice = Report { severity: Severity::Notice, ..Report::fatal("00000", "hello") };
    assert!(matches!(read(|out| notice_response(out, &notice)), Message::NoticeResponse(_)));
}

#[test]
fn a_nul_cannot_cut_a_text_short_or_smuggle_in_another() {
    assert_eq!(written(|out| query(out, "SELECT\0 1")), written(|out| query(out, "SELECT 1")));
    assert_eq!(written(|out| parameter_status(out, b"a\0b", b"c")), written(|out| parameter_status(out, b"ab", b"c")));
}
