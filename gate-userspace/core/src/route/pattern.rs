//! Patterns with `*` and `?`.
//!
//! Matching walks the text once and remembers only the last `*`: if what follows it does not fit, that `*` takes one
//! character more. An earlier `*` never needs another try, since the last one can take whatever it could. So the
//! worst case is the length of the text times the length of the pattern, for any pattern.

use super::name::{Case, Name};

/// A pattern over one case rule, brought to the form in which it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    tokens: Box<[Token]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// This character.
    Char(char),
    /// `?`: one character, whichever.
    One,
    /// `*`: any run of characters, also none.
    Run,
}

impl Pattern {
    pub(super) fn new(case: Case, text: &str) -> Self {
        let mut tokens = Vec::new();
        // `*?`, `?*` and `*?**` say the same, so they are all written `?*`: covering is then plain to see.
        let mut run = false;
        for char in text.chars() {
            match char {
                '*' => run = true,
                '?' => tokens.push(Token::One),
                _ => {
                    tokens.extend(std::mem::take(&mut run).then_some(Token::Run));
                    tokens.push(Token::Char(case.fold(char)));
                }
            }
        }
        tokens.extend(run.then_some(Token::Run));
        Self { tokens: tokens.into() }
    }

    pub(super) fn matches(&self, name: &Name<'_>) -> bool {
        fits(&self.tokens, name.chars().map(Token::Char))
    }

    /// Whether this pattern matches whatever the other one matches. It may say no where the answer is yes.
    ///
    /// The other pattern is read as a text in which `?` and `*` are characters of their own: a `*` here takes in
    /// anything, a `?` here anything but a `*`.
    pub(super) fn covers(&self, other: &Self) -> bool {
        fits(&self.tokens, other.tokens.iter().copied())
    }
}

fn fits(pattern: &[Token], text: impl Iterator<Item = Token> + Clone) -> bool {
    let (mut rest, mut text) = (pattern, text);
    // What follows the last `*`, and the text that is not yet given to it.
    let mut retry = None;
    loop {
        if let [Token::Run, after @ ..] = rest {
            rest = after;
            retry = Some((after, text.clone()));
            continue;
        }
        match (rest.split_first(), text.next()) {
            (None, None) => return true,
            (Some((wanted, after)), Some(found)) if takes(*wanted, found) => rest = after,
            // The text is used up: giving more of it to the last `*` cannot help.
            (Some(_), None) => return false,
            _ => {
                let Some((after, given)) = &mut retry else { return false };
                given.next();
                rest = after;
                text = given.clone();
            }
        }
    }
}

fn takes(wanted: Token, found: Token) -> bool {
    match wanted {
        Token::One => found != Token::Run,
        wanted => wanted == found,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::new(Case::Matters, text)
    }

    fn matches(pattern: &str, name: &str) -> bool {
        self::pattern(pattern).matches(&Name::borrowed(Case::Matters, name))
    }

    /// What the two signs mean, as plainly as it can be said, however slow.
    fn reference(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            (['*', rest @ ..], _) => (0..=name.len()).any(|taken| reference(rest, &name[taken..])),
            (['?', rest @ ..], [_, name @ ..]) => reference(rest, name),
            ([wanted, rest @ ..], [found, name @ ..]) => wanted == found && reference(rest, name),
            _ => false,
        }
    }

    /// Every name of at most so many letters `a` and `b`: the bits of a number behind its leading one.
    fn names_up_to(length: u32) -> impl Iterator<Item = String> {
        (1..2_u32 << length).map(|bits| format!("{bits:b}")[1..].replace('0', "a").replace('1', "b"))
    }

    fn chars(text: &str) -> Vec<char> {
        text.chars().collect()
    }

    proptest! {
        #[test]
        fn a_pattern_matches_what_its_signs_mean(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
            prop_assert_eq!(matches(&pattern, &name), reference(&chars(&pattern), &chars(&name)));
        }

        #[test]
        fn a_covering_pattern_matches_whatever_the_covered_one_does(a in "[ab*?]{0,5}", b in "[ab*?]{0,5}") {
            if pattern(&a).covers(&pattern(&b)) {
                for name in names_up_to(5).filter(|name| matches(&b, name)) {
                    prop_assert!(matches(&a, &name), "{} covers {} but misses {}", a, b, name);
                }
            }
        }
    }

    #[test]
    fn covering_sees_equal_patterns_prefixes_and_the_pattern_for_everything() {
        for (wide, narrow) in [
            ("*", "*"),
            ("*", "orders_*"),
            ("*", ""),
            ("a*", "a*"),
            ("a*", "ab*"),
            ("a*", "a?c"),
            ("*_eu", "orders_*_eu"),
            ("a*c", "ab*bc"),
            ("?*", "*?"),
            ("?*?", "??*"),
        ] {
            assert!(pattern(wide).covers(&pattern(narrow)), "{wide} covers {narrow}");
        }
        for (one, other) in [("a*", "*"), ("?", "*"), ("a?", "a*"), ("ab*", "a*"), ("*a", "*b"), ("??*", "?*")] {
            assert!(!pattern(one).covers(&pattern(other)), "{one} does not cover {other}");
        }
    }

    #[test]
    fn a_spiteful_pattern_takes_no_longer_than_its_length_times_the_names() {
        let spiteful = format!("{}b", "*a".repeat(200));
        // The naive way would take more steps than there are atoms.
        assert!(!matches(&spiteful, &"a".repeat(20_000)));
        assert!(matches(&spiteful, &format!("{}b", "a".repeat(20_000))));
    }

    #[test]
    fn a_question_mark_is_one_character_however_many_bytes_it_has() {
        assert!(matches("caf?", "café"));
        assert!(!matches("caf?", "cafés"));
    }
}
