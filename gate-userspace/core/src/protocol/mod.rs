//! The languages that clients and databases speak, as far as the gate must understand them: bytes in, bytes and
//! decisions out.

pub mod postgres;
