//! Where the gate listens, and whether that meets the buckets.

use std::net::{IpAddr, SocketAddr};

use gate_core::route::Protocol;

use super::super::report::Report;
use super::super::{Bucket, Config, Endpoint};

pub(super) fn validate(config: &Config, report: &mut Report<'_>) {
    collisions(config, report);
    for (key, example, protocol, addresses) in protocols(config) {
        let mut buckets = config.buckets.iter().enumerate().filter(|(_, bucket)| bucket.protocol == protocol);
        if addresses.is_empty() {
            for (at, _) in buckets {
                let text = format!("protocol has no listener; add {key} = [{example:?}], or remove the bucket");
                report.problem(Some(at), &["protocol"], text);
            }
        } else if buckets.next().is_none() && !config.buckets.is_empty() {
            let text = format!("{key} is set, but no bucket has that protocol: whoever comes there will be refused");
            report.note(None, &[key], text);
        }
    }
    for (at, bucket) in config.buckets.iter().enumerate() {
        circles(config, at, bucket, report);
    }
}

fn protocols(config: &Config) -> [(&'static str, &'static str, Protocol, &[SocketAddr]); 2] {
    [
        ("listen.postgres", "127.0.0.1:6432", Protocol::Postgres, &config.listen.postgres),
        ("listen.tds", "127.0.0.1:1433", Protocol::Tds, &config.listen.tds),
    ]
}

fn all(config: &Config) -> Vec<(&'static str, SocketAddr)> {
    let clients = protocols(config)
        .into_iter()
        .flat_map(|(key, _, _, addresses)| addresses.iter().map(move |address| (key, *address)));
    clients.chain([("listen.admin", config.listen.admin)]).collect()
}

/// Two listeners on one address. Port 0 is a new port each time.
fn collisions(config: &Config, report: &mut Report<'_>) {
    let listeners = all(config);
    for (at, (key, address)) in listeners.iter().enumerate() {
        let rival = listeners[..at].iter().find(|(_, rival)| {
            let (one, other) = (address.ip(), rival.ip());
            address.port() != 0
                && address.port() == rival.port()
                && (one == other || includes(one, other) || includes(other, one))
        });
        if let Some((rival_key, rival)) = rival {
            let text = format!("{key} {address} collides with {rival_key} {rival}; give one of them another port");
            report.problem(None, &[key, rival_key], text);
        }
    }
}

/// Whether listening on `all` takes what comes to `one`: the address `::` takes IPv4 as well.
fn includes(all: IpAddr, one: IpAddr) -> bool {
    all.is_unspecified() && (all.is_ipv6() || one.is_ipv4())
}

/// A bucket whose database would be the gate itself.
fn circles(config: &Config, at: usize, bucket: &Bucket, report: &mut Report<'_>) {
    let listeners = all(config);
    for endpoint in &bucket.endpoints {
        let Endpoint { host, port } = endpoint;
        let is_local = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        let host_is = |ip: IpAddr| host.parse() == Ok(ip) || (is_local && (ip.is_loopback() || ip.is_unspecified()));
        let circle = listeners.iter().find(|(_, listener)| listener.port() == port.get() && host_is(listener.ip()));
        if let Some((key, listener)) = circle {
            let text =
                format!("endpoints has {endpoint}, the gate itself ({key} {listener}); name the database instead");
            report.problem(Some(at), &["endpoints"], text);
        }
    }
}
