//! Who may come: PgBouncer's user file.
//!
//! A line has a name and a secret, both in double quotes; a quote inside is doubled; what follows is ignored. Lines
//! that are empty or begin with `;` are comments. A secret is a password, an md5 hash, or a SCRAM-SHA-256 verifier, the
//! latter two as Postgres stores them.

use std::collections::HashMap;
use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::scram::{ITERATIONS, MECHANISM, Verifier, sign};
use super::secret::{Secret, md5_hex};

/// The users of a file, and how users who are not in it are made to look as if they were.
pub struct Users {
    secrets: HashMap<String, Secret>,
    key: Zeroizing<[u8; 32]>,
    strangers: Strangers,
}

/// What strangers pretend to have: what most likely somebody in the file has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strangers {
    Md5,
    Scram { iterations: u32 },
}

/// A line that cannot be read. It does not show the line's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsersError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub mistake: Mistake,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// It is not two texts in double quotes.
    Quotes,
    /// The name is empty.
    NoName,
    /// The secret is empty.
    NoSecret,
    /// The secret begins like a SCRAM verifier and does not go on like one.
    Verifier,
    /// The name stands on an earlier line too.
    Twice,
}

impl Users {
    /// Reads a file's text. Plain passwords are turned into SCRAM verifiers here, which takes about a millisecond each,
    /// rather than at each login. `key` is random and stays in this process: salts are drawn with it.
    pub fn parse(text: &str, key: [u8; 32]) -> Result<Self, UsersError> {
        let strangers = Strangers::Scram { iterations: ITERATIONS };
        let mut users = Self { secrets: HashMap::new(), key: Zeroizing::new(key), strangers };
        for (line, text) in (1..).zip(text.lines()) {
            users.add(text).map_err(|mistake| UsersError { line, mistake })?;
        }
        users.strangers = users.likeliest();
        Ok(users)
    }

    /// What is known of a user's password.
    pub fn get(&self, user: &str) -> Option<&Secret> {
        self.secrets.get(user)
    }

    /// How many users there are.
    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// A secret that nothing fits, and that the same name always gets, as a real one would be the same.
    pub(super) fn stand_in(&self, user: &str) -> Secret {
        match self.strangers {
            Strangers::Md5 => Secret::Md5(self.unmatched_md5(user)),
            Strangers::Scram { .. } => Secret::Scram(self.unmatched_verifier(user)),
        }
    }

    pub(super) fn unmatched_md5(&self, user: &str) -> SecretString {
        md5_hex(&self.draw("md5", user))
    }

    pub(super) fn unmatched_verifier(&self, user: &str) -> Verifier {
        let iterations = match self.strangers {
            Strangers::Scram { iterations } => iterations,
            Strangers::Md5 => ITERATIONS,
        };
        Verifier::unmatched(&self.salt(user), iterations, *sign(&self.key, &[b"key ", user.as_bytes()].concat()))
    }

    fn add(&mut self, line: &str) -> Result<(), Mistake> {
        let Some((name, secret)) = read_line(line)? else { return Ok(()) };
        if self.secrets.contains_key(&name) {
            return Err(Mistake::Twice);
        }
        let secret = self.understand(&name, secret)?;
        self.secrets.insert(name, secret);
        Ok(())
    }

    fn understand(&self, user: &str, secret: SecretString) -> Result<Secret, Mistake> {
        let text = secret.expose_secret();
        if text.starts_with(MECHANISM) && text[MECHANISM.len()..].starts_with('$') {
            return Verifier::parse(text).map(Secret::Scram).ok_or(Mistake::Verifier);
        }
        if is_md5(text) {
            return Ok(Secret::Md5(secret));
        }
        let verifier = Verifier::derive(text, &self.salt(user), ITERATIONS);
        Ok(Secret::Plain { password: secret, verifier })
    }

    /// A user with a plain password has the very salt that it would have as a stranger: a salt tells nothing, not even
    /// when it changes with the key.
    fn salt(&self, user: &str) -> [u8; 16] {
        self.draw("salt", user)
    }

    fn draw(&self, purpose: &str, user: &str) -> [u8; 16] {
        let signature = sign(&self.key, format!("{purpose} {user}").as_bytes());
        std::array::from_fn(|at| signature[at])
    }

    /// Md5 if all have that; otherwise SCRAM, as often iterated as the verifier that costs the most.
    fn likeliest(&self) -> Strangers {
        let verifiers = self.secrets.values().filter_map(|secret| match secret {
            Secret::Plain { verifier, .. } | Secret::Scram(verifier) => Some(verifier.iterations()),
            Secret::Md5(_) => None,
        });
        match verifiers.max() {
            Some(iterations) => Strangers::Scram { iterations },
            None if self.is_empty() => self.strangers,
            None => Strangers::Md5,
        }
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.len())
    }
}

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mistake = match self.mistake {
            Mistake::Quotes => "expected \"user\" \"secret\", both in double quotes",
            Mistake::NoName => "the user's name is empty",
            Mistake::NoSecret => "the secret is empty",
            Mistake::Verifier => {
                "the SCRAM secret is broken; expected SCRAM-SHA-256$iterations:salt$stored key:server key"
            }
            Mistake::Twice => "this user stands on an earlier line already",
        };
        write!(f, "line {}: {mistake}", self.line)
    }
}

impl std::error::Error for UsersError {}

fn read_line(line: &str) -> Result<Option<(String, SecretString)>, Mistake> {
    let line = line.trim_start();
    if line.is_empty() || line.starts_with(';') {
        return Ok(None);
    }
    let (name, rest) = read_quoted(line).ok_or(Mistake::Quotes)?;
    let (secret, _) = read_quoted(rest.trim_start()).ok_or(Mistake::Quotes)?;
    if name.is_empty() {
        return Err(Mistake::NoName);
    }
    if secret.is_empty() {
        return Err(Mistake::NoSecret);
    }
    Ok(Some((name.to_string(), secret.as_str().into())))
}

/// A text in double quotes, and what follows it.
fn read_quoted(text: &str) -> Option<(Zeroizing<String>, &str)> {
    let mut rest = text.strip_prefix('"')?;
    // As much as can be needed, since a string that grows leaves its former self behind in memory.
    let mut read = Zeroizing::new(String::with_capacity(rest.len()));
    loop {
        let (part, behind) = rest.split_once('"')?;
        read.push_str(part);
        match behind.strip_prefix('"') {
            Some(more) => {
                read.push('"');
                rest = more;
            }
            None => return Some((read, behind)),
        }
    }
}

/// `md5` and 32 hexadecimal digits; anything else that begins so is a password.
fn is_md5(text: &str) -> bool {
    let digits = text.strip_prefix("md5");
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests;
