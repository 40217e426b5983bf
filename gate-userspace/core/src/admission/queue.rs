//! Who is next: first come, first served within a tenant, and turn by turn between tenants.
//!
//! Each tenant has a line of its own. Tenants that have somebody waiting and are below their cap stand in a ring;
//! the one at its front is served one client and goes to the back. A tenant that opens a thousand connections so
//! delays another by one turn, not by a thousand. With a single tenant this is plain first come, first served.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::line::{Line, Nodes, Spot as LineSpot};

/// The caller's number for a group of clients that share a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tenant(pub u64);

/// Where a client waits; needed to leave early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot(LineSpot);

pub(super) struct Queue<W> {
    cap: Option<u32>,
    tenants: HashMap<Tenant, State>,
    ring: Line,
    ring_nodes: Nodes<Tenant>,
    nodes: Nodes<W>,
    waiting: u32,
    in_use: u32,
}

/// A tenant is known while it uses something or waits.
#[derive(Default)]
struct State {
    in_use: u32,
    line: Line,
    /// Its place in the ring, while it is eligible.
    turn: Option<LineSpot>,
}

impl<W> Queue<W> {
    pub(super) fn new(cap: Option<u32>) -> Self {
        Self {
            cap,
            tenants: HashMap::new(),
            ring: Line::default(),
            ring_nodes: Nodes::new(),
            nodes: Nodes::new(),
            waiting: 0,
            in_use: 0,
        }
    }

    pub(super) fn in_use(&self) -> u32 {
        self.in_use
    }

    pub(super) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whether somebody waits for nothing but a place.
    pub(super) fn anyone_eligible(&self) -> bool {
        !self.ring.is_empty()
    }

    pub(super) fn is_at_cap(&self, tenant: Tenant) -> bool {
        self.cap.is_some_and(|cap| self.tenants.get(&tenant).is_some_and(|state| state.in_use >= cap))
    }

    pub(super) fn waiting_of(&self, tenant: Tenant) -> u32 {
        self.tenants.get(&tenant).map_or(0, |state| state.line.len())
    }

    /// How many will be served before a newcomer of this tenant: a turn of every tenant for each of its own.
    pub(super) fn ahead_of_newcomer(&self, tenant: Tenant) -> u32 {
        let turns = self.waiting_of(tenant).saturating_add(1);
        turns.saturating_mul(self.ring.len()).min(self.waiting)
    }

    /// A client of this tenant takes a place without waiting.
    pub(super) fn take_place(&mut self, tenant: Tenant) {
        self.in_use += 1;
        self.update(tenant, |state, _| state.in_use += 1);
    }

    /// A client of this tenant leaves its place.
    pub(super) fn free_place(&mut self, tenant: Tenant) {
        self.in_use -= 1;
        self.update(tenant, |state, _| state.in_use -= 1);
    }

    /// A client of this tenant waits.
    pub(super) fn push(&mut self, tenant: Tenant, waiter: W) -> Spot {
        self.waiting += 1;
        Spot(self.update(tenant, |state, nodes| state.line.push_back(nodes, waiter)))
    }

    /// A client of this tenant waits no longer.
    pub(super) fn remove(&mut self, tenant: Tenant, spot: Spot) {
        self.waiting -= 1;
        self.update(tenant, |state, nodes| state.line.remove(nodes, spot.0));
    }

    /// Gives a place to whose turn it is.
    pub(super) fn pop(&mut self) -> Option<(Tenant, W)> {
        let tenant = *self.ring.front(&self.ring_nodes)?;
        let waiter = self.update(tenant, |state, nodes| {
            let waiter = state.line.pop_front(nodes)?;
            state.in_use += 1;
            Some(waiter)
        })?;
        self.waiting -= 1;
        self.in_use += 1;
        self.end_turn(tenant);
        Some((tenant, waiter))
    }

    /// Changes a tenant's state, then puts the tenant in the ring, takes it out, or forgets it, as the state says.
    fn update<R>(&mut self, tenant: Tenant, change: impl FnOnce(&mut State, &mut Nodes<W>) -> R) -> R {
        let mut entry = match self.tenants.entry(tenant) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(State::default()),
        };
        let state = entry.get_mut();
        let result = change(state, &mut self.nodes);
        let eligible = !state.line.is_empty() && self.cap.is_none_or(|cap| state.in_use < cap);
        match (eligible, state.turn) {
            (true, None) => state.turn = Some(self.ring.push_back(&mut self.ring_nodes, tenant)),
            (false, Some(turn)) => {
                self.ring.remove(&mut self.ring_nodes, turn);
                state.turn = None;
            }
            _ => {}
        }
        if state.in_use == 0 && state.line.is_empty() {
            entry.remove();
        }
        result
    }

    /// Sends a tenant that is still in the ring to its back.
    fn end_turn(&mut self, tenant: Tenant) {
        let Some(state) = self.tenants.get_mut(&tenant) else { return };
        if let Some(turn) = state.turn.take() {
            self.ring.remove(&mut self.ring_nodes, turn);
            state.turn = Some(self.ring.push_back(&mut self.ring_nodes, tenant));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet, VecDeque};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever joins, leaves and is served in between.
        #[test]
        fn within_a_tenant_the_order_is_first_come_first_served(steps in prop::collection::vec((0..4_u8, 0..3_u64, any::<prop::sample::Index>()), 1..300)) {
            let mut queue = Queue::new(None);
            let mut lines: BTreeMap<u64, VecDeque<(Spot, usize)>> = BTreeMap::new();
            for (name, (action, tenant, pick)) in steps.into_iter().enumerate() {
                let line = lines.entry(tenant).or_default();
                match action {
                    0 | 1 => line.push_back((queue.push(Tenant(tenant), name), name)),
                    2 if !line.is_empty() => {
                        let (spot, _) = line.remove(pick.index(line.len())).unwrap();
                        queue.remove(Tenant(tenant), spot);
                    }
                    _ => match queue.pop() {
                        None => prop_assert!(lines.values().all(VecDeque::is_empty)),
                        Some((tenant, served)) => {
                            let (_, first) = lines.get_mut(&tenant.0).unwrap().pop_front().unwrap();
                            prop_assert_eq!(served, first);
                        }
                    },
                }
                let waiting: usize = lines.values().map(VecDeque::len).sum();
                prop_assert_eq!(queue.waiting() as usize, waiting);
            }
        }

        /// However many clients each of them sends: while all of them wait, no tenant is served twice in a round.
        #[test]
        fn tenants_that_wait_are_served_in_turn(crowds in prop::collection::vec(1..40_u32, 2..6)) {
            let mut queue = Queue::new(None);
            for (tenant, crowd) in (0..).zip(&crowds) {
                for client in 0..*crowd {
                    queue.push(Tenant(tenant), client);
                }
            }
            let mut left: HashSet<u64> = (0..crowds.len() as u64).collect();
            let mut served = vec![0; crowds.len()];
            while !left.is_empty() {
                let mut round = left.clone();
                for _ in 0..left.len() {
                    let (tenant, _) = queue.pop().unwrap();
                    prop_assert!(round.remove(&tenant.0), "{:?} was served twice in a round", tenant);
                    served[tenant.0 as usize] += 1;
                }
                left.retain(|tenant| served[*tenant as usize] < crowds[*tenant as usize]);
            }
            prop_assert!(queue.pop().is_none());
        }

        /// A tenant at its cap is passed over until it frees a place.
        #[test]
        fn no_tenant_holds_more_places_than_its_cap(cap in 1..4_u32, steps in prop::collection::vec((0..3_u8, 0..3_u64), 1..200)) {
            let mut queue = Queue::new(Some(cap));
            let mut held: BTreeMap<u64, u32> = BTreeMap::new();
            let mut waiting: BTreeMap<u64, u32> = BTreeMap::new();
            for (action, tenant) in steps {
                match action {
                    0 => {
                        queue.push(Tenant(tenant), ());
                        *waiting.entry(tenant).or_default() += 1;
                    }
                    1 => match queue.pop() {
                        Some((tenant, ())) => {
                            *held.entry(tenant.0).or_default() += 1;
                            *waiting.entry(tenant.0).or_default() -= 1;
                            prop_assert!(held[&tenant.0] <= cap);
                        }
                        None => prop_assert!(waiting.iter().all(|(tenant, waiting)| *waiting == 0 || held.get(tenant) == Some(&cap))),
                    },
                    _ => {
                        if let Some(held) = held.get_mut(&tenant).filter(|held| **held > 0) {
                            *held -= 1;
                            queue.free_place(Tenant(tenant));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_tenant_that_is_done_is_forgotten() {
        let mut queue = Queue::new(None);
        for tenant in 0..1_000 {
            let spot = queue.push(Tenant(tenant), ());
            queue.remove(Tenant(tenant), spot);
            queue.take_place(Tenant(tenant));
            queue.free_place(Tenant(tenant));
        }
        assert!(queue.tenants.is_empty());
    }
}
