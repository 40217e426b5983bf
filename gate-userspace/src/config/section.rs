//! Reads one table of the configuration, key by key, and complains about the keys that nobody asked for.

use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::report::Report;
use super::setting::Setting;

/// A table, less the keys that were read already.
pub(super) struct Section<'r, 's> {
    report: &'r mut Report<'s>,
    bucket: Option<usize>,
    /// What stands before its keys in a message: nothing, or the section's name and a dot.
    prefix: String,
    table: DeTable<'s>,
    known: Vec<&'static str>,
}

impl<'s> Section<'_, 's> {
    /// Reads the whole document.
    pub(super) fn root<T>(
        table: DeTable<'s>,
        report: &mut Report<'s>,
        read: impl FnOnce(&mut Section<'_, 's>) -> T,
    ) -> T {
        Section { report, bucket: None, prefix: String::new(), table, known: Vec::new() }.read(read)
    }

    /// A setting that may be left out.
    pub(super) fn optional<T: Setting>(&mut self, key: &'static str) -> Option<T> {
        let value = self.take(key)?;
        let (span, source) = (value.span(), self.report.source());
        let read = T::read(value).or_else(|unread| match source.variable(&span) {
            // What looks like a number may have been meant as a name.
            Some(variable) => T::read(Spanned::new(span, DeValue::String(variable.value.as_str().into()))),
            None => Err(unread),
        });
        let span = match read {
            Ok(value) => return Some(value),
            Err(unread) => unread,
        };
        let written = source.written(&span);
        let is_short = written.len() <= 60 && !written.contains('\n');
        let found = if T::IS_SECRET || !is_short { String::new() } else { format!(", not {written}") };
        let text = format!("{}{key} must be {}{found}", self.prefix, T::wants());
        self.report.problem_at(&span, self.bucket, text);
        None
    }

    /// A setting with a default.
    pub(super) fn or<T: Setting>(&mut self, key: &'static str, default: T) -> T {
        self.optional(key).unwrap_or(default)
    }

    /// A setting that must be there. The default stands in for one that is not, which is reported.
    pub(super) fn required<T: Setting>(&mut self, key: &'static str, stand_in: T) -> T {
        if !self.table.contains_key(key) {
            let text = format!("{}{key} is missing; it must be {}", self.prefix, T::wants());
            self.problem(&[key], text);
        }
        self.or(key, stand_in)
    }

    /// A path, relative to the file's folder.
    pub(super) fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        let path: PathBuf = self.optional(key)?;
        Some(self.report.source().folder().join(path))
    }

    /// A table within; an empty one, if it is left out.
    pub(super) fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'_, 's>) -> T) -> T {
        let table = self.take(key).map(|value| (value.span(), value.into_inner()));
        let table = match table {
            None => DeTable::new(),
            Some((_, DeValue::Table(table))) => table,
            Some((span, _)) => {
                let text = format!("{}{key} must be a table, such as {key} = {{ … }}", self.prefix);
                self.report.problem_at(&span, self.bucket, text);
                DeTable::new()
            }
        };
        let prefix = format!("{}{key}.", self.prefix);
        Section { report: self.report, bucket: self.bucket, prefix, table, known: Vec::new() }.read(read)
    }

    /// A table within, if it is there.
    pub(super) fn optional_section<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Section<'_, 's>) -> T,
    ) -> Option<T> {
        if self.table.contains_key(key) {
            return Some(self.section(key, read));
        }
        self.known.push(key);
        None
    }

    /// The buckets.
    pub(super) fn buckets<T>(&mut self, mut read: impl FnMut(&mut Section<'_, 's>) -> T) -> Vec<T> {
        let Some(buckets) = self.take("bucket") else { return Vec::new() };
        let span = buckets.span();
        let DeValue::Array(buckets) = buckets.into_inner() else {
            let text = "write [[bucket]], with two brackets: there may be several";
            self.report.problem_at(&span, None, text.to_owned());
            return Vec::new();
        };
        let mut read_one = |(at, bucket): (usize, Spanned<DeValue<'s>>)| {
            let span = bucket.span();
            self.report.begin_bucket(bucket.get_ref().get("name").and_then(|name| name.get_ref().as_str()));
            self.report.wrote(Some(at), "", span.clone());
            let DeValue::Table(table) = bucket.into_inner() else {
                self.report.problem_at(&span, Some(at), "it must be a table".to_owned());
                return None;
            };
            let section =
                Section { report: self.report, bucket: Some(at), prefix: String::new(), table, known: Vec::new() };
            Some(section.read(&mut read))
        };
        buckets.into_iter().enumerate().filter_map(&mut read_one).collect()
    }

    /// Something is wrong with these keys.
    pub(super) fn problem(&mut self, keys: &[&str], text: String) {
        let keys: Vec<_> = keys.iter().map(|key| format!("{}{key}", self.prefix)).collect();
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        self.report.problem(self.bucket, &keys, text);
    }

    /// Takes a key out of the table, and notes where it was written, from the key to the end of its value.
    fn take(&mut self, key: &'static str) -> Option<Spanned<DeValue<'s>>> {
        self.known.push(key);
        let (written, value) = self.table.remove_entry(key)?;
        let span = written.span().start..value.span().end;
        self.report.wrote(self.bucket, &format!("{}{key}", self.prefix), span);
        Some(value)
    }

    fn read<T>(mut self, read: impl FnOnce(&mut Section<'_, 's>) -> T) -> T {
        let value = read(&mut self);
        for key in self.table.keys() {
            let (span, key) = (key.span(), key.get_ref());
            let distance = |known: &&str| strsim::damerau_levenshtein(known, key);
            let near =
                self.known.iter().copied().min_by_key(distance).filter(|near| distance(near) <= 1 + near.len() / 4);
            let way_out = match near {
                Some(near) => format!("did you mean {near}?"),
                None => format!("known here: {}", self.known.join(", ")),
            };
            self.report.problem_at(&span, self.bucket, format!("unknown key {}{key}; {way_out}", self.prefix));
        }
        value
    }
}
