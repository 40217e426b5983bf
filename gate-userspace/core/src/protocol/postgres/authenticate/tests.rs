use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use postgres_protocol::password::{md5 as md5_stored, scram_sha_256};
use proptest::prelude::*;

use super::*;
use crate::protocol::postgres::frame::Frame;

const RANDOM_BYTES: [u8; RANDOM] = *b"twenty-four random bytes";

fn users() -> Users {
    let (md5, scram) = (md5_stored(b"secret", "md"), scram_sha_256(b"secret"));
    Users::parse(&format!("\"plain\" \"secret\"\n\"md\" \"{md5}\"\n\"sc\" \"{scram}\""), [7; 32]).unwrap()
}

/// A client of another implementation, which answers whatever it is asked.
struct Client<'a> {
    user: &'a str,
    password: &'a str,
    scram: ScramSha256,
}

impl<'a> Client<'a> {
    fn new(user: &'a str, password: &'a str) -> Self {
        let scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        Self { user, password, scram }
    }

    /// The body of its answer, if the message calls for one.
    fn answer(&mut self, frame: Frame<'_>) -> Option<Vec<u8>> {
        assert_eq!(frame.tag, b'R');
        let (kind, data) = frame.body.split_first_chunk::<4>().unwrap();
        let mut out = Vec::new();
        match i32::from_be_bytes(*kind) {
            0 => return None,
            3 => message::password_message(&mut out, self.password.as_bytes()),
            5 => {
                let salt = data.try_into().unwrap();
                let hash = md5_hash(self.user.as_bytes(), self.password.as_bytes(), salt);
                message::password_message(&mut out, hash.as_bytes());
            }
            10 => message::sasl_initial_response(&mut out, MECHANISM, self.scram.message()),
            11 => {
                self.scram.update(data).unwrap();
                message::sasl_response(&mut out, self.scram.message());
            }
            12 => {
                self.scram.finish(data).unwrap();
                return None;
            }
            other => panic!("request {other}"),
        }
        Some(out[5..].to_vec())
    }
}

/// What a login led to, and the kinds of all requests on the way.
fn login(method: Option<Method>, user: &str, password: &str) -> (Result<Credential, Refused>, Vec<u8>) {
    let (users, mut client) = (users(), Client::new(user, password));
    let (mut out, mut kinds) = (Vec::new(), Vec::new());
    let mut authentication = match method {
        None => Authentication::begin(&users, user, RANDOM_BYTES, &mut out),
        Some(method) => Authentication::begin_with(method, &users, user, RANDOM_BYTES, &mut out),
    };
    let mut outcome = None;
    loop {
        let mut answer = None;
        while let Some(frame) = Frame::next(&out, 1_000).unwrap() {
            kinds.push(frame.body[3]);
            answer = client.answer(frame);
            let consumed = frame.consumed();
            out.drain(..consumed);
        }
        let Some(answer) = answer else { return (outcome.unwrap(), kinds) };
        match authentication.handle(b'p', &answer, &mut out) {
            Step::Continue => {}
            Step::Done(credential) => outcome = Some(Ok(credential)),
            Step::Refused(refused) => return (Err(refused), kinds),
        }
    }
}

#[test]
fn each_secret_is_asked_for_in_its_own_way_and_lets_in_only_its_password() {
    for (user, exchange) in [("plain", &[10, 11, 12, 0][..]), ("sc", &[10, 11, 12, 0]), ("md", &[5, 0])] {
        let (outcome, kinds) = login(None, user, "secret");
        assert!(outcome.is_ok(), "{user}");
        assert_eq!(kinds, exchange, "{user}");
        assert_eq!(login(None, user, "Secret").0.err(), Some(Refused::Password), "{user}");
    }
}

#[test]
fn what_a_client_showed_is_what_the_gate_may_log_in_with() {
    let shown = |method, user| login(method, user, "secret").0.unwrap();
    assert!(matches!(shown(None, "plain"), Credential::Password { .. }));
    assert!(matches!(shown(Some(Method::Md5), "plain"), Credential::Password { .. }));
    assert!(matches!(shown(None, "sc"), Credential::Scram(_)));
    assert!(matches!(shown(None, "md"), Credential::Md5(_)));
    assert!(matches!(shown(Some(Method::Cleartext), "sc"), Credential::Password { .. }));
    assert!(matches!(shown(Some(Method::Cleartext), "md"), Credential::Password { .. }));
}

#[test]
fn a_secret_that_does_not_suit_the_method_lets_nobody_in() {
    assert_eq!(login(Some(Method::Md5), "sc", "secret").0.err(), Some(Refused::Password));
    assert_eq!(login(Some(Method::Scram), "md", "secret").0.err(), Some(Refused::Password));
}

#[test]
fn an_unknown_user_cannot_be_told_from_a_wrong_password() {
    for method in [None, Some(Method::Cleartext), Some(Method::Md5), Some(Method::Scram)] {
        let (known, known_kinds) = login(method, "plain", "wrong");
        let (unknown, unknown_kinds) = login(method, "nobody", "wrong");
        assert_eq!((known.err(), known_kinds), (unknown.err(), unknown_kinds), "{method:?}");
    }
    let first_answer = |user| {
        let mut out = Vec::new();
        let mut authentication = Authentication::begin(&users(), user, RANDOM_BYTES, &mut out);
        out.clear();
        authentication.handle(b'p', b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc", &mut out);
        out
    };
    assert_eq!(first_answer("nobody"), first_answer("nobody"), "the salt stays the same");
    assert_eq!(first_answer("nobody").len(), first_answer("plain").len());
    assert_ne!(first_answer("nobody"), first_answer("nobody else"));
}

#[test]
fn a_client_may_choose_the_mechanism_first_and_speak_later() {
    let (mut out, mut client) = (Vec::new(), Client::new("sc", "secret"));
    let mut authentication = Authentication::begin(&users(), "sc", RANDOM_BYTES, &mut out);
    out.clear();
    let chosen = authentication.handle(b'p', b"SCRAM-SHA-256\0\xff\xff\xff\xff", &mut out);
    assert!(matches!(chosen, Step::Continue));
    assert_eq!(out, b"R\0\0\0\x08\0\0\0\x0b");
    out.clear();
    assert!(matches!(authentication.handle(b'p', client.scram.message(), &mut out), Step::Continue));
    let last = client.answer(Frame::next(&out, 1_000).unwrap().unwrap()).unwrap();
    assert!(matches!(authentication.handle(b'p', &last, &mut out), Step::Done(_)));
}

#[test]
fn what_is_not_the_protocol_is_refused_and_ends_the_exchange() {
    let refused = |user: &str, tag: u8, body: &[u8]| {
        let mut out = Vec::new();
        let mut authentication = Authentication::begin(&users(), user, RANDOM_BYTES, &mut out);
        let Step::Refused(refused) = authentication.handle(tag, body, &mut out) else { panic!("{body:?}") };
        let again = authentication.handle(b'p', body, &mut out);
        assert!(matches!(again, Step::Refused(Refused::Protocol(_))), "there is no second attempt");
        refused
    };
    assert!(matches!(refused("sc", b'Q', b""), Refused::Protocol(_)));
    assert!(matches!(refused("sc", b'p', b""), Refused::Protocol(_)));
    assert!(matches!(refused("sc", b'p', b"SCRAM-SHA-256-PLUS\0\0\0\0\0"), Refused::Protocol(_)));
    assert!(matches!(refused("sc", b'p', b"SCRAM-SHA-256\0\0\0\0\x05n,,"), Refused::Protocol(_)));
    assert!(matches!(refused("sc", b'p', b"SCRAM-SHA-256\0\xff\xff\xff\xfen,,"), Refused::Protocol(_)));
    assert!(matches!(refused("md", b'p', b"unterminated"), Refused::Protocol(_)));
    assert!(matches!(refused("md", b'p', b"one\0two\0"), Refused::Protocol(_)));
    assert_eq!(refused("md", b'p', b"\xff\0"), Refused::Password);
}

#[test]
fn a_proof_is_good_for_one_login() {
    let (mut out, mut client) = (Vec::new(), Client::new("sc", "secret"));
    let mut authentication = Authentication::begin(&users(), "sc", RANDOM_BYTES, &mut out);
    let first = client.answer(Frame::next(&out, 1_000).unwrap().unwrap()).unwrap();
    out.clear();
    authentication.handle(b'p', &first, &mut out);
    let proof = client.answer(Frame::next(&out, 1_000).unwrap().unwrap()).unwrap();
    assert!(matches!(authentication.handle(b'p', &proof, &mut out), Step::Done(_)));
    assert!(matches!(authentication.handle(b'p', &proof, &mut out), Step::Refused(_)));

    let mut other = Authentication::begin(&users(), "sc", [9; RANDOM], &mut out);
    other.handle(b'p', &first, &mut out);
    let replayed = other.handle(b'p', &proof, &mut out);
    assert!(matches!(replayed, Step::Refused(Refused::Protocol("SCRAM nonce does not match"))));
}

#[test]
fn a_refusal_is_told_in_the_servers_words() {
    let mut out = Vec::new();
    Refused::Password.write("ann", &mut out);
    let text = String::from_utf8_lossy(&out);
    assert!(text.contains("C28P01\0Mpassword authentication failed for user \"ann\"\0"));
}

#[test]
fn nothing_secret_is_printed() {
    let (credential, _) = login(None, "plain", "secret");
    let authentication = Authentication::begin(&users(), "plain", RANDOM_BYTES, &mut Vec::new());
    let printed = format!("{credential:?} {authentication:?}");
    assert!(!printed.contains("secret"), "{printed}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_message_makes_it_panic_or_lets_anybody_in(
        bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..4),
        user in prop_oneof![Just("md"), Just("sc"), Just("nobody")],
    ) {
        let mut out = Vec::new();
        let mut authentication = Authentication::begin(&users(), user, RANDOM_BYTES, &mut out);
        for body in bodies {
            let step = authentication.handle(b'p', &body, &mut out);
            prop_assert!(matches!(step, Step::Refused(_)));
        }
    }
}
