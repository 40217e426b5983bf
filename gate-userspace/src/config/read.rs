//! From a document to a [`Config`]: which keys there are, and what stands in for those that are left out.

use gate_core::route::Protocol;
use toml::de::DeTable;

use super::report::Report;
use super::section::Section;
use super::{
    Backend, Bucket, Clients, Config, Listen, Password, Queue, Rate, Reservoir, Route, TenantKey, Tenants, defaults,
};

/// Reads everything. What cannot be read is reported, and its default stands in.
pub(super) fn config<'s>(document: DeTable<'s>, report: &mut Report<'s>) -> Config {
    Section::root(document, report, |root| Config {
        listen: root.section("listen", listen),
        buckets: root.buckets(bucket),
    })
}

fn listen(section: &mut Section<'_, '_>) -> Listen {
    Listen {
        postgres: section.or("postgres", Vec::new()),
        tds: section.or("tds", Vec::new()),
        admin: section.or("admin", defaults::ADMIN),
    }
}

fn bucket(section: &mut Section<'_, '_>) -> Bucket {
    let (mode, auth) = (section.optional("mode"), section.optional("auth"));
    let max_connections = section.or("max_connections", defaults::MAX_CONNECTIONS);
    Bucket {
        name: section.required("name", String::new()),
        protocol: section.required("protocol", Protocol::Postgres),
        endpoints: section.required("endpoints", Vec::new()),
        mode: mode.unwrap_or(defaults::mode(auth)),
        auth: auth.unwrap_or(defaults::auth(mode)),
        max_connections,
        dispatch_limit: section.or("dispatch_limit", defaults::DISPATCH_LIMIT),
        route: section.section("route", route),
        tenants: section.optional_section("tenants", tenants),
        clients: section.section("clients", clients),
        backend: section.section("backend", backend),
        reservoir: section.section("reservoir", |section| reservoir(section, max_connections)),
        rate: section.section("rate", rate),
        queue: section.section("queue", queue),
    }
}

fn route(section: &mut Section<'_, '_>) -> Route {
    let everything = || vec![defaults::EVERYTHING.to_owned()];
    Route { database: section.or("database", everything()), user: section.or("user", everything()) }
}

fn tenants(section: &mut Section<'_, '_>) -> Tenants {
    Tenants { key: section.required("key", TenantKey::User), max_connections: section.optional("max_connections") }
}

fn clients(section: &mut Section<'_, '_>) -> Clients {
    Clients {
        auth_file: section.path("auth_file"),
        method: section.optional("method"),
        trust: section.or("trust", defaults::TRUST),
        list: None,
    }
}

fn backend(section: &mut Section<'_, '_>) -> Backend {
    let written = section.optional("password").map(Password::Written);
    let variable = section.optional("password_env").map(Password::Variable);
    let file = section.path("password_file").map(Password::File);
    let mut passwords = [written, variable, file].into_iter().flatten();
    let password = passwords.next();
    if passwords.next().is_some() {
        let text = "backend has more than one password; keep one of password, password_env and password_file";
        section.problem(&["password", "password_env", "password_file"], text.to_owned());
    }
    Backend { user: section.optional("user"), password, database: section.optional("database") }
}

fn reservoir(section: &mut Section<'_, '_>, max_connections: u32) -> Reservoir {
    let target_ready = section.or("target_ready", defaults::target_ready(max_connections));
    Reservoir {
        target_ready,
        min_ready: section.or("min_ready", defaults::min_ready(target_ready)),
        low_watermark: section.or("low_watermark", defaults::low_watermark(target_ready)),
        cool_after: section.or("cool_after", defaults::COOL_AFTER),
        base_lifetime: section.or("base_lifetime", defaults::BASE_LIFETIME),
        lifetime_jitter: section.or("lifetime_jitter", defaults::LIFETIME_JITTER),
        guard_window: section.or("guard_window", defaults::GUARD_WINDOW),
        empty_wait: section.or("empty_wait", defaults::EMPTY_WAIT),
        connect_timeout: section.or("connect_timeout", defaults::CONNECT_TIMEOUT),
    }
}

fn rate(section: &mut Section<'_, '_>) -> Rate {
    let per_second = section.or("per_second", defaults::RATE_PER_SECOND);
    Rate { per_second, burst: section.or("burst", defaults::burst(per_second)) }
}

fn queue(section: &mut Section<'_, '_>) -> Queue {
    Queue {
        depth: section.or("depth", defaults::QUEUE_DEPTH),
        timeout: section.or("timeout", defaults::QUEUE_TIMEOUT),
        shed_at: section.or("shed_at", defaults::SHED_AT),
    }
}
