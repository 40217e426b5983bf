//! What the gate decides, and nothing else.
//!
//! This crate opens no socket, reads no clock, takes no lock and rolls no dice of its own: `now`, random seeds and
//! bytes come in as arguments, decisions go out as values. The daemon and the simulator drive the very same types.
//!
//! A bucket's path through the files:
//!
//! ```text
//!  route ──▶ admission ──▶ reservoir ──▶ (a client's session) ──▶ reservoir | discarded
//!  which     a place now,  a warm one,                            clean: kept   else: closed, and
//!  bucket?   later, never? fresh enough?                                        its slot given back
//!                              ▲
//!                 slot + rate + refill: may another connection be opened now?
//! ```
//!
//! [`bucket::Bucket`] puts these together. Capacity is always a value: who holds a [`slot::Slot`], an
//! [`admission::Ticket`] or a [`bucket::Lease`] holds the right it stands for, and dropping it is the safe
//! outcome ([`home`] tells how a dropped right finds its owner again).
//!
//! [`protocol`] reads and writes what clients and servers say, from the first packet to the reset between two sessions.

pub mod admission;
pub mod bucket;
pub mod home;
mod line;
pub mod protocol;
pub mod rate;
pub mod refill;
pub mod refusal;
pub mod reservoir;
pub mod route;
pub mod slot;
pub mod time;
pub mod timer;
