//! What is wrong with a configuration, where, and what to do about it.

use std::fmt;
use std::path::PathBuf;

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the file, at a line counted from 1; without one, the file as a whole.
    File(PathBuf, Option<usize>),
    /// In a variable of the environment.
    Variable(String),
}

/// One thing that is wrong, or deserves a look.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What, and the way out.
    pub text: String,
}

/// Everything that is wrong with a configuration, in the order of the file.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file, Some(line)) => write!(f, "{}:{line}", file.display()),
            Self::File(file, None) => write!(f, "{}", file.display()),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}
