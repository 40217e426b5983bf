//! Collects what is wrong, and knows where each setting was written.

use std::collections::BTreeMap;

use super::problem::{Place, Problem, Problems};
use super::source::{Source, Span};

/// A setting: the position of the bucket that it belongs to, if it belongs to one, and its dotted name.
pub(super) type Key = (Option<usize>, String);

/// What was found so far.
pub(super) struct Report<'s> {
    source: &'s Source,
    buckets: Vec<String>,
    written: BTreeMap<Key, Span>,
    problems: Vec<Problem>,
    notes: Vec<Problem>,
}

impl<'s> Report<'s> {
    pub(super) fn new(source: &'s Source) -> Self {
        Self { source, buckets: Vec::new(), written: BTreeMap::new(), problems: Vec::new(), notes: Vec::new() }
    }

    pub(super) fn source(&self) -> &'s Source {
        self.source
    }

    pub(super) fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Another bucket begins; this is what messages call it.
    pub(super) fn begin_bucket(&mut self, name: Option<&str>) {
        let number = self.buckets.len() + 1;
        self.buckets.push(name.map_or_else(|| format!("bucket {number}"), |name| format!("bucket {name:?}")));
    }

    /// A setting was written, and where.
    pub(super) fn wrote(&mut self, bucket: Option<usize>, key: &str, span: Span) {
        self.written.insert((bucket, key.to_owned()), span);
    }

    /// Something is wrong with settings that contradict each other. The first that was written tells the place; one
    /// from the environment before one from the file, since it was written last.
    pub(super) fn problem(&mut self, bucket: Option<usize>, keys: &[&str], text: String) {
        let problem = Problem { place: self.place(bucket, keys), text: self.in_bucket(bucket, text) };
        self.problems.push(problem);
    }

    /// Something is wrong at a place.
    pub(super) fn problem_at(&mut self, span: &Span, bucket: Option<usize>, text: String) {
        let problem = Problem { place: self.source.place(span), text: self.in_bucket(bucket, text) };
        self.problems.push(problem);
    }

    /// Something is not wrong but deserves a look.
    pub(super) fn note(&mut self, bucket: Option<usize>, keys: &[&str], text: String) {
        let note = Problem { place: self.place(bucket, keys), text: self.in_bucket(bucket, text) };
        self.notes.push(note);
    }

    /// Where the first of these settings was written; failing all, the section or the bucket that they belong to.
    pub(super) fn place(&self, bucket: Option<usize>, keys: &[&str]) -> Place {
        let written = |key: &str| self.written.get(&(bucket, key.to_owned()));
        let spans = || keys.iter().filter_map(|key| written(key));
        let section = |key: &str| key.rsplit_once('.').and_then(|(section, _)| written(section));
        spans()
            .find(|span| self.source.variable(span).is_some())
            .or_else(|| spans().next())
            .or_else(|| keys.iter().find_map(|key| section(key)))
            .or_else(|| written(""))
            .map_or_else(|| self.source.whole_file(), |span| self.source.place(span))
    }

    /// Where a setting was written, if it was, from its key to the end of its value.
    pub(super) fn written(&self, key: &Key) -> Option<&Span> {
        self.written.get(key)
    }

    /// The settings that came from the environment, each with its variable.
    pub(super) fn overrides(&self) -> BTreeMap<Key, String> {
        let variable = |(key, span): (&Key, &Span)| Some((key.clone(), self.source.variable(span)?.name.clone()));
        self.written.iter().filter_map(variable).collect()
    }

    /// The notes, if nothing is wrong.
    pub(super) fn finish(mut self) -> Result<Vec<Problem>, Problems> {
        self.problems.sort();
        self.notes.sort();
        if self.problems.is_empty() { Ok(self.notes) } else { Err(Problems(self.problems)) }
    }

    fn in_bucket(&self, bucket: Option<usize>, text: String) -> String {
        match bucket.and_then(|bucket| self.buckets.get(bucket)) {
            Some(bucket) => format!("{bucket}: {text}"),
            None => text,
        }
    }
}
