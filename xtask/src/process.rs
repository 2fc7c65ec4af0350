//! Running processes, from `/proc`: enough to find those that this run started.
//!
//! Init adopts a process that outlives its parent, so the chain of parents misses exactly the
//! processes that matter. Every child therefore carries a mark in its environment, which its own
//! children inherit.

use rustix::process::{Pid, kill_process, kill_process_group};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub(crate) use rustix::process::Signal;

/// The environment variable that children of this run carry.
pub(crate) const MARK: &str = "HAMR_XTASK_RUN";

/// One process. Ids are reused, so the start time belongs to its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    /// Process id.
    pub(crate) id: u32,
    /// Id of the parent when it was read; 1 for an orphan.
    pub(crate) parent: u32,
    /// Clock ticks after boot.
    started: u64,
}

impl Process {
    /// The process with this id, if it runs.
    pub(crate) fn find(id: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The second field is the program's name in parentheses and may contain blanks and
        // parentheses itself.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self { id, parent, started })
    }

    /// Whether this process, and not a later one with its id, still runs.
    pub(crate) fn runs(self) -> bool {
        Self::find(self.id).is_some_and(|now| now.started == self.started)
    }

    /// Whether both are the same process; its parent may have changed.
    pub(crate) fn is(self, other: Self) -> bool {
        self.id == other.id && self.started == other.started
    }

    /// Path of the program; `None` for zombies and for processes of other users.
    pub(crate) fn program(self) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/exe", self.id)).ok()
    }

    /// Command line with blanks between the arguments.
    pub(crate) fn command_line(self) -> String {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.id)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
    }

    /// Whether it inherited this run's mark.
    pub(crate) fn is_marked(self) -> bool {
        let wanted = format!("{MARK}={}", mark());
        fs::read(format!("/proc/{}/environ", self.id))
            .is_ok_and(|bytes| bytes.split(|&b| b == 0).any(|entry| entry == wanted.as_bytes()))
    }

    /// Whether its program lies inside `folder`.
    pub(crate) fn runs_from(self, folder: &Path) -> bool {
        self.program().is_some_and(|program| program.starts_with(folder))
    }

    /// Whether it is a QEMU that was given a file inside `folder`, such as an image to boot. QEMU
    /// itself runs from elsewhere, and a test that cleared its child's environment took the mark
    /// off what the child starts.
    pub(crate) fn emulates_from(self, folder: &Path) -> bool {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.id)).unwrap_or_default();
        let mut words = bytes.split(|&b| b == 0).map(|word| Path::new(OsStr::from_bytes(word)));
        let program = words.next().and_then(Path::file_name);
        program.is_some_and(|name| name.as_bytes().starts_with(b"qemu-system-"))
            && words.any(|word| word.starts_with(folder))
    }
}

/// The value of [`MARK`] for this run. It stays unique after this process ends.
pub(crate) fn mark() -> &'static str {
    static VALUE: OnceLock<String> = OnceLock::new();
    VALUE.get_or_init(|| {
        let id = std::process::id();
        let started = Process::find(id).map_or(0, |process| process.started);
        format!("{id}-{started}")
    })
}

/// Every process that can be seen.
pub(crate) fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(Process::find).collect()
}

/// All descendants of `ancestors`, without the ancestors that descend from no other one.
pub(crate) fn below(ancestors: &[u32]) -> Vec<Process> {
    let processes = all();
    let parents: HashMap<u32, u32> = processes.iter().map(|process| (process.id, process.parent)).collect();
    let is_below = |process: &Process| {
        let mut at = process.parent;
        // Bounded: the table was not read at one instant, so a reused id could close a circle.
        for _ in 0..parents.len() {
            if ancestors.contains(&at) {
                return true;
            }
            match parents.get(&at) {
                Some(&parent) => at = parent,
                None => return false,
            }
        }
        false
    };
    processes.iter().copied().filter(is_below).collect()
}

/// Sends a signal to a process. A process that has ended is no error.
pub(crate) fn signal(signal: Signal, id: u32) {
    if let Some(id) = pid(id) {
        let _ = kill_process(id, signal);
    }
}

/// Sends a signal to a process group.
pub(crate) fn signal_group(signal: Signal, id: u32) {
    if let Some(id) = pid(id) {
        let _ = kill_process_group(id, signal);
    }
}

fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(id.try_into().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn this_process_is_found_with_its_parent() {
        let me = Process::find(std::process::id()).expect("/proc shows this process");
        assert_eq!(me.parent, std::os::unix::process::parent_id());
        assert!(me.runs());
        assert!(all().iter().any(|process| process.is(me)));
        let program = std::env::current_exe().expect("a path");
        assert!(me.runs_from(program.parent().expect("a folder")));
    }

    #[test]
    fn a_child_descends_from_this_process_and_is_marked() {
        let mut child =
            Command::new("sleep").arg("30").env(MARK, mark()).spawn().expect("sleep is part of every system");
        let found = below(&[std::process::id()]).into_iter().find(|process| process.id == child.id());
        // The fork is visible before its exec has replaced the environment; wait for the program.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while found.is_some_and(|process| !process.is_marked()) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        let marked = found.is_some_and(Process::is_marked);
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        assert!(marked);
        assert!(!found.is_some_and(Process::runs));
    }
}
