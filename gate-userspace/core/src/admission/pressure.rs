//! How near a bucket is to refusing.
//!
//! The depth of the queue alone sees trouble too late: connections can all be in use while nobody waits yet. So the
//! pressure is the worst of three views, and the first few waiters weigh most.

/// From 0 (idle) to 1 (at a limit).
pub(super) fn pressure(waiting: u32, depth: u32, in_use: u32, slots: u32) -> f64 {
    part(waiting, depth).max(part(in_use, slots)).max(waiters(waiting, slots))
}

/// A limit of nothing is met by anything.
fn part(used: u32, limit: u32) -> f64 {
    match (used, limit) {
        (0, 1..) => 0.0,
        (_, 0) => 1.0,
        _ => (f64::from(used) / f64::from(limit)).min(1.0),
    }
}

/// None without waiters; half with the first; all when as many wait as there are slots.
fn waiters(waiting: u32, slots: u32) -> f64 {
    if waiting == 0 {
        return 0.0;
    }
    let share = (f64::from(waiting) + 1.0).ln() / (f64::from(slots) + 1.0).ln();
    (0.5 + 0.5 * share).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_worst_of_queue_use_and_waiters() {
        assert_eq!(pressure(0, 1_000, 0, 10), 0.0);
        assert_eq!(pressure(0, 1_000, 8, 10), 0.8);
        assert_eq!(pressure(900, 1_000, 0, 1_000_000), 0.9);
        assert_eq!(pressure(10, 1_000, 0, 10), 1.0);
        let first = pressure(1, 1_000, 0, 10);
        assert!((first - (0.5 + 0.5 * 2_f64.ln() / 11_f64.ln())).abs() < 1e-12, "{first}");
    }

    #[test]
    fn it_stays_between_nothing_and_one_even_for_limits_of_nothing() {
        for waiting in [0, 1, 7, u32::MAX] {
            for limit in [0, 1, u32::MAX] {
                let pressure = pressure(waiting, limit, waiting, limit);
                assert!((0.0..=1.0).contains(&pressure), "{waiting} {limit}: {pressure}");
            }
        }
    }
}
