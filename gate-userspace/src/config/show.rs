//! What would be used, for people to read and for the gate to read again.

use std::collections::BTreeMap;
use std::path::Path;

use super::report::{Key, Report};
use super::source::Source;
use super::{Bucket, Loaded, read};

impl Loaded {
    /// The whole configuration as TOML, defaults included and secrets masked. What came from the environment says so
    /// in a comment.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let mut text = toml::to_string(&self.config)?;
        // Reading the text again tells where in it each setting ends.
        let source = Source::new(Path::new(""), text.clone().into(), &BTreeMap::new());
        let mut report = Report::new(&source);
        read::config(source.document(&mut report), &mut report);
        let mut comments: Vec<_> =
            self.overridden().filter_map(|(key, variable)| Some((report.written(key)?.end, variable))).collect();
        comments.sort();
        for (end, variable) in comments.into_iter().rev() {
            text.insert_str(end, &format!(" # from {variable}"));
        }
        Ok(text)
    }

    /// The settings that came from the environment, without the sections around them.
    fn overridden(&self) -> impl Iterator<Item = (&Key, &String)> {
        let is_section = |(bucket, section): &Key| {
            self.overrides.keys().any(|(other, key)| {
                other == bucket && key.strip_prefix(section.as_str()).is_some_and(|rest| rest.starts_with('.'))
            })
        };
        self.overrides.iter().filter(move |(key, _)| !is_section(key))
    }
}

impl Bucket {
    /// One line: who is served by what, and how.
    pub fn summary(&self) -> String {
        let Self { name, protocol, mode, auth, max_connections, .. } = self;
        let (database, user) = (some_of(&self.route.database), some_of(&self.route.user));
        let (endpoints, ready) = (some_of(&self.endpoints), self.reservoir.target_ready);
        let kind = format!("{protocol:?}, {mode:?} mode, auth {auth:?}").to_lowercase();
        format!(
            "{name}: database {database}, user {user} → {endpoints}; at most {max_connections} connections, {ready} \
             of them ready; {kind}"
        )
    }
}

/// A list that may have thousands of entries, in a few words.
fn some_of(list: &[impl ToString]) -> String {
    const SHOWN: usize = 3;
    let shown = list.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(" | ");
    match list.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} | {more} more"),
    }
}
