use postgres_protocol::password::{md5, scram_sha_256};
use proptest::prelude::*;

use super::*;

const KEY: [u8; 32] = [7; 32];

fn users(text: &str) -> Users {
    Users::parse(text, KEY).unwrap()
}

fn mistake(text: &str) -> UsersError {
    Users::parse(text, KEY).unwrap_err()
}

fn plain(users: &Users, user: &str) -> Option<String> {
    match users.get(user)? {
        Secret::Plain { password, .. } => Some(password.expose_secret().to_owned()),
        _ => None,
    }
}

#[test]
fn a_file_of_pgbouncers_is_read() {
    let (md5, scram) = (md5(b"secret", "md"), scram_sha_256(b"secret"));
    let users = users(&format!(
        "; who may come\n\n\"ann\" \"secret\"\r\n  \"bob \"\"the builder\"\"\"\t\"s\"\"e;cret\" ignored\n\
         \"md\" \"{md5}\"\n\"sc\" \"{scram}\"\n  ; \"x\" \"y\"\n\"weak\" \"md5isweak\""
    ));
    assert_eq!(users.len(), 5);
    assert_eq!(plain(&users, "ann").unwrap(), "secret");
    assert_eq!(plain(&users, "bob \"the builder\"").unwrap(), "s\"e;cret");
    assert_eq!(plain(&users, "weak").unwrap(), "md5isweak");
    assert!(matches!(users.get("md"), Some(Secret::Md5(_))));
    assert!(matches!(users.get("sc"), Some(Secret::Scram(_))));
    assert!(users.get("x").is_none());
    for user in ["ann", "md", "sc"] {
        assert!(users.get(user).unwrap().fits(user, "secret"));
        assert!(!users.get(user).unwrap().fits(user, "wrong"));
    }
}

#[test]
fn a_mistake_is_named_by_its_line_and_never_shows_the_secret() {
    let cases = [
        ("\"ann\" \"hunter2\"\nann hunter2", 2, Mistake::Quotes),
        ("\"ann\" hunter2", 1, Mistake::Quotes),
        ("\"ann\"", 1, Mistake::Quotes),
        ("\"ann\" \"hunter2", 1, Mistake::Quotes),
        ("\n\n\"\" \"hunter2\"", 3, Mistake::NoName),
        ("\"ann\" \"\"", 1, Mistake::NoSecret),
        ("\"ann\" \"hunter2\"\n;\n\"ann\" \"hunter3\"", 3, Mistake::Twice),
        ("\"ann\" \"SCRAM-SHA-256$4096:hunter2$\"", 1, Mistake::Verifier),
    ];
    for (text, line, expected) in cases {
        let error = mistake(text);
        assert_eq!(error, UsersError { line, mistake: expected }, "{text}");
        assert!(error.to_string().starts_with(&format!("line {line}: ")));
        assert!(!format!("{error} {error:?}").contains("hunter"));
    }
}

#[test]
fn nothing_secret_is_printed() {
    let users = users("\"ann\" \"hunter2\"");
    assert_eq!(format!("{users:?} {:?}", users.get("ann")), "Users(1) Some(Secret(***))");
}

#[test]
fn strangers_look_like_those_who_are_known() {
    let verifier = scram_sha_256(b"secret").replace("4096", "9999");
    let strangers = |text: &str| match users(text).stand_in("stranger") {
        Secret::Md5(_) => None,
        Secret::Scram(verifier) => Some(verifier.iterations()),
        Secret::Plain { .. } => panic!("a stranger has no password"),
    };
    assert_eq!(strangers(""), Some(ITERATIONS));
    assert_eq!(strangers("\"ann\" \"secret\""), Some(ITERATIONS));
    assert_eq!(strangers(&format!("\"ann\" \"{verifier}\"")), Some(9999));
    let md5 = md5(b"secret", "ann");
    assert_eq!(strangers(&format!("\"ann\" \"{md5}\"")), None);
    assert_eq!(strangers(&format!("\"ann\" \"{md5}\"\n\"bob\" \"secret\"")), Some(ITERATIONS));
}

#[test]
fn a_salt_is_drawn_from_key_and_name_for_the_known_and_the_unknown_alike() {
    let (one, other) = (users("\"ann\" \"secret\""), users("\"bob\" \"secret\""));
    assert_eq!(one.salt("ann"), other.salt("ann"));
    assert_ne!(one.salt("ann"), one.salt("bob"));
    let elsewhere = Users::parse("", [8; 32]).unwrap();
    assert_ne!(one.salt("ann"), elsewhere.salt("ann"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_name_and_password_are_read_back(name in "[^\n\r]{1,20}", password in "[^\n\r]{1,20}") {
        let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        prop_assume!(!is_md5(&password) && !password.starts_with(MECHANISM));
        let users = users(&format!("{} {}", quote(&name), quote(&password)));
        prop_assert_eq!(plain(&users, &name), Some(password));
    }

    #[test]
    fn no_text_makes_it_panic(text in "[a\";\n \\$:S]{0,40}") {
        let _ = Users::parse(&text, KEY);
    }
}
