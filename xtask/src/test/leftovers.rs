//! What a test suite must not leave behind: a process, an entry of `/dev/shm`, a window (`hamr:`
//! memfd). They are listed before and after every suite, so that a device that outlives its host
//! fails the run that made it.

use crate::process::{self, Process};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A device notices the end of its host through a socket; this is its time to do so and to exit.
const GRACE: Duration = Duration::from_secs(30);
const SHARED: &str = "/dev/shm";
/// The name of a window's memfd, as the kernel shows it.
const WINDOW: &str = "/memfd:hamr:";

/// The state before a suite ran.
pub(crate) struct Before {
    target: PathBuf,
    seen: Seen,
}

impl Before {
    /// Lists the present state. `target` is the folder with the programs of this checkout.
    pub(crate) fn look(target: &Path) -> Self {
        Self { target: target.to_owned(), seen: Seen::now() }
    }

    /// What exists now and did not before, one description each, after a grace period.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let deadline = Instant::now() + GRACE;
        loop {
            let left = self.compare(&Seen::now());
            if left.is_empty() || Instant::now() >= deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn compare(&self, now: &Seen) -> Vec<String> {
        let is_new = |process: &Process| !self.seen.processes.iter().any(|old| old.is(*process));
        let below: HashSet<u32> = process::below(&[std::process::id()]).iter().map(|process| process.id).collect();
        let is_ours = |process: &Process| {
            is_new(process)
                && (below.contains(&process.id)
                    || process.is_marked()
                    || process.runs_from(&self.target)
                    || process.emulates_from(&self.target))
        };
        let processes = now.processes.iter().filter(|process| is_ours(process));
        let mut left: Vec<String> =
            processes.map(|process| format!("process {}: {}", process.id, process.command_line())).collect();

        // Another run owns a new window whose process has a parent that is neither init nor one of
        // this run.
        let windows = now.files.iter().filter(|file| file.is_window() && !self.seen.files.contains(file));
        let windows = windows.filter(|file| is_ours(&file.holder) || file.holder.parent == 1 && is_new(&file.holder));
        left.extend(windows.map(|file| format!("window {} open in process {}", file.link, file.holder.id)));

        let entries = now.shared.difference(&self.seen.shared).filter(|entry| {
            let mut holders = now.files.iter().filter(|file| Path::new(&file.link) == entry.as_path());
            !holders.any(|file| !is_ours(&file.holder))
        });
        left.extend(entries.map(|entry| format!("shared memory {}", entry.display())));
        left
    }
}

/// A file of shared memory that a process has open.
#[derive(PartialEq, Eq, Hash)]
struct Held {
    holder: Process,
    link: String,
}

impl Held {
    fn is_window(&self) -> bool {
        self.link.starts_with(WINDOW)
    }
}

struct Seen {
    processes: Vec<Process>,
    files: HashSet<Held>,
    shared: HashSet<PathBuf>,
}

impl Seen {
    fn now() -> Self {
        let me = std::process::id();
        let processes: Vec<Process> = process::all().into_iter().filter(|process| process.id != me).collect();
        let files = processes.iter().flat_map(|&process| held_by(process)).collect();
        let shared = fs::read_dir(SHARED)
            .map_or_else(|_| HashSet::new(), |entries| entries.flatten().map(|entry| entry.path()).collect());
        Self { processes, files, shared }
    }
}

/// Empty for processes of other users, whose descriptors cannot be read.
fn held_by(holder: Process) -> Vec<Held> {
    let Ok(entries) = fs::read_dir(format!("/proc/{}/fd", holder.id)) else {
        return Vec::new();
    };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .map(|link| link.to_string_lossy().into_owned())
        .filter(|link| link.starts_with(WINDOW) || link.starts_with(SHARED))
        .map(|link| Held { holder, link })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Signal;
    use std::process::{Command, Stdio};

    fn left_by(target: &Path, work: impl FnOnce()) -> Vec<String> {
        let before = Before::look(target);
        work();
        before.compare(&Seen::now())
    }

    #[test]
    fn a_marked_orphan_and_a_shared_file_are_named() {
        let entry = format!("{SHARED}/hamr-xtask-test-{}", std::process::id());
        let script = "sleep 43 & echo $!";
        let mut orphan = String::new();
        let left = left_by(Path::new("/nowhere"), || {
            fs::write(&entry, "").expect("shared memory can be written");
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).env(process::MARK, process::mark());
            // The orphan inherits the pipe, so the test waits for the first line only. The orphan
            // must inherit nothing else of this test, because it ends some time after the signal.
            let mut child = shell.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a shell");
            let mut pipe = std::io::BufReader::new(child.stdout.take().expect("piped"));
            std::io::BufRead::read_line(&mut pipe, &mut orphan).expect("the id");
            child.wait().expect("our own child");
        });
        let orphan = orphan.trim();
        let is_named = |needle: &str| left.iter().any(|line| line.starts_with(needle));
        let (process, shared) = (is_named(&format!("process {orphan}: ")), is_named(&format!("shared memory {entry}")));
        process::signal(Signal::KILL, orphan.parse().expect("an id"));
        fs::remove_file(&entry).expect("it is ours");
        assert!(process && shared, "{left:?}");
    }

    #[test]
    fn a_machine_with_our_image_is_named_even_without_the_mark() {
        let folder = std::env::temp_dir().join(format!("hamr-xtask-test-{}", std::process::id()));
        fs::create_dir(&folder).expect("a temporary folder");
        let target = Path::new("/nowhere/target");
        let image = target.join("bare/riscv64gc-unknown-none-elf/release/hamr-demo");
        // A shell under QEMU's name that waits for a writer which never opens the pipe.
        let script = r#"cd "$1" && mkfifo pipe && ln -s /bin/sh qemu-system-test || exit 1
            env -i ./qemu-system-test -c "read x < $1/pipe" sh -kernel "$2" > /dev/null 2>&1 & echo $!"#;
        let before = Before::look(target);
        let output = Command::new("sh").args(["-c", script, "sh"]).arg(&folder).arg(&image).output().expect("a shell");
        let orphan = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let is_named = || before.compare(&Seen::now()).iter().any(|l| l.starts_with(&format!("process {orphan}: ")));
        // Before its exec, the child cannot be distinguished from other shells.
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut named = is_named();
        while !named && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
            named = is_named();
        }
        process::signal(Signal::KILL, orphan.parse().expect("an id"));
        fs::remove_dir_all(&folder).expect("it is ours");
        assert!(named, "process {orphan}");
    }

    #[test]
    fn a_tidy_suite_leaves_nothing_of_its_own() {
        // Concurrent tests of this process have children as well; only those that this closure
        // started may count.
        let mut id = 0;
        let left = left_by(Path::new("/nowhere"), || {
            let mut child = Command::new("true").spawn().expect("true is part of every system");
            id = child.id();
            child.wait().expect("our own child");
        });
        assert!(!left.iter().any(|line| line.starts_with(&format!("process {id}: "))), "{left:?}");
    }
}
