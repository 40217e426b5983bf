//! The right to hold one open backend connection.
//!
//! The cap holds by type: a connection cannot be opened without a [`Slot`], and a slot comes only from
//! [`Slots::try_take`], which counts it until it came back.

use crate::home::{Home, Inbox, Notify, home};

/// The slots of one bucket on this node.
pub struct Slots {
    limit: u32,
    taken: u32,
    home: Home<()>,
    inbox: Inbox<()>,
}

impl Slots {
    /// `limit` slots, none of them taken. `notify` tells the owner that a dropped one came home.
    pub fn new(limit: u32, notify: Notify) -> Self {
        let (home, inbox) = home(notify);
        Self { limit, taken: 0, home, inbox }
    }

    /// How many may be taken at once.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// How many are taken: connecting, idle, in use and closing connections all hold one.
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// How many may be taken now.
    pub fn free(&self) -> u32 {
        self.limit.saturating_sub(self.taken)
    }

    /// Takes a slot, if the limit allows it.
    pub fn try_take(&mut self) -> Option<Slot> {
        self.collect();
        if self.free() == 0 {
            return None;
        }
        self.taken += 1;
        Some(Slot { home: Some(self.home.clone()) })
    }

    /// Takes a slot back: the server has let go of its connection.
    pub fn release(&mut self, mut slot: Slot) {
        // A slot of another bucket finds its own way home by its Drop.
        if let Some(home) = slot.home.take_if(|home| home.is(&self.home)) {
            drop(home);
            self.taken -= 1;
        }
    }

    /// Takes back what was dropped elsewhere.
    pub fn collect(&mut self) {
        while let Some(()) = self.inbox.take() {
            self.taken -= 1;
        }
    }

    /// Changes the limit. Slots above a lower one stay valid; no new one is given until enough came back.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }
}

/// The right to hold one open backend connection. Dropping it gives it back, so drop it after the server let go.
#[must_use = "dropping a slot says that its connection is closed and forgotten by the server"]
pub struct Slot {
    home: Option<Home<()>>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_comes_back_once_whether_it_is_released_or_dropped() {
        let mut slots = Slots::new(2, Notify::nobody());
        let (first, second) = (slots.try_take().unwrap(), slots.try_take().unwrap());
        assert!(slots.try_take().is_none());
        slots.release(first);
        assert_eq!(slots.taken(), 1);
        drop(second);
        slots.collect();
        slots.collect();
        assert_eq!(slots.taken(), 0);
    }

    #[test]
    fn a_slot_released_to_the_wrong_bucket_returns_to_its_own() {
        let mut ours = Slots::new(1, Notify::nobody());
        let mut theirs = Slots::new(1, Notify::nobody());
        let _held = theirs.try_take().unwrap();
        theirs.release(ours.try_take().unwrap());
        ours.collect();
        assert_eq!((ours.taken(), theirs.taken()), (0, 1));
    }

    #[test]
    fn a_lowered_limit_gives_nothing_until_enough_came_back() {
        let mut slots = Slots::new(3, Notify::nobody());
        let held: Vec<_> = std::iter::from_fn(|| slots.try_take()).collect();
        slots.set_limit(1);
        assert_eq!(held.len(), 3);
        for (left, slot) in (0..3).rev().zip(held) {
            assert!(slots.try_take().is_none());
            slots.release(slot);
            assert_eq!(slots.taken(), left);
        }
        let _last = slots.try_take().unwrap();
    }
}
