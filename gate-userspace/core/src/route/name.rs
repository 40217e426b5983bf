//! Names of databases and users, compared as their server compares them.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use super::Protocol;

/// Whether names that differ only in case are the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Matters,
    Ignored,
}

impl Case {
    pub(super) fn of(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Postgres => Self::Matters,
            Protocol::Tds => Self::Ignored,
        }
    }

    /// The form in which characters are compared. It is one character for one, so that `?` has a clear meaning; the
    /// one letter that this does not suit, `İ`, is left as it is.
    pub(super) fn fold(self, char: char) -> char {
        match self {
            Self::Matters => char,
            Self::Ignored => {
                let mut lower = char.to_lowercase();
                lower.next().filter(|_| lower.next().is_none()).unwrap_or(char)
            }
        }
    }
}

/// A name whose hash and equality follow its case rule, so that a login's name is looked up as it came, without a
/// folded copy. Names of different rules are not compared with each other.
#[derive(Clone, Debug)]
pub(super) struct Name<'a> {
    case: Case,
    text: Cow<'a, str>,
}

impl<'a> Name<'a> {
    pub(super) fn borrowed(case: Case, text: &'a str) -> Self {
        Self { case, text: Cow::Borrowed(text) }
    }

    pub(super) fn owned(case: Case, text: &str) -> Name<'static> {
        Name { case, text: Cow::Owned(text.to_owned()) }
    }

    pub(super) fn chars(&self) -> impl Iterator<Item = char> + Clone {
        self.text.chars().map(|char| self.case.fold(char))
    }
}

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.chars().eq(other.chars())
    }
}

impl Eq for Name<'_> {}

impl Hash for Name<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.chars().for_each(|char| char.hash(state));
    }
}
