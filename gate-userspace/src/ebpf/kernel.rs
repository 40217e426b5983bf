//! Loads the kernel half into the kernel and talks to it through its maps.
//!
//! Everything it loads and attaches ends with the [`KernelHalf`] value, or with the process.

use std::error::Error;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use aya::Ebpf;
use aya::maps::{HashMap, MapData, MapError};
use aya::programs::{CgroupAttachMode, SockOps};
use aya::util::KernelVersion;
use gate_common::EndpointKey;

use super::{EndpointCounts, Unavailable};

/// The kernel half, loaded.
#[derive(Debug)]
pub struct KernelHalf {
    programs: Ebpf,
    endpoints: HashMap<MapData, Key, Counts>,
}

impl KernelHalf {
    /// Loads the programs that were compiled into this binary; they see nothing until they are attached.
    pub fn load() -> Result<Self, Unavailable> {
        load_object().map_err(|error| explain("loading the kernel half", error))
    }

    /// From now on counts the connections that processes of `cgroup`, and of the cgroups below it, open to
    /// watched endpoints.
    ///
    /// A socket belongs to the cgroup that its process was in when it created the socket.
    pub fn count_connections_of(&mut self, cgroup: &Path) -> Result<(), Unavailable> {
        let unusable = |error| Unavailable::Cgroup { path: cgroup.into(), error };
        let directory = File::open(cgroup).map_err(unusable)?;
        self.attach_to(&directory).map_err(|error| match errno(&*error) {
            Some(EBADF) => unusable(io::Error::from_raw_os_error(EBADF)),
            _ => explain("attaching to the cgroup", error),
        })
    }

    /// From now on counts new connections to `endpoint`. Watching it again keeps what was counted.
    pub fn watch(&mut self, endpoint: SocketAddr) -> Result<(), Unavailable> {
        /// Insert, but leave an entry that exists as it is (linux/bpf.h).
        const BPF_NOEXIST: u64 = 1;

        let inserted = self.endpoints.insert(Key::from(endpoint), Counts::default(), BPF_NOEXIST);
        match inserted.map_err(|error| (errno(&error), error)) {
            Ok(()) | Err((Some(EEXIST), _)) => Ok(()),
            Err((Some(E2BIG), _)) => Err(Unavailable::TooManyEndpoints),
            Err((_, error)) => Err(explain("watching an endpoint", error.into())),
        }
    }

    /// What was counted for `endpoint` so far; nothing, if it is not watched.
    pub fn endpoint_counts(&self, endpoint: SocketAddr) -> Result<Option<EndpointCounts>, Unavailable> {
        match self.endpoints.get(&Key::from(endpoint), 0) {
            Ok(Counts(counts)) => Ok(Some(counts)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(explain("reading the counts of an endpoint", error.into())),
        }
    }

    fn attach_to(&mut self, cgroup: &File) -> Result<(), AnyError> {
        // Since Linux 5.7 this makes a link, beside which other programs can attach as well, and which admits no
        // flags: this is the mode without any.
        count_program(&mut self.programs)?.attach(cgroup, CgroupAttachMode::Single)?;
        Ok(())
    }
}

type AnyError = Box<dyn Error + Send + Sync>;

fn load_object() -> Result<KernelHalf, AnyError> {
    let mut programs = Ebpf::load(aya::include_bytes_aligned!(env!("GATE_EBPF_OBJECT")))?;
    count_program(&mut programs)?.load()?;
    let endpoints = programs.take_map("ENDPOINTS").ok_or("the map ENDPOINTS is missing in the object")?;
    Ok(KernelHalf { programs, endpoints: HashMap::try_from(endpoints)? })
}

fn count_program(programs: &mut Ebpf) -> Result<&mut SockOps, AnyError> {
    let program = programs.program_mut("count_connections");
    Ok(program.ok_or("the program count_connections is missing in the object")?.try_into()?)
}

/// Says whose fault an error is.
///
/// Before Linux 5.11 maps were charged against RLIMIT_MEMLOCK, before 5.8 there was no CAP_BPF, and before 5.7
/// no link to a cgroup: there the age of the kernel explains more than the error does.
fn explain(action: &'static str, source: AnyError) -> Unavailable {
    let cause = one_line(&*source);
    let running = KernelVersion::current().ok();
    match (running.filter(|kernel| *kernel < KernelVersion::new(5, 11, 0)), errno(&*source)) {
        (Some(old), _) => Unavailable::KernelTooOld { action, cause, running: old.to_string() },
        (None, Some(EPERM)) => Unavailable::NotPermitted { action },
        (None, _) => Unavailable::Failed { action, cause, source },
    }
}

/// The system's error number at the bottom of `error`, if there is one.
fn errno(error: &(dyn Error + 'static)) -> Option<i32> {
    chain(error).find_map(|error| error.downcast_ref::<io::Error>())?.raw_os_error()
}

/// An error and its causes in one line; what a cause repeats of the text before it is left out.
fn one_line(error: &(dyn Error + 'static)) -> String {
    chain(error).fold(String::new(), |line, error| {
        let text = error.to_string();
        match text.lines().next() {
            Some(first) if line.is_empty() => first.to_owned(),
            Some(first) if !line.contains(first) => format!("{line}: {first}"),
            _ => line,
        }
    })
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

// What bpf(2) answers when a capability is missing (the verifier's refusals are EACCES and EINVAL), when a map is
// full, when a directory is no cgroup, and when a key is in the map.
const EPERM: i32 = 1;
const E2BIG: i32 = 7;
const EBADF: i32 = 9;
const EEXIST: i32 = 17;

/// [`EndpointKey`] as aya wants it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
struct Key(EndpointKey);

// SAFETY: an `EndpointKey` is made of integers without padding, and any bytes are a valid one.
unsafe impl aya::Pod for Key {}

impl From<SocketAddr> for Key {
    fn from(endpoint: SocketAddr) -> Self {
        Self(endpoint.into())
    }
}

/// [`EndpointCounts`] as aya wants them.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default)]
struct Counts(EndpointCounts);

// SAFETY: `EndpointCounts` are two integers without padding, and any bytes are valid ones.
unsafe impl aya::Pod for Counts {}
