//! Just enough HTTP to ask the admin endpoint.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result};

use crate::wait::DEADLINE;

/// The status and the body of an answer.
pub fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    // Version 1.0 has no chunked bodies: the end of the stream is the end of the body.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split_whitespace().nth(1).context("no HTTP status")?;
    Ok((status.parse()?, body.to_owned()))
}
