//! `hamr-mpi` as users run it.

mod common;

use common::mpirun;
use hamr_tests::devices;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_hamr-mpi");

static IMAGE: LazyLock<PathBuf> = LazyLock::new(|| {
    let target = devices::runtime().target("shm").expect("a kind").expect("it takes an image");
    devices::image("shm").resolve(&target).expect("an image").path
});

fn hamr_mpi(ranks: u32, arguments: &[&str]) -> Output {
    let (mut command, _folder) = mpirun(ranks);
    command.arg(PROGRAM).args(arguments).arg("--image").arg(&*IMAGE);
    command.stdin(Stdio::null()).output().expect("mpirun, of a package such as openmpi-bin")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What it printed on standard output.
fn works(ranks: u32, arguments: &[&str]) -> String {
    let output = hamr_mpi(ranks, arguments);
    let (said, wrong) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {:?}\n{said}\n{wrong}", output.status);
    assert!(!wrong.contains("hamr-mpi:"), "{arguments:?}: {wrong}");
    said
}

/// The one line that `hamr-mpi` printed on standard error.
fn fails(output: &Output) -> String {
    let wrong = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{wrong}");
    let ours: Vec<_> = wrong.lines().filter(|line| line.starts_with("hamr-mpi: ")).collect();
    let [line] = ours[..] else { panic!("expected one line, got {wrong}") };
    line.into()
}

#[test]
fn each_rank_but_the_first_has_a_device() {
    let add = ["call", "chains::add", "2", "3", "--device"];
    for device in ["mpi:1", "mpi:2"] {
        assert_eq!(works(3, &[&add[..], &[device]].concat()), "5\n");
    }
    // Devices of rank 0 itself are there, too.
    assert_eq!(works(2, &[&add[..], &["shm"]].concat()), "5\n");
    let devices = works(2, &["devices", "--device", "mpi:1"]);
    assert!(devices.contains("mpi-shm") && devices.contains("mpi:RANK"), "{devices}");
}

#[test]
fn what_is_wrong_is_one_line() {
    let add = ["call", "chains::add", "2", "3", "--device"];
    let rows: [(u32, &[&str], &str); 7] = [
        (3, &["mpi:0"], "no device is named `mpi:0`: expected one of mpi:1 to mpi:2; rank 0 runs the command"),
        (2, &["mpi:2"], "no device is named `mpi:2`: expected one of mpi:1; rank 0 runs the command"),
        (2, &["mpi:+1"], "no device is named `mpi:+1`"),
        (1, &["mpi:1"], "expected a job of two ranks at least, this one has 1"),
        (2, &["mpi:1", "--serve", "toaster"], "rank 1 refuses: no device is named `toaster`"),
        (
            2,
            &["mpi:1", "--serve=loopback"],
            "a device of kind loopback cannot be given to other processes: expected shm or qemu",
        ),
        (2, &["mpi:1", "--protocol", "split"], "expected message for mpi:1, got split"),
    ];
    for (ranks, arguments, expected) in rows {
        let line = fails(&hamr_mpi(ranks, &[&add[..], arguments].concat()));
        assert!(line.contains(expected), "{arguments:?}: {line}");
    }
    let alone = Command::new(PROGRAM).args(add).arg("mpi:1").stdin(Stdio::null()).output().expect("it starts");
    assert!(fails(&alone).contains("start it with `mpirun -n 2 hamr-mpi …`"));
    let (mut behind, _folder) = mpirun(2);
    behind.arg(PROGRAM).args(add).args(["mpi:1", "--serve"]).stdin(Stdio::null());
    assert!(fails(&behind.output().expect("it starts")).contains("--serve: expected a kind of device"));
}

#[test]
fn a_rank_serves_the_kind_that_its_own_line_says() {
    let (mut command, _folder) = mpirun(1);
    command.arg(PROGRAM).args(["devices", "--device", "mpi:2", "--image"]).arg(&*IMAGE);
    command.args([":", "-n", "1", PROGRAM, "--serve", "toaster", ":", "-n", "1", PROGRAM, "--image"]).arg(&*IMAGE);
    let output = command.stdin(Stdio::null()).output().expect("mpirun");
    assert!(output.status.success() && text(&output.stdout).contains("mpi-shm"), "{output:?}");
}

/// Processes of this program, or of the image, in whose environment this is.
fn running(mark: &str) -> Vec<u32> {
    let of = |entry: std::fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        let is_ours = environment.split(|byte| *byte == 0).any(|one| one == mark.as_bytes());
        let is_rank = [OsStr::new(PROGRAM), IMAGE.as_os_str()]
            .contains(&std::fs::read_link(entry.path().join("exe")).ok()?.as_os_str());
        (is_ours && is_rank).then_some(pid)
    };
    std::fs::read_dir("/proc").expect("a system with it").flatten().filter_map(of).collect()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_lost_rank_ends_the_job() {
    let mark = format!("HAMR_MPI_LOST={}", std::process::id());
    let (name, value) = mark.split_once('=').expect("it has one");
    let (mut command, _folder) = mpirun(3);
    // A handler that runs for as long as it is let.
    command.arg(PROGRAM).args(["call", "loops", "--device", "mpi:1", "--image"]).arg(&*IMAGE).env(name, value);
    let mut job = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("mpirun");
    // Three ranks, and the device of one.
    until("the device runs", || running(&mark).len() == 4);
    let rank = running(&mark).into_iter().find(|pid| {
        let is_rank = std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == OsStr::new(PROGRAM));
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let is = |text: &str| environment.split(|byte| *byte == 0).any(|one| one == text.as_bytes());
        is_rank && (is("OMPI_COMM_WORLD_RANK=1") || is("PMI_RANK=1"))
    });
    let rank = rank.expect("there is one").to_string();
    assert!(Command::new("kill").args(["-KILL", &rank]).status().expect("a program").success());
    until("the job ends", || job.try_wait().expect("a child").is_some());
    assert!(!job.wait().expect("a child").success());
    until("no process is left", || running(&mark).is_empty());
}
