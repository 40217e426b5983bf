//! Asks a running gate for its status.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

/// How long each step may take. The admin endpoint answers within milliseconds.
const LIMIT: Duration = Duration::from_secs(5);

/// The longest answer that is read: room for tens of thousands of buckets.
const LONGEST: u64 = 64 << 20;

/// What a gate says at its admin address.
pub fn status_json(admin: SocketAddr) -> Result<String> {
    let answer = get(admin, "/status.json").with_context(|| {
        format!("no gate answers at {admin}; is it running, and is this its listen.admin? Name another with --admin")
    })?;
    let (head, body) = answer.split_once("\r\n\r\n").context(not_a_gate(admin))?;
    match head.split_whitespace().nth(1) {
        Some("200") => Ok(body.to_owned()),
        Some(code) if head.starts_with("HTTP/") => bail!("{}: it answers {code}", not_a_gate(admin)),
        _ => bail!(not_a_gate(admin)),
    }
}

/// What to say of an address where somebody else listens.
pub fn not_a_gate(admin: SocketAddr) -> String {
    format!("whoever listens at {admin} is no gate of this version; name the gate's listen.admin with --admin")
}

fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    // Version 1.0 has no chunked bodies: the end of the stream is the end of the body.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    ensure!(!answer.is_empty(), "it hung up without a word");
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use super::*;

    #[test]
    fn an_address_where_nobody_listens_is_told_with_what_to_do() {
        let address = listen().local_addr().unwrap();
        let error = format!("{:#}", status_json(address).unwrap_err());
        assert!(error.contains("is it running") && error.contains("--admin"), "{error}");
    }

    #[test]
    fn somebody_else_at_the_address_is_not_taken_for_a_gate() {
        for answer in ["HTTP/1.1 404 Not Found\r\n\r\n", "SSH-2.0-OpenSSH\r\n", "", "220 \r\n\r\n"] {
            let listener = listen();
            let address = listener.local_addr().unwrap();
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
                stream.write_all(answer.as_bytes()).unwrap();
            });
            let error = format!("{:#}", status_json(address).unwrap_err());
            assert!(error.contains("--admin"), "{answer:?}: {error}");
            server.join().unwrap();
        }
    }

    fn listen() -> TcpListener {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
    }
}
