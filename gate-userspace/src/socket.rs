//! What every TCP connection of the gate is set to, to clients and to servers.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Small messages go out at once, and a peer whose host is gone is noticed.
pub(crate) fn tune(socket: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(10));
    socket.set_tcp_keepalive(&keepalive.with_retries(6))
}
