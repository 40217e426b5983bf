//! How a bucket behaves in the situations that its users meet.

mod world;

use std::num::NonZeroU32;
use std::time::Duration;

use gate_core::bucket::{Failure, Level};
use gate_core::rate::Rate;
use gate_core::refusal::{Refusal, ShortOf};
use gate_core::reservoir::Discard;
use world::{World, settings};

const SECOND: Duration = Duration::from_secs(1);

fn open_all(world: &mut World) {
    while !world.openings.is_empty() {
        world.open(0);
    }
}

fn close_all(world: &mut World) {
    while !world.closing.is_empty() {
        world.close(0);
    }
}

fn level(target: u32, min: u32) -> Level {
    Level { target, min, low_watermark: min }
}

#[test]
fn start_up_fills_the_least_level_and_the_first_client_raises_it_to_the_target() {
    let mut world = World::new(settings(10), &[level(6, 2)]);
    assert!(!world.bucket.is_warm());
    world.poll();
    assert_eq!(world.openings.len(), 2);
    open_all(&mut world);
    assert!(world.bucket.is_warm());
    world.arrive(0, 0);
    open_all(&mut world);
    let counts = world.bucket.counts();
    assert_eq!((counts.leased, counts.ready), (1, 6));
}

#[test]
fn a_pool_without_clients_cools_down_to_its_least_level() {
    let mut settings = settings(10);
    settings.cool_after = 60 * SECOND;
    let mut world = World::new(settings, &[level(6, 2)]);
    world.arrive(0, 0);
    open_all(&mut world);
    world.advance(100 * SECOND);
    world.leave(0);
    world.reset(0);
    world.advance(59 * SECOND);
    assert_eq!((world.bucket.target(world.now), world.bucket.counts().ready), (6, 7));
    world.advance(2 * SECOND);
    assert_eq!((world.bucket.target(world.now), world.bucket.counts().ready), (2, 2));
    assert!(world.ended.values().all(|reason| *reason == Discard::Drained));
}

#[test]
fn a_cold_pool_without_a_least_level_costs_no_connection() {
    let mut world = World::new(settings(10), &[level(6, 0)]);
    world.poll();
    assert!(world.bucket.is_warm());
    world.advance(3_600 * SECOND);
    assert_eq!(world.attempts.len(), 0);
}

#[test]
fn connections_expire_before_anybody_meets_them_and_are_replaced() {
    let mut world = World::new(settings(10), &[level(10, 10)]);
    world.poll();
    open_all(&mut world);
    for _ in 0..3_600 {
        world.advance(SECOND);
        open_all(&mut world);
        close_all(&mut world);
        world.arrive(0, 0);
        world.leave(0);
        world.reset(0);
    }
    assert!(world.ended.values().all(|reason| *reason == Discard::ExpiringSoonOnScan), "{:?}", world.ended);
    assert_eq!(world.bucket.totals().empty, 0);
    assert!(world.attempts.len() > 40, "an hour is more than four lives of ten connections");
}

#[test]
fn an_idle_connection_of_one_identity_gives_way_to_a_client_of_another() {
    let mut world = World::new(settings(2), &[Level::default(), Level::default()]);
    for _ in 0..2 {
        world.arrive(0, 0);
    }
    open_all(&mut world);
    for _ in 0..2 {
        world.leave(0);
        world.reset(0);
    }
    let client = world.arrive(1, 0);
    assert_eq!(world.ended.values().collect::<Vec<_>>(), [&Discard::Drained]);
    assert!(world.openings.is_empty(), "the slot is not free before the server has let go");
    close_all(&mut world);
    open_all(&mut world);
    assert_eq!(world.served.last(), Some(&client));
    assert_eq!(world.bucket.counts().ready, 1, "the other idle connection stays");
}

#[test]
fn a_client_behind_a_reset_gets_that_connection_and_no_new_one_is_opened_for_it() {
    let mut world = World::on_demand(settings(1));
    world.arrive(0, 0);
    open_all(&mut world);
    let next = world.arrive(0, 0);
    world.leave(0);
    assert!(world.openings.is_empty());
    world.reset(0);
    assert_eq!(world.served, [0, next]);
}

#[test]
fn a_discarded_connection_holds_its_slot_until_the_server_has_let_go() {
    let mut world = World::on_demand(settings(1));
    world.arrive(0, 0);
    open_all(&mut world);
    world.arrive(0, 0);
    world.leave(0);
    world.discard(0, Discard::BadConnection);
    assert_eq!(world.ended[&0], Discard::BadConnection);
    world.advance(10 * SECOND);
    assert!(world.openings.is_empty());
    world.close(0);
    open_all(&mut world);
    assert_eq!(world.served, [0, 1]);
}

#[test]
fn a_connection_that_could_not_be_opened_holds_its_slot_until_the_server_has_let_go() {
    let mut world = World::on_demand(settings(1));
    world.arrive(0, 0);
    world.fail(0, Failure::Backend);
    world.advance(SECOND);
    assert!(world.openings.is_empty());
    world.let_go();
    open_all(&mut world);
    assert_eq!(world.served, [0]);
}

#[test]
fn who_waits_too_long_for_a_place_is_told_how_many_there_are() {
    let mut world = World::on_demand(settings(3));
    for _ in 0..4 {
        world.arrive(0, 0);
    }
    open_all(&mut world);
    world.advance(30 * SECOND);
    let short_of = ShortOf::Places { places: 3 };
    assert_eq!(world.refused, [(3, Refusal::TimedOut { waited: 30 * SECOND, short_of })]);
}

#[test]
fn who_waits_too_long_for_a_connection_is_told_that_and_frees_its_place() {
    let mut world = World::on_demand(settings(1));
    for _ in 0..2 {
        world.arrive(0, 0);
        world.advance(10 * SECOND);
    }
    world.advance(10 * SECOND);
    assert_eq!(world.refused, [(0, Refusal::TimedOut { waited: 30 * SECOND, short_of: ShortOf::Connections })]);
    open_all(&mut world);
    assert_eq!(world.served, [1]);
}

#[test]
fn while_the_database_is_down_clients_are_told_after_a_brief_wait() {
    let mut world = World::on_demand(settings(10));
    for _ in 0..3 {
        world.arrive(0, 0);
        world.advance(SECOND);
        world.fail(0, Failure::Backend);
    }
    world.advance(Duration::ZERO);
    let labels: Vec<_> = world.refused.iter().map(|(_, refusal)| refusal.label()).collect();
    assert_eq!(labels, ["backend_down"; 3]);
    let late = world.arrive(0, 0);
    world.advance(Duration::from_millis(99));
    assert_eq!(world.refused.len(), 3);
    world.advance(Duration::from_millis(1));
    assert_eq!(world.refused.last().unwrap().0, late);
}

#[test]
fn a_login_that_the_database_refuses_is_told_to_its_own_clients_only() {
    let mut world = World::new(settings(10), &[Level::default(), Level::default()]);
    world.arrive(0, 0);
    world.arrive(0, 0);
    let other = world.arrive(1, 0);
    let position = world.openings.iter().position(|opening| opening.pool() == world.pools[0]).unwrap();
    world.fail(position, Failure::Login);
    assert_eq!(world.refused, [(0, Refusal::LoginFailed), (1, Refusal::LoginFailed)]);
    assert_eq!(world.bucket.counts().down_since, None);
    open_all(&mut world);
    assert_eq!(world.served, [other]);
    // The connection that was opened for the same identity meanwhile shows that the login works again.
    let later = world.arrive(0, 0);
    assert_eq!(world.served, [other, later]);
}

#[test]
fn a_refused_login_is_not_tried_again_at_once() {
    let mut world = World::new(settings(10), &[level(1, 1)]);
    world.poll();
    world.fail(0, Failure::Login);
    world.arrive(0, 0);
    assert_eq!((world.refused.len(), world.openings.len()), (1, 0));
    world.advance(SECOND);
    assert_eq!(world.openings.len(), 1);
}

#[test]
fn a_client_for_whom_no_connection_can_be_opened_in_time_is_told_at_once() {
    let mut settings = settings(100);
    settings.rate = Rate::per_second(NonZeroU32::new(1).unwrap(), NonZeroU32::new(10).unwrap());
    let mut world = World::on_demand(settings);
    for _ in 0..50 {
        world.arrive(0, 0);
    }
    assert_eq!(world.openings.len(), 10, "the burst");
    assert_eq!(world.waiters.len(), 40, "ten at once, and one a second for thirty seconds");
    assert!(world.refused.iter().all(|(_, refusal)| refusal.label() == "wait_too_long"));
}

#[test]
fn when_connections_come_back_often_clients_wait_for_those_instead_of_being_refused() {
    let mut settings = settings(2);
    settings.rate = Rate::per_second(NonZeroU32::new(1).unwrap(), NonZeroU32::new(1).unwrap());
    settings.admission.queue_timeout = SECOND;
    let mut world = World::on_demand(settings);
    world.arrive(0, 0);
    open_all(&mut world);
    for _ in 0..100 {
        world.leave(0);
        world.reset(0);
        world.arrive(0, 0);
        world.advance(Duration::from_millis(10));
    }
    world.advance(SECOND);
    world.arrive(0, 0);
    world.arrive(0, 0);
    assert_eq!(world.refused, []);
}

#[test]
fn a_drained_bucket_tells_those_who_wait_and_lets_the_others_finish() {
    let mut world = World::new(settings(3), &[level(2, 2)]);
    world.poll();
    open_all(&mut world);
    for _ in 0..4 {
        world.arrive(0, 0);
        open_all(&mut world);
    }
    world.leave(0);
    world.reset(0);
    world.arrive(0, 0);
    world.bucket.drain(world.now);
    world.poll();
    world.arrive(0, 0);
    assert!(world.refused.iter().all(|(_, refusal)| *refusal == Refusal::Draining));
    assert_eq!(world.refused.len(), 2);
    assert_eq!(world.leases.len(), 3);
    while !world.leases.is_empty() {
        world.leave(0);
        world.reset(0);
    }
    close_all(&mut world);
    assert_eq!(world.bucket.counts().taken, 0);
    assert!(world.openings.is_empty());
}

#[test]
fn an_identity_is_forgotten_only_when_nobody_has_anything_of_it() {
    let mut world = World::new(settings(1), &[Level::default(), Level::default()]);
    let [first, second] = [world.pools[0], world.pools[1]];
    world.arrive(0, 0);
    assert!(!world.bucket.forget_pool(world.now, first), "it has a client and a connection that is being opened");
    open_all(&mut world);
    world.arrive(1, 0);
    assert!(!world.bucket.forget_pool(world.now, second), "it has a client that waits for a place");
    world.leave(0);
    world.reset(0);
    close_all(&mut world);
    open_all(&mut world);
    assert!(world.bucket.forget_pool(world.now, first));
    assert_eq!(world.bucket.add_pool(Level::default()), first, "its place is used again");
}

#[test]
fn a_lease_that_is_dropped_discards_its_connection_and_serves_the_next_client() {
    let mut world = World::on_demand(settings(1));
    world.arrive(0, 0);
    open_all(&mut world);
    world.arrive(0, 0);
    drop(world.leases.pop());
    world.poll();
    assert_eq!(world.ended[&0], Discard::LeaseLost);
    close_all(&mut world);
    open_all(&mut world);
    assert_eq!(world.served, [0, 1]);
}
