//! Lost devices, killed hosts, and files that are no images, over shared memory.

mod alone;

use hamr::{BufferError, CallError, CallOptions, Error, Image, Node, Options, Runtime, SubmitError};
use hamr_comm::Handler;
use hamr_kernels::faults::background;
use hamr_tests::conformance::{Gate, Log, options, refusal, until};
use hamr_tests::processes::{has_ended, host_in_a_call, processes, waits_in_a_call, windows_of};
use hamr_tests_kernels::{append_named, echo, wait_at};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn image() -> PathBuf {
    let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
    image.resolve(&hamr::Target::hosted()).expect("the demo image builds").path
}

fn open_image(path: PathBuf, options: Options) -> Result<Node, Error> {
    Runtime::new()?.open_with("shm", Image::file(path)?, options)
}

fn open() -> Node {
    open_image(image(), options()).expect("a device")
}

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(pid as i32).expect("not zero")
}

fn signal(node: &Node, signal: Signal) {
    kill_process(pid_of(node.info().pid), signal).expect("it is our child");
}

fn is_lost<T: std::fmt::Debug, E: std::fmt::Debug>(outcome: Result<T, CallError<E>>, handler: &str) {
    match outcome {
        Err(e @ CallError::DeviceLost(..)) => {
            let message = e.to_string();
            for part in [handler, "device shm", "waiting for the reply", "signal: 9"] {
                assert!(message.contains(part), "`{part}` in: {message}");
            }
        }
        other => panic!("expected a lost device, got {other:?}"),
    }
}

/// Restarts the device and checks that everything works.
fn comes_back(node: &Node) {
    assert!(!node.is_alive());
    let dead = node.info().pid;
    node.restart().expect("starts again");
    assert!(node.is_alive() && node.info().pid != dead);
    for n in 0..100u64 {
        assert_eq!(node.sync(echo::with(n)).expect("runs"), n);
    }
    assert_eq!(node.offload(background::with(3)).expect("sent").wait().expect("runs"), 9);
}

#[test]
fn a_device_restarts_after_each_of_many_kills() {
    let node = open();
    let stream = node.stream().expect("a stream is free");
    let data = node.buffer(&[7u64; 1000]).expect("room");
    for epoch in 1..=5u64 {
        assert_eq!(u64::from(node.info().epoch), epoch);
        let gate = Gate::new(&node);
        let call = stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        signal(&node, Signal::KILL);
        is_lost(call.wait(), wait_at::NAME);
        comes_back(&node);
    }
    assert_eq!(node.read(data.ptr()).expect("reads"), [7; 1000]);
    drop(data);
    assert_eq!(node.live_buffers(), 0);
}

#[test]
fn a_stopped_device_is_slow_and_not_lost() {
    let node = open();
    node.ping().expect("serves");
    signal(&node, Signal::STOP);
    let stream = node.stream().expect("a stream is free");
    let soon = CallOptions::deadline(Duration::from_millis(50));
    let outcome = stream.sync_with(echo::with(1u64), soon);
    let alive = node.is_alive();
    signal(&node, Signal::CONT);
    assert!(matches!(outcome, Err(CallError::Deadline(_))), "{outcome:?}");
    assert!(alive, "a stopped process may continue");
    assert_eq!(stream.sync(echo::with(2u64)).expect("it goes on"), 2);
}

/// A copy of the demo image with some bytes changed.
fn altered(dir: &Path, name: &str, alter: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = std::fs::read(image()).expect("the image");
    alter(&mut bytes);
    let path = dir.join(name);
    std::fs::write(&path, bytes).expect("writes a copy");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("makes it executable");
    path
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_silent_image_is_ended_at_the_start_deadline() {
    use object::{Object, ObjectSegment};
    let dir = tempfile::tempdir().expect("a folder");
    // A jump to itself at the entry point.
    let path = altered(dir.path(), "hangs", |bytes| {
        let elf = object::File::parse(&**bytes).expect("an ELF file");
        let entry = elf.entry();
        let segment = elf.segments().find(|s| (s.address()..s.address() + s.size()).contains(&entry));
        let segment = segment.expect("the entry point lies in a segment");
        let at = (entry - segment.address() + segment.file_range().0) as usize;
        bytes[at..at + 2].copy_from_slice(&[0xEB, 0xFE]);
    });
    let limit = Duration::from_millis(200);
    match open_image(path.clone(), Options { start_deadline: limit, ..options() }) {
        Err(Error::Timeout { stage: "starting", after, .. }) => assert_eq!(after, limit),
        other => panic!("expected a silent device, got {other:?}"),
    }
    let still_runs = processes().any(|p| std::fs::read_link(p.join("exe")).is_ok_and(|exe| exe == path));
    assert!(!still_runs, "its process was ended");
}

/// A launcher of hosted images that replaces the image's file after it was checked.
struct Replaces(PathBuf);

impl hamr::Launcher for Replaces {
    fn describe(&self) -> String {
        "replaces the image".into()
    }
    fn target(&self, argument: &str) -> Result<Option<hamr::Target>, Error> {
        hamr::ShmLauncher.target(argument)
    }
    fn launch(&self, request: &hamr::LaunchRequest<'_>) -> Result<Box<dyn hamr::link::Link>, Error> {
        let other = self.0.with_extension("other");
        std::fs::copy("/bin/true", &other).expect("another program");
        std::fs::rename(&other, &self.0).expect("replaces the image");
        hamr::ShmLauncher.launch(request)
    }
}

/// abi §10: a loader checks an image before it starts it.
#[test]
fn the_image_that_was_checked_is_the_one_that_is_started() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = altered(dir.path(), "checked", |_| ());
    let mut runtime = Runtime::new().expect("a runtime");
    runtime.register("replaced", Replaces(path.clone()));
    let node = runtime.open_with("replaced", Image::file(&path).expect("an image"), options()).expect("it starts");
    assert_eq!(node.sync(echo::with(1u64)).expect("works"), 1);
    // A list of processes shows the file's name, and not the descriptor that it was started by.
    let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("it runs");
    assert_eq!(name(node.info().pid).trim(), "checked");
    node.restart().expect("the same image again");
    assert_eq!(node.sync(echo::with(2u64)).expect("works"), 2);
    let file = Image::file(&path).map(drop);
    assert!(matches!(file, Err(Error::BadImage { .. })), "another program is there: {file:?}");
}

#[test]
fn an_image_file_is_known_by_its_whole_path() {
    let here = std::env::current_dir().expect("a folder");
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(image().strip_prefix("/").expect("a whole path"));
    let path = hamr::ImageFile::open(&relative).expect("the image").path;
    assert!(path.is_absolute() && path.ends_with(image().file_name().expect("a file")), "{}", path.display());
}

#[test]
fn a_file_that_is_no_image_is_refused_before_it_is_started() {
    let dir = tempfile::tempdir().expect("a folder");
    let says = |path: &Path, part: &str| match Image::file(path) {
        Err(e @ Error::BadImage { .. }) => {
            let message = e.to_string();
            assert!(message.contains(part) && message.contains(path.to_str().expect("UTF-8")), "{message}");
        }
        other => panic!("expected a bad image, got {other:?}"),
    };
    says(Path::new("/bin/true"), "expected a hamr image");
    says(&dir.path().join("absent"), "cannot read it");
    says(dir.path(), "cannot read it");
    let text = dir.path().join("text");
    std::fs::write(&text, "not an image").expect("writes");
    says(&text, "expected an ELF file, got 12 bytes");
    std::fs::write(&text, "").expect("writes");
    says(&text, "expected an ELF file, got 0 bytes");
    says(&altered(dir.path(), "short", |bytes| bytes.truncate(1000)), "expected");
    // Not executable, which only the start shows.
    let plain = altered(dir.path(), "plain", |_| {});
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).expect("sets the mode");
    let error = open_image(plain, options()).expect_err("may not be executed");
    assert!(matches!(&error, Error::Launch { why, .. } if why.contains("denied")), "{error}");
}

fn window_of(pid: u32) -> PathBuf {
    let windows = windows_of(Path::new(&format!("/proc/{pid}")));
    assert_eq!(windows.len(), 1, "{windows:?}");
    windows[0].clone()
}

const HELPER: &str = "HAMR_TEST_HOST_TO_BE_KILLED";

/// The host that [`a_killed_host_leaves_nothing`] kills.
#[test]
#[ignore = "a helper process of another test"]
fn host_to_be_killed() {
    if std::env::var_os(HELPER).is_none() {
        return;
    }
    let node = open();
    waits_in_a_call(&node, node.info().pid);
}

#[test]
fn a_closed_device_is_gone_when_close_returns() {
    let node = open();
    let pid = node.info().pid;
    let window = window_of(pid);
    let shared = node.shared_stream().expect("a stream is free");
    let gate = Gate::new(&node);
    let call = shared.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
    gate.wait_for(1);
    drop(gate);
    drop(node);
    assert!(has_ended(pid) && !window.exists());
    match call.wait() {
        // The gate let it through when it was dropped.
        Ok(1) => {}
        Err(CallError::DeviceLost(_, why)) => assert!(why.contains("closed by this program"), "{why}"),
        other => panic!("expected a closed device, got {other:?}"),
    }
}

#[test]
fn no_process_can_resize_the_window() {
    let node = open();
    let len = node.info().window;
    for pid in [node.info().pid, std::process::id()] {
        let path = windows_of(Path::new(&format!("/proc/{pid}"))).pop().expect("both sides have it open");
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("opens for writing");
        assert_eq!(file.metadata().expect("its size").len(), len);
        for wanted in [0, len - 1, len + 1, len * 2] {
            let error = rustix::fs::ftruncate(&file, wanted).expect_err("sealed");
            assert_eq!(error, rustix::io::Errno::PERM, "to {wanted} bytes");
        }
        let seals = rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::WRITE);
        assert_eq!(seals, Err(rustix::io::Errno::PERM), "nor seal it further");
    }
    assert_eq!(node.sync(echo::with(1u64)).expect("all is well"), 1);
}

#[test]
fn a_second_host_is_refused() {
    let node = open();
    for pid in [node.info().pid, std::process::id()] {
        let window = windows_of(Path::new(&format!("/proc/{pid}"))).pop().expect("both sides have it open");
        let spec = format!("shm:{}", window.display());
        let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
        match Runtime::new().expect("a runtime").open(&spec, image) {
            Err(e @ Error::Owned { .. }) => {
                let message = e.to_string();
                assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
                assert!(message.contains(&*window.to_string_lossy()), "{message}");
            }
            other => panic!("expected a window with an owner, got {other:?}"),
        }
    }
    assert_eq!(node.sync(echo::with(1u64)).expect("the first host is not disturbed"), 1);
    let nowhere = Runtime::new()
        .expect("a runtime")
        .open("shm:/nowhere", Image::find(hamr_tests::devices::IMAGE).expect("a name"));
    assert!(matches!(nowhere, Err(Error::Os { .. })), "{nowhere:?}");
}

/// A mapping of such a file would have pages without memory.
#[test]
fn a_short_locked_file_is_no_window() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("some.lock");
    let file = std::fs::File::create(&path).expect("makes a file");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("locks it");
    for len in [0, 40] {
        file.set_len(len).expect("sizes it");
        let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
        let message = match Runtime::new().expect("a runtime").open(&format!("shm:{}", path.display()), image) {
            Err(e @ Error::Launch { .. }) => e.to_string(),
            other => panic!("expected a refusal, got {other:?}"),
        };
        assert!(message.contains(&format!("{len} bytes")) && message.contains("expected a window"), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn an_unknown_device_is_named_with_the_known_ones() {
    let error =
        Runtime::new().expect("a runtime").open("shmem", Image::find(hamr_tests::devices::IMAGE).expect("a name"));
    let message = error.expect_err("no such kind").to_string();
    assert!(message.contains("`shmem`") && message.contains("loopback") && message.contains("shm"), "{message}");
}

#[test]
fn calls_outlive_the_buffers_they_name_only_until_the_end() {
    let node = open();
    let stream = node.stream().expect("a stream is free");
    let gate = Gate::new(&node);
    let data = node.buffer(&[1u64; 8]).expect("room");
    let old = data.ptr();
    let call = stream.offload(hamr_tests_kernels::increment_after::with(gate.ptr(), old)).expect("sent");
    gate.wait_for(1);
    drop(data);
    assert_eq!(node.live_buffers(), 2);
    signal(&node, Signal::KILL);
    is_lost(call.wait(), "increment_after");
    assert_eq!(node.live_buffers(), 1, "the lost device writes nothing any more");
    match node.read(old) {
        Err(Error::Buffer { why: BufferError::Freed { .. }, .. }) => {}
        other => panic!("expected a freed buffer, got {other:?}"),
    }
}
