use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn hello<'a>(protocol: Protocol, database: &'a str, user: &'a str) -> Hello<'a> {
    Hello { protocol, database, user }
}

fn postgres(databases: &[&str], users: &[&str]) -> Route {
    Route::new(Protocol::Postgres, databases, users)
}

/// A route alone, as a yes or no.
fn matches(route: &Route, hello: &Hello<'_>) -> bool {
    Router::new([route.clone()]).route(hello).is_some()
}

fn any_route() -> impl Strategy<Value = Route> {
    let protocol = prop_oneof![Just(Protocol::Postgres), Just(Protocol::Tds)];
    let patterns = || vec("[abA*?]{0,3}", 1..4);
    (protocol, patterns(), patterns()).prop_map(|(protocol, databases, users)| Route::new(protocol, databases, users))
}

proptest! {
    #[test]
    fn the_first_route_that_matches_wins(
        routes in vec(any_route(), 0..6),
        database in "[abA]{0,3}",
        user in "[abA]{0,3}",
    ) {
        for protocol in [Protocol::Postgres, Protocol::Tds] {
            let hello = hello(protocol, &database, &user);
            let first = routes.iter().position(|route| matches(route, &hello));
            prop_assert_eq!(Router::new(routes.clone()).route(&hello), first);
        }
    }

    #[test]
    fn a_shadowed_route_is_never_taken_and_its_shadows_take_what_it_matches(
        routes in vec(any_route(), 0..6),
        database in "[abA]{0,3}",
        user in "[abA]{0,3}",
    ) {
        for (at, takers) in shadowed(&routes) {
            let hello = hello(routes[at].protocol, &database, &user);
            prop_assert_ne!(Router::new(routes.clone()).route(&hello), Some(at));
            if matches(&routes[at], &hello) {
                prop_assert!(takers.iter().any(|&taker| matches(&routes[taker], &hello)));
            }
        }
    }
}

#[test]
fn a_login_must_fit_protocol_database_and_user() {
    let router = Router::new([postgres(&["orders", "orders_*"], &["app", "app_?"])]);
    for (database, user, expected) in
        [("orders", "app", Some(0)), ("orders_eu", "app_1", Some(0)), ("orders", "root", None), ("stock", "app", None)]
    {
        assert_eq!(router.route(&hello(Protocol::Postgres, database, user)), expected, "{database} {user}");
    }
    assert_eq!(router.route(&hello(Protocol::Tds, "orders", "app")), None);
}

#[test]
fn an_earlier_pattern_wins_over_a_later_name_and_an_earlier_name_over_a_later_pattern() {
    let router = Router::new([postgres(&["b"], &["*"]), postgres(&["a*"], &["*"]), postgres(&["ab", "b*"], &["*"])]);
    let route = |database| router.route(&hello(Protocol::Postgres, database, "u"));
    assert_eq!([route("ab"), route("b"), route("bb")], [Some(1), Some(0), Some(2)]);
}

#[test]
fn a_name_that_two_routes_list_goes_to_the_first_whose_users_fit() {
    let router = Router::new([postgres(&["orders"], &["batch"]), postgres(&["orders"], &["*"])]);
    assert_eq!(router.route(&hello(Protocol::Postgres, "orders", "batch")), Some(0));
    assert_eq!(router.route(&hello(Protocol::Postgres, "orders", "web")), Some(1));
}

#[test]
fn case_matters_to_postgres_and_not_to_sql_server() {
    for (protocol, same) in [(Protocol::Postgres, None), (Protocol::Tds, Some(0))] {
        let router = Router::new([Route::new(protocol, ["Orders", "ÉTÉ_*"], ["App"])]);
        assert_eq!(router.route(&hello(protocol, "Orders", "App")), Some(0));
        assert_eq!(router.route(&hello(protocol, "ORDERS", "app")), same);
        assert_eq!(router.route(&hello(protocol, "été_1", "aPP")), same);
    }
}

#[test]
fn a_route_is_shadowed_by_what_earlier_ones_take_together() {
    let everyone = ["*"];
    let routes = [
        postgres(&["a"], &everyone),
        postgres(&["b*"], &everyone),
        postgres(&["c"], &["root"]),
        postgres(&["a", "b1", "b2*"], &["app", "root"]),
        postgres(&["a", "c"], &["app"]),
        Route::new(Protocol::Tds, ["a"], everyone),
    ];
    assert_eq!(shadowed(&routes), [(3, BTreeSet::from([0, 1]))]);
}

#[test]
fn a_hundred_thousand_names_are_told_apart() {
    let bucket = |bucket: usize| (0..1_000).map(move |tenant| format!("tenant_{bucket}_{tenant}"));
    let router = Router::new((0..100).map(|at| Route::new(Protocol::Tds, bucket(at), ["*".to_owned()])));
    for (at, tenant) in [(0, 0), (37, 999), (99, 500)] {
        assert_eq!(router.route(&hello(Protocol::Tds, &format!("TENANT_{at}_{tenant}"), "app")), Some(at));
    }
    assert_eq!(router.route(&hello(Protocol::Tds, "tenant_100_0", "app")), None);
}
