//! What a test needs of the machine, and what happens when it is not there.
//!
//! A developer without privileges can run all other tests, so a test that cannot run is skipped, with
//! a line on stderr that cannot be overlooked. Where the kernel half must be tested, as in continuous
//! integration, `GATE_REQUIRE_EBPF=1` makes such a test fail instead.

use std::io::{self, Write as _};
use std::sync::LazyLock;
use std::{env, thread};

use anyhow::{Result, bail};
use gate::ebpf::Unavailable;

use crate::cgroup::Cgroup;
use crate::netns::Netns;

/// Whether a test of the kernel half can run here; if not it is skipped, or fails where it is required.
pub fn kernel_half() -> Result<bool> {
    static OBSTACLE: LazyLock<Option<String>> = LazyLock::new(obstacle);
    let required = env::var_os("GATE_REQUIRE_EBPF").is_some_and(|value| value == "1");
    match verdict(OBSTACLE.as_deref(), required) {
        Verdict::Run => Ok(true),
        Verdict::Skip(reason) => {
            let thread = thread::current();
            let test = thread.name().unwrap_or("a test");
            // Not `eprintln!`, which the test runner captures and drops when the test passes.
            writeln!(io::stderr(), "\n*** SKIPPED {test}: {reason}\n")?;
            Ok(false)
        }
        Verdict::Fail(reason) => bail!(reason),
    }
}

/// Why the kernel half cannot be tested here.
fn obstacle() -> Option<String> {
    match gate::ebpf::probe() {
        // That is a fault of the kernel half's own, for its tests to find.
        Ok(()) | Err(Unavailable::Failed { .. }) => {}
        Err(unavailable) => return Some(unavailable.to_string()),
    }
    let fixtures = Netns::new().and_then(|_| Cgroup::new());
    fixtures.err().map(|error| format!("{error:#}"))
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Run,
    Skip(String),
    Fail(String),
}

fn verdict(obstacle: Option<&str>, required: bool) -> Verdict {
    match obstacle {
        None => Verdict::Run,
        Some(reason) if required => {
            Verdict::Fail(format!("GATE_REQUIRE_EBPF=1, but the kernel half cannot be tested: {reason}"))
        }
        Some(reason) => Verdict::Skip(format!("the kernel half cannot be tested: {reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_cannot_run_is_skipped_and_says_why() {
        let Verdict::Skip(reason) = verdict(Some("no privileges"), false) else { panic!() };
        assert!(reason.contains("no privileges"));
    }

    #[test]
    fn where_the_kernel_half_is_required_a_skip_is_a_failure() {
        let Verdict::Fail(reason) = verdict(Some("no privileges"), true) else { panic!() };
        assert!(reason.contains("GATE_REQUIRE_EBPF=1") && reason.contains("no privileges"));
    }

    #[test]
    fn a_test_that_can_run_does_run_whether_it_is_required_or_not() {
        assert_eq!(verdict(None, true), Verdict::Run);
        assert_eq!(verdict(None, false), Verdict::Run);
    }
}
