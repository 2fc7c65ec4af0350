//! `hamr serve`: a device for several commands, one after the other.

use super::{json, refused};
use crate::common::{hamr, image, signal, spawn, until};
use crate::run::checks;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

#[test]
fn a_device_serves_one_command_after_the_other() {
    let name = name("one");
    let at = format!("at:{name}");
    let mut served = spawn(&["serve", &name, "--json"]);
    let first: Value = serde_json::from_str(&served.hear(1)).expect("a line");
    assert_eq!((first["event"].as_str(), first["name"].as_str()), (Some("serving"), Some(&*name)));
    let mut pids = Vec::new();
    for epoch in 1..4 {
        let device = json(&hamr(&["devices", "--device", &at, "--json"]));
        assert_eq!(device["device"]["epoch"], epoch);
        pids.push(device["device"]["pid"].as_u64().expect("a process"));
    }
    assert!(pids.windows(2).all(|two| two[0] == two[1]), "{pids:?}");
    // The last host's number is in the window, and it is no host any more.
    let between = until("it waits for the next host", || {
        let all = json(&hamr(&["top", "--json"]));
        let row = all.as_array().expect("rows").iter().find(|row| row["name"] == *at).cloned();
        row.filter(|row| row["state"] == "no host")
    });
    assert!(between["host"].is_null() && between["device"] == pids[0], "{between}");
    let call =
        hamr(&["call", "axpy", "2", "[1, 2]", "[10, 20]", "--device", &at, "--image", &image().display().to_string()]);
    assert!(call.code == Some(0) && call.stdout.ends_with("y = [12.0, 24.0]\n"), "{call:?}");
    // Windows are shown under the device's name.
    let shown = json(&hamr(&["top", "--json"]));
    assert!(shown.as_array().expect("rows").iter().any(|row| row["name"] == *at), "{shown}");
    // While there is a host.
    let mut follower = spawn(&["logs", "--device", &at, "--follow"]);
    let heard = served.hear(1 + 2 * 4 + 1);
    assert!(heard.lines().last().is_some_and(|line| line.contains("\"attached\"")), "{heard}");
    let second = hamr(&["devices", "--device", &at]);
    refused(&second, &[&at, &format!("process {}", follower.id()), "a second one is refused"]);
    follower = follower.kill();
    drop(follower);
    refused(&hamr(&["serve", &name]), &["runs already", "--stop"]);
    let end = hamr(&["serve", &name, "--stop"]);
    assert_eq!((end.code, end.stdout.as_str(), end.stderr.as_str()), (Some(0), "", ""), "{end:?}");
    let served = served.wait();
    assert_eq!(served.code, Some(0), "{served:?}");
    assert!(served.stdout.contains("\"refused\"") && served.stdout.contains("\"left\""), "{served:?}");
    served.left_nothing();
    refused(&hamr(&["devices", "--device", &at]), &["found none of that name", "hamr serve"]);
}

#[test]
fn types_are_those_of_the_image_that_runs() {
    let name = name("types");
    let at = format!("at:{name}");
    let mut served = spawn(&["serve", &name, "--image", checks()]);
    served.hear(1);
    // This program does not link the handler.
    let call = hamr(&["call", "admit", "3", "--device", &at]);
    assert_eq!((call.code, call.stdout.as_str(), call.stderr.lines().count()), (Some(0), "3\n", 0), "{call:?}");
    refused(&hamr(&["call", "admit", "3", "--device", &at, "--module", "any"]), &["takes no image"]);
    assert_eq!(hamr(&["serve", &name, "--stop"]).code, Some(0));
    served.wait().left_nothing();
}

/// Such a device is attached before the buffers' lengths are known, and once more when they need a
/// larger heap.
#[test]
fn a_call_with_large_buffers_gets_a_larger_heap() {
    const LEN: usize = 65 << 20;
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("in"), vec![1u8; LEN]).expect("writes");
    let (from, save) = (format!("@{}", path("in")), format!("y={}", path("out")));
    let name = name("large");
    let at = format!("at:{name}");
    let mut served = spawn(&["serve", &name, "--json", "--option", "heap=80M"]);
    served.hear(1);
    let run = hamr(&["call", "demo::fill<u8>", "7", &from, "--save", &save, "--device", &at]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    let out = std::fs::read(path("out")).expect("written");
    assert!(out == vec![7; LEN]);
    let heard = served.hear(1 + 2 * 2);
    let attached: Vec<&str> = heard.lines().filter(|line| line.contains("\"attached\"")).collect();
    assert_eq!(attached.len(), 2, "{heard}");
    assert_eq!(hamr(&["serve", &name, "--stop"]).code, Some(0));
    served.wait().left_nothing();
}

#[test]
fn an_interrupt_ends_the_device_too() {
    for how in ["INT", "KILL"] {
        let name = name(how);
        let mut served = spawn(&["serve", &name]);
        assert!(served.hear(1).contains(&format!("--device at:{name}")));
        signal(served.id(), how);
        let served = served.wait();
        assert_eq!(served.code, None, "{served:?}");
        served.left_nothing();
    }
}

/// Names of sockets are those of a network namespace, while its window is found.
#[test]
fn a_device_of_another_network_namespace_is_called_so() {
    let unshare = |way: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(way).arg("--net").stdin(Stdio::null()).stderr(Stdio::null());
        command
    };
    let ways = [&[][..], &["--user", "--map-current-user"]];
    let is_allowed = |way: &&&[&str]| unshare(way).arg("true").status().is_ok_and(|status| status.success());
    let Some(way) = ways.iter().find(is_allowed) else {
        return eprintln!("skipped: this system lets nobody make a network namespace");
    };
    let name = name("space");
    let mut served = unshare(way);
    served.arg(env!("CARGO_BIN_EXE_hamr")).args(["serve", &name]).env("HAMR_IMAGE", image()).stdout(Stdio::piped());
    let mut served = served.spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(served.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    let there = hamr(&["devices", "--device", &format!("at:{name}")]);
    served.kill().expect("it runs");
    served.wait().expect("our own child");
    refused(&there, &["in another namespace", &format!("process {}", served.id())]);
}

/// Its user decides, and not the number of its process, of which its keeper's PID namespace has none.
#[test]
fn a_host_of_another_pid_namespace_is_served() {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child"]).stdin(Stdio::null());
        command
    };
    if !unshare().arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return eprintln!("skipped: a keeper of another PID namespace (needs root)");
    }
    let name = name("pids");
    let mut served = unshare();
    served.arg(env!("CARGO_BIN_EXE_hamr")).args(["serve", &name, "--json"]).env("HAMR_IMAGE", image());
    let mut served = served.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(served.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.next().is_some_and(|line| line.contains("\"serving\"")));
    let there = hamr(&["devices", "--device", &format!("at:{name}")]);
    let attached: Option<Value> = lines.next().and_then(|line| serde_json::from_str(&line).ok());
    let end = hamr(&["serve", &name, "--stop"]);
    let _ = served.kill();
    served.wait().expect("our own child");
    assert_eq!(there.code, Some(0), "{there:?}");
    assert_eq!(attached, Some(serde_json::json!({ "event": "attached", "process": null })));
    assert_eq!(end.code, Some(0), "{end:?}");
}

/// What a keeper has to tell is lost then; its device is not.
#[test]
fn a_reader_that_reads_nothing_holds_up_no_host() {
    let name = name("full");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut served = Command::new(env!("CARGO_BIN_EXE_hamr"));
    served.args(["serve", &name]).env("HAMR_IMAGE", image()).stdin(Stdio::null());
    let mut served = served.stdout(writer.try_clone().expect("a descriptor")).spawn().expect("it starts");
    let mut reader = BufReader::with_capacity(1, reader);
    reader.read_line(&mut String::new()).expect("a line");
    // It blocks when the pipe is full, and ends with the reader.
    std::thread::spawn(move || while std::io::Write::write_all(&mut &writer, &[0; 4096]).is_ok() {});
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..3 {
        let there = hamr(&["devices", "--device", &format!("at:{name}")]);
        assert_eq!(there.code, Some(0), "{there:?}");
    }
    let end = hamr(&["serve", &name, "--stop"]);
    drop(reader);
    let _ = served.kill();
    served.wait().expect("our own child");
    assert_eq!(end.code, Some(0), "{end:?}");
}

#[test]
fn what_cannot_be_served_is_one_clear_line() {
    refused(&hamr(&["serve", "a b"]), &["`a b`", "1 to 64"]);
    let none = hamr(&["serve", "name-of-none", "--stop"]);
    refused(&none, &["hamr: device at:name-of-none: expected a device", "found none of that name"]);
    refused(&hamr(&["serve", "looped", "--device", "loopback"]), &["expected shm or qemu"]);
    refused(&hamr(&["serve", "nothing", "--device", "toaster"]), &["`toaster`"]);
    refused(&hamr(&["devices", "--device", "at:"]), &["1 to 64"]);
}

/// As the only program of a container: a signal without a handler does nothing to process 1.
#[test]
fn the_first_process_ends_by_its_signals() {
    let unshare = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]).args(arguments).stdin(Stdio::null());
        command
    };
    if !unshare(&["true"]).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: process 1 (needs root)");
        return;
    }
    let name = name("first");
    let axpy = ["debug", "axpy", "2", "[1, 2]", "[10, 20]"];
    let listens = ["serve", &name, "--listen", "127.0.0.1:0"];
    let runtime = tempfile::tempdir().expect("a folder");
    for arguments in [&["serve", &name][..], &listens, &["logs", "--follow", "--level", "debug"], &axpy] {
        for (signal_name, number) in [("INT", 2), ("TERM", 15)] {
            let hamr = [&[env!("CARGO_BIN_EXE_hamr")], arguments].concat();
            let mut outer = unshare(&hamr);
            outer.env("HAMR_IMAGE", image()).env("XDG_RUNTIME_DIR", runtime.path()).stdout(Stdio::piped());
            let mut outer = outer.spawn().expect("starts");
            let mut line = String::new();
            BufReader::new(outer.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
            let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", outer.id())).expect("a list");
            let first: u32 = children.trim().parse().expect("one");
            signal(first, signal_name);
            let begin = Instant::now();
            let ended = loop {
                match outer.try_wait().expect("a child") {
                    None if begin.elapsed() < Duration::from_secs(10) => std::thread::sleep(Duration::from_millis(10)),
                    ended => break ended,
                }
            };
            if ended.is_none() {
                signal(first, "KILL");
            }
            let code = ended.and_then(|status| status.code());
            assert_eq!(code, Some(128 + number), "{arguments:?}, SIG{signal_name}");
        }
    }
}
