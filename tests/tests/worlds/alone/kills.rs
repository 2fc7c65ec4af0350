//! Ranks and launchers are killed at random moments: each time all of them end, and nothing is left.
//! `cargo xtask soak` does it a thousand times.

use hamr::{Image, Target};
use hamr_tests::conformance::Random;
use hamr_tests::{devices, processes};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_hamr-joins");
/// Each process of a run has this variable in its environment.
const MARK: &str = "HAMR_KILLS_RUN";
/// From the kill until the last process has ended.
const GONE: Duration = Duration::from_secs(2);
/// Microseconds to the latest moment of a kill.
const LATEST: u64 = 150_000;

/// `HAMR_SOAK_KILLS` is set by `cargo xtask soak`.
fn rounds() -> u32 {
    std::env::var("HAMR_SOAK_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(30)
}

/// The processes of a run that have not ended.
fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let is_marked = |folder: &PathBuf| {
        let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let id = |folder: PathBuf| folder.file_name()?.to_str()?.parse().ok();
    processes::processes().filter(is_marked).filter_map(id).filter(|pid| !processes::has_ended(*pid)).collect()
}

fn entries(folder: &str) -> BTreeSet<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Ends the launcher when a test fails; its ranks end with it.
struct Launcher(Child);

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The host program is killed while bodies of it run and tasks wait for them.
#[test]
fn a_killed_host_leaves_no_task_that_waits_for_it() {
    let image = devices::image("shm").resolve(&Target::hosted()).expect("the image").path;
    for round in 0..3 {
        let (shm, mark) = (entries("/dev/shm"), format!("host-{}-{round}", std::process::id()));
        let mut command = Command::new(PROGRAM);
        command.arg("bodies").arg(&image).env(MARK, &mark).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut host = Launcher(command.spawn().expect("it starts"));
        let mut said = String::new();
        let output = host.0.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut said).expect("text");
        assert_eq!(said, "all bodies run\n");
        let all = marked(&mark);
        assert_eq!(all.len(), 4, "the host and three ranks");
        host.0.kill().expect("its own child");
        let begin = Instant::now();
        host.0.wait().expect("its own child");
        while !marked(&mark).is_empty() {
            assert!(begin.elapsed() < GONE, "round {round}: {:?} of {all:?} are left", marked(&mark));
            std::thread::sleep(Duration::from_millis(1));
        }
        let new: Vec<_> = entries("/dev/shm").difference(&shm).cloned().collect();
        assert!(!new.iter().any(|path| path.to_string_lossy().contains("hamr")), "round {round}: {new:?}");
    }
}

#[test]
fn whoever_is_killed_nothing_is_left() {
    let image = devices::image("shm").resolve(&Target::hosted()).expect("the image").path;
    let image = image.to_str().expect("a path");
    assert!(Image::file(image).is_ok());
    let (mut random, mut longest) = (Random(42), Duration::ZERO);
    let (mut launchers, mut named) = (0, 0);
    for round in 0..rounds() {
        let folder = tempfile::tempdir().expect("a folder");
        let (shm, mark) = (entries("/dev/shm"), format!("{}-{round}", std::process::id()));
        let ranks = 1 + random.number() % 4;
        // Ranks that wait, ranks that compute, images.
        let (what, which) = [(PROGRAM, "wait"), (PROGRAM, "spin"), (image, "spin")][random.number() as usize % 3];
        let mut command = Command::new(PROGRAM);
        command
            .args(["run", "-n", &ranks.to_string(), what, which, "0!"])
            .env(MARK, &mark)
            .env("TMPDIR", folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut launcher = Launcher(command.spawn().expect("it starts"));
        // From the start on, or from when all ranks are there.
        let begin = Instant::now();
        while round % 3 != 0 && marked(&mark).len() as u64 != 1 + ranks {
            assert!(begin.elapsed() < devices::START_TIMEOUT, "round {round}: {:?}", marked(&mark));
        }
        std::thread::sleep(Duration::from_micros(random.number() % LATEST));
        let all = marked(&mark);
        let victim = all[random.number() as usize % all.len()];
        kill_process(Pid::from_raw(victim as i32).expect("a process"), Signal::KILL).expect("of this test");
        let begin = Instant::now();
        let status = launcher.0.wait().expect("its own child");
        loop {
            let left = marked(&mark);
            if left.is_empty() {
                break;
            }
            assert!(begin.elapsed() < GONE, "round {round}: {left:?} of {all:?} are left behind {victim}");
            std::thread::sleep(Duration::from_millis(1));
        }
        longest = longest.max(begin.elapsed());
        assert!(begin.elapsed() < GONE, "round {round}: {:?}", begin.elapsed());
        let said = std::io::read_to_string(launcher.0.stderr.take().expect("piped")).expect("text");
        let said = processes::said(said.as_bytes());
        if victim == launcher.0.id() {
            launchers += 1;
            assert_eq!(status.code(), None, "round {round}: {said}");
        } else {
            named += u32::from(said.contains(&format!("process {victim} ")));
            // Of two that end at the same moment the launcher may see either.
            assert_eq!((status.code(), said.lines().count()), (Some(2), 1), "round {round}: {said}");
            assert!(said.contains("rank "), "round {round}: {said}");
        }
        assert!(entries(&folder.path().display().to_string()).is_empty(), "round {round}: files are left");
        let new: Vec<_> = entries("/dev/shm").difference(&shm).cloned().collect();
        assert!(!new.iter().any(|path| path.to_string_lossy().contains("hamr")), "round {round}: {new:?}");
    }
    println!("{} kills, {launchers} of launchers; the victim was named {named} times; at most {longest:?}", rounds());
    assert!(launchers > 0 && named * 2 > rounds() - launchers, "{named} victims are named");
}
