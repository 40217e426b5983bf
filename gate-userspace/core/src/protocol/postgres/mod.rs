//! Postgres' frontend/backend protocol, version 3, without sockets.
//!
//! A session meets the files in this order:
//!
//! ```text
//!  client ─▶ startup ─▶ authenticate ─▶ settings ─▶ parameters ─▶ frame ─────────▶ reset
//!            first      users, scram    what it     what it is    headers walked   clean again,
//!            packet     who it is       asked for   told          until Terminate  or not
//!
//!  server ◀─ login (credential, scram): the gate as a client
//! ```
//!
//! Whoever has messages to send appends them to a buffer with [`message`]; complete messages from a buffer are read
//! with [`frame::Frame`]. "Protocol, Message Formats" and the like are section titles in the chapter "Frontend/Backend
//! Protocol" of the Postgres manual; its number differs from release to release.

pub mod authenticate;
pub mod cancel_key;
pub mod credential;
mod fields;
pub mod frame;
pub mod login;
pub mod message;
mod options;
pub mod parameters;
pub mod reset;
pub mod scram;
pub mod secret;
pub mod server_error;
pub mod settings;
mod simple_query;
pub mod sqlstate;
pub mod startup;
pub mod users;
