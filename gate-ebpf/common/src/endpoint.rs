//! An endpoint as the kernel sees it, and what it counts there.

use core::mem::{offset_of, size_of};
use core::net::{Ipv6Addr, SocketAddr};

/// How many endpoints the kernel half can watch at once.
///
/// The map's memory is allocated when it is loaded, about 100 bytes for each.
pub const MAX_ENDPOINTS: usize = 4096;

/// Address and port of one endpoint: the key of the kernel's map of counts.
///
/// An IPv4 address is kept as its IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2). So an endpoint has
/// one key, whether it is reached over an IPv4 socket or over a dual-stack IPv6 socket.
/// The scope of a link-local address is not part of the key.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointKey {
    /// The IPv6 address in network byte order, in the four words in which the kernel hands it out.
    address: [u32; 4],
    /// The port in host byte order; as wide as a word, which leaves no padding behind it.
    port: u32,
}

const _: () = assert!(offset_of!(EndpointKey, address) == 0);
const _: () = assert!(offset_of!(EndpointKey, port) == 16);
const _: () = assert!(size_of::<EndpointKey>() == 20);

impl EndpointKey {
    /// The key of an IPv4 endpoint; `address` is in network byte order, `port` in host byte order.
    #[inline(always)]
    pub const fn from_ipv4_word(address: u32, port: u16) -> Self {
        Self::from_ipv6_words([0, 0, 0xffff_u32.to_be(), address], port)
    }

    /// The key of an IPv6 endpoint; `address` is in network byte order, `port` in host byte order.
    #[inline(always)]
    pub const fn from_ipv6_words(address: [u32; 4], port: u16) -> Self {
        Self { address, port: port as u32 }
    }
}

impl From<SocketAddr> for EndpointKey {
    fn from(endpoint: SocketAddr) -> Self {
        let address = match endpoint {
            SocketAddr::V4(v4) => v4.ip().to_ipv6_mapped(),
            SocketAddr::V6(v6) => *v6.ip(),
        };
        Self::from_ipv6_words(network_words(address), endpoint.port())
    }
}

fn network_words(address: Ipv6Addr) -> [u32; 4] {
    let octets = address.octets();
    let (words, _) = octets.as_chunks::<4>();
    core::array::from_fn(|i| u32::from_ne_bytes(words[i]))
}

/// What the kernel has counted for one endpoint since it was first watched.
///
/// Only connections established while the endpoint was watched are counted, and each of them is counted
/// closed exactly once.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounts {
    /// Connections opened from here whose handshake was completed.
    pub established: u64,
    /// How many of those this host's TCP has let go of since: closed by either side, reset or timed out.
    /// The remote side may still hold its end.
    pub closed: u64,
}

const _: () = assert!(offset_of!(EndpointCounts, established) == 0);
const _: () = assert!(offset_of!(EndpointCounts, closed) == 8);
const _: () = assert!(size_of::<EndpointCounts>() == 16);

impl EndpointCounts {
    /// How many connections are open now.
    ///
    /// The kernel goes on counting while the two numbers are copied out, so a copy can show the close of a
    /// connection whose opening it does not show yet.
    pub const fn open(self) -> u64 {
        self.established.saturating_sub(self.closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(endpoint: &str) -> EndpointKey {
        EndpointKey::from(endpoint.parse::<SocketAddr>().unwrap())
    }

    #[test]
    fn both_halves_make_the_same_key_of_an_ipv4_endpoint() {
        let from_the_kernel = EndpointKey::from_ipv4_word(u32::from_ne_bytes([10, 1, 2, 3]), 5432);
        assert_eq!(from_the_kernel, key("10.1.2.3:5432"));
    }

    #[test]
    fn both_halves_make_the_same_key_of_an_ipv6_endpoint() {
        let words = [[0x20, 0x01, 0x0d, 0xb8], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 2]];
        let from_the_kernel = EndpointKey::from_ipv6_words(words.map(u32::from_ne_bytes), 1433);
        assert_eq!(from_the_kernel, key("[2001:db8:0:1::2]:1433"));
    }

    #[test]
    fn an_ipv4_endpoint_and_its_mapped_ipv6_form_are_one_endpoint() {
        assert_eq!(key("10.1.2.3:5432"), key("[::ffff:10.1.2.3]:5432"));
    }

    #[test]
    fn endpoints_that_differ_in_address_or_port_have_different_keys() {
        assert_ne!(key("10.1.2.3:5432"), key("10.1.2.4:5432"));
        assert_ne!(key("10.1.2.3:5432"), key("10.1.2.3:5433"));
        assert_ne!(key("[::1]:5432"), key("127.0.0.1:5432"));
    }

    #[test]
    fn open_is_what_was_established_and_not_yet_closed_and_never_below_zero() {
        assert_eq!(EndpointCounts { established: 5, closed: 2 }.open(), 3);
        assert_eq!(EndpointCounts { established: 2, closed: 3 }.open(), 0);
    }
}
