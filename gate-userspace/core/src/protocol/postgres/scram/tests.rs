use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use postgres_protocol::password::scram_sha_256;
use proptest::prelude::*;
use secrecy::SecretString;

use super::client::{Exchange as Client, Knowledge, Stuck};
use super::server::Exchange as Server;
use super::*;
use crate::protocol::postgres::authenticate::Refused;

const RANDOM: [u8; 24] = *b"twenty-four random bytes";

fn verifier(password: &str) -> Verifier {
    // Few iterations: what is tested here does not depend on them.
    Verifier::derive(password, b"a salt", 10)
}

/// The server's side of the example in RFC 7677, section 3.
#[test]
fn the_example_of_the_standard_is_reproduced() {
    let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let keys = Keys::derive("pencil", Salting { salt, iterations: 4096 });
    let signed = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
                  r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
                  c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    let proof = xor(&keys.client_key, &sign(&keys.stored_key(), signed.as_bytes()));
    assert_eq!(BASE64.encode(*proof), "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
    let signature = sign(&keys.server_key, signed.as_bytes());
    assert_eq!(BASE64.encode(*signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn a_verifier_as_postgres_stores_it_is_read() {
    for password in ["secret", "pass\u{a0}wort\u{2168}", "\u{7}forbidden"] {
        let verifier = Verifier::parse(&scram_sha_256(password.as_bytes())).unwrap();
        assert!(verifier.fits(password));
        assert!(!verifier.fits("another"));
        assert_eq!(verifier.iterations(), ITERATIONS);
    }
}

#[test]
fn a_broken_verifier_is_none() {
    let whole = scram_sha_256(b"secret");
    assert!(Verifier::parse(&whole).is_some());
    let (salting, keys) = whole.rsplit_once('$').unwrap();
    let broken = [
        "",
        "SCRAM-SHA-256",
        &whole[1..],
        &whole[..whole.len() - 1],
        &format!("{whole}A"),
        &whole.replace("4096", "0"),
        &whole.replace("4096", "-1"),
        &whole.replace("4096", "many"),
        &whole.replace("4096", "99999999999"),
        &format!("{salting}${}", keys.replace(':', "$")),
        &format!("SCRAM-SHA-256$4096:${keys}"),
    ];
    for text in broken {
        assert!(Verifier::parse(text).is_none(), "{text}");
    }
}

/// Logs in as another implementation's client; returns how it ended on either side.
fn login(verifier: &Verifier, password: &str, binding: ChannelBinding) -> Result<Keys, Refused> {
    let mut client = ScramSha256::new(password.as_bytes(), binding);
    let (server, answer) = Server::begin(verifier, &RANDOM, client.message())?;
    client.update(answer.as_bytes()).unwrap();
    let proven = server.finish(client.message())?;
    client.finish(proven.server_final.as_bytes()).unwrap();
    Ok(proven.keys)
}

#[test]
fn other_clients_come_in_with_the_right_password_only() {
    let verifier = verifier("secret");
    for binding in [ChannelBinding::unsupported, ChannelBinding::unrequested] {
        assert!(login(&verifier, "secret", binding()).is_ok());
        assert_eq!(login(&verifier, "Secret", binding()).err(), Some(Refused::Password));
    }
    let bound = login(&verifier, "secret", ChannelBinding::tls_server_end_point(vec![1]));
    assert!(matches!(bound, Err(Refused::Protocol(why)) if why.contains("channel binding")));
}

#[test]
fn nobody_comes_in_where_there_is_no_password() {
    let nobody = Verifier::unmatched(b"a salt", 10, [7; 32]);
    assert_eq!(login(&nobody, "secret", ChannelBinding::unsupported()).err(), Some(Refused::Password));
}

/// Our client's exchange with our server; both ends must agree.
fn ours(verifier: &Verifier, known: Knowledge<'_>) -> Result<(Keys, Option<Keys>), Stuck> {
    let (client, first) = Client::begin(b"eighteen random by");
    let (server, answer) = Server::begin(verifier, &RANDOM, first.as_bytes()).unwrap();
    let (client, last) = client.answer(answer.as_bytes(), known)?;
    let proven = server.finish(last.as_bytes()).unwrap();
    Ok((proven.keys, client.prove(proven.server_final.as_bytes())))
}

#[test]
fn keys_that_a_login_showed_log_in_where_the_verifier_is_the_same_and_nowhere_else() {
    let password = SecretString::from("secret");
    let (shown, derived) = ours(&verifier("secret"), Knowledge { password: Some(&password), keys: None }).unwrap();
    for keys in [shown, derived.unwrap()] {
        let known = || Knowledge { password: None, keys: Some(&keys) };
        assert!(ours(&verifier("secret"), known()).unwrap().1.is_some());
        let other = Verifier::derive("secret", b"another salt", 10);
        assert_eq!(ours(&other, known()).err(), Some(Stuck::OtherSalt));
        let both = Knowledge { password: Some(&password), keys: Some(&keys) };
        assert!(ours(&other, both).is_ok(), "a password is derived anew");
    }
}

#[test]
fn a_server_that_does_not_know_the_password_is_found_out() {
    let password = SecretString::from("secret");
    let known = || Knowledge { password: Some(&password), keys: None };
    let answered = |words: String| {
        let (client, first) = Client::begin(b"eighteen random by");
        let nonce = first.strip_prefix("n,,n=,r=").unwrap();
        client.answer(words.replace("NONCE", nonce).as_bytes(), known())
    };
    let (client, _) = answered("r=NONCEx,s=YSBzYWx0,i=10".to_owned()).unwrap();
    assert!(client.prove(b"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").is_none());
    for words in ["e=invalid-proof", "v=", "", "v=AAAA"] {
        let (client, _) = answered("r=NONCEx,s=YSBzYWx0,i=10".to_owned()).unwrap();
        assert!(client.prove(words.as_bytes()).is_none());
    }
    for words in
        ["r=NONCE,s=YSBzYWx0,i=10", "r=other,s=YSBzYWx0,i=10", "r=NONCEx,s=!,i=1", "r=NONCEx,s=YSBzYWx0,i=0", ""]
    {
        assert_eq!(answered(words.to_owned()).err(), Some(Stuck::Malformed), "{words}");
    }
    let dear = answered("r=NONCEx,s=YSBzYWx0,i=1000001".to_owned());
    assert_eq!(dear.err(), Some(Stuck::TooManyIterations));
}

#[test]
fn first_words_that_ask_for_more_or_make_no_sense_are_refused() {
    let begin = |words: &[u8]| Server::begin(&verifier("secret"), &RANDOM, words).err();
    assert_eq!(begin(b"n,,n=,r=abc"), None);
    assert_eq!(begin(b"y,,n=ann,r=abc,x=extension"), None);
    assert!(matches!(begin(b"p=tls-server-end-point,,n=,r=abc"), Some(Refused::Protocol(_))));
    assert!(matches!(begin(b"n,a=bob,n=,r=abc"), Some(Refused::Unsupported(_))));
    assert!(matches!(begin(b"n,,m=x,n=,r=abc"), Some(Refused::Unsupported(_))));
    let nonsense: [&[u8]; 9] =
        [b"", b"n", b"n,", b"n,,", b"x,,n=,r=abc", b"n,,n=,r=", b"n,,r=abc", b"n,,n=,r=a b", b"n,,n=,r=\xff"];
    for words in nonsense {
        assert!(matches!(begin(words), Some(Refused::Protocol(_))), "{words:?}");
    }
    assert!(begin(&[&b"n,,n=,r="[..], &[b'a'; 5000]].concat()).is_some(), "too long");
}

#[test]
fn last_words_of_another_exchange_or_another_binding_are_refused() {
    let finished = |random: &[u8; 24], header: &str, words: &dyn Fn(&str) -> String| {
        let first = format!("{header}n=,r=abc");
        let (server, _) = Server::begin(&verifier("secret"), random, first.as_bytes()).unwrap();
        server.finish(words(&BASE64.encode(random)).as_bytes()).err()
    };
    let proof = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let right = |nonce: &str| format!("c=biws,r=abc{nonce},p={proof}");
    assert_eq!(finished(&RANDOM, "n,,", &right), Some(Refused::Password), "all but the proof is right");
    let replayed = |_: &str| right(&BASE64.encode(RANDOM));
    let refused = |why| Some(Refused::Protocol(why));
    assert_eq!(finished(&[7; 24], "n,,", &replayed), refused("SCRAM nonce does not match"));
    assert_eq!(finished(&RANDOM, "y,,", &right), refused("SCRAM channel binding check failed"));
    for broken in ["", "c=biws", "c=biws,r=abc", "p=x,c=biws", "c=biws,r=abc,p=AAAA", "c=biws,r=abc,p=!"] {
        assert_eq!(finished(&RANDOM, "n,,", &|_| broken.to_owned()), refused("malformed SCRAM message"), "{broken}");
    }
}

#[test]
fn nothing_secret_is_printed() {
    let keys = Keys::derive("secret", Salting { salt: b"a salt".to_vec(), iterations: 10 });
    assert_eq!(format!("{keys:?} {:?}", keys.verifier()), "Keys(***) Verifier(***)");
}

proptest! {
    #[test]
    fn no_words_make_either_side_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), text in "[nyprsicv=,a-z0-9+/]{0,60}") {
        let verifier = Verifier::unmatched(b"a salt", 1, [7; 32]);
        for words in [&bytes[..], text.as_bytes()] {
            let _ = Server::begin(&verifier, &RANDOM, words);
            let (server, _) = Server::begin(&verifier, &RANDOM, b"n,,n=,r=abc").unwrap();
            let _ = server.finish(words);
            let _ = Client::begin(&RANDOM).0.answer(words, Knowledge { password: None, keys: None });
            let _ = Verifier::parse(&String::from_utf8_lossy(words));
        }
    }
}
