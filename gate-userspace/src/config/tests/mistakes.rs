//! Every mistake is told with its place, its key and the way out.

use super::*;

/// The messages for a bucket with these lines added.
fn messages(added: &str) -> Vec<String> {
    super::messages(&format!("{BUCKET}\n{added}\n"), &[])
}

#[test]
fn a_guard_window_that_leaves_nothing_is_told_with_file_line_key_and_the_way_out() {
    assert_eq!(
        messages("[bucket.reservoir]\n\nguard_window = '12m'"),
        [
            "gate.toml:11: bucket \"orders\": reservoir.guard_window (12m) must be shorter than reservoir.base_lifetime - \
          lifetime_jitter/2 (10m), or connections would never be handed out; lower guard_window or raise base_lifetime"
        ]
    );
}

/// What is added to the bucket, the line of the mistake, and words of the message: the key, and the way out.
const MISTAKES: &[(&str, usize, &[&str])] = &[
    // What it means.
    ("max_connections = 0", 9, &["max_connections is 0", "remove the bucket"]),
    ("dispatch_limit = 1.5", 9, &["dispatch_limit (1.5)", "at most 1"]),
    ("dispatch_limit = 0", 9, &["dispatch_limit (0)", "above 0"]),
    ("dispatch_limit = nan", 9, &["dispatch_limit (NaN)"]),
    ("\nqueue.shed_at = 0.0", 10, &["queue.shed_at (0)", "above 0", "1.0 means"]),
    ("queue.shed_at = 1.1", 9, &["queue.shed_at (1.1)", "at most 1"]),
    ("queue.timeout = '0s'", 9, &["queue.timeout is 0", "queue.depth = 0"]),
    ("reservoir.empty_wait = '31s'", 9, &["reservoir.empty_wait (31s)", "queue.timeout (30s)", "lower empty_wait"]),
    ("reservoir.connect_timeout = '0s'", 9, &["reservoir.connect_timeout is 0", "10s"]),
    ("reservoir.lifetime_jitter = '22m'", 9, &["reservoir.lifetime_jitter (22m)", "twice", "lower lifetime_jitter"]),
    ("reservoir.base_lifetime = '0s'", 9, &["reservoir.base_lifetime (0s)", "raise base_lifetime"]),
    ("reservoir = { base_lifetime = '1m 40s' }", 9, &["reservoir.guard_window (45s)", "(40s)", "raise base_lifetime"]),
    (
        "reservoir.target_ready = 21",
        9,
        &["reservoir.target_ready (21)", "max_connections (20)", "raise max_connections"],
    ),
    ("reservoir.min_ready = 21", 9, &["reservoir.min_ready (21)", "reservoir.target_ready (20)", "raise target_ready"]),
    ("reservoir = {\n low_watermark = 21 }", 10, &["reservoir.low_watermark (21)", "raise target_ready"]),
    ("rate.per_second = 0", 9, &["rate.per_second must be a whole number above 0, not 0"]),
    ("rate.burst = 0", 9, &["rate.burst must be a whole number above 0, not 0"]),
    ("tenants = { key = 'user', max_connections = 21 }", 9, &["tenants.max_connections (21)", "max_connections (20)"]),
    ("tenants = { key = 'user', max_connections = 0 }", 9, &["tenants.max_connections (0)", "leave it out"]),
    ("route.database = []", 9, &["route.database is an empty list", "leave it out"]),
    ("route = { user = [] }", 9, &["route.user is an empty list", "leave it out"]),
    // Who logs in.
    ("auth = 'learn'", 9, &["auth = \"learn\" is for TDS", "auth = \"gate\""]),
    ("mode = 'passthrough'\nauth = 'gate'", 9, &["mode and auth", "passthrough", "change one of them"]),
    ("mode = 'session'\nauth = 'passthrough'", 9, &["mode and auth", "change one of them"]),
    ("auth = 'passthrough'", 8, &["clients has no meaning with auth = \"passthrough\"", "remove it"]),
    ("backend.password = 'x'", 9, &["no user", "add backend.user"]),
    (
        "backend = { user = 'app', password_file = 'none' }",
        9,
        &["backend.password_file", "cannot read", "/none", "create the file"],
    ),
    ("backend = { password = 'x',\npassword_env = 'Y' }", 9, &["more than one password", "keep one"]),
    // How it is written.
    ("max_conections = 5", 9, &["unknown key max_conections", "did you mean max_connections?"]),
    ("reservoir.guard_windows = '5s'", 9, &["unknown key reservoir.guard_windows", "did you mean guard_window?"]),
    ("queue = { size = 5 }", 9, &["unknown key queue.size", "known here: depth, timeout, shed_at"]),
    ("[bukket]", 9, &["unknown key bukket", "did you mean bucket?"]),
    ("max_connections = 'ten'", 9, &["max_connections must be a whole number, not 'ten'"]),
    ("max_connections = -1", 9, &["max_connections must be a whole number, not -1"]),
    ("reservoir.guard_window = 45", 9, &["reservoir.guard_window must be a time with its unit", "\"45s\"", "not 45"]),
    ("reservoir.guard_window = '45'", 9, &["reservoir.guard_window must be a time with its unit", "not '45'"]),
    ("mode = 'sesion'", 9, &["mode must be \"session\", \"transaction\" or \"passthrough\", not 'sesion'"]),
    ("auth = 'trust'", 9, &["auth must be \"gate\", \"learn\" or \"passthrough\""]),
    ("tenants = { key = 'ip' }", 9, &["tenants.key must be \"user\" or \"database\""]),
    ("\ntenants = { max_connections = 5 }", 10, &["tenants.key is missing"]),
    ("route = 'orders'", 9, &["route must be a table"]),
    ("route.database = 'orders'", 9, &["route.database must be a list in brackets, each entry a string, not 'orders'"]),
    ("mode = ", 9, &["this is not TOML"]),
    ("name = 'again'", 9, &["this is not TOML", "duplicate key"]),
];

#[test]
fn every_mistake_is_told_with_its_line_its_key_and_the_way_out() {
    for (added, line, words) in MISTAKES {
        let messages = messages(added);
        assert_eq!(messages.len(), 1, "{added}: {messages:#?}");
        assert!(messages[0].starts_with(&format!("gate.toml:{line}: ")), "{added}: {}", messages[0]);
        for word in *words {
            assert!(messages[0].contains(word), "{added}: {} does not say {word}", messages[0]);
        }
    }
}

/// Mistakes of a whole file, each with its line and words of its message.
const WHOLE_FILES: &[(&str, &str, &[&str])] = &[
    ("", "gate.toml: ", &["there is no bucket", "add a [[bucket]]"]),
    ("[bucket]\nname = 'a'", "gate.toml:1: ", &["[[bucket]]", "two brackets"]),
    ("bucket = [1]", "gate.toml:1: ", &["bucket 1: it must be a table"]),
    (
        "listen.admin = 'localhost:9187'",
        "gate.toml:1: ",
        &["listen.admin must be an IP address and a port", "not 'localhost:9187'"],
    ),
    (
        "[[bucket]]\nname = 'a'\nprotocol = 'tds'\nendpoints = ['db1:1']\nauth = 'learn'",
        "gate.toml:3: ",
        &["protocol has no listener", "add listen.tds = [\"127.0.0.1:1433\"]"],
    ),
    (
        "listen.tds = ['127.0.0.1:1']\n[[bucket]]\nname = 'a'\nprotocol = 'tds'\nendpoints = ['db1:1']\nclients.trust = true\nbackend.user = 'sa'",
        "gate.toml:7: ",
        &["no password for user \"sa\"", "password_env"],
    ),
    (
        "listen.tds = ['127.0.0.1:1']\n[[bucket]]\nname = 'a'\nprotocol = 'tds'\nendpoints = ['db1:1']\nmode = 'passthrough'\nbackend.user = 'app'",
        "gate.toml:7: ",
        &["backend has no meaning with auth = \"passthrough\"", "remove it"],
    ),
    (
        "listen.tds = ['127.0.0.1:1']\n[[bucket]]\nname = 'a'\nprotocol = 'tds'\nendpoints = ['db1:1']",
        "gate.toml:2: ",
        &["auth = \"gate\" needs to know its clients", "auth_file = \"users.txt\"", "trust = true", "auth = \"learn\""],
    ),
];

#[test]
fn a_mistake_of_the_whole_file_is_told_like_any_other() {
    for (text, place, words) in WHOLE_FILES {
        let problems = load(text, &[]).unwrap_err().to_string();
        assert!(problems.starts_with(place) && problems.lines().count() == 1, "{text}: {problems}");
        for word in *words {
            assert!(problems.contains(word), "{text}: {problems} does not say {word}");
        }
    }
}

/// Something of the eight lines replaced, the line of the mistake, and words of its message.
const REPLACED: &[(&str, &str, usize, &[&str])] = &[
    ("name = \"orders\"", "", 4, &["bucket 1: name is missing"]),
    ("protocol = \"postgres\"", "", 4, &["protocol is missing", "\"postgres\" or \"tds\""]),
    ("endpoints = [\"db1:5432\"]", "", 4, &["endpoints is missing", "db1:5432"]),
    ("[\"db1:5432\"]", "[]", 7, &["endpoints is an empty list"]),
    ("[\"db1:5432\"]", "['db1:5432',\n'db2']", 8, &["endpoints must be a list", "a host and a port", "not 'db2'"]),
    ("[\"db1:5432\"]", "['db1:0']", 7, &["endpoints must be", "not 'db1:0'"]),
    ("[\"db1:5432\"]", "['db1:5432', 'DB1:5432']", 7, &["endpoints has db1:5432 twice"]),
    (
        "[\"db1:5432\"]",
        "['localhost:6432']",
        7,
        &["endpoints has localhost:6432, the gate itself (listen.postgres 127.0.0.1:6432)", "name the database"],
    ),
    ("\"orders\"", "'Orders'", 5, &["name must be 1 to 63 of a-z and 0-9", "rename the bucket"]),
    ("\"orders\"", "''", 5, &["1 to 63 of a-z and 0-9"]),
    ("\"orders\"", "'a__b'", 5, &["single - or _"]),
    (
        "[\"127.0.0.1:6432\"]",
        "['127.0.0.1:6432', '0.0.0.0:6432']",
        3,
        &["0.0.0.0:6432 collides with listen.postgres 127.0.0.1:6432"],
    ),
    (
        "[\"127.0.0.1:6432\"]",
        "['127.0.0.1:9187']",
        3,
        &["listen.admin 127.0.0.1:9187 collides with listen.postgres", "another port"],
    ),
    (
        "{ trust = true }",
        "{ auth_file = '/no/users.txt' }",
        8,
        &["clients.auth_file: cannot read /no/users.txt", "create the file"],
    ),
    (
        "{ trust = true }",
        "{ trust = true, auth_file = 'u' }",
        8,
        &["clients.trust", "clients.auth_file", "remove one of them"],
    ),
    ("{ trust = true }", "{ auth_file = '/' }", 8, &["clients.auth_file: cannot read /", "directory"]),
];

#[test]
fn a_mistake_in_what_every_bucket_needs_is_told_like_any_other() {
    for (old, new, line, words) in REPLACED {
        let problems = load(&BUCKET.replace(old, new), &[]).unwrap_err().to_string();
        assert!(problems.starts_with(&format!("gate.toml:{line}: ")), "{new}: {problems}");
        assert_eq!(problems.lines().count(), 1, "{new}: {problems}");
        for word in *words {
            assert!(problems.contains(word), "{new}: {problems} does not say {word}");
        }
    }
}

#[test]
fn buckets_that_get_in_each_others_way_are_named() {
    let with_second = |first: &str, second: &str, route: &str| {
        let text = BUCKET.replace("orders", first);
        let bucket = "protocol = 'postgres'\nendpoints = ['db2:5432']\nclients.trust = true";
        let text =
            format!("{text}\nroute.database = ['a*', 'b']\n[[bucket]]\nname = '{second}'\n{bucket}\nroute = {route}");
        super::messages(&text, &[])
    };
    assert_eq!(
        with_second("orders", "orders", "{ database = ['c'] }"),
        ["gate.toml:11: bucket \"orders\": name is taken by another bucket (gate.toml:5); rename one of them"]
    );
    assert_eq!(
        with_second("a_b", "a-b", "{ database = ['c'] }"),
        ["gate.toml:11: bucket \"a-b\": name is that of bucket \"a_b\" (gate.toml:5) once it is part of a \
          variable, GATE_BUCKET__A_B__…; rename one of them"]
    );
    assert_eq!(
        with_second("early", "late", "{ database = ['b', 'ab', 'a?'], user = ['app'] }"),
        ["gate.toml:15: bucket \"late\": route can never match: whoever fits it goes to bucket \"early\" first; \
          move this bucket up, or narrow that route"]
    );
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let form = messages("mode = 'x'\nauth = 5\nfoo = 1\nqueue = { bar = 2 }");
    let lines: Vec<_> = form.iter().map(|message| &message[..13]).collect();
    assert_eq!(lines, ["gate.toml:9: ", "gate.toml:10:", "gate.toml:11:", "gate.toml:12:"]);
    let meaning = messages("max_connections = 5\ndispatch_limit = 2\nreservoir.target_ready = 6\nqueue.timeout = '0s'");
    assert_eq!(meaning.len(), 3, "{meaning:#?}");
}

#[test]
fn a_message_never_repeats_a_password() {
    for added in [
        "backend = { user = 'app', password = 'hunter2', password_env = 'X' }",
        "backend = { user = 'app', password = ['hunter2'] }",
        "backend = { user = 'app', password = hunter2 }",
        "backend = { user = 'app', passwort = 'hunter2' }",
        "backend = 'hunter2'",
        "backend = { password = 'hunter2' }",
        "backend.password = \"hunter2",
    ] {
        let messages = messages(added).join("\n");
        assert!(!messages.contains("hunter2"), "{messages}");
    }
}
