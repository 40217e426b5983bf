//! The promises of a bucket, in any interleaving of whatever clients and databases do.

mod world;

use std::num::NonZeroU32;
use std::time::Duration;

use gate_core::bucket::{Failure, Level, Settings};
use gate_core::rate::Rate;
use gate_core::reservoir::{Discard, Lifetimes};
use proptest::prelude::*;
use world::{World, settings};

/// One thing that happens. The number picks among those it can happen to.
#[derive(Clone, Debug)]
enum Step {
    Arrive {
        pool: usize,
        tenant: u64,
    },
    Opened(usize),
    Failed(usize, Failure),
    Leave(usize),
    ResetDone(usize),
    ResetFailed(usize, Discard),
    Closed(usize),
    Cancel(usize),
    Pass(Duration),
    SetLimit(u32),
    /// The identity that keeps nothing ready is forgotten, if it is unused, and comes again.
    Forget,
    /// The task that holds a right dies without a word.
    Lose(Right, usize),
}

#[derive(Clone, Copy, Debug)]
enum Right {
    Opening,
    Waiter,
    Lease,
    Resetting,
    Closing,
}

fn step() -> impl Strategy<Value = Step> {
    let failure = prop_oneof![Just(Failure::Backend), Just(Failure::Login)];
    let reason = prop_oneof![Just(Discard::BadConnection), Just(Discard::ResetFailed)];
    let right = prop_oneof![
        Just(Right::Opening),
        Just(Right::Waiter),
        Just(Right::Lease),
        Just(Right::Resetting),
        Just(Right::Closing)
    ];
    prop_oneof![
        8 => (0..2_usize, 0..3_u64).prop_map(|(pool, tenant)| Step::Arrive { pool, tenant }),
        8 => any::<usize>().prop_map(Step::Opened),
        2 => (any::<usize>(), failure).prop_map(|(pick, failure)| Step::Failed(pick, failure)),
        6 => any::<usize>().prop_map(Step::Leave),
        6 => any::<usize>().prop_map(Step::ResetDone),
        2 => (any::<usize>(), reason).prop_map(|(pick, reason)| Step::ResetFailed(pick, reason)),
        6 => any::<usize>().prop_map(Step::Closed),
        2 => any::<usize>().prop_map(Step::Cancel),
        4 => (0..4_000_u64).prop_map(|millis| Step::Pass(Duration::from_millis(millis))),
        1 => (0..700_u64).prop_map(|seconds| Step::Pass(Duration::from_secs(seconds))),
        1 => Just(Step::Forget),
        2 => (right, any::<usize>()).prop_map(|(right, pick)| Step::Lose(right, pick)),
    ]
}

fn steps_that_change_the_limit() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(prop_oneof![12 => step(), 1 => (0..6_u32).prop_map(Step::SetLimit)], 1..300)
}

fn apply(world: &mut World, step: &Step) {
    match *step {
        Step::Arrive { pool, tenant } => {
            world.arrive(pool, tenant);
        }
        Step::Opened(pick) if !world.openings.is_empty() => world.open(pick),
        Step::Failed(pick, failure) if !world.openings.is_empty() => world.fail(pick, failure),
        Step::Leave(pick) if !world.leases.is_empty() => world.leave(pick),
        Step::ResetDone(pick) if !world.resetting.is_empty() => world.reset(pick),
        Step::ResetFailed(pick, reason) if !world.resetting.is_empty() => world.discard(pick, reason),
        Step::Closed(pick) if pick % 4 == 0 => world.let_go(),
        Step::Closed(pick) if !world.closing.is_empty() => world.close(pick),
        Step::Cancel(pick) if !world.waiters.is_empty() => world.cancel(pick),
        Step::Pass(time) => world.advance(time),
        Step::SetLimit(limit) => {
            world.bucket.set_limit(world.now, limit);
            world.poll();
        }
        Step::Forget if world.pools.len() == 2 && world.bucket.forget_pool(world.now, world.pools[1]) => {
            world.pools[1] = world.bucket.add_pool(Level::default());
        }
        Step::Lose(right, pick) => lose(world, right, pick),
        _ => {}
    }
}

fn lose(world: &mut World, right: Right, pick: usize) {
    fn drop_one<T>(held: &mut Vec<T>, pick: usize) {
        if !held.is_empty() {
            held.remove(pick % held.len());
        }
    }
    match right {
        Right::Opening => drop_one(&mut world.openings, pick),
        Right::Waiter => drop_one(&mut world.waiters, pick),
        Right::Lease => drop_one(&mut world.leases, pick),
        Right::Resetting => drop_one(&mut world.resetting, pick),
        Right::Closing => drop_one(&mut world.closing, pick),
    }
    world.poll();
}

fn two_pools() -> [Level; 2] {
    [Level { target: 3, min: 2, low_watermark: 2 }, Level::default()]
}

fn small() -> Settings {
    let mut settings = settings(5);
    settings.admission.dispatch_limit = 0.8;
    settings.admission.queue_depth = 10;
    settings.lifetimes = Lifetimes {
        base: Duration::from_secs(60),
        jitter: Duration::from_secs(20),
        guard_window: Duration::from_secs(10),
    };
    settings
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_cap_is_never_exceeded_in_any_interleaving(steps in prop::collection::vec(step(), 1..300), fair: bool) {
        let mut settings = small();
        settings.admission.fair = fair;
        settings.admission.tenant_places = fair.then_some(2);
        let mut world = World::new(settings, &two_pools());
        for step in &steps {
            apply(&mut world, step);
            prop_assert!(world.open_at_the_database() <= 5, "{} connections are open", world.open_at_the_database());
            prop_assert!(world.leases.len() <= 4, "{} of 4 places are in use", world.leases.len());
        }
    }

    #[test]
    fn a_lower_limit_is_kept_as_soon_as_connections_come_back(steps in steps_that_change_the_limit()) {
        let mut world = World::new(small(), &two_pools());
        let mut limit = 5;
        for step in &steps {
            let before = world.open_at_the_database();
            apply(&mut world, step);
            if let Step::SetLimit(new) = step {
                limit = *new as usize;
            }
            prop_assert!(world.open_at_the_database() <= limit.max(before));
            let let_go = world.closing.len() + world.failed.len();
            let idle = world.bucket.counts().ready as usize;
            prop_assert!(idle == 0 || world.open_at_the_database() - let_go <= limit, "idle connections above the limit");
        }
    }

    #[test]
    fn a_slot_is_given_back_exactly_once(steps in steps_that_change_the_limit()) {
        let mut world = World::new(small(), &two_pools());
        for step in &steps {
            apply(&mut world, step);
            let counts = world.bucket.counts();
            prop_assert_eq!(counts.taken as usize, world.open_at_the_database());
            prop_assert_eq!(counts.closing as usize, world.closing.len() + world.failed.len());
        }
        world.wind_down();
        prop_assert_eq!(world.bucket.counts().taken, 0);
    }

    #[test]
    fn each_connection_ends_for_exactly_one_reason(steps in steps_that_change_the_limit()) {
        let mut world = World::new(small(), &two_pools());
        for step in &steps {
            apply(&mut world, step);
        }
        world.wind_down();
        prop_assert_eq!(world.ended.len(), world.opened_at.len());
        for reason in Discard::ALL {
            let ended = world.ended.values().filter(|ended| **ended == reason).count();
            prop_assert_eq!(world.bucket.discards(reason), ended as u64, "{}", reason.label());
        }
    }

    /// The world checks the age of every connection that it is handed.
    #[test]
    fn nothing_inside_the_guard_window_is_handed_out(steps in prop::collection::vec(step(), 1..300)) {
        let mut settings = small();
        settings.lifetimes.jitter = Duration::ZERO;
        let mut world = World::new(settings, &two_pools());
        for step in &steps {
            apply(&mut world, step);
        }
    }

    #[test]
    fn clients_of_one_identity_are_served_in_the_order_in_which_they_came(steps in prop::collection::vec(step(), 1..300)) {
        let mut world = World::on_demand(small());
        for step in &steps {
            match step {
                Step::Arrive { .. } => { world.arrive(0, 0); }
                step => apply(&mut world, step),
            }
        }
        prop_assert!(world.served.is_sorted(), "{:?}", world.served);
    }

    /// Whatever went wrong before: once the database is well and clients leave soon, all are settled in seconds,
    /// long before their time is up.
    #[test]
    fn nobody_is_forgotten(steps in prop::collection::vec(step(), 1..300)) {
        let mut world = World::new(small(), &two_pools());
        for step in &steps {
            apply(&mut world, step);
        }
        for _ in 0..50 {
            world.advance(Duration::from_millis(100));
            for _ in 0..world.openings.len() {
                world.open(0);
            }
            for _ in 0..world.leases.len() {
                world.leave(0);
            }
            for _ in 0..world.resetting.len() {
                world.reset(0);
            }
            for _ in 0..world.closing.len() {
                world.close(0);
            }
            world.let_go();
        }
        prop_assert_eq!(world.waiters.len(), 0, "still waiting: {:?}", world.bucket.counts());
    }

    #[test]
    fn a_cancelled_waiter_never_swallows_a_handover(clients in 2..8_usize, cancelled in prop::collection::vec(any::<bool>(), 8), lost: bool) {
        let mut world = World::on_demand(settings(1));
        for _ in 0..=clients {
            world.arrive(0, 0);
        }
        world.open(0);
        prop_assert_eq!(&world.served, &[0]);
        // The connection is handed to the first in line, who gives up before he has picked it up, and so on.
        let (_, lease) = world.leases.remove(0);
        let resetting = world.bucket.leave(world.now, lease);
        world.bucket.give_back(world.now, resetting);
        world.poll_but_leave_settled();
        let stays = cancelled[..clients].iter().position(|cancelled| !cancelled);
        for _ in 0..stays.unwrap_or(clients) {
            let (_, waiter) = world.waiters.remove(0);
            if lost {
                drop(waiter);
            } else {
                world.bucket.cancel(world.now, waiter);
            }
            world.poll_but_leave_settled();
        }
        world.poll();
        match stays {
            Some(first) => prop_assert_eq!(&world.served, &[0, first as u64 + 1]),
            None => prop_assert_eq!(world.bucket.counts().ready, 1),
        }
        prop_assert_eq!(world.ended.len(), 0, "a connection that nobody touched was thrown away");
    }

    #[test]
    fn the_connect_rate_is_never_overspent_in_any_window(
        steps in prop::collection::vec(step(), 1..400), per_second in 1..20_u32, burst in 1..10_u32
    ) {
        let mut settings = small();
        settings.rate = Rate::per_second(NonZeroU32::new(per_second).unwrap(), NonZeroU32::new(burst).unwrap());
        let mut world = World::new(settings, &two_pools());
        for step in &steps {
            apply(&mut world, step);
        }
        for (first, from) in world.attempts.iter().enumerate() {
            for (last, to) in world.attempts.iter().enumerate().skip(first) {
                let spent = (last - first + 1) as f64;
                let allowed = f64::from(burst) + to.since(*from).as_secs_f64() * f64::from(per_second);
                prop_assert!(spent <= allowed + 1e-6, "{spent} in {:?}", to.since(*from));
            }
        }
    }

    /// However the outage looks: after it attempts grow from one, by one for each success.
    #[test]
    fn after_any_outage_the_refill_ramps(failures in 1..20_u32, waiting in 4..60_usize) {
        let mut world = World::on_demand(settings(60));
        for _ in 0..waiting {
            world.arrive(0, 0);
        }
        for _ in 0..failures {
            while world.openings.is_empty() {
                if world.waiters.is_empty() {
                    world.arrive(0, 0);
                }
                world.advance(Duration::from_millis(50));
            }
            world.fail(0, Failure::Backend);
            world.let_go();
        }
        while !world.openings.is_empty() {
            world.fail(0, Failure::Backend);
            world.let_go();
        }
        for _ in 0..60 {
            world.arrive(0, 0);
        }
        world.advance(Duration::from_secs(1));
        for successes in 0..20 {
            prop_assert!(world.openings.len() <= 1 + successes, "{} after {successes} successes", world.openings.len());
            if world.openings.is_empty() {
                break;
            }
            world.open(0);
        }
    }
}
