//! The file and the variables that override it, as one document in which every value knows its place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use secrecy::zeroize::Zeroizing;
use toml::de::DeTable;

use super::environment::Override;
use super::problem::{Place, Problem, Problems};
use super::report::Report;

/// The largest file that is read, in bytes: some hundred thousand names fit in it.
const MAX_FILE: u64 = 16 << 20;

/// Where a value stands: in the file by its bytes, or beyond the file's end by the number of its variable.
pub(super) type Span = Range<usize>;

/// What a configuration is read from.
pub(super) struct Source {
    file: PathBuf,
    /// It may hold passwords.
    text: Zeroizing<String>,
    line_ends: Vec<usize>,
    overrides: Vec<Override>,
}

impl Source {
    /// Reads the file, and picks the variables that concern it.
    pub(super) fn open(file: &Path, environment: &BTreeMap<String, String>) -> Result<Self, Problems> {
        let place = || Place::File(file.to_owned(), None);
        let text = read(file).map_err(|text| Problems(vec![Problem { place: place(), text }]))?;
        Ok(Self::new(file, text, environment))
    }

    /// A file whose text is already known.
    pub(super) fn new(file: &Path, text: Zeroizing<String>, environment: &BTreeMap<String, String>) -> Self {
        let line_ends = text.match_indices('\n').map(|(at, _)| at).collect();
        let overrides = environment.iter().filter_map(|(name, value)| Override::new(name, value)).collect();
        Self { file: file.to_owned(), text, line_ends, overrides }
    }

    /// The file with the variables' values in it.
    pub(super) fn document(&self, report: &mut Report<'_>) -> DeTable<'_> {
        let mut document = match DeTable::parse(&self.text) {
            Ok(document) => document.into_inner(),
            Err(error) => {
                let span = error.span().unwrap_or_default();
                report.problem_at(&span, None, format!("this is not TOML: {}", error.message()));
                return DeTable::new();
            }
        };
        for (number, variable) in self.overrides.iter().enumerate() {
            let beyond = self.text.len() + 1 + number;
            let span = beyond..beyond;
            let result = match self.overrides[..number].iter().find(|other| other.path == variable.path) {
                Some(twin) => Err(format!("{} says the same in another case; remove one of them", twin.name)),
                None => variable.apply(&mut document, &span),
            };
            if let Err(text) = result {
                report.problem_at(&span, None, text);
            }
        }
        document
    }

    /// The file as a whole.
    pub(super) fn whole_file(&self) -> Place {
        Place::File(self.file.clone(), None)
    }

    /// The folder that paths in the file are relative to.
    pub(super) fn folder(&self) -> PathBuf {
        let absolute = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        absolute.parent().map(Path::to_owned).unwrap_or_default()
    }

    /// Where a value was written.
    pub(super) fn place(&self, span: &Span) -> Place {
        match self.variable(span) {
            Some(variable) => Place::Variable(variable.name.clone()),
            None => {
                let line = 1 + self.line_ends.partition_point(|end| *end < span.start);
                Place::File(self.file.clone(), Some(line))
            }
        }
    }

    /// A value as it was written.
    pub(super) fn written(&self, span: &Span) -> &str {
        match self.variable(span) {
            Some(variable) => &variable.value,
            None => self.text.get(span.clone()).unwrap_or_default(),
        }
    }

    /// The variable that set this, if one did.
    pub(super) fn variable(&self, span: &Span) -> Option<&Override> {
        self.overrides.get(span.start.checked_sub(self.text.len() + 1)?)
    }
}

fn read(file: &Path) -> Result<Zeroizing<String>, String> {
    let cannot = |error| format!("cannot read it: {error}; name the right file with --config or GATE_CONFIG");
    let mut text = Zeroizing::new(String::new());
    let file = File::open(file).map_err(cannot)?;
    file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > MAX_FILE {
        return Err(format!("it is larger than {} MiB, which no configuration is", MAX_FILE >> 20));
    }
    Ok(text)
}
