//! Whether the settings make sense, each for itself and all together.
//!
//! A message names the keys with their values, says what would go wrong, and ends with the way out.

mod limits;
mod listeners;
mod logins;

use std::collections::BTreeMap;
use std::fmt::Display;

use gate_core::route;

use super::environment::environment_name;
use super::report::Report;

use super::{Bucket, Config};

/// Reports everything that is wrong with a configuration.
pub(super) fn validate(config: &Config, environment: &BTreeMap<String, String>, report: &mut Report<'_>) {
    if config.buckets.is_empty() {
        let text = "there is no bucket, so nobody could be served; add a [[bucket]] with name, protocol and endpoints";
        report.problem(None, &[], text.to_owned());
    }
    listeners::validate(config, report);
    for (at, bucket) in config.buckets.iter().enumerate() {
        let mut checked = Checked { at, bucket, report };
        name(&mut checked);
        limits::validate(&mut checked);
        logins::validate(&mut checked, environment);
    }
    name_twins(&config.buckets, report);
    routes(&config.buckets, report);
}

/// A bucket that is being checked.
struct Checked<'r, 's> {
    at: usize,
    bucket: &'r Bucket,
    report: &'r mut Report<'s>,
}

impl Checked<'_, '_> {
    /// Something is wrong with these keys of the bucket.
    fn problem(&mut self, keys: &[&str], text: impl Display) {
        self.report.problem(Some(self.at), keys, text.to_string());
    }

    /// Something deserves a look.
    fn note(&mut self, keys: &[&str], text: impl Display) {
        self.report.note(Some(self.at), keys, text.to_string());
    }
}

fn name(checked: &mut Checked<'_, '_>) {
    let name = &checked.bucket.name;
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit());
    if name.len() > 63 || !name.split(['-', '_']).all(is_word) {
        checked.problem(
            &["name"],
            "name must be 1 to 63 of a-z and 0-9, with single - or _ between them, because it becomes a metric's \
             label, part of a variable's name and part of a Redis key; rename the bucket",
        );
    }
}

/// Buckets whose names are the same, or become the same in the environment.
fn name_twins(buckets: &[Bucket], report: &mut Report<'_>) {
    let mut seen = BTreeMap::new();
    for (at, Bucket { name, .. }) in buckets.iter().enumerate() {
        let Some(first) = seen.insert(environment_name(name), at) else { continue };
        let (twin, place) = (&buckets[first].name, report.place(Some(first), &["name"]));
        let text = if twin == name {
            format!("name is taken by another bucket ({place}); rename one of them")
        } else {
            let variable = environment_name(name).to_ascii_uppercase();
            format!(
                "name is that of bucket {twin:?} ({place}) once it is part of a variable, GATE_BUCKET__{variable}__…; \
                 rename one of them"
            )
        };
        report.problem(Some(at), &["name"], text);
    }
}

/// Buckets that no login can reach.
fn routes(buckets: &[Bucket], report: &mut Report<'_>) {
    for (at, bucket) in buckets.iter().enumerate() {
        for (key, names) in [("route.database", &bucket.route.database), ("route.user", &bucket.route.user)] {
            if names.is_empty() {
                let text = format!(
                    "{key} is an empty list, which nobody matches; fill it, or leave it out to match everybody"
                );
                report.problem(Some(at), &[key], text);
            }
        }
    }
    let route = |bucket: &Bucket| route::Route::new(bucket.protocol, &bucket.route.database, &bucket.route.user);
    let routes: Vec<_> = buckets.iter().map(route).collect();
    for (at, takers) in route::shadowed(&routes) {
        let names: Vec<_> = takers.iter().map(|&taker| format!("{:?}", buckets[taker].name)).collect();
        if names.is_empty() {
            continue;
        }
        let text = format!(
            "route can never match: whoever fits it goes to bucket {} first; move this bucket up, or narrow that \
             route",
            names.join(" and "),
        );
        report.problem(Some(at), &["route.database", "route.user"], text);
    }
}
