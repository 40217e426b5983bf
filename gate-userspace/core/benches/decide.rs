//! What a decision costs: the whole path of a client through a bucket, and its parts under load.
//!
//! The aim is a few hundred nanoseconds and no allocation once the bucket has grown to its usual size;
//! `tests/allocation.rs` proves the second.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use gate_core::admission::{self, Admission, Decision, Tenant, Ticket};
use gate_core::bucket::{Arrival, Bucket, Lease, Level, Settings, Waiter};
use gate_core::home::Notify;
use gate_core::rate::Rate;
use gate_core::reservoir::{Lifetimes, PoolId};
use gate_core::route::{Hello, Protocol, Route, Router};
use gate_core::time::Moment;

const NOW: Moment = Moment::START;

fn settings(max_connections: u32) -> Settings {
    Settings {
        max_connections,
        admission: admission_settings(false),
        lifetimes: Lifetimes {
            base: Duration::from_secs(660),
            jitter: Duration::from_secs(120),
            guard_window: Duration::from_secs(45),
        },
        rate: Rate::per_second(NonZeroU32::MAX, NonZeroU32::MAX),
        empty_wait: Duration::from_millis(100),
        cool_after: Duration::from_secs(600),
    }
}

fn admission_settings(fair: bool) -> admission::Settings {
    admission::Settings {
        dispatch_limit: 1.0,
        queue_depth: 10_000,
        queue_timeout: Duration::from_secs(30),
        shed_at: 1.0,
        fair,
        tenant_places: None,
    }
}

/// A bucket with all its connections open and ready.
fn warm(connections: u32) -> (Bucket<u32>, PoolId) {
    let mut bucket = Bucket::new(settings(connections), 1, Notify::nobody());
    let pool = bucket.add_pool(Level { target: connections, min: connections, low_watermark: connections });
    while let Some(opening) = bucket.poll_open(NOW) {
        bucket.handle_opened(NOW, opening, 0);
    }
    (bucket, pool)
}

fn lease(bucket: &mut Bucket<u32>, pool: PoolId) -> Lease<u32> {
    match bucket.arrive(NOW, pool, Tenant(0), 0) {
        Arrival::Served(lease) => lease,
        _ => panic!("a warm bucket serves at once"),
    }
}

fn waiter(bucket: &mut Bucket<u32>, pool: PoolId) -> Waiter<u32> {
    match bucket.arrive(NOW, pool, Tenant(0), 0) {
        Arrival::Waiting(waiter) => waiter,
        _ => panic!("a full bucket makes wait"),
    }
}

fn give_back(bucket: &mut Bucket<u32>, lease: Lease<u32>) {
    let resetting = bucket.leave(NOW, lease);
    bucket.give_back(NOW, resetting);
}

fn a_client_is_served_and_leaves(c: &mut Criterion) {
    let (mut bucket, pool) = warm(100);
    c.bench_function("served at once, and back", |b| {
        b.iter(|| {
            let lease = lease(&mut bucket, pool);
            give_back(&mut bucket, black_box(lease));
        });
    });
    c.bench_function("served at once (checkout alone)", |b| {
        b.iter_batched_ref(
            || warm(64),
            |(bucket, pool)| std::array::from_fn::<_, 64, _>(|_| lease(bucket, *pool)),
            BatchSize::LargeInput,
        );
    });
}

fn a_client_waits_and_is_served(c: &mut Criterion) {
    let (mut bucket, pool) = warm(100);
    let mut held: Vec<_> = (0..100).map(|_| lease(&mut bucket, pool)).collect();
    let mut waiting: std::collections::VecDeque<_> = (0..1_000).map(|_| waiter(&mut bucket, pool)).collect();
    c.bench_function("behind 1,000 others: queued, handed over, and back", |b| {
        b.iter(|| {
            waiting.push_back(waiter(&mut bucket, pool));
            give_back(&mut bucket, held.swap_remove(0));
            while bucket.poll_settled().is_some() {
                match waiting.pop_front().map(|first| bucket.claim(first)) {
                    Some(Ok(Ok(lease))) => held.push(lease),
                    _ => panic!("the first in line was served"),
                }
            }
        });
    });
    c.bench_function("behind 1,000 others: queued, and gives up", |b| {
        b.iter(|| {
            let waiter = waiter(&mut bucket, pool);
            bucket.cancel(NOW, waiter);
        });
    });
}

fn admission_alone(c: &mut Criterion) {
    fn admit(admission: &mut Admission<usize>, tenant: Tenant) -> Ticket {
        match admission.arrive(tenant, 0) {
            Decision::Admitted(ticket) => ticket,
            _ => panic!("there is a place"),
        }
    }
    for (name, fair) in [("admission, in order", false), ("admission, fair between tenants", true)] {
        let mut admission = Admission::new(admission_settings(fair), 100, Notify::nobody());
        let _held: Vec<_> = (0..50).map(|tenant| admit(&mut admission, Tenant(tenant))).collect();
        c.bench_function(name, |b| {
            b.iter(|| {
                let ticket = admit(&mut admission, Tenant(7));
                admission.leave(black_box(ticket), Duration::from_millis(1));
            });
        });
    }
}

fn routing(c: &mut Criterion) {
    let routes = (0..120).map(|bucket| {
        let names = (0..2_500).map(|tenant| format!("tenant_{bucket}_{tenant}"));
        Route::new(Protocol::Tds, names, ["*".to_owned()])
    });
    let router = Router::new(routes);
    let hello = Hello { protocol: Protocol::Tds, database: "tenant_119_2499", user: "sa" };
    c.bench_function("route among 120 buckets of 2,500 names", |b| b.iter(|| router.route(black_box(&hello))));
}

criterion_group!(benches, a_client_is_served_and_leaves, a_client_waits_and_is_served, admission_alone, routing);
criterion_main!(benches);
