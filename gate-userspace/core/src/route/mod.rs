//! Which bucket a login belongs to.
//!
//! A bucket's [`Route`] lists the database names and the user names that it serves; the first route that matches
//! both wins. Installations list database names by the hundred thousand, spread over some hundred buckets, so a
//! [`Router`] finds a listed name of all buckets by one look into one table, and tries only patterns one by one.
//!
//! Operators also need to hear of a bucket that no login can reach: [`shadowed`] finds routes that are covered by
//! earlier ones.

mod name;
mod pattern;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};

use self::name::{Case, Name};
use self::pattern::Pattern;

/// The language that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Postgres, protocol version 3.
    Postgres,
    /// SQL Server: Tabular Data Stream.
    Tds,
}

/// What a login says about itself, as far as routes ask for it.
#[derive(Clone, Copy, Debug)]
pub struct Hello<'a> {
    /// The protocol of the listener it came to.
    pub protocol: Protocol,
    /// The database it asks for. It is empty if a TDS login leaves the choice to the server; a Postgres login that
    /// names none means the one named like its user.
    pub database: &'a str,
    /// The user it logs in as.
    pub user: &'a str,
}

/// The logins that one bucket serves.
///
/// In a pattern `*` stands for any run of characters, also none, and `?` for exactly one. Postgres names are
/// compared exactly, as Postgres does. TDS names are compared without regard to case, as SQL Server does under its
/// default collation; on a server whose collation is case-sensitive, names that differ only in case share a route.
#[derive(Clone, Debug)]
pub struct Route {
    protocol: Protocol,
    database: Field,
    user: Field,
}

impl Route {
    /// Logins whose database is one of `databases` and whose user is one of `users`. An empty list matches nobody.
    pub fn new<S: AsRef<str>>(
        protocol: Protocol,
        databases: impl IntoIterator<Item = S>,
        users: impl IntoIterator<Item = S>,
    ) -> Self {
        let case = Case::of(protocol);
        Self { protocol, database: Field::new(case, databases), user: Field::new(case, users) }
    }
}

/// Every bucket's route, in their order.
#[derive(Debug)]
pub struct Router {
    /// The names of the databases were moved to the index.
    routes: Vec<Route>,
    postgres: Index,
    tds: Index,
}

impl Router {
    /// A router for these routes; the first has the first say.
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Self {
        let mut router = Self { routes: Vec::new(), postgres: Index::default(), tds: Index::default() };
        for (position, mut route) in routes.into_iter().enumerate() {
            let index = match route.protocol {
                Protocol::Postgres => &mut router.postgres,
                Protocol::Tds => &mut router.tds,
            };
            for name in route.database.names.drain() {
                index.by_name.entry(name).or_default().push(position);
            }
            if !route.database.patterns.is_empty() {
                index.by_pattern.push(position);
            }
            router.routes.push(route);
        }
        router
    }

    /// The position of the first route that matches. Allocates nothing.
    pub fn route(&self, hello: &Hello<'_>) -> Option<usize> {
        let index = match hello.protocol {
            Protocol::Postgres => &self.postgres,
            Protocol::Tds => &self.tds,
        };
        let case = Case::of(hello.protocol);
        let (database, user) = (Name::borrowed(case, hello.database), Name::borrowed(case, hello.user));
        let has_user = |at: usize| self.routes[at].user.matches(&user);
        let by_name = index.named(&database).iter().copied().find(|&at| has_user(at));
        let mut earlier = index.by_pattern.iter().copied().take_while(|&at| by_name.is_none_or(|found| at < found));
        let by_pattern = earlier.find(|&at| self.routes[at].database.matches(&database) && has_user(at));
        by_pattern.or(by_name)
    }
}

/// The routes that can never match, each with the earlier routes that take all its logins.
///
/// What it finds is certain, but it does not find everything: a pattern counts as covered only if a single earlier
/// pattern covers it, and its users only if a single earlier route covers them all.
pub fn shadowed(routes: &[Route]) -> Vec<(usize, BTreeSet<usize>)> {
    let shadow = |at: usize| Some((at, takers(&routes[..at], &routes[at])?));
    (0..routes.len()).filter_map(shadow).collect()
}

/// Tables of names are filled from the configuration alone, so they need no random seed against crafted names.
type Hasher = BuildHasherDefault<DefaultHasher>;

/// The routes of one protocol by what they say about the database, each list in the routes' order.
#[derive(Debug, Default)]
struct Index {
    by_name: HashMap<Name<'static>, Vec<usize>, Hasher>,
    by_pattern: Vec<usize>,
}

impl Index {
    fn named<'a>(&'a self, name: &Name<'a>) -> &'a [usize] {
        // A map of names that live for ever is also a map of names that live as long as this one.
        let by_name: &HashMap<Name<'a>, Vec<usize>, Hasher> = &self.by_name;
        by_name.get(name).map_or(&[], Vec::as_slice)
    }
}

/// What a route says about one field of a login: plain names, found by one look, and patterns, tried one by one.
#[derive(Clone, Debug, Default)]
struct Field {
    names: HashSet<Name<'static>, Hasher>,
    patterns: Vec<Pattern>,
}

impl Field {
    fn new<S: AsRef<str>>(case: Case, texts: impl IntoIterator<Item = S>) -> Self {
        let mut field = Self::default();
        for text in texts {
            let text = text.as_ref();
            if text.contains(['*', '?']) {
                field.patterns.push(Pattern::new(case, text));
            } else {
                field.names.insert(Name::owned(case, text));
            }
        }
        field
    }

    fn matches<'a>(&'a self, name: &Name<'a>) -> bool {
        let names: &HashSet<Name<'a>, Hasher> = &self.names;
        names.contains(name) || self.patterns.iter().any(|pattern| pattern.matches(name))
    }

    fn covers_pattern(&self, other: &Pattern) -> bool {
        self.patterns.iter().any(|pattern| pattern.covers(other))
    }

    fn covers(&self, other: &Self) -> bool {
        other.patterns.iter().all(|pattern| self.covers_pattern(pattern))
            && other.names.iter().all(|name| self.matches(name))
    }
}

/// The earlier routes that together cover `route`, if they do.
fn takers(earlier: &[Route], route: &Route) -> Option<BTreeSet<usize>> {
    let rivals: Vec<_> = (0..earlier.len())
        .filter(|&at| earlier[at].protocol == route.protocol && earlier[at].user.covers(&route.user))
        .collect();
    let rival = |covers: &dyn Fn(&Field) -> bool| rivals.iter().copied().find(|&at| covers(&earlier[at].database));
    let Field { patterns, names } = &route.database;
    let of_patterns = patterns.iter().map(|pattern| rival(&|field| field.covers_pattern(pattern)));
    let of_names = names.iter().map(|name| rival(&|field| field.matches(name)));
    of_patterns.chain(of_names).collect()
}

#[cfg(test)]
mod tests;
