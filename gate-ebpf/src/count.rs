//! Connections per endpoint, counted where none can be missed.
//!
//! The daemon's own books say how many connections it holds to a database; the kernel knows how many sockets
//! there are. The two are compared, so this count must be exact. It is kept in pairs: a socket whose opening
//! was counted is asked to report its state changes, and only such a socket is counted closed, once.
//!
//! The program sees the sockets that were created by processes of the cgroup it is attached to. That is the
//! daemon's, so other programs that use the same database are not counted.

use core::arch::asm;

use aya_ebpf::bindings::{
    BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, BPF_SOCK_OPS_STATE_CB, BPF_SOCK_OPS_STATE_CB_FLAG, BPF_TCP_CLOSE,
};
use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use aya_ebpf::programs::SockOpsContext;
use gate_common::{EndpointCounts, EndpointKey, MAX_ENDPOINTS};

/// The endpoints that are watched, and what was counted at each.
///
/// User space inserts an endpoint before it connects there, reads the counts, and never removes an entry
/// while the program is loaded. The program looks entries up and adds to them, but inserts none: traffic to
/// other endpoints costs one lookup, and no client can fill the map.
#[btf_map]
static ENDPOINTS: HashMap<EndpointKey, EndpointCounts, MAX_ENDPOINTS> = HashMap::new();

/// What has happened to a socket, as far as it is counted here.
pub(crate) enum Event {
    /// A connection that was opened from here is established.
    Established,
    /// A socket that was asked for its state changes has reached the last one.
    Closed,
    /// Nothing that is counted.
    Other,
}

impl Event {
    #[inline(always)]
    pub(crate) fn of(ctx: &SockOpsContext) -> Self {
        /// The state callback's arguments are the old and the new state.
        const NEW_STATE: usize = 1;
        match ctx.op() {
            BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB => Self::Established,
            BPF_SOCK_OPS_STATE_CB if ctx.arg(NEW_STATE) == BPF_TCP_CLOSE => Self::Closed,
            _ => Self::Other,
        }
    }
}

/// Counts a new connection to a watched endpoint, and asks to be told of its end.
#[inline(always)]
pub(crate) fn established(ctx: &SockOpsContext) {
    if let Some(counts) = watched(ctx)
        && ctx.set_cb_flags((ctx.cb_flags() | BPF_SOCK_OPS_STATE_CB_FLAG) as i32).is_ok()
    {
        // SAFETY: `counts` is valid, see `watched`.
        add_one(unsafe { &raw mut (*counts).established });
    }
}

/// Counts the end of a connection whose opening was counted.
///
/// Its socket can be connected again, and that attempt can fail and end in the same state: so it is asked
/// to report no further changes.
#[inline(always)]
pub(crate) fn closed(ctx: &SockOpsContext) {
    if let Some(counts) = watched(ctx)
        && ctx.set_cb_flags((ctx.cb_flags() & !BPF_SOCK_OPS_STATE_CB_FLAG) as i32).is_ok()
    {
        // SAFETY: `counts` is valid, see `watched`.
        add_one(unsafe { &raw mut (*counts).closed });
    }
}

/// The counts of the endpoint that the socket is connected to, if it is a watched one.
///
/// The pointer is valid until the program returns: entries are never removed, and the kernel frees the map
/// after the last program that uses it.
#[inline(always)]
fn watched(ctx: &SockOpsContext) -> Option<*mut EndpointCounts> {
    ENDPOINTS.get_ptr_mut(remote_endpoint(ctx)?)
}

#[inline(always)]
fn remote_endpoint(ctx: &SockOpsContext) -> Option<EndpointKey> {
    const AF_INET: u32 = 2;
    const AF_INET6: u32 = 10;

    // In network byte order the port is the last two bytes of its word (linux/bpf.h, `struct bpf_sock_ops`).
    let port = u32::from_be(ctx.remote_port()) as u16;
    match ctx.family() {
        AF_INET => Some(EndpointKey::from_ipv4_word(ctx.remote_ip4(), port)),
        AF_INET6 => Some(EndpointKey::from_ipv6_words(remote_ip6(ctx), port)),
        _ => None,
    }
}

/// The remote IPv6 address, read so that the compiler leaves the reads as they are: the verifier admits one word
/// at a time, at a fixed offset. Plain reads become wider ones, or one at an offset computed from the family.
#[inline(always)]
fn remote_ip6(ctx: &SockOpsContext) -> [u32; 4] {
    // SAFETY: the kernel passes a context that is valid while the program runs.
    let words = unsafe { &raw const (*ctx.ops).remote_ip6 }.cast::<u32>();
    // SAFETY: the field is an array of four words.
    let word = |i| unsafe { words.wrapping_add(i).read_volatile() };
    [word(0), word(1), word(2), word(3)]
}

/// Adds one in a single step, since two processors may meet at the same counter.
///
/// It is written as the instruction itself (BPF instruction set, RFC 9669, section 5.3): the target has no
/// compare-and-swap on its oldest processors, so `core` leaves the methods that add out of its atomic types.
#[inline(always)]
fn add_one(counter: *mut u64) {
    // SAFETY: the callers pass a field of a map entry, which is valid and aligned for the instruction.
    unsafe { asm!("lock *(u64 *)({counter} + 0) += {one}", counter = in(reg) counter, one = in(reg) 1_u64) };
}
