//! In the steady state a decision allocates nothing.

mod world;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use gate_core::admission::Tenant;
use gate_core::bucket::{Arrival, Bucket, Level};
use gate_core::home::Notify;
use gate_core::reservoir::PoolId;
use gate_core::time::Moment;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes unchanged to the system's allocator; counting touches a thread-local number only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the promises of `alloc`, which are those of the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, that is from the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Clients come, wait, are served, give up and leave: more of them than there are connections.
fn a_busy_while(bucket: &mut Bucket<u32>, pool: PoolId, now: Moment) {
    let mut leases: [_; 8] = std::array::from_fn(|client| match bucket.arrive(now, pool, Tenant(client as u64), 0) {
        Arrival::Served(lease) => Some(lease),
        _ => panic!("all connections are ready"),
    });
    let mut waiters: [_; 32] =
        std::array::from_fn(|client| match bucket.arrive(now, pool, Tenant(client as u64 % 5), 0) {
            Arrival::Waiting(waiter) => Some(waiter),
            _ => panic!("no connection is left"),
        });
    for (client, waiter) in waiters.iter_mut().enumerate() {
        if client % 3 == 0
            && let Some(waiter) = waiter.take()
        {
            bucket.cancel(now, waiter);
        }
    }
    for _ in 0..8 {
        for lease in leases.iter_mut().filter_map(Option::take) {
            let resetting = bucket.leave(now, lease);
            bucket.give_back(now, resetting);
        }
        while bucket.poll_settled().is_some() {}
        for waiter in &mut waiters {
            match waiter.take().map(|waiter| bucket.claim(waiter)) {
                Some(Ok(Ok(lease))) => leases[free_place(&leases)] = Some(lease),
                Some(Err(still_waiting)) => *waiter = Some(still_waiting),
                Some(Ok(Err(refusal))) => panic!("{refusal}"),
                None => {}
            }
        }
        while bucket.poll_open(now).is_some() {}
        bucket.poll_timeout();
    }
    assert!(waiters.iter().all(Option::is_none));
}

fn free_place<T>(places: &[Option<T>]) -> usize {
    places.iter().position(Option::is_none).unwrap_or_else(|| panic!("more leases than connections"))
}

#[test]
fn a_warm_bucket_serves_queues_and_hands_over_without_allocating() {
    for fair in [false, true] {
        let mut settings = world::settings(8);
        settings.admission.fair = fair;
        let mut bucket = Bucket::new(settings, 1, Notify::nobody());
        let pool = bucket.add_pool(Level { target: 8, min: 8, low_watermark: 8 });
        while let Some(opening) = bucket.poll_open(Moment::START) {
            bucket.handle_opened(Moment::START, opening, 0);
        }
        a_busy_while(&mut bucket, pool, Moment::START);
        let before = ALLOCATIONS.get();
        for _ in 0..100 {
            a_busy_while(&mut bucket, pool, Moment::START);
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "fair: {fair}");
    }
}
