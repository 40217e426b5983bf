//! The error codes that the gate itself gives or acts upon ("PostgreSQL Error Codes", an appendix of the manual).

/// Sorry, too many clients already: a limit of the gate's or of the server's.
pub const TOO_MANY_CONNECTIONS: &str = "53300";
/// Starting, draining, or the database is down: come again.
pub const CANNOT_CONNECT_NOW: &str = "57P03";
/// The connection to the server was lost.
pub const CONNECTION_FAILURE: &str = "08006";
/// The password is wrong, or the user unknown: nobody is told which.
pub const INVALID_PASSWORD: &str = "28P01";
/// This user may not come in this way.
pub const INVALID_AUTHORIZATION: &str = "28000";
/// The bytes are not the protocol's.
pub const PROTOCOL_VIOLATION: &str = "08P01";
/// Right, but not to be had here.
pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
/// How the codes of all that is wrong with a user or its password begin.
pub const AUTHORIZATION_CLASS: &str = "28";
/// The database takes no connections (`datallowconn`).
pub const DATABASE_CLOSED: &str = "55000";
/// There is no such database.
pub const UNKNOWN_DATABASE: &str = "3D000";
/// A setting's value cannot be.
pub const INVALID_PARAMETER_VALUE: &str = "22023";
/// Text is not in the encoding that it should be in.
pub const CHARACTER_NOT_IN_REPERTOIRE: &str = "22021";
/// The user lacks a right, such as that to connect to the database.
pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
/// The server is broken, or the gate is.
pub const INTERNAL_ERROR: &str = "XX000";
