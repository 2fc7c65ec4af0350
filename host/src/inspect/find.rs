//! Finding live windows: every descriptor of every visible process that is a link to
//! `/memfd:hamr:…`.

use crate::memfd::MEMFD_PREFIX;
use crate::window::{self, WindowState, split_rank};
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::abi::world::MAX_RANKS;
use rustix::fs::SealFlags;
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One live window. Several processes have it open: its host, its device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// What its host called the device.
    pub name: String,
    /// A way to open it: the host's descriptor when that is visible.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Processes that have it open.
    pub processes: Vec<u32>,
    /// The host's process id, from its preamble.
    pub host_pid: u32,
    /// The device's process id, from its record; 0 before the device wrote one.
    pub device_pid: u32,
    /// The epoch of the device that the host has opened.
    pub epoch: u32,
    /// The host's state.
    pub host_state: &'static str,
    /// The device's state.
    pub device_state: &'static str,
}

/// Every live window that this user may read, by the process ids of their hosts.
pub fn windows() -> Vec<Found> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    collect(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// The windows that one process has open.
pub fn windows_of(pid: u32) -> Vec<Found> {
    collect(std::iter::once(pid))
}

/// One descriptor of one process.
struct Holder {
    pid: u32,
    path: PathBuf,
    name: String,
    size: u64,
}

fn collect(processes: impl Iterator<Item = u32>) -> Vec<Found> {
    // One window has many descriptors; equal device and inode numbers identify them.
    let mut windows: BTreeMap<(u64, u64), Vec<Holder>> = BTreeMap::new();
    for pid in processes {
        // A process that ends meanwhile, or belongs to another user, has no descriptors to show.
        let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for path in descriptors.flatten().map(|d| d.path()) {
            let Some(name) = device_name(&path).filter(|_| is_sealed(&path)) else { continue };
            let Ok(record) = std::fs::metadata(&path) else { continue };
            let holder = Holder { pid, path, name, size: record.len() };
            windows.entry((record.dev(), record.ino())).or_default().push(holder);
        }
    }
    let mut found: Vec<_> = windows.into_values().flat_map(|holders| describe(&holders)).collect();
    // Stable: the ranks of a world stay in order.
    found.sort_by(|a, b| (a.host_pid, split_rank(&a.path)).cmp(&(b.host_pid, split_rank(&b.path))));
    found
}

/// What the host of a live window called its device.
pub(crate) fn device_name(path: &Path) -> Option<String> {
    let (file, rank) = split_rank(path);
    let name = name_of(&std::fs::read_link(file).ok()?)?;
    Some(rank.map_or(name.clone(), |rank| format!("{name} rank {rank}")))
}

/// Can no one make it shorter, as is so of each window that a host makes? Another file would be copied before it is read.
fn is_sealed(window: &Path) -> bool {
    let seals = crate::io::open(window).and_then(|file| Ok(rustix::fs::fcntl_get_seals(&file)?));
    seals.is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

fn name_of(link: &Path) -> Option<String> {
    let text = link.to_str()?.strip_prefix("/memfd:")?.strip_prefix(MEMFD_PREFIX)?;
    Some(text.strip_suffix(" (deleted)").unwrap_or(text).to_owned())
}

/// The window behind some descriptors, or the windows of all ranks of a world.
fn describe(holders: &[Holder]) -> Vec<Found> {
    let Some(first) = holders.first() else { return Vec::new() };
    // A window that cannot be opened any more has just ended.
    match window::open(&first.path) {
        Ok(window) => vec![found(holders, first, &window, None)],
        Err(_) => (0..MAX_RANKS as u32)
            .map_while(|rank| Some((rank, window::open(&rank_of(&first.path, rank)).ok()?)))
            .map(|(rank, home)| found(holders, first, &home, Some(rank)))
            .collect(),
    }
}

fn rank_of(world: &Path, rank: u32) -> PathBuf {
    let mut path = world.as_os_str().to_owned();
    path.push(format!("#{rank}"));
    path.into()
}

fn found(holders: &[Holder], first: &Holder, window: &Window<Shared>, rank: Option<u32>) -> Found {
    let state = WindowState::read(window);
    let host_pid = state.preamble().map_or(0, |p| p.host_pid);
    let path = &holders.iter().find(|h| h.pid == host_pid).unwrap_or(first).path;
    let mut processes: Vec<u32> = holders.iter().map(|h| h.pid).collect();
    processes.sort_unstable();
    processes.dedup();
    Found {
        name: rank.map_or(first.name.clone(), |rank| format!("{} rank {rank}", first.name)),
        path: rank.map_or(path.clone(), |rank| rank_of(path, rank)),
        size: rank.map_or(first.size, |_| window.len()),
        processes,
        host_pid,
        device_pid: state.record.pid,
        epoch: state.host.epoch,
        host_state: state.host.state.text(),
        device_state: state.device.state.text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::map_window;
    use hamr_comm::abi::ids::NodeId;
    use hamr_comm::abi::world::{Range, RankKind, RankPlan, WorldLayout};
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    /// It is copied before it is read, once for each rank that it says it has, and a list of windows waits for that.
    #[test]
    fn a_file_that_its_owner_may_truncate_is_no_live_window() {
        let plan = RankPlan {
            kind: RankKind::HOSTED,
            node: NodeId(0),
            home_len: 1 << 20,
            segment: Range { off: 1 << 19, len: 1 << 16 },
        };
        let plans = [plan; 64];
        let layout = WorldLayout::plan(&plans).expect("a sound plan");
        let memfd = memfd_create("hamr:forged", MemfdFlags::CLOEXEC).expect("a memfd");
        ftruncate(&memfd, layout.len()).expect("room");
        let memory = map_window(&memfd, layout.len(), true).expect("it maps");
        layout.write(&plans, 1, &memory).expect("inside");
        let found = windows_of(std::process::id());
        let forged = found.iter().filter(|found| found.name.starts_with("forged")).count();
        assert_eq!(forged, 0, "of {} windows", found.len());
    }
}
