//! Starts of QEMU, and how they fail: the program, the image, the host. The conformance suite
//! (`riscv64.rs` and so on) tests a device that serves.

mod alone;

use hamr::qemu::{Machine, QemuLauncher};
use hamr::{CallError, Error, Image, Node, Options, Runtime};
use hamr_comm::abi::ids::Isa;
use hamr_tests::conformance::{Gate, options, until};
use hamr_tests::devices::{image, open, runtime};
use hamr_tests::foreign;
use hamr_tests::processes::{children, has_ended, host_in_a_call, waits_in_a_call, windows_of};
use hamr_tests_kernels::{echo, wait_at};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DEVICE: &str = "qemu:riscv64";
fn image_for(spec: &str) -> PathBuf {
    let target = runtime().target(spec).expect("a known device").expect("it takes an image");
    image(spec).resolve(&target).expect("the image").path
}

/// The QEMU processes that this process started.
fn machines() -> Vec<u32> {
    let is_qemu =
        |pid: &u32| std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with(b"qemu-system"));
    children(std::process::id()).into_iter().filter(is_qemu).collect()
}

fn the_machine() -> u32 {
    let machines = machines();
    assert_eq!(machines.len(), 1, "{machines:?}");
    machines[0]
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("not zero");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is our child");
}

const ATTEMPT: &str = "HAMR_TEST_IMAGE_TO_TRY";

/// Opens a device in a process of its own, because a test must not change its own PATH.
#[test]
#[ignore = "a helper process of other tests"]
fn attempt() {
    let Some(image) = std::env::var_os(ATTEMPT) else { return };
    let options = Options { start_deadline: start_deadline(), ..options() };
    let runtime = Runtime::new().expect("a runtime");
    match runtime.open_with(DEVICE, Image::file(image).expect("an image"), options) {
        Ok(node) => println!("\nresult: {:?}", node.info()),
        Err(e) => println!("\nresult: {e}"),
    }
    // A zombie would be listed here.
    println!("left: {:?}", children(std::process::id()));
}

const START_DEADLINE: &str = "HAMR_TEST_START_DEADLINE_MS";

/// The start deadline of an attempt: from a variable, else long enough for any healthy machine.
fn start_deadline() -> Duration {
    let given = std::env::var(START_DEADLINE).ok().map(|ms| Duration::from_millis(ms.parse().expect("a number")));
    given.unwrap_or(Duration::from_secs(20))
}

/// The message of opening the device when PATH is `path`, and nothing is unpacked.
fn result_with(path: &Path) -> String {
    result_within(path, path, start_deadline())
}

/// The same with the cache folder `cache`, and another start deadline.
fn result_within(path: &Path, cache: &Path, limit: Duration) -> String {
    // A copy of the test program, because QEMU may be unpacked beside the test itself, in the
    // target folder.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let copy = elsewhere.path().join("test");
    std::fs::copy(std::env::current_exe().expect("this test"), &copy).expect("copies it");
    let output = Command::new(copy)
        .args(["--exact", "launch::attempt", "--ignored", "--nocapture"])
        .env(ATTEMPT, image_for(DEVICE))
        .env("PATH", path)
        .env("XDG_CACHE_HOME", cache)
        .env(START_DEADLINE, limit.as_millis().to_string())
        .stderr(Stdio::null())
        .output()
        .expect("starts this test again");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |start: &str| text.lines().find_map(|l| l.strip_prefix(start)).map(str::to_owned);
    assert_eq!(line("left: ").as_deref(), Some("[]"), "{text}");
    line("result: ").unwrap_or_else(|| panic!("the helper failed: {text}"))
}

/// A folder with a program in place of QEMU.
fn with_fake(script: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fake(dir.path(), script);
    dir
}

fn fake(dir: &Path, script: &str) {
    let path = dir.join("qemu-system-riscv64");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("writes a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("makes it executable");
}

fn contains_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` in: {text}");
    }
}

#[test]
fn an_absent_program_is_named_with_its_places_and_a_command() {
    let dir = tempfile::tempdir().expect("a folder");
    let result = result_with(dir.path());
    let place = dir.path().join("hamr/qemu/usr/bin/qemu-system-riscv64");
    let place = place.to_str().expect("UTF-8");
    contains_all(
        &result,
        &[DEVICE, "`qemu-system-riscv64` in PATH or unpacked", place, "found none", "`cargo run -- setup` in "],
    );
}

#[test]
fn an_unpacked_program_runs_where_path_has_none_or_an_old_one() {
    let old = with_fake("echo 'QEMU emulator version 5.2.0 (Debian 1:5.2+dfsg-11)'");
    let (none, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let files = cache.path().join("hamr/qemu");
    std::fs::create_dir_all(files.join("usr/bin")).expect("makes folders");
    let script = "[ \"$1\" = --version ] && { echo QEMU emulator version 7.2.0; exit; }\n\
                  echo \"libraries $LD_LIBRARY_PATH\" >&2\nexit 3";
    fake(&files.join("usr/bin"), script);
    let libraries = format!("libraries {}:", files.join("usr/lib/x86_64-linux-gnu").display());
    for path in [old.path(), none.path()] {
        let result = result_within(path, cache.path(), start_deadline());
        contains_all(&result, &[DEVICE, "while starting", "exit status: 3", &libraries]);
    }
    // The program in PATH comes first, and uses the system's libraries.
    let installed = with_fake(script);
    let result = result_within(installed.path(), cache.path(), start_deadline());
    contains_all(&result, &[DEVICE, "while starting", "exit status: 3"]);
    assert!(!result.contains("hamr/qemu"), "{result}");
}

#[test]
fn an_old_program_is_refused_with_both_versions() {
    let dir = with_fake("echo 'QEMU emulator version 5.2.0 (Debian 1:5.2+dfsg-11)'");
    contains_all(
        &result_with(dir.path()),
        &["`qemu-system-riscv64`", "version 7.0 or later", "found 5.2", "`cargo run -- setup` in "],
    );
    let dir = with_fake("echo 'a toaster'");
    contains_all(&result_with(dir.path()), &["QEMU emulator version", "`a toaster`"]);
}

/// Also when a child of the program keeps its output open.
#[test]
fn a_program_that_prints_no_version_is_ended() {
    // Built before the time is measured.
    image_for(DEVICE);
    let give_up = |script: &str| {
        let dir = with_fake(script);
        let begin = Instant::now();
        let result = result_with(dir.path());
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
        match script.contains("2>&-") {
            true => contains_all(&result, &["`qemu-system-riscv64 --version`", "got ``"]),
            false => contains_all(&result, &["`qemu-system-riscv64 --version`", "within 10s", "ended"]),
        }
    };
    // In parallel, because each has the full time of a real program.
    std::thread::scope(|scope| {
        // What it says on standard error is read, too.
        let scripts = [
            "exec /bin/sleep 60",
            "/bin/sleep 60",
            "exec 1>&-\nexec /bin/sleep 60",
            "exec 1>&- 2>&-\nexec /bin/sleep 60",
        ];
        for script in scripts {
            scope.spawn(move || give_up(script));
        }
    });
}

#[test]
fn a_machine_that_ends_at_once_is_reported_with_its_end() {
    let dir = with_fake(
        "[ \"$1\" = --version ] && { echo QEMU emulator version 7.2.0; exit; }\n\
         echo hello from the image\necho first >&2\necho 'no such machine' >&2\nexit 3",
    );
    let result = result_with(dir.path());
    contains_all(&result, &[DEVICE, "while starting", "exit status: 3", "`no such machine`", "`hello from the image`"]);
}

#[test]
fn a_silent_machine_is_ended_at_the_start_deadline() {
    let dir = with_fake("[ \"$1\" = --version ] && { echo QEMU emulator version 7.2.0; exit; }\nexec /bin/sleep 60");
    let result = result_within(dir.path(), dir.path(), Duration::from_secs(1));
    contains_all(&result, &[DEVICE, "did not answer within 1s while starting"]);
}

#[test]
fn a_row_that_qemu_refuses_is_reported_with_its_message() {
    let mut runtime = Runtime::new().expect("a runtime");
    let none = Machine { name: "none", machine: "no-such-machine", ..Machine::RISCV64 };
    runtime.register("none", QemuLauncher::machine(none));
    match runtime.open("none", image(DEVICE)) {
        Err(Error::Lost { device, stage: "starting", why }) => {
            assert_eq!(device, "none");
            contains_all(&why, &["exit status: 1", "QEMU printed `", "-machine help"]);
        }
        other => panic!("expected a machine lost while starting, got {other:?}"),
    }
    let accelerated = Machine { args: &["-bios", "none", "-accel", "kvm"], ..Machine::RISCV64 };
    runtime.register("accelerated", QemuLauncher::machine(accelerated));
    match runtime.open("accelerated", image(DEVICE)) {
        Err(Error::Launch { why, .. }) => contains_all(&why, &["riscv64", "`-accel`", "thread=multi"]),
        other => panic!("expected a refused row, got {other:?}"),
    }
    assert!(machines().is_empty());
}

/// A copy of the image with some bytes changed.
fn altered(dir: &Path, spec: &str, alter: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = std::fs::read(image_for(spec)).expect("the image");
    alter(&mut bytes);
    let path = dir.join("altered");
    std::fs::write(&path, bytes).expect("writes a copy");
    path
}

fn refused(spec: &str, path: &Path, parts: &[&str]) {
    match Image::file(path).and_then(|image| runtime().open_with(spec, image, options())) {
        Err(e @ Error::BadImage { .. }) => {
            contains_all(&e.to_string(), parts);
            contains_all(&e.to_string(), &[path.to_str().expect("UTF-8"), "expected", "got"]);
        }
        other => panic!("expected a bad image, got {other:?}"),
    }
}

#[test]
fn images_for_something_else_are_refused() {
    refused("qemu:x86_64", &image_for(DEVICE), &["for x86_64", "for riscv64", "hamr image"]);
    refused(DEVICE, &image_for("shm"), &["a bare-metal image", "a hosted one", "riscv64gc-unknown-none-elf"]);
    refused("shm", &image_for(DEVICE), &["a hosted image", "a bare-metal one"]);
}

#[test]
fn damaged_images_are_refused() {
    use object::{Object, ObjectSection};
    let dir = tempfile::tempdir().expect("a folder");
    let damaged = |alter: &dyn Fn(&mut Vec<u8>)| altered(dir.path(), DEVICE, alter);
    for len in [20, 1000, 20_000] {
        let path = damaged(&|bytes| bytes.truncate(len));
        refused(DEVICE, &path, &["a whole ELF file", &format!("{len} bytes"), "cut short"]);
    }
    let path = damaged(&|bytes| bytes.truncate(bytes.len() - 1));
    refused(DEVICE, &path, &["cut short"]);
    // EI_DATA.
    refused(DEVICE, &damaged(&|bytes| bytes[5] = 2), &["little-endian", "big-endian"]);
    // p_filesz of a loaded segment: its tables are complete, its contents are not.
    let path = damaged(&|bytes| {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let headers = (0..word(56) as u16).map(|n| word(32) as usize + 56 * usize::from(n));
        let load = headers.into_iter().find(|&at| word(at) as u32 == 1).expect("a segment that is loaded");
        bytes[load + 32..load + 40].copy_from_slice(&(1u64 << 30).to_le_bytes());
    });
    refused(DEVICE, &path, &["an ELF file of at least 10737", "cut short"]);
    // abi_min and abi_max.
    let path = damaged(&|bytes| {
        let elf = object::File::parse(&**bytes).expect("an ELF file");
        let note = elf.section_by_name(".note.hamr").and_then(|s| s.file_range()).expect("a note").0 as usize;
        bytes[note + 20..note + 28].fill(0x09);
    });
    refused(DEVICE, &path, &["ABI", "rebuild"]);
    let table = |bytes: &[u8]| {
        let elf = object::File::parse(bytes).expect("an ELF file");
        let (at, len) = elf.section_by_name(".hamr.handlers").and_then(|s| s.file_range()).expect("a table");
        at as usize..(at + len) as usize
    };
    // The second entry's name, id and so on become the first's.
    let path = damaged(&|bytes| {
        let (at, entry) = (table(bytes).start, 64);
        bytes.copy_within(at..at + entry, at + entry);
    });
    let whole = hamr::ImageFile::open(&image_for(DEVICE)).and_then(|file| file.handlers()).expect("a table");
    refused(DEVICE, &path, &[&format!("two named `{}`", whole[0].name), "#[offload(name = "]);
    // Entries with bad addresses: the file opens, but its handlers cannot be listed.
    let path = damaged(&|bytes| {
        let at = table(bytes).start;
        bytes[at..at + 16].fill(0xA5);
    });
    let file = hamr::ImageFile::open(&path).expect("the table has its size");
    contains_all(&file.handlers().expect_err("no name").to_string(), &["handler 0 without a name", "hamr image"]);
}

#[test]
fn an_unknown_machine_is_named_with_the_known_ones() {
    for spec in ["qemu", "qemu:", "qemu:sparc"] {
        let error = runtime().open(spec, Image::find("hamr-demo").expect("a name")).expect_err("no such machine");
        contains_all(&error.to_string(), &["`qemu", "qemu:x86_64, qemu:aarch64, qemu:riscv64"]);
    }
}

fn works(node: &Node) {
    for n in 0..50u64 {
        assert_eq!(node.sync(echo::with(n)).expect("runs"), n);
    }
}

#[test]
fn the_thread_that_opened_a_device_may_end() {
    let node = std::thread::spawn(|| open(DEVICE, options())).join().expect("opens");
    // The kernel kills a machine when the thread that forked it ends, so that must be another
    // thread than this one.
    works(&node);
    node.restart().expect("starts again");
    works(&node);
    let node = std::thread::spawn(move || {
        node.restart().expect("starts again");
        node
    });
    let node = node.join().expect("restarts");
    works(&node);
    assert!(node.is_alive());
}

#[test]
fn several_machines_run_at_once() {
    let nodes: Vec<Node> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| open(DEVICE, options()))).collect();
        threads.into_iter().map(|t| t.join().expect("opens")).collect()
    });
    assert_eq!(machines().len(), 3);
    nodes.iter().for_each(works);
    drop(nodes);
    assert!(machines().is_empty());
}

#[test]
fn a_machines_processor_can_be_pinned() {
    let cpus = rustix::thread::sched_getaffinity(None).expect("this thread's processors");
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|&cpu| cpus.is_set(cpu)).expect("one at least");
    let node = open(DEVICE, Options { cpu: Some(last), ..options() });
    let tasks = std::fs::read_dir(format!("/proc/{}/task", the_machine())).expect("its threads").flatten();
    let vcpu = tasks.map(|t| t.path()).find(|t| std::fs::read(t.join("comm")).is_ok_and(|n| n.starts_with(b"CPU 0/")));
    let status = std::fs::read_to_string(vcpu.expect("a processor").join("status")).expect("its status");
    let allowed = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).map(str::trim);
    assert_eq!(allowed, Some(last.to_string().as_str()));
    works(&node);
    let error = runtime()
        .open_with(DEVICE, image(DEVICE), Options { cpu: Some(1000), ..options() })
        .expect_err("no such processor");
    contains_all(&error.to_string(), &[DEVICE, "processor 1000"]);
}

const HELPER: &str = "HAMR_TEST_HOST_TO_BE_KILLED";

/// The host that [`a_killed_host_leaves_no_machine`] kills.
#[test]
#[ignore = "a helper process of another test"]
fn host_to_be_killed() {
    if std::env::var_os(HELPER).is_none() {
        return;
    }
    let node = open(DEVICE, options());
    waits_in_a_call(&node, the_machine());
}

const DISPOSITION: &str = "HAMR_TEST_DISPOSITION";

#[test]
fn a_machine_inherits_no_disposition_of_its_childrens_ends() {
    let image = image_for(DEVICE);
    for inherited in foreign::INHERITED {
        foreign::succeeds("starts_a_machine", (DISPOSITION, &format!("{inherited}={}", image.display())));
    }
}

#[test]
#[ignore = "run by a_machine_inherits_no_disposition_of_its_childrens_ends"]
fn starts_a_machine() {
    let given = std::env::var(DISPOSITION).expect("another test starts this one");
    let (inherited, image) = given.split_once('=').expect("two parts");
    foreign::set(inherited);
    let runtime = Runtime::new().expect("a runtime");
    let node = runtime.open_with(DEVICE, Image::file(image).expect("an image"), options()).expect("a device");
    assert!(foreign::waits_for_children(the_machine()), "{inherited}");
    assert_eq!(node.sync(echo::with(1u64)).map_err(|e| e.to_string()), Ok(1));
    drop(node);
    until("the machine ends", || machines().is_empty());
}
