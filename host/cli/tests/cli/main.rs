//! The `hamr` binary as users run it: its output, its failures, and that it leaves nothing behind.

mod alone;
mod call;
#[path = "../common/mod.rs"]
mod common;
mod examples;
mod inputs;
mod keys;
mod modules;
mod run;
mod serve;
mod tcp;
mod top;

use common::{Run, Sparse, Vectors, hamr, image, spawn, until};
use hamr::inspect::{dump, windows_of};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What is tested.
const PROGRAM: &str = env!("CARGO_BIN_EXE_hamr");

fn refused(run: &Run, words: &[&str]) {
    run.was_refused("hamr", words);
}

fn json(run: &Run) -> Value {
    assert_eq!((run.code, run.stdout.lines().count()), (Some(0), 1), "{run:?}");
    run.left_nothing();
    serde_json::from_str(&run.stdout).expect("standard output is JSON")
}

#[test]
fn dot_has_the_bits_of_a_plain_loop() {
    // The last length is more than one block of the device's memory.
    for len in [1, 7, 1000, 3_000_001] {
        let v = Vectors::new(len);
        let f64s = json(&hamr(&["dot", &v.path("a64"), &v.path("b64"), "--json"]));
        let loop64 = v.a.iter().zip(&v.b).fold(0.0, |sum, (a, b)| sum + a * b);
        assert_eq!(f64s["value"].as_f64().map(f64::to_bits), Some(loop64.to_bits()), "{len} f64");
        assert_eq!(f64s["bytes"], 16 * len as u64);
        let f32s = json(&hamr(&["dot", &v.path("a32"), &v.path("b32"), "--json"]));
        let narrow = |x: &f64| f64::from(*x as f32);
        let loop32 = v.a.iter().zip(&v.b).fold(0.0, |sum, (a, b)| sum + narrow(a) * narrow(b));
        assert_eq!(f32s["value"].as_f64().map(f64::to_bits), Some(loop32.to_bits()), "{len} f32");
        assert_eq!((f32s["device"].as_str(), f32s["bytes"].as_u64()), (Some("shm"), Some(8 * len as u64)));
        for stage in ["open", "start", "read", "put", "call", "stop"] {
            assert!(f64s["stages_ns"][stage].as_u64().is_some_and(|ns| ns > 0), "{stage} of {f64s}");
        }
    }
}

#[test]
fn dot_in_text_begins_with_the_value() {
    let v = Vectors::new(3);
    let run = hamr(&["dot", &v.path("a64"), &v.path("b64"), "--device", "loopback"]);
    let value: f64 = run.stdout.lines().next().and_then(|l| l.parse().ok()).expect("a number");
    assert_eq!(value, v.a.iter().zip(&v.b).fold(0.0, |sum, (a, b)| sum + a * b));
    assert!(run.stdout.contains("48 B moved"), "{run:?}");
}

#[test]
fn an_empty_vector_is_zero_and_odd_sums_are_json() {
    let v = Vectors::new(0);
    assert_eq!(json(&hamr(&["dot", &v.path("a64"), &v.path("b64"), "--json"]))["value"], 0.0);
    let text = hamr(&["dot", &v.path("a32"), &v.path("b32")]);
    assert!(text.stdout.starts_with("0.0\n"), "{text:?}");
    let odd = v.write("odd", "'<f8'", "(1,)", &f64::INFINITY.to_le_bytes());
    let minus = v.write("minus", "'<f8'", "(1,)", &(-1.0f64).to_le_bytes());
    let nan = v.write("nan", "'<f8'", "(1,)", &f64::NAN.to_le_bytes());
    assert_eq!(json(&hamr(&["dot", &odd, &odd, "--json"]))["value"], "Infinity");
    assert_eq!(json(&hamr(&["dot", &odd, &minus, "--json"]))["value"], "-Infinity");
    assert_eq!(json(&hamr(&["dot", &odd, &nan, "--json"]))["value"], "NaN");
}

#[test]
fn bad_usage_is_one_clear_line() {
    let v = Vectors::new(3);
    let (a, b) = (v.path("a64"), v.path("b64"));
    refused(&hamr(&["dot", &a]), &["B.npy", "--help"]);
    refused(&hamr(&["dto", &a, &b]), &["'dto'", "--help"]);
    refused(&hamr(&["handlers", "--hots"]), &["'--hots' found; a similar", "--help"]);
    refused(&hamr(&["help", "options", "heap"]), &["no argument", "`heap`"]);
    refused(&hamr(&["devices", "--jsno"]), &["--jsno"]);
    refused(&hamr(&["--device", "toaster", "dot", &a, &b]), &["toaster", "loopback, pci, qemu, shm"]);
    refused(&hamr(&["devices", "--image", &a]), &[&a, "ELF"]);
    refused(&hamr(&["devices", "--image", "/nonexistent/image"]), &["/nonexistent/image"]);
    let own = env!("CARGO_BIN_EXE_hamr");
    refused(&hamr(&["devices", "--image", own]), &[own, "hamr_device_fw::image!()"]);
    refused(&hamr(&["image", "--device", "loopback"]), &["loopback", "no image"]);
    refused(&hamr(&["inspect", "4194304999"]), &["4194304999"]);
    refused(&hamr(&["inspect", "/nonexistent/window"]), &["/nonexistent/window"]);
    refused(&hamr(&["inspect", &a]), &["fewer than"]);
    refused(&hamr(&["devices", "--option", "heap=1T"]), &["--option", "heap", "K, M or G", "1T"]);
    refused(&hamr(&["devices", "--option", "haep=1"]), &["--option", "NAME=VALUE", "heap", "haep=1"]);
}

/// The command line goes before the environment.
#[test]
fn options_come_from_the_environment_too() {
    let run = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hamr"));
        command.args(arguments).envs(variables.iter().copied()).output().expect("the binary runs")
    };
    let device = |variables: &[(&str, &str)], arguments: &[&str]| {
        let output = run(variables, arguments);
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{output:?}");
        let all: Value = serde_json::from_slice(&output.stdout).expect("an object");
        (all["device"]["name"].as_str().map(str::to_owned), all["device"]["heap"].as_u64())
    };
    let variables = [("HAMR_DEVICE", "loopback"), ("HAMR_HEAP", "1M")];
    let found = |heap| (Some("loopback".into()), Some(heap));
    assert_eq!(device(&variables, &["devices", "--json"]), found(1 << 20));
    assert_eq!(device(&variables, &["devices", "--json", "--option", "heap=2M", "--wait", "spin"]), found(2 << 20));
    let typed = [("HAMR_DEVICE", "toaster"), ("HAMR_HEAP", "")];
    assert_eq!(device(&typed, &["devices", "--json", "--device", "loopback"]), found(64 << 20));
    for (name, value, words) in [
        ("HAMR_HEAP", "plenty", ["HAMR_HEAP", "K, M or G"]),
        ("HAMR_WAIT", "never", ["HAMR_WAIT", "adaptive"]),
        ("HAMR_DEVICE", "toaster", ["toaster", "loopback"]),
        ("HAMR_STREAMS", "0", ["Options::streams", "1 to 79"]),
    ] {
        let output = run(&[("HAMR_DEVICE", "loopback"), (name, value)], &["devices"]);
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{output:?}");
        assert!(words.iter().all(|word| line.contains(word)), "{words:?} in {line}");
    }
}

/// Wherever a command starts one, or several.
#[test]
fn a_device_gets_the_options_from_every_command_that_starts_it() {
    let demo = image().display().to_string();
    let heap = ["--json", "--option", "heap=2M"];
    let loaded = json(&hamr(&[&["load", &demo][..], &heap].concat()));
    assert_eq!(loaded["heap"], 2 << 20, "{loaded}");
    let started = json(&hamr(&[&["devices", "loopback", "shm"][..], &heap].concat()));
    let heaps: Vec<_> = started.as_array().expect("a list").iter().map(|device| device["heap"].as_u64()).collect();
    assert_eq!(heaps, [Some(2 << 20); 2]);
    for command in [&["load", &demo][..], &["devices", "shm", "shm"]] {
        let logged = hamr(&[command, &["--logs", "info"]].concat());
        assert!(logged.code == Some(0) && logged.stderr.contains("image starts as process"), "{logged:?}");
    }
}

/// By the variables that a program reads.
#[test]
fn a_program_that_is_debugged_gets_what_was_typed() {
    let demo = image().display().to_string();
    let options = ["--device", "loopback", "--image", &demo, "--option", "heap=2M", "--wait", "sleep", "--spin", "7"];
    let run = hamr(&[&["debug", "axpy"], &options[..], &["--", "env"]].concat());
    let image = format!("IMAGE={demo}");
    for set in ["DEBUG=axpy", "DEVICE=loopback", &image, "HEAP=2M", "WAIT=sleep", "SPIN=7us"] {
        assert!(run.stdout.lines().any(|line| line == format!("HAMR_{set}")), "{set} in {run:?}");
    }
    refused(&hamr(&["debug", "--image", "hamr-demo", "--", "env"]), &["expected a file", "--image hamr-demo"]);
}

#[test]
fn help_and_version_succeed() {
    for arguments in [&["--help"][..], &["dot", "--help"], &["--version"], &["help", "inspect"], &["help", "options"]] {
        let run = hamr(arguments);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
        assert!(!run.stdout.is_empty());
    }
}

#[test]
fn devices_handlers_and_image_print_their_lists() {
    let devices = json(&hamr(&["devices", "--json"]));
    assert!(devices["kinds"].as_array().is_some_and(|k| k.iter().any(|k| k["name"] == "shm")), "{devices}");
    assert!(devices["device"]["pid"].as_u64().is_some_and(|pid| pid > 0), "{devices}");
    assert_eq!((&devices["device"]["epoch"], &devices["device"]["link"]), (&1.into(), &"shm".into()));
    assert!(devices["windows"].as_array().is_some_and(|w| w.iter().any(|w| w["device_state"] == "serving")));
    let text = hamr(&["devices"]);
    assert!(text.stdout.contains("linux-process") && text.stdout.contains("LIVE WINDOWS"), "{text:?}");
    // The image has all that it is to have.
    assert!(!text.stdout.contains("  warning "), "{text:?}");
    let handlers = json(&hamr(&["handlers", "--json"]));
    let rows = handlers["handlers"].as_array().expect("a list");
    // The device has each handler of this program's table.
    assert_eq!(rows.len() as u64, devices["device"]["handlers"].as_u64().expect("a number"));
    let dot = rows.iter().find(|h| h["name"] == "hamr_kernels::demo::dot_f64").expect("the image has it");
    assert_eq!((&dot["host"], &dot["flags"][0], &dot["has_body"]), (&"same".into(), &"inline".into(), &true.into()));
    let path = hamr(&["image"]);
    assert_eq!(path.stdout.lines().count(), 1, "{path:?}");
    assert_eq!(Path::new(path.stdout.trim_end()), image());
}

#[test]
fn several_devices_are_started_at_once() {
    let list = json(&hamr(&["devices", "shm", "loopback", "shm", "--json"]));
    let names: Vec<&Value> = list.as_array().expect("a list").iter().map(|d| &d["name"]).collect();
    assert_eq!(names, ["shm", "loopback", "shm"]);
    assert!(
        list.as_array().is_some_and(|l| l.iter().all(|d| d["start_ms"].as_f64().is_some_and(|t| t > 0.0))),
        "{list}"
    );
    let table = hamr(&["devices", "loopback", "shm"]);
    assert_eq!(table.stdout.lines().count(), 3, "{table:?}");
    assert!(table.stdout.lines().all(|line| line.contains("BUILD ID") || line.contains("x86_64")), "{table:?}");
    table.left_nothing();
    refused(&hamr(&["devices", "shm", "toaster"]), &["toaster", "shm"]);
    refused(&hamr(&["devices", "shm", "--device", "loopback"]), &["--device loopback", "got both"]);
    refused(&hamr(&["devices", "shm", "shm:/nonexistent/window"]), &["/nonexistent/window"]);
}

#[test]
fn an_image_is_loaded_into_the_device_it_is_made_for() {
    let path = image().display().to_string();
    let loaded = json(&hamr(&["load", &path, "--json"]));
    assert_eq!((&loaded["name"], &loaded["image"]), (&"shm".into(), &path.as_str().into()));
    assert!(["ping_ns", "start_ms"].iter().all(|key| loaded[key].as_f64().is_some_and(|t| t > 0.0)), "{loaded}");
    let text = hamr(&["load", &path]);
    assert!(text.stdout.starts_with("DEVICE shm\n") && text.stdout.contains("\n  ping "), "{text:?}");
    text.left_nothing();
    refused(&hamr(&["load", &path, "--device", "qemu:riscv64"]), &[&path, "a bare-metal image", "a hosted one"]);
    refused(&hamr(&["load", &path, "--device", "loopback"]), &["loopback", "no image"]);
    refused(&hamr(&["load", &path, "--image", "other"]), &["one image", "other"]);
    refused(&hamr(&["load", "/bin/true"]), &["/bin/true", "hamr_device_fw::image!()"]);
    refused(&hamr(&["load", "/nonexistent/image"]), &["/nonexistent/image"]);
    refused(&hamr(&["load"]), &["NAME|PATH", "--help"]);
}

#[test]
fn flags_of_the_environment_do_not_reach_an_image() {
    // The compiler would refuse this flag.
    let flag = "-Cno-such-option=1";
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_hamr"))
        .args(["image"])
        .env("RUSTFLAGS", flag)
        .env("CARGO_ENCODED_RUSTFLAGS", flag)
        .env("CARGO_BUILD_RUSTFLAGS", flag)
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", flag)
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(Path::new(String::from_utf8_lossy(&output.stdout).trim_end()), image());
}

/// A compiler without any further target, in a folder of its own.
fn bare_compiler(dir: &Path) -> std::path::PathBuf {
    let rustc = dir.join("rustc");
    std::fs::write(&rustc, "#!/bin/sh\necho /nonexistent/lib\n").expect("room for a script");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&rustc, mode).expect("just written");
    rustc
}

fn is_target_missing(output: &std::process::Output) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{message}");
    let parts = ["rustup target add aarch64-unknown-none", "cargo xtask setup"];
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
}

#[test]
fn a_target_that_is_not_installed_is_one_clear_line() {
    // The path lacks the linker of a distribution's compiler, which would be used instead.
    let dir = tempfile::tempdir().expect("a temporary folder");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_hamr"))
        .args(["image", "hamr-demo", "--device", "qemu:aarch64"])
        .env("RUSTC", bare_compiler(dir.path()))
        .env("PATH", dir.path())
        .output()
        .expect("the binary runs");
    is_target_missing(&output);
}

#[test]
fn a_target_that_is_not_installed_is_built_by_the_distributions_compiler() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_hamr"))
        .args(["image", "hamr-demo", "--device", "qemu:aarch64"])
        .env("RUSTC", bare_compiler(dir.path()))
        // A folder beside the output of the usual compiler, which would be rebuilt otherwise.
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("distribution"))
        .output()
        .expect("the binary runs");
    let compiler = std::process::Command::new("/usr/bin/rustc").arg("--version").output();
    let source = Path::new("/usr/lib/rustlib/src/rust/library/core/Cargo.toml");
    if source.is_file() && compiler.is_ok_and(|c| *String::from_utf8_lossy(&c.stdout) >= *"rustc 1.95") {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let path = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        let image = hamr::ImageFile::open(Path::new(&path)).expect("an image");
        assert!((image.isa.name(), image.build_id.to_hex().len()) == ("aarch64", 40), "{image:?}");
    } else {
        is_target_missing(&output);
    }
}

#[test]
fn a_closed_standard_output_is_no_failure() {
    // The reading end of the pipe is closed before any byte is written.
    for arguments in [&["handlers"][..], &["handlers", "--json"], &["--help"], &[]] {
        let run = spawn(arguments).close_stdout().wait();
        assert!(run.stderr.is_empty() && run.code == Some(0), "{run:?}");
        run.left_nothing();
    }
}

#[test]
fn a_live_window_is_shown_and_a_second_host_is_refused() {
    let vectors = Sparse::new();
    let host = spawn(&["dot", &vectors.path, &vectors.path]);
    let pid = host.id();
    let window = until("the device serves", || windows_of(pid).into_iter().find(|w| w.device_state == "serving"));
    let path = window.path.display().to_string();
    let shown = json(&hamr(&["inspect", &pid.to_string(), "--json"]));
    assert_eq!((&shown["device"]["state"], &shown["preamble"]["host_pid"]), (&"serving".into(), &pid.into()));
    assert_eq!(shown["problems"].as_array().map(Vec::len), Some(0), "{shown}");
    let text = hamr(&["inspect", &path]);
    assert!(text.stdout.contains("host       ready") && text.stdout.contains("dot_f64"), "{text:?}");
    let second = hamr(&["--device", &format!("shm:{path}"), "devices"]);
    refused(&second, &["already has a host", &pid.to_string()]);
    let run = host.kill().wait();
    run.left_nothing();
}

#[test]
fn a_copied_window_is_shown() {
    let vectors = Sparse::new();
    let host = spawn(&["dot", &vectors.path, &vectors.path]);
    let window = until("the device serves", || windows_of(host.id()).into_iter().find(|w| w.device_state == "serving"));
    let copy = vectors.beside("window");
    std::fs::copy(&window.path, &copy).expect("a window can be read");
    host.kill().wait().left_nothing();
    let shown = json(&hamr(&["inspect", &copy, "--json"]));
    assert_eq!((&shown["device"]["state"], &shown["stepped"]["alive"]), (&"serving".into(), &0.into()));
    let list = hamr(&["inspect"]);
    assert_eq!(list.code, Some(0), "{list:?}");
}

/// The second column of a line of `logs`, in seconds.
fn time_in(line: &str) -> f64 {
    let mut words = line.strip_prefix("shm  ").unwrap_or_else(|| panic!("{line}")).split_whitespace();
    let time = words.next().filter(|time| time.split_once('.').is_some_and(|(_, micros)| micros.len() == 6));
    time.and_then(|time| time.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// Device time starts when the image starts.
fn has_times(lines: &[&str], since_before: Instant) {
    let times: Vec<f64> = lines.iter().map(|line| time_in(line)).collect();
    assert!(times.is_sorted() && times.iter().all(|time| *time < since_before.elapsed().as_secs_f64()), "{lines:?}");
}

#[test]
fn logs_are_lines_with_time_level_module_message_and_place() {
    let begin = Instant::now();
    let run = hamr(&["logs"]);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!((run.code, run.stderr.as_str(), lines.len()), (Some(0), "", 3), "{run:?}");
    let (first, last) = (lines[0], lines[2]);
    has_times(&lines, begin);
    assert!(first.contains("  INFO   hamr_device_fw::") && first.contains("image starts"), "{first}");
    assert!(last.contains("serving") && last.contains("  device-fw/src/device.rs:"), "{last}");
    run.left_nothing();
    let run = hamr(&["logs", "--level", "debug", "--json"]);
    let lines: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let levels: Vec<&str> = lines.iter().filter_map(|line| line["level"].as_str()).collect();
    assert_eq!(levels, ["info", "info", "debug", "info"], "{run:?}");
    let fields = ["time_us", "module", "message", "file", "line", "device", "node"];
    assert!(lines.iter().all(|line| fields.iter().all(|field| !line[field].is_null())), "{run:?}");
}

#[test]
fn logs_are_followed_until_the_device_ends() {
    let host = spawn(&["logs", "--follow"]);
    let pid = host.id();
    let window = until("the device serves", || windows_of(pid).into_iter().find(|w| w.device_state == "serving"));
    until("the start was read", || dump(&window.path).ok()?.log.is_some_and(|l| l.consumed == l.written).then_some(()));
    common::signal(window.device_pid, "KILL");
    let run = host.wait();
    assert_eq!((run.code, run.stdout.lines().count()), (Some(2), 3), "{run:?}");
    assert!(run.stderr.starts_with("hamr: device shm is gone") && run.stderr.contains("signal: 9"), "{run:?}");
    run.left_nothing();
}

/// The messages of a run of `logs --json`.
fn messages(run: &Run) -> Vec<String> {
    let lines = run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn logs_of_another_programs_device_are_read_beside_it() {
    let begin = Instant::now();
    let mut owner = spawn(&["logs", "--follow", "--json"]);
    let pid = owner.id().to_string();
    let window =
        until("the device serves", || windows_of(owner.id()).into_iter().find(|w| w.device_state == "serving"));
    let path = window.path.display().to_string();
    let device = format!("shm:{path}");
    let mut observer = spawn(&["logs", &pid, "--follow", "--json"]);
    for arguments in [&["logs", &pid][..], &["logs", &path], &["logs", "--device", &device]] {
        let run = hamr(arguments);
        assert_eq!((run.code, run.stderr.as_str(), run.stdout.lines().count()), (Some(0), "", 3), "{run:?}");
        has_times(&run.stdout.lines().collect::<Vec<_>>(), begin);
        assert!(run.stdout.contains("serving"), "{run:?}");
    }
    let errors = hamr(&["logs", &pid, "--level", "error"]);
    assert_eq!((errors.code, errors.stdout.as_str(), errors.stderr.as_str()), (Some(0), "", ""));
    let more = hamr(&["logs", &pid, "--level", "debug"]);
    assert!(
        more.stderr.contains("its owner asks for lines of level info") && more.stderr.lines().count() == 1,
        "{more:?}"
    );
    assert!(more.code == Some(0) && more.stdout.contains("accepted the offer"), "{more:?}");
    refused(&hamr(&["logs", &pid, "--device", &device]), &["both", &pid]);
    // Both have read everything. The observer ends with the owner, which is no failure.
    owner.hear(3);
    observer.hear(3);
    let owner = owner.kill().wait();
    let observer = observer.wait();
    assert_eq!((observer.code, observer.stderr.as_str()), (Some(0), ""), "{observer:?}");
    assert_eq!(messages(&observer), messages(&owner));
    assert_eq!(messages(&owner).len(), 3);
    observer.left_nothing();
    refused(&hamr(&["logs", &pid]), &["no process", &pid]);
}

#[test]
fn logs_of_a_window_need_the_file_of_the_image_that_runs() {
    let owner = spawn(&["logs", "--follow"]);
    let pid = owner.id().to_string();
    let window =
        until("the device serves", || windows_of(owner.id()).into_iter().find(|w| w.device_state == "serving"));
    let id = dump(&window.path).expect("a window").device.build_id.to_hex();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let name = |name: &str| dir.path().join(name).display().to_string();
    // The same image with another build id.
    let mut bytes = std::fs::read(image()).expect("the demo image");
    let raw: Vec<u8> = (0..20).map(|i| u8::from_str_radix(&id[2 * i..2 * i + 2], 16).expect("hexadecimal")).collect();
    let places: Vec<usize> = (0..bytes.len() - 20).filter(|at| bytes[*at..*at + 20] == raw[..]).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    std::fs::write(name("other"), bytes).expect("room");
    std::fs::copy(&window.path, name("copy")).expect("a window can be read");
    for window in [&pid, &name("copy")] {
        refused(&hamr(&["logs", window, "--image", &name("other")]), &[&id, &name("other"), "logs are refused"]);
    }
    owner.kill().wait().left_nothing();
    refused(&hamr(&["logs", &name("copy")]), &["--image FILE", &id]);
    let image = image().display().to_string();
    // A copy gets no further lines.
    let run = hamr(&["logs", &name("copy"), "--follow", "--image", &image]);
    assert_eq!((run.code, run.stderr.as_str(), run.stdout.lines().count()), (Some(0), "", 3), "{run:?}");
    refused(&hamr(&["logs", "/nonexistent/window"]), &["/nonexistent/window"]);
    refused(&hamr(&["logs", &image]), &["expected"]);
}

#[test]
fn logs_beside_another_command_go_to_standard_error() {
    let image = image().display().to_string();
    let begin = Instant::now();
    let run = hamr(&["load", &image, "--logs", "debug"]);
    assert!(run.code == Some(0) && run.stdout.starts_with("DEVICE shm"), "{run:?}");
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert!(lines.len() >= 4, "{run:?}");
    has_times(&lines, begin);
    assert!(lines.iter().any(|line| line.contains("DEBUG")), "{run:?}");
    run.left_nothing();
}

#[test]
fn unavailable_logs_are_one_clear_line() {
    refused(&hamr(&["logs", "--device", "loopback"]), &["device loopback", "an image that logs"]);
    refused(&hamr(&["logs", "--level", "loud"]), &["--level", "error, warn, info, debug, trace"]);
}

#[test]
fn the_last_lines_of_a_live_device_are_shown() {
    let host = spawn(&["logs", "--follow"]);
    let pid = host.id();
    until("the device serves", || windows_of(pid).into_iter().find(|w| w.device_state == "serving"));
    let pid = pid.to_string();
    let shown = json(&hamr(&["inspect", &pid, "--lines", "1", "--json"]));
    let lines = shown["lines"].as_array().expect("decoded with the file that the process runs");
    assert!(lines.len() == 1 && lines[0]["message"].as_str().is_some_and(|m| m.contains("serving")), "{shown}");
    let text = hamr(&["inspect", &pid, "--image", &image().display().to_string()]);
    assert!(text.stdout.contains("image starts") && text.stdout.contains("device-fw/src/device.rs:"), "{text:?}");
    host.kill().wait().left_nothing();
}
