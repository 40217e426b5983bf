//! Variables override the file, and are named where they are wrong.

use super::*;

#[test]
fn a_variable_overrides_a_number_a_text_a_list_and_a_table() {
    let Loaded { config, .. } = loaded(
        BUCKET,
        &[
            ("GATE_LISTEN__ADMIN", "[::1]:9000"),
            ("GATE_LISTEN__POSTGRES", r#"["127.0.0.1:7000", "127.0.0.1:7001"]"#),
            ("GATE_BUCKET__ORDERS__MAX_CONNECTIONS", "40"),
            ("GATE_BUCKET__ORDERS__RATE", "{ per_second = 7 }"),
            ("GATE_BUCKET__ORDERS__RATE__BURST", "9"),
            ("GATE_BUCKET__ORDERS__RESERVOIR__GUARD_WINDOW", "1m 10s"),
            ("GATE_BUCKET__ORDERS__BACKEND__USER", "app"),
        ],
    );
    let bucket = &config.buckets[0];
    assert_eq!(config.listen.admin, "[::1]:9000".parse().unwrap());
    assert_eq!(config.listen.postgres.len(), 2);
    assert_eq!((bucket.max_connections, bucket.reservoir.target_ready), (40, 40));
    assert_eq!((bucket.rate.per_second.get(), bucket.rate.burst.get()), (7, 9));
    assert_eq!(bucket.reservoir.guard_window, Duration::from_secs(70));
    assert_eq!(bucket.backend.user.as_deref(), Some("app"));
}

#[test]
fn what_looks_like_a_number_is_text_where_text_is_wanted() {
    let environment =
        [("GATE_BUCKET__ORDERS__BACKEND__USER", "007"), ("GATE_BUCKET__ORDERS__BACKEND__PASSWORD", "12345")];
    let Backend { user, password, .. } = &loaded(BUCKET, &environment).config.buckets[0].backend;
    assert_eq!(user.as_deref(), Some("007"));
    assert!(matches!(password, Some(Password::Written(secret)) if secret.expose() == "12345"));
}

#[test]
fn a_bucket_is_named_in_any_case_and_with_underscores() {
    let text = BUCKET.replace("orders", "orders-eu-1");
    for variable in ["GATE_BUCKET__ORDERS_EU_1__MAX_CONNECTIONS", "gate_bucket__orders_eu_1__max_connections"] {
        assert_eq!(loaded(&text, &[(variable, "3")]).config.buckets[0].max_connections, 3);
    }
}

#[test]
fn a_variable_without_two_underscores_is_none_of_the_configurations_business() {
    loaded(BUCKET, &[("GATE_REQUIRE_EBPF", "1"), ("GATE_CONFIG", "x"), ("MY_GATE__X", "1"), ("PATH", "/bin")]);
}

/// A variable, its value, and the only message.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("GATE_LISTEN__ADMN", "1", "GATE_LISTEN__ADMN: unknown key listen.admn; did you mean admin?"),
    ("GATE_LISTN__ADMIN", "1", "GATE_LISTN__ADMIN: unknown key listn; did you mean listen?"),
    (
        "GATE_BUCKET__ORDERS__MAX_CONECTIONS",
        "1",
        "GATE_BUCKET__ORDERS__MAX_CONECTIONS: bucket \"orders\": unknown key max_conections; did you mean max_connections?",
    ),
    ("GATE_BUCKET__ORDRES__MODE", "x", "GATE_BUCKET__ORDRES__MODE: the file has no bucket ordres; it has orders"),
    (
        "GATE_BUCKET__ORDERS",
        "x",
        "GATE_BUCKET__ORDERS: a bucket is not a setting; go on with two underscores and a key",
    ),
    (
        "GATE_BUCKET__ORDERS__NAME__FIRST",
        "x",
        "GATE_BUCKET__ORDERS__NAME__FIRST: name has no settings of its own; shorten the name",
    ),
    (
        "GATE_BUCKET__ORDERS__MAX_CONNECTIONS",
        "many",
        "GATE_BUCKET__ORDERS__MAX_CONNECTIONS: bucket \"orders\": max_connections must be a whole number, not many",
    ),
    (
        "GATE_BUCKET__ORDERS__RESERVOIR__BASE_LIFETIME",
        "1m",
        "GATE_BUCKET__ORDERS__RESERVOIR__BASE_LIFETIME: bucket \"orders\": reservoir.lifetime_jitter (2m) must be shorter \
         than twice reservoir.base_lifetime (1m), or connections would be over before they are open; lower \
         lifetime_jitter or raise base_lifetime",
    ),
];

#[test]
fn a_mistake_in_a_variable_is_told_with_its_name() {
    for (variable, value, message) in MISTAKES {
        assert_eq!(messages(BUCKET, &[(variable, value)]), [*message]);
    }
}

#[test]
fn a_variable_that_contradicts_the_file_is_the_one_to_blame() {
    let text = format!("{BUCKET}\nreservoir.target_ready = 10");
    let variable = "GATE_BUCKET__ORDERS__MAX_CONNECTIONS";
    let messages = messages(&text, &[(variable, "5")]);
    assert!(
        messages[0].starts_with(&format!("{variable}: bucket \"orders\": reservoir.target_ready (10)")),
        "{messages:?}"
    );
}

#[test]
fn two_variables_for_one_setting_are_a_mistake() {
    let messages = messages(BUCKET, &[("GATE_LISTEN__ADMIN", "127.0.0.1:1"), ("gate_listen__admin", "127.0.0.1:2")]);
    assert_eq!(messages, ["gate_listen__admin: GATE_LISTEN__ADMIN says the same in another case; remove one of them"]);
}
