//! The kernel half of the gate.
//!
//! This file holds the entry points only, one per program; each concern has a file of its own, which owns
//! its maps:
//!
//! - [`count`]: connections per endpoint, as the kernel sees them.
#![no_std]
#![no_main]
// Assembly for this target is not yet stable; the tool chain that builds it allows it, as for `-Z build-std`.
#![feature(asm_experimental_arch)]

mod count;

use aya_ebpf::macros::sock_ops;
use aya_ebpf::programs::SockOpsContext;

use count::Event;

/// Counts the connections that sockets of a cgroup open (since Linux 4.16, which brought the state callback).
#[sock_ops]
fn count_connections(ctx: SockOpsContext) -> u32 {
    match Event::of(&ctx) {
        Event::Established => count::established(&ctx),
        Event::Closed => count::closed(&ctx),
        Event::Other => {}
    }
    // The kernel reads the answer only for events that ask for a value, such as a timeout; none of them
    // is answered here.
    OK
}

const OK: u32 = 1;

/// Read by the kernel, which offers some of its helpers only to programs under a licence like its own.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Nothing in a loaded program can panic: the verifier refuses a program that does not end.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
