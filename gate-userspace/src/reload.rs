//! A changed configuration, while the gate runs: applies what can be applied, and says what cannot.
//!
//! Users and `max_connections` take effect at once. Everything else decides how a bucket is built, and needs a restart.

use std::collections::BTreeSet;

use anyhow::Result;
use toml::Table;

use crate::config::Config;
use crate::gate::Gate;

/// What a reload did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Changes that are in force.
    pub applied: Vec<String>,
    /// Changes that need a restart.
    pub left: Vec<String>,
}

/// Applies a configuration to a running gate. If a user file cannot be read, nothing changes.
pub fn apply(gate: &Gate, config: &Config) -> Result<Reloaded> {
    let mut reloaded = Reloaded::default();
    let users = config.buckets.iter().map(crate::gate::users).collect::<Result<Vec<_>>>()?;
    for (new, users) in config.buckets.iter().zip(users) {
        let Some(at) = gate.buckets.iter().position(|bucket| bucket.name() == new.name) else {
            reloaded.left.push(format!("bucket \"{}\" is new", new.name));
            continue;
        };
        let bucket = &gate.buckets[at];
        for key in changed(&Table::try_from(&bucket.settings)?, &Table::try_from(new)?) {
            if key != "max_connections" && key != "clients" {
                reloaded.left.push(format!("bucket \"{}\": {key}", new.name));
            }
        }
        if gate.set_users(at, users) {
            reloaded.applied.push(format!("bucket \"{}\": users", new.name));
        }
        if bucket.set_limit(new.max_connections) {
            reloaded.applied.push(format!("bucket \"{}\": max_connections = {}", new.name, new.max_connections));
        }
    }
    let names: BTreeSet<_> = config.buckets.iter().map(|bucket| bucket.name.as_str()).collect();
    let gone = gate.buckets.iter().map(|bucket| bucket.name()).filter(|name| !names.contains(name));
    reloaded.left.extend(gone.map(|name| format!("bucket \"{name}\" is gone")));
    Ok(reloaded)
}

/// The keys, with those of the tables within, whose values differ.
fn changed(old: &Table, new: &Table) -> Vec<String> {
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let mut changed = Vec::new();
    for key in keys {
        match (old.get(key), new.get(key)) {
            (Some(toml::Value::Table(old)), Some(toml::Value::Table(new))) if key != "clients" => {
                changed.extend(self::changed(old, new).into_iter().map(|within| format!("{key}.{within}")));
            }
            (old, new) if old != new => changed.push(key.clone()),
            _ => {}
        }
    }
    changed
}
