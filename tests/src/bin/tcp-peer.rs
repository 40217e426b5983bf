//! Opens and closes TCP connections as a test commands, one line on standard input at a time, and
//! answers each line with `ok` or with the error. See `gate_tests::peer`.
//!
//! ```text
//! listen ADDRESS            accepts connections and does to each what its client asks for
//! open ADDRESS COUNT        opens connections and keeps them
//! close ADDRESS COUNT       closes so many of them; the other side follows
//! half-close ADDRESS COUNT  closes its own direction of so many of them; the other side keeps its own
//! be-left ADDRESS COUNT     has the other side close so many of them, and follows
//! be-reset ADDRESS COUNT    has the other side reset so many of them
//! redial ADDRESS OTHER      connects the socket of one of them to OTHER instead
//! storm ADDRESS THREADS COUNT
//!                           opens and closes so many connections in each of so many threads at once
//! ```
//!
//! After `close`, `be-reset` and `storm` the kernel has let go of the connections before the answer is
//! given: what the client reads last is the end of the stream or a reset, and TCP is done by then.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};

fn main() -> Result<()> {
    let mut connections = Connections::default();
    for line in io::stdin().lines() {
        match connections.obey(&line?) {
            Ok(()) => println!("ok"),
            Err(error) => println!("{error:#}"),
        }
    }
    Ok(())
}

/// The connections that this process has opened and keeps.
#[derive(Default)]
struct Connections(HashMap<SocketAddr, Vec<TcpStream>>);

impl Connections {
    fn obey(&mut self, command: &str) -> Result<()> {
        match *command.split_whitespace().collect::<Vec<_>>() {
            ["listen", address] => listen(address.parse()?),
            ["open", address, count] => self.open(address.parse()?, count.parse()?),
            ["close", address, count] => self.end(address.parse()?, count.parse()?, close),
            ["half-close", address, count] => self.end(address.parse()?, count.parse()?, half_close),
            ["be-left", address, count] => self.end(address.parse()?, count.parse()?, be_left),
            ["be-reset", address, count] => self.end(address.parse()?, count.parse()?, be_reset),
            ["storm", address, threads, count] => storm(address.parse()?, threads.parse()?, count.parse()?),
            ["redial", address, other] => self.end(address.parse()?, 1, |stream| redial(stream, other)),
            _ => bail!("not a command"),
        }
    }

    fn open(&mut self, address: SocketAddr, count: usize) -> Result<()> {
        for _ in 0..count {
            self.0.entry(address).or_default().push(TcpStream::connect(address)?);
        }
        Ok(())
    }

    fn end(&mut self, address: SocketAddr, count: usize, how: impl Fn(TcpStream) -> Result<()>) -> Result<()> {
        for _ in 0..count {
            how(self.0.get_mut(&address).and_then(Vec::pop).context("not that many are open")?)?;
        }
        Ok(())
    }
}

// What a client asks its server for, in one byte. Without one, the server closes after the client.
const LEAVE: u8 = b'l';
const STAY: u8 = b's';
const RESET: u8 = b'r';

fn listen(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || serve(stream));
        }
    });
    Ok(())
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut wish = [0];
    match (stream.read(&mut wish)?, wish) {
        // To close a socket with bytes that nobody has read is to reset it (RFC 2525, section 2.17).
        (1, [RESET]) => {
            stream.peek(&mut wish)?;
        }
        (1, [STAY]) => keep_open(stream),
        _ => {}
    }
    Ok(())
}

fn close(mut stream: TcpStream) -> Result<()> {
    stream.shutdown(Shutdown::Write)?;
    ensure!(stream.read(&mut [0])? == 0, "the server has sent something");
    Ok(())
}

fn half_close(mut stream: TcpStream) -> Result<()> {
    stream.write_all(&[STAY])?;
    stream.shutdown(Shutdown::Write)?;
    keep_open(stream);
    Ok(())
}

/// Leaves a socket open until the process ends.
fn keep_open(stream: TcpStream) {
    std::mem::forget(stream);
}

fn be_left(mut stream: TcpStream) -> Result<()> {
    stream.write_all(&[LEAVE])?;
    ensure!(stream.read(&mut [0])? == 0, "the server has sent something");
    Ok(())
}

fn be_reset(mut stream: TcpStream) -> Result<()> {
    stream.write_all(&[RESET, 0])?;
    match stream.read(&mut [0]) {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(()),
        other => bail!("no reset, but {other:?}"),
    }
}

fn storm(address: SocketAddr, threads: usize, count: usize) -> Result<()> {
    let run = || (0..count).try_for_each(|_| close(TcpStream::connect(address)?));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("a thread has panicked"),
        })
    })
}

/// Connects a socket that is connected to another address, as connect(2) allows: first to no address.
fn redial(stream: TcpStream, other: &str) -> Result<()> {
    let other: SocketAddrV4 = other.parse()?;
    let unconnected = sockaddr(libc::AF_UNSPEC, SocketAddrV4::new([0, 0, 0, 0].into(), 0));
    connect(&stream, &unconnected)?;
    connect(&stream, &sockaddr(libc::AF_INET, other))?;
    Ok(())
}

fn sockaddr(family: i32, address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: family as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    }
}

fn connect(stream: &TcpStream, address: &libc::sockaddr_in) -> io::Result<()> {
    let length = size_of_val(address) as libc::socklen_t;
    // SAFETY: the pointer and the length are those of one live `sockaddr_in`, and the socket is open.
    let result = unsafe { libc::connect(stream.as_raw_fd(), (&raw const *address).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
