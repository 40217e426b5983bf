//! Map keys and values that both halves of the gate agree on.
//!
//! The kernel compares and copies these types as plain bytes, so each of them is `#[repr(C)]`, has no
//! padding, and has its size and offsets asserted where it is defined: a change of layout that only one
//! half has seen does not compile.
#![no_std]

mod endpoint;

pub use endpoint::{EndpointCounts, EndpointKey, MAX_ENDPOINTS};
