//! Who may use the database now, who waits, and who is told no.
//!
//! There are as many *places* as connections that may be in use at once. A client with a place holds a [`Ticket`];
//! the others wait in a queue, or are refused with the limit they met. Nothing here knows of connections: a
//! ticket is the right to one, the reservoir has them.

mod pressure;
mod queue;
mod wait;

use std::time::Duration;

use self::queue::Queue;
pub use self::queue::{Spot, Tenant};
use self::wait::Holds;
use crate::home::{Home, Inbox, Notify, home};
use crate::refusal::{Refusal, ShortOf};

/// What an operator sets.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The part of the slots that may be in use at once, above 0 and up to 1.
    pub dispatch_limit: f64,
    /// How many clients may wait.
    pub queue_depth: u32,
    /// How long a client may wait.
    pub queue_timeout: Duration,
    /// The pressure from which newcomers are refused instead of queued; at 1 only a full queue refuses.
    pub shed_at: f64,
    /// Whether those who wait are served tenant by tenant instead of strictly in order.
    pub fair: bool,
    /// How many places one tenant may hold, if tenants are told apart.
    pub tenant_places: Option<u32>,
}

/// The places of one bucket and the queue for them. `W` is the caller's name for a client that waits.
pub struct Admission<W> {
    settings: Settings,
    slots: u32,
    places: u32,
    queue: Queue<W>,
    holds: Holds,
    draining: bool,
    home: Home<Tenant>,
    inbox: Inbox<Tenant>,
}

/// The right to use one connection. Dropping it frees the place.
#[must_use = "dropping a ticket frees its place"]
pub struct Ticket {
    tenant: Tenant,
    home: Option<Home<Tenant>>,
}

/// What becomes of a client that arrives.
pub enum Decision {
    /// It has a place.
    Admitted(Ticket),
    /// It waits; [`Admission::poll_admitted`] will name it.
    Queued(Spot),
    /// It is told no.
    Refused(Refusal),
}

impl<W> Admission<W> {
    /// Places for a bucket of `slots` connections.
    pub fn new(settings: Settings, slots: u32, notify: Notify) -> Self {
        let (home, inbox) = home(notify);
        let queue = Queue::new(settings.tenant_places);
        let mut admission =
            Self { settings, slots: 0, places: 0, queue, holds: Holds::default(), draining: false, home, inbox };
        admission.set_slots(slots);
        admission
    }

    /// How many clients hold a place.
    pub fn in_use(&self) -> u32 {
        self.queue.in_use()
    }

    /// How many wait for one.
    pub fn waiting(&self) -> u32 {
        self.queue.waiting()
    }

    /// How many places there are.
    pub fn places(&self) -> u32 {
        self.places
    }

    /// How near the bucket is to refusing, from 0 to 1.
    pub fn pressure(&self) -> f64 {
        pressure::pressure(self.waiting(), self.settings.queue_depth, self.in_use(), self.slots)
    }

    /// What a client of this tenant waits for while it has no place.
    pub fn short_of(&self, tenant: Tenant) -> ShortOf {
        match self.settings.tenant_places {
            Some(places) if self.queue.is_at_cap(self.known_as(tenant)) => ShortOf::TenantPlaces { places },
            _ => ShortOf::Places { places: self.places },
        }
    }

    /// How long it takes, as things went lately, until `among` clients have made way for `ahead` others and one more.
    pub fn expected_wait_behind(&self, ahead: u32, among: u32) -> Duration {
        self.holds.wait_behind(ahead, among)
    }

    /// A client wants to use the database.
    pub fn arrive(&mut self, tenant: Tenant, waiter: W) -> Decision {
        self.collect();
        let tenant = self.known_as(tenant);
        if self.draining {
            return Decision::Refused(Refusal::Draining);
        }
        // Whoever could be served at once has no one to wait for, so it overtakes nobody.
        if self.in_use() < self.places && !self.queue.anyone_eligible() && !self.queue.is_at_cap(tenant) {
            self.queue.take_place(tenant);
            return Decision::Admitted(self.ticket(tenant));
        }
        match self.reason_not_to_queue(tenant) {
            Some(refusal) => Decision::Refused(refusal),
            None => Decision::Queued(self.queue.push(tenant, waiter)),
        }
    }

    /// The next client to be served, if there is a place for it.
    pub fn poll_admitted(&mut self) -> Option<(W, Ticket)> {
        self.collect();
        if self.in_use() >= self.places {
            return None;
        }
        let (tenant, waiter) = self.queue.pop()?;
        Some((waiter, self.ticket(tenant)))
    }

    /// A client that waited gives up, or is told no.
    pub fn give_up(&mut self, tenant: Tenant, spot: Spot) {
        self.queue.remove(self.known_as(tenant), spot);
    }

    /// A client that was served leaves after so long; its place is free.
    pub fn leave(&mut self, ticket: Ticket, held: Duration) {
        self.holds.record(held, self.settings.queue_timeout);
        self.leave_unused(ticket);
    }

    /// A client leaves whose ticket was never used; that says nothing of how long one holds a place.
    pub fn leave_unused(&mut self, mut ticket: Ticket) {
        if ticket.home.take_if(|home| home.is(&self.home)).is_some() {
            self.queue.free_place(ticket.tenant);
        }
    }

    /// Takes back tickets that were dropped elsewhere.
    pub fn collect(&mut self) {
        while let Some(tenant) = self.inbox.take() {
            self.queue.free_place(tenant);
        }
    }

    /// Changes how many connections the bucket may have.
    pub fn set_slots(&mut self, slots: u32) {
        self.slots = slots;
        // The cast truncates, which is wanted: a part of a connection serves nobody. The sum guards against a
        // product such as 0.7 × 10, which floating point puts just below 7.
        let places = (f64::from(slots) * self.settings.dispatch_limit + 1e-6) as u32;
        self.places = places.clamp(slots.min(1), slots);
    }

    /// Refuses everybody from now on. Those who hold a ticket are not disturbed.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    fn reason_not_to_queue(&self, tenant: Tenant) -> Option<Refusal> {
        let Settings { queue_depth: depth, queue_timeout: timeout, shed_at, .. } = self.settings;
        if self.waiting() >= depth {
            return Some(Refusal::QueueFull { depth });
        }
        if shed_at < 1.0 {
            let pressure = self.pressure();
            if pressure >= shed_at {
                return Some(Refusal::Shed { pressure, shed_at });
            }
        }
        let estimate = self.expected_wait(tenant);
        (estimate > timeout).then_some(Refusal::WaitTooLong { estimate, timeout })
    }

    fn expected_wait(&self, tenant: Tenant) -> Duration {
        let overall = self.expected_wait_behind(self.queue.ahead_of_newcomer(tenant), self.places);
        match self.settings.tenant_places {
            Some(places) => overall.max(self.expected_wait_behind(self.queue.waiting_of(tenant), places)),
            None => overall,
        }
    }

    /// Strict order is fairness among tenants of whom there is only one.
    fn known_as(&self, tenant: Tenant) -> Tenant {
        if self.settings.fair { tenant } else { Tenant::default() }
    }

    fn ticket(&self, tenant: Tenant) -> Ticket {
        Ticket { tenant, home: Some(self.home.clone()) }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.send(self.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn settings() -> Settings {
        Settings {
            dispatch_limit: 1.0,
            queue_depth: 100,
            queue_timeout: 30 * SECOND,
            shed_at: 1.0,
            fair: false,
            tenant_places: None,
        }
    }

    fn admission(settings: Settings, slots: u32) -> Admission<u32> {
        Admission::new(settings, slots, Notify::nobody())
    }

    fn admitted(decision: Decision) -> Ticket {
        match decision {
            Decision::Admitted(ticket) => ticket,
            Decision::Queued(spot) => panic!("queued at {spot:?}"),
            Decision::Refused(refusal) => panic!("refused: {refusal}"),
        }
    }

    fn refused(decision: Decision) -> Refusal {
        match decision {
            Decision::Refused(refusal) => refusal,
            _ => panic!("not refused"),
        }
    }

    fn fill(admission: &mut Admission<u32>, count: u32) -> Vec<Ticket> {
        (0..count).map(|_| admitted(admission.arrive(Tenant(0), 0))).collect()
    }

    #[test]
    fn the_dispatch_limit_is_a_whole_number_of_places_and_never_none() {
        for (slots, limit, places) in [(10, 0.7, 7), (10, 0.8, 8), (10, 1.0, 10), (1, 0.5, 1), (3, 0.9, 2), (0, 1.0, 0)]
        {
            let admission = admission(Settings { dispatch_limit: limit, ..settings() }, slots);
            assert_eq!(admission.places(), places, "{limit} of {slots}");
        }
    }

    #[test]
    fn a_full_queue_refuses_and_says_how_deep_it_is() {
        let mut admission = admission(Settings { queue_depth: 2, ..settings() }, 1);
        let _held = fill(&mut admission, 1);
        for waiter in 0..2 {
            assert!(matches!(admission.arrive(Tenant(0), waiter), Decision::Queued(_)));
        }
        assert_eq!(refused(admission.arrive(Tenant(0), 2)), Refusal::QueueFull { depth: 2 });
    }

    #[test]
    fn at_the_default_threshold_clients_queue_until_the_queue_is_full() {
        let mut admission = admission(settings(), 2);
        let _held = fill(&mut admission, 2);
        assert_eq!(admission.pressure(), 1.0);
        for waiter in 0..100 {
            assert!(matches!(admission.arrive(Tenant(0), waiter), Decision::Queued(_)));
        }
        assert!(matches!(refused(admission.arrive(Tenant(0), 0)), Refusal::QueueFull { .. }));
    }

    #[test]
    fn below_the_default_threshold_newcomers_are_refused_instead_of_queued_but_served_while_there_is_a_place() {
        let mut admission = admission(Settings { shed_at: 0.7, dispatch_limit: 0.8, ..settings() }, 10);
        let _held = fill(&mut admission, 8);
        let refusal = refused(admission.arrive(Tenant(0), 0));
        assert_eq!(refusal, Refusal::Shed { pressure: 0.8, shed_at: 0.7 });
    }

    #[test]
    fn a_newcomer_whose_wait_would_be_too_long_is_told_at_once() {
        let mut admission = admission(settings(), 2);
        for _ in 0..64 {
            let ticket = admitted(admission.arrive(Tenant(0), 0));
            admission.leave(ticket, 10 * SECOND);
        }
        let _held = fill(&mut admission, 2);
        let queued = (0..).take_while(|_| matches!(admission.arrive(Tenant(0), 0), Decision::Queued(_))).count();
        assert_eq!(queued, 6, "two places that are held for 10 s each serve six within 30 s");
        assert_eq!(refused(admission.arrive(Tenant(0), 0)).label(), "wait_too_long");
    }

    #[test]
    fn a_dropped_ticket_serves_the_next() {
        let mut admission = admission(settings(), 1);
        let held = fill(&mut admission, 1);
        assert!(matches!(admission.arrive(Tenant(0), 7), Decision::Queued(_)));
        assert!(admission.poll_admitted().is_none());
        drop(held);
        assert_eq!(admission.poll_admitted().unwrap().0, 7);
    }

    #[test]
    fn a_newcomer_never_overtakes_who_waits_even_if_a_place_is_free() {
        let mut admission = admission(settings(), 1);
        let held = fill(&mut admission, 1);
        assert!(matches!(admission.arrive(Tenant(0), 7), Decision::Queued(_)));
        drop(held);
        assert!(matches!(admission.arrive(Tenant(0), 8), Decision::Queued(_)));
        assert_eq!(admission.poll_admitted().unwrap().0, 7);
    }

    #[test]
    fn a_tenant_at_its_cap_waits_and_holds_nobody_else_up() {
        let mut admission = admission(Settings { fair: true, tenant_places: Some(1), ..settings() }, 3);
        let first = admitted(admission.arrive(Tenant(1), 0));
        assert!(matches!(admission.arrive(Tenant(1), 11), Decision::Queued(_)));
        assert_eq!(admission.short_of(Tenant(1)), ShortOf::TenantPlaces { places: 1 });
        let _second = admitted(admission.arrive(Tenant(2), 0));
        assert!(admission.poll_admitted().is_none());
        admission.leave(first, SECOND);
        assert_eq!(admission.poll_admitted().unwrap().0, 11);
    }
}
