//! Where cgroups are: a sock_ops program sees the sockets of one cgroup v2 directory and those below it.

use std::fs;
use std::path::PathBuf;

use super::Unavailable;

/// The directory at which the cgroup v2 hierarchy is mounted.
///
/// That is `/sys/fs/cgroup` on most hosts, and a directory below it where cgroup v1 is mounted as well.
pub fn mount() -> Result<PathBuf, Unavailable> {
    // A table that cannot be read names no hierarchy either.
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    mount_among(&mounts).ok_or(Unavailable::NoCgroup)
}

/// The cgroup that this process is in, if it is not the root, where everybody is who has none.
pub fn own() -> Result<PathBuf, Unavailable> {
    let mount = mount()?;
    let memberships = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let directory = own_among(&memberships).map(|path| mount.join(path)).ok_or(Unavailable::NoCgroup)?;
    // Every cgroup but the root tells of its events. (In a namespace of cgroups the path of one's own may be `/`.)
    if directory.join("cgroup.events").exists() { Ok(directory) } else { Err(Unavailable::RootCgroup) }
}

/// The line of the version 2 hierarchy has the number 0 and no controllers (cgroups(7)).
fn own_among(memberships: &str) -> Option<&str> {
    memberships.lines().find_map(|line| line.strip_prefix("0::/"))
}

/// Each line of the table is: device, directory, type, options and two numbers (fstab(5)).
fn mount_among(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let directory = fields.next()?;
        (fields.next()? == "cgroup2").then(|| PathBuf::from(directory))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_2_hierarchy_is_found_among_those_of_version_1() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        assert_eq!(mount_among(mounts), Some("/sys/fs/cgroup/unified".into()));
    }

    #[test]
    fn a_host_without_version_2_has_none() {
        assert_eq!(mount_among("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\n"), None);
    }
}
