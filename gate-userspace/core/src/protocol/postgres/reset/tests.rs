use proptest::prelude::*;

use super::*;
use crate::protocol::postgres::message::{Report, Severity, Status};

const NONCE: [u8; 16] = *b"a nonce of sixte";

fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(4 + body.len()).unwrap();
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

fn idle() -> Vec<u8> {
    frame(b'Z', b"I")
}

fn description() -> Vec<u8> {
    frame(b'T', b"\0\x01?column?\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0")
}

fn row(nonce: [u8; 16]) -> Vec<u8> {
    frame(b'D', &[&b"\0\x01\0\0\0\x20"[..], &hex(nonce)].concat())
}

fn report() -> Vec<u8> {
    let mut out = Vec::new();
    message::parameter_status(&mut out, b"TimeZone", b"UTC");
    out
}

fn notice() -> Vec<u8> {
    let message = "there is no transaction in progress";
    let mut out = Vec::new();
    let report = Report { severity: Severity::Warning, sqlstate: "25P01", message, detail: None, hint: None };
    message::notice_response(&mut out, &report);
    out
}

/// What a server answers, message by message.
fn messages() -> Vec<Vec<u8>> {
    vec![
        notice(),
        frame(b'C', b"ROLLBACK\0"),
        idle(),
        report(),
        frame(b'C', b"DISCARD ALL\0"),
        frame(b'A', b"\0\0\0\x07channel\0payload\0"),
        idle(),
        description(),
        row(NONCE),
        frame(b'C', b"SELECT 1\0"),
        idle(),
    ]
}

fn answer() -> Vec<u8> {
    messages().concat()
}

fn handle(bytes: &[u8]) -> Progress {
    Fence::new(NONCE).handle(bytes)
}

fn is_clean(progress: &Progress) -> bool {
    matches!(progress, Progress::Clean { .. })
}

fn clean() -> Progress {
    let mut changes = Parameters::new();
    changes.set(b"TimeZone", b"UTC");
    Progress::Clean { changes }
}

#[test]
fn the_right_answer_is_clean_and_tells_what_was_reset() {
    assert_eq!(handle(&answer()), clean());
}

#[test]
fn the_queries_are_what_the_answer_is_to() {
    let mut out = Vec::new();
    Fence::new(NONCE).request(&mut out);
    let nonce = String::from_utf8(hex(NONCE).to_vec()).unwrap();
    assert_eq!(nonce, "61206e6f6e6365206f66207369787465");
    let mut expected = Vec::new();
    for sql in ["ROLLBACK", "DISCARD ALL", &format!("SELECT '{nonce}'")] {
        message::query(&mut expected, sql);
    }
    assert_eq!(out, expected);
}

#[test]
fn everything_else_is_dirty_and_says_why() {
    let replaced = |at: usize, other: Vec<u8>| {
        let mut messages = messages();
        messages[at] = other;
        handle(&messages.concat())
    };
    let mut error = Vec::new();
    message::error_response(&mut error, &Report::fatal("57P01", "good-bye"));
    for at in 1..messages().len() {
        assert_eq!(replaced(at, error.clone()), Progress::Dirty(Dirty::Error), "{at}");
    }
    assert_eq!(replaced(8, row([0; 16])), Progress::Dirty(Dirty::WrongNonce));
    assert_eq!(replaced(8, frame(b'D', b"\0\x01\xff\xff\xff\xff")), Progress::Dirty(Dirty::Leftover));
    assert_eq!(replaced(10, frame(b'Z', b"T")), Progress::Dirty(Dirty::NotIdle));
    assert_eq!(replaced(2, frame(b'Z', b"E")), Progress::Dirty(Dirty::NotIdle));
    assert_eq!(replaced(1, frame(b'C', b"COMMIT\0")), Progress::Dirty(Dirty::Leftover));
    assert_eq!(replaced(0, b"N\0\0\0\0".to_vec()), Progress::Dirty(Dirty::Malformed));
    assert_eq!(replaced(3, frame(b'S', b"TimeZone\0")), Progress::Dirty(Dirty::Malformed));
    assert_eq!(handle(&[answer(), idle()].concat()), Progress::Dirty(Dirty::Behind));
    assert_eq!(handle(&[&answer()[..], b"N"].concat()), Progress::Dirty(Dirty::Behind));
}

#[test]
fn answers_that_a_client_left_behind_are_not_taken_for_the_resets() {
    let left_behind = [
        vec![frame(b'C', b"ROLLBACK\0"), idle()],
        vec![frame(b'C', b"ROLLBACK\0"), idle(), frame(b'C', b"DISCARD ALL\0"), idle()],
        vec![description(), row([0; 16]), frame(b'C', b"SELECT 1\0"), idle()],
        vec![idle()],
        vec![frame(b'1', b""), frame(b'2', b"")],
        vec![frame(b'd', b"copied")],
    ];
    for left in left_behind {
        let progress = handle(&[left.concat(), answer()].concat());
        assert!(matches!(progress, Progress::Dirty(Dirty::Leftover)), "{progress:?}");
    }
}

#[test]
fn what_is_over_stays_over() {
    let mut fence = Fence::new(NONCE);
    assert_eq!(fence.handle(&answer()), clean());
    assert_eq!(fence.handle(&answer()), Progress::Dirty(Dirty::Behind));
    let mut fence = Fence::new(NONCE);
    let dirty = Progress::Dirty(Dirty::Leftover);
    assert_eq!(fence.handle(&idle()), dirty);
    assert_eq!(fence.handle(&answer()), dirty);
}

#[test]
fn a_server_that_never_stops_talking_costs_no_more_than_the_limit() {
    let mut fence = Fence::new(NONCE);
    let notice = notice();
    let mut received = 0;
    while fence.handle(&notice) == Progress::NeedMore {
        received += notice.len();
        assert!(received <= 64 * 1024);
    }
    assert_eq!(fence.handle(&[]), Progress::Dirty(Dirty::TooLong));
    assert_eq!(handle(b"N\0\x10\0\0"), Progress::Dirty(Dirty::Malformed), "a frame that would be longer");
}

#[test]
fn the_nonce_is_not_printed() {
    assert!(!format!("{:?}", Fence::new(NONCE)).contains("6120"));
}

/// The bits that matter: all but the texts of notices, notifications and reports, and what a column is called and is.
fn bits_that_matter() -> Vec<usize> {
    let mut bits = Vec::new();
    let mut start = 0;
    for message in messages() {
        let matters = match message[0] {
            b'N' | b'A' | b'S' => 1..5,
            b'T' => 0..7,
            _ => 0..message.len(),
        };
        bits.extend(matters.flat_map(|byte| (start + byte) * 8..(start + byte + 1) * 8));
        start += message.len();
    }
    bits
}

#[test]
fn no_single_flipped_bit_leaves_the_answer_clean() {
    for bit in bits_that_matter() {
        let mut bytes = answer();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_clean(&handle(&bytes)), "bit {bit}");
    }
}

/// Streams near the right one, and streams of anything.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let mut status = Vec::new();
    message::ready_for_query(&mut status, Status::InTransaction);
    let part = prop_oneof![
        8 => (0..messages().len()).prop_map(|at| messages()[at].clone()),
        1 => any::<[u8; 16]>().prop_map(row),
        1 => Just(status),
        1 => (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..9)).prop_map(|(tag, body)| frame(tag, &body)),
        1 => proptest::collection::vec(any::<u8>(), 0..9),
    ];
    proptest::collection::vec(part, 0..14).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_stream_without_the_nonce_is_never_clean(mut bytes in stream()) {
        while let Some(at) = bytes.windows(32).position(|part| part == hex(NONCE)) {
            bytes[at] ^= 1;
        }
        prop_assert!(!is_clean(&handle(&bytes)));
    }

    #[test]
    fn the_answer_in_any_pieces_gives_the_same(cuts in proptest::collection::vec(0..answer().len(), 0..12)) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        let whole = answer();
        let mut fence = Fence::new(NONCE);
        let mut start = 0;
        for cut in cuts {
            prop_assert_eq!(fence.handle(&whole[start..cut]), Progress::NeedMore);
            start = cut;
        }
        prop_assert_eq!(fence.handle(&whole[start..]), clean());
    }

    #[test]
    fn any_stream_in_any_two_pieces_ends_the_same(bytes in stream(), cut in any::<prop::sample::Index>()) {
        let cut = cut.index(bytes.len() + 1);
        let mut fence = Fence::new(NONCE);
        let halves = match fence.handle(&bytes[..cut]) {
            Progress::NeedMore => fence.handle(&bytes[cut..]),
            // What follows a clean end is seen by whoever holds the connection.
            over => over,
        };
        let whole = handle(&bytes);
        prop_assert!(halves == whole || is_clean(&halves) && cut < bytes.len());
    }

    #[test]
    fn only_the_right_messages_in_the_right_order_are_clean(order in proptest::collection::vec(0..messages().len(), 0..14)) {
        let asynchronous = [0, 3, 5];
        let bytes: Vec<u8> = order.iter().flat_map(|&at| messages()[at].clone()).collect();
        let kinds: Vec<_> = order.iter().filter(|at| !asynchronous.contains(at)).map(|&at| messages()[at].clone()).collect();
        let right: Vec<_> = (0..messages().len()).filter(|at| !asynchronous.contains(at)).map(|at| messages()[at].clone()).collect();
        let ends = order.last().is_some_and(|at| !asynchronous.contains(at));
        prop_assert_eq!(is_clean(&handle(&bytes)), kinds == right && ends);
    }
}

#[test]
fn a_connection_that_looks_idle_is_reset_without_a_rollback_and_proved_all_the_same() {
    let (mut all, mut without) = (Vec::new(), Vec::new());
    Fence::new(NONCE).request(&mut all);
    Fence::of_idle(NONCE).request(&mut without);
    assert!(all.ends_with(&without) && all.len() - without.len() == b"Q....ROLLBACK.".len());

    let right = answer();
    let discarding = frame(b'C', b"DISCARD ALL\0");
    let rolled_back = right.windows(discarding.len()).position(|window| window == discarding).unwrap();
    assert!(matches!(Fence::of_idle(NONCE).handle(&right[rolled_back..]), Progress::Clean { .. }));
    assert!(matches!(Fence::of_idle(NONCE).handle(&right), Progress::Dirty(_)));
    assert!(!matches!(Fence::new(NONCE).handle(&right[rolled_back..]), Progress::Clean { .. }));
}
