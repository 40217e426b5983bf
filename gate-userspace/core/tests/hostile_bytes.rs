//! Whatever bytes arrive: no parser panics, none takes more memory than its limit, and forwarding takes none at all.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use gate_core::protocol::postgres::authenticate::{self, Authentication};
use gate_core::protocol::postgres::credential::Credential;
use gate_core::protocol::postgres::frame::{Frame, Walker};
use gate_core::protocol::postgres::login::{self, Login};
use gate_core::protocol::postgres::parameters::Parameters;
use gate_core::protocol::postgres::reset::Fence;
use gate_core::protocol::postgres::settings::Apply;
use gate_core::protocol::postgres::startup;
use gate_core::protocol::postgres::users::Users;
use proptest::collection::vec;
use proptest::prelude::*;

/// Counts the bytes that this thread holds, and the most that it ever held.
struct Measuring;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes unchanged to the system's allocator; measuring touches thread-local numbers only.
unsafe impl GlobalAlloc for Measuring {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get().wrapping_add(layout.size()));
        MOST.set(MOST.get().max(HELD.get()));
        // SAFETY: the caller keeps the promises of `alloc`, which are those of the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get().wrapping_sub(layout.size()));
        // SAFETY: the pointer came from `alloc` above, that is from the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Measuring = Measuring;

/// The most that `work` held at once, beyond what was held before.
fn most_held(work: impl FnOnce()) -> usize {
    // Far from zero, so that freeing what was allocated before does not count below it.
    HELD.set(usize::MAX / 2);
    MOST.set(HELD.get());
    work();
    MOST.get() - usize::MAX / 2
}

/// Bytes that look like frames at first sight, with lengths from honest to absurd.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![0..64_i32, any::<i32>(), Just(i32::MAX), Just(-1), Just(0x3fff_fffe), Just(10_004)];
    let code = prop_oneof![Just(0x0003_0000), 80_877_102..80_877_105_i32, 0..13_i32, any::<i32>()];
    let tag = prop_oneof![
        2 => Just(Vec::new()),
        4 => prop::sample::select(b"RSKZETDCNAvpX".to_vec()).prop_map(|tag| vec![tag]),
        1 => any::<u8>().prop_map(|tag| vec![tag]),
    ];
    let frame = (tag, length, code, vec(any::<u8>(), 0..80))
        .prop_map(|(tag, length, code, body)| [&tag[..], &length.to_be_bytes(), &code.to_be_bytes(), &body].concat());
    prop_oneof![
        vec(frame, 0..6).prop_map(|frames| frames.concat()),
        vec(any::<u8>(), 0..300),
        (vec(any::<u8>(), 1..40), 1..4_000_usize).prop_map(|(part, times)| part.repeat(times)),
    ]
}

const KIB: usize = 1024;

#[test]
fn the_most_settings_that_fit_into_a_first_packet_stay_within_its_limit() {
    let user = b"user\0ann\0";
    for (name, setting) in [(&b""[..], &b"a\0\0"[..]), (b"options\0", b"-ca= ")] {
        let fill = setting.repeat((startup::LONGEST - 8 - 2 - user.len() - name.len()) / setting.len());
        let end = if name.is_empty() { &b"\0"[..] } else { b"\0\0" };
        let body = [&0x0003_0000_i32.to_be_bytes()[..], user, name, &fill, end].concat();
        let packet = [&i32::try_from(4 + body.len()).unwrap().to_be_bytes()[..], &body].concat();
        let held = most_held(|| assert!(startup::parse(&packet).unwrap().is_some()));
        assert!(held <= 64 * startup::LONGEST, "{held}");
    }
}

/// Each whole frame in `bytes`, as a login hears them.
fn frames(bytes: &[u8], longest: usize, mut heard: impl FnMut(Frame<'_>)) {
    let mut rest = bytes;
    while let Ok(Some(frame)) = Frame::next(rest, longest) {
        heard(frame);
        rest = &rest[frame.consumed()..];
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn forwarding_holds_no_memory(bytes in bytes()) {
        let held = most_held(|| {
            let mut walker = Walker::new();
            let _ = walker.walk(&bytes);
            walker.skip(bytes.len());
            let _ = Frame::next(&bytes, usize::MAX);
        });
        prop_assert_eq!(held, 0);
    }

    #[test]
    fn a_first_packet_holds_a_small_multiple_of_its_longest(bytes in bytes()) {
        let held = most_held(|| drop(startup::parse(&bytes)));
        // Two texts and two lengths for as little as three bytes.
        prop_assert!(held <= 64 * startup::LONGEST, "{held}");
    }

    #[test]
    fn a_reset_and_settings_hold_little_however_much_arrives(bytes in bytes()) {
        let settings = [("geqo".to_owned(), "off".to_owned())];
        let held = most_held(|| {
            let mut fence = Fence::new([7; 16]);
            let mut apply = Apply::new(&settings, &Parameters::new()).unwrap().unwrap();
            for _ in 0..3 {
                fence.handle(&bytes);
                apply.handle(&bytes);
            }
        });
        prop_assert!(held <= 2 * 16 * 64 * KIB, "{held}");
    }

    #[test]
    fn a_login_at_a_server_holds_little_whatever_it_says(bytes in bytes()) {
        let held = most_held(|| {
            let credential = Credential::password("secret".into());
            let mut login = Login::new("ann", "shop", credential, [7; login::RANDOM]);
            let mut out = Vec::new();
            frames(&bytes, login::LONGEST, |frame| drop(login.handle(frame.tag, frame.body, &mut out)));
        });
        prop_assert!(held <= 16 * login::LONGEST, "{held}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_clients_login_holds_little_whatever_it_says(bytes in bytes()) {
        let users = Users::parse("", [7; 32]).unwrap();
        let held = most_held(|| {
            let mut out = Vec::new();
            let mut exchange = Authentication::begin(&users, "ann", [7; authenticate::RANDOM], &mut out);
            frames(&bytes, authenticate::LONGEST, |frame| drop(exchange.handle(frame.tag, frame.body, &mut out)));
        });
        prop_assert!(held <= 8 * authenticate::LONGEST, "{held}");
    }

    #[test]
    fn a_user_file_of_anything_is_read_or_refused(bytes in vec(any::<u8>(), 0..300)) {
        let _ = Users::parse(&String::from_utf8_lossy(&bytes), [7; 32]);
    }
}
