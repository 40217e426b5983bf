//! The kernel half counts the gate's connections per endpoint, exactly.
//!
//! Each test has a network namespace and a cgroup of its own, with a server outside of the cgroup and
//! a client inside, whose connections are counted.

use std::net::SocketAddr;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use anyhow::{Context as _, Result};
use gate::ebpf::{EndpointCounts, KernelHalf, Unavailable};
use gate_common::MAX_ENDPOINTS;
use gate_tests::cgroup::Cgroup;
use gate_tests::netns::Netns;
use gate_tests::peer::Peer;
use gate_tests::{require, wait};

#[test]
fn the_kernel_counts_every_established_connection_of_an_endpoint_exactly() -> Result<()> {
    let Some(mut world) = World::new()? else { return Ok(()) };
    // Endpoints that differ only in port, only in address, or only in family.
    let opened = [("127.0.0.1:5432", 7), ("127.0.0.1:5433", 3), ("127.0.0.2:5432", 2), ("[::1]:5432", 5)];
    for (endpoint, count) in opened {
        world.serve_and_watch(endpoint)?;
        world.client.ask(&format!("open {endpoint} {count}"))?;
    }
    for (endpoint, count) in opened {
        assert_eq!(world.counts(endpoint)?, Some(counts(count, 0)), "{endpoint}");
    }
    Ok(())
}

#[test]
fn a_connection_is_counted_closed_exactly_once_whoever_ends_it() -> Result<()> {
    let Some(mut world) = World::new()? else { return Ok(()) };
    let endpoints = ["127.0.0.1:5432", "[::1]:5432"];
    for endpoint in endpoints {
        world.serve_and_watch(endpoint)?;
        world.client.ask(&format!("open {endpoint} 10"))?;
        world.client.ask(&format!("close {endpoint} 2"))?;
        assert_eq!(world.counts(endpoint)?, Some(counts(10, 2)), "{endpoint}: by the client");
        world.client.ask(&format!("be-reset {endpoint} 3"))?;
        assert_eq!(world.counts(endpoint)?, Some(counts(10, 5)), "{endpoint}: by a reset");
        world.client.ask(&format!("be-left {endpoint} 1"))?;
        world.wait_for_counts(endpoint, counts(10, 6)).context("by the server")?;
        assert_eq!(world.counts(endpoint)?.map(EndpointCounts::open), Some(4), "{endpoint}");
    }
    world.client.kill()?;
    for endpoint in endpoints {
        world.wait_for_counts(endpoint, counts(10, 10)).context("by the client's end")?;
    }
    Ok(())
}

#[test]
fn a_half_closed_connection_is_open_until_the_server_lets_go_as_well() -> Result<()> {
    let Some(mut world) = World::new()? else { return Ok(()) };
    world.serve_and_watch("127.0.0.1:5432")?;
    world.client.ask("open 127.0.0.1:5432 2")?;
    world.client.ask("half-close 127.0.0.1:5432 2")?;
    assert_eq!(world.counts("127.0.0.1:5432")?, Some(counts(2, 0)));
    world.server.kill()?;
    world.wait_for_counts("127.0.0.1:5432", counts(2, 2))
}

#[test]
fn no_connection_is_lost_when_many_threads_open_and_close_at_once() -> Result<()> {
    let Some(mut world) = World::new()? else { return Ok(()) };
    world.serve_and_watch("127.0.0.1:5432")?;
    world.client.ask("storm 127.0.0.1:5432 8 250")?;
    assert_eq!(world.counts("127.0.0.1:5432")?, Some(counts(2000, 2000)));
    Ok(())
}

#[test]
fn a_dual_stack_socket_counts_for_the_ipv4_endpoint_that_it_reaches() -> Result<()> {
    let Some(mut world) = World::new()? else { return Ok(()) };
    world.serve_and_watch("127.0.0.1:5432")?;
    world.client.ask("open 127.0.0.1:5432 1")?;
    world.client.ask("open [::ffff:127.0.0.1]:5432 2")?;
    assert_eq!(world.counts("127.0.0.1:5432")?, Some(counts(3, 0)));
    world.client.ask("close [::ffff:127.0.0.1]:5432 2")?;
    assert_eq!(world.counts("127.0.0.1:5432")?, Some(counts(3, 2)));
    Ok(())
}

#[test]
fn an_endpoint_that_is_not_watched_is_not_counted() -> Result<()> {
    let Some(mut world) = World::new()? else { return Ok(()) };
    world.serve_and_watch("127.0.0.1:5432")?;
    world.server.ask("listen 127.0.0.1:5433")?;
    world.client.ask("open 127.0.0.1:5433 3")?;
    assert_eq!(world.counts("127.0.0.1:5433")?, None);
    assert_eq!(world.counts("127.0.0.1:5432")?, Some(counts(0, 0)));

    // Connections from before it was watched stay uncounted to their end.
    world.kernel.watch("127.0.0.1:5433".parse()?)?;
    world.client.ask("open 127.0.0.1:5433 1")?;
    world.client.ask("close 127.0.0.1:5433 4")?;
    assert_eq!(world.counts("127.0.0.1:5433")?, Some(counts(1, 1)));
    Ok(())
}

#[test]
fn watching_an_endpoint_again_keeps_its_counts() -> Result<()> {
    let Some(mut world) = World::new()? else { return Ok(()) };
    world.serve_and_watch("127.0.0.1:5432")?;
    world.client.ask("open 127.0.0.1:5432 4")?;
    world.kernel.watch("127.0.0.1:5432".parse()?)?;
    assert_eq!(world.counts("127.0.0.1:5432")?, Some(counts(4, 0)));
    Ok(())
}

#[test]
fn a_refused_connection_counts_neither_as_established_nor_as_closed() -> Result<()> {
    let Some(mut world) = World::new()? else { return Ok(()) };
    world.kernel.watch("127.0.0.1:5432".parse()?)?;
    let refused = world.client.ask("open 127.0.0.1:5432 1").unwrap_err().to_string();
    assert!(refused.contains("refused"), "{refused}");
    assert_eq!(world.counts("127.0.0.1:5432")?, Some(counts(0, 0)));
    Ok(())
}

#[test]
fn a_socket_that_is_refused_when_it_is_used_again_was_closed_only_once() -> Result<()> {
    let Some(mut world) = World::new()? else { return Ok(()) };
    world.serve_and_watch("127.0.0.1:5432")?;
    world.kernel.watch("127.0.0.1:5433".parse()?)?;
    world.client.ask("open 127.0.0.1:5432 1")?;
    let refused = world.client.ask("redial 127.0.0.1:5432 127.0.0.1:5433").unwrap_err().to_string();
    assert!(refused.contains("refused"), "{refused}");
    assert_eq!(world.counts("127.0.0.1:5432")?, Some(counts(1, 1)));
    assert_eq!(world.counts("127.0.0.1:5433")?, Some(counts(0, 0)));
    Ok(())
}

#[test]
fn connections_of_processes_outside_the_cgroup_are_not_counted() -> Result<()> {
    let Some(mut world) = World::new()? else { return Ok(()) };
    world.serve_and_watch("127.0.0.1:5432")?;
    let mut outsider = Peer::start(TCP_PEER, &world.namespace, None)?;
    outsider.ask("open 127.0.0.1:5432 3")?;
    world.client.ask("open 127.0.0.1:5432 2")?;
    outsider.ask("close 127.0.0.1:5432 3")?;
    assert_eq!(world.counts("127.0.0.1:5432")?, Some(counts(2, 0)));
    Ok(())
}

#[test]
fn connections_that_the_cgroup_accepts_are_not_counted() -> Result<()> {
    let Some(mut world) = World::new()? else { return Ok(()) };
    // The only port that others can connect from: to the cgroup, it is the remote endpoint.
    let range = "echo 40000 40000 > /proc/sys/net/ipv4/ip_local_port_range";
    assert!(world.namespace.command("sh").args(["-c", range]).status()?.success());
    world.kernel.watch("127.0.0.1:40000".parse()?)?;
    world.client.ask("listen 127.0.0.1:5432")?;
    world.server.ask("open 127.0.0.1:5432 1")?;
    world.server.ask("close 127.0.0.1:5432 1")?;
    assert_eq!(world.counts("127.0.0.1:40000")?, Some(counts(0, 0)));
    Ok(())
}

#[test]
fn an_endpoint_for_which_there_is_no_room_is_refused_and_the_others_stay() -> Result<()> {
    let Some(mut world) = World::new()? else { return Ok(()) };
    let endpoint = |number: usize| SocketAddr::from(([127, 0, 0, 1], number as u16));
    for number in 0..MAX_ENDPOINTS {
        world.kernel.watch(endpoint(number))?;
    }
    let refused = world.kernel.watch(endpoint(MAX_ENDPOINTS));
    assert!(matches!(refused, Err(Unavailable::TooManyEndpoints)), "{refused:?}");
    assert_eq!(world.kernel.endpoint_counts(endpoint(0))?, Some(counts(0, 0)));
    world.kernel.watch(endpoint(0))?;
    Ok(())
}

#[test]
fn a_directory_that_is_no_cgroup_is_refused_by_name() -> Result<()> {
    let Some(mut world) = World::new()? else { return Ok(()) };
    for directory in ["/proc/self", "/nowhere"] {
        let refused = world.kernel.count_connections_of(directory.as_ref()).unwrap_err().to_string();
        assert!(refused.contains(directory) && refused.contains("cgroup v2"), "{refused}");
    }
    Ok(())
}

#[test]
fn a_test_that_panics_leaves_no_namespace_and_no_cgroup_behind() -> Result<()> {
    let Some(world) = World::new()? else { return Ok(()) };
    let namespace = Path::new("/run/netns").join(world.namespace.name());
    let cgroup = world.cgroup.path().to_owned();
    assert!(namespace.exists() && cgroup.exists());

    let panicked = panic::catch_unwind(AssertUnwindSafe(|| {
        let _world = world;
        panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(panicked.is_err());
    assert!(!namespace.exists() && !cgroup.exists());
    Ok(())
}

const TCP_PEER: &str = env!("CARGO_BIN_EXE_tcp-peer");

/// Its fields are dropped in this order: a cgroup can be removed only when its processes have ended.
struct World {
    client: Peer,
    server: Peer,
    kernel: KernelHalf,
    cgroup: Cgroup,
    namespace: Netns,
}

impl World {
    /// Nothing, if the test has to be skipped.
    fn new() -> Result<Option<Self>> {
        if !require::kernel_half()? {
            return Ok(None);
        }
        let namespace = Netns::new()?;
        let cgroup = Cgroup::new()?;
        let mut kernel = KernelHalf::load()?;
        kernel.count_connections_of(cgroup.path())?;
        let server = Peer::start(TCP_PEER, &namespace, None)?;
        let client = Peer::start(TCP_PEER, &namespace, Some(&cgroup))?;
        Ok(Some(Self { client, server, kernel, cgroup, namespace }))
    }

    fn serve_and_watch(&mut self, endpoint: &str) -> Result<()> {
        self.server.ask(&format!("listen {endpoint}"))?;
        self.kernel.watch(endpoint.parse()?)?;
        Ok(())
    }

    fn counts(&self, endpoint: &str) -> Result<Option<EndpointCounts>> {
        Ok(self.kernel.endpoint_counts(endpoint.parse::<SocketAddr>()?)?)
    }

    /// For ends that the kernel completes after the client has let go: it waits for the other side.
    fn wait_for_counts(&self, endpoint: &str, expected: EndpointCounts) -> Result<()> {
        wait::until(|| Ok(self.counts(endpoint)? == Some(expected)))
            .with_context(|| format!("{endpoint}: {:?}, not {expected:?}", self.counts(endpoint)))
    }
}

fn counts(established: u64, closed: u64) -> EndpointCounts {
    EndpointCounts { established, closed }
}
