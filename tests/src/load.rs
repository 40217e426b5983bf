//! Many clients at once, and the server's view of them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, anyhow};

use crate::postgres::{CONNECTIONS, Postgres};

/// Has so many threads do something at the same moment, and returns what each came to, in order.
pub fn at_once<T: Send>(count: usize, act: impl Fn(usize) -> Result<T> + Sync) -> Vec<Result<T>> {
    let start = Barrier::new(count);
    let run = |number| {
        start.wait();
        act(number)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || run(number))).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|result| result.unwrap_or_else(|_| Err(anyhow!("a client has panicked")))).collect()
    })
}

/// Does something, and looks all the while how many connections the server counts; returns the most.
pub fn watched<T>(postgres: &Postgres, act: impl FnOnce() -> Result<T>) -> Result<(T, u32)> {
    let mut observer = postgres.superuser()?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| -> Result<u32> {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(observer.value(CONNECTIONS)?.parse()?);
            }
            Ok(most)
        });
        let result = act();
        done.store(true, Ordering::Relaxed);
        let most = sampler.join().map_err(|_| anyhow!("the observer has panicked"))??;
        Ok((result?, most))
    })
}
