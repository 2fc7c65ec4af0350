//! `hamr top`: a frame of what runs on this machine, and the screen.

use super::{json, refused};
use crate::common::{hamr, spawn, until};
use serde_json::Value;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// The row of a process's device.
fn row(of: u32) -> Option<Value> {
    let all = json(&hamr(&["top", "--json"]));
    all.as_array().expect("rows").iter().find(|row| row["host"] == of).cloned()
}

#[test]
fn a_frame_shows_devices_and_their_logs() {
    let running = spawn(&["logs", "--follow"]);
    let host = running.id();
    let found = until("its device serves", || {
        row(host).filter(|row| row["state"] == "serving" && row["calls_per_s"].is_number())
    });
    assert_eq!(
        (found["name"].as_str(), found["epoch"].as_u64(), found["faults"].as_u64()),
        (Some("shm"), Some(1), Some(0))
    );
    assert!(found["in_flight"].is_number(), "{found}");
    let text = hamr(&["top", "--once"]);
    assert_eq!(text.code, Some(0), "{text:?}");
    let line = text.stdout.lines().find(|line| line.contains(&host.to_string())).expect("its row");
    assert!(line.starts_with("shm ") && line.contains("serving"), "{line}");
    assert!(text.stdout.contains("CALLS/S") && text.stdout.contains("\nLOG\n"), "{text:?}");
    assert!(text.stdout.contains("shm: ") && text.stdout.contains("image starts as process"), "{text:?}");
    assert!(text.stdout.lines().all(|line| line.chars().count() <= 120 && !line.contains('\u{1b}')), "{text:?}");
    running.kill().wait().left_nothing();
    assert!(row(host).is_none(), "it has ended");
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    refused(&hamr(&["top"]), &["top --once"]);
    refused(&hamr(&["top", "--every", "0"]), &["0.05 to 3600"]);
}

/// In a terminal that `script` makes.
#[test]
fn the_screen_is_as_before_after_q() {
    let command = format!("{} top --every 0.1", env!("CARGO_BIN_EXE_hamr"));
    let mut terminal = Command::new("timeout")
        .args(["60", "script", "--quiet", "--return", "--command", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("util-linux has script");
    let (mut keys, mut screen) = (terminal.stdin.take().expect("piped"), terminal.stdout.take().expect("piped"));
    let mut shown = Vec::new();
    let mut chunk = [0; 4096];
    // Two frames at least.
    while shown.windows(6).filter(|bytes| bytes == b"q ends").count() < 2 {
        let read = screen.read(&mut chunk).expect("a pipe");
        assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&shown));
        shown.extend(&chunk[..read]);
    }
    keys.write_all(b"xq").expect("it reads");
    screen.read_to_end(&mut shown).expect("a pipe");
    let text = String::from_utf8_lossy(&shown);
    assert!(terminal.wait().expect("our own child").success(), "{text}");
    for part in ["\u{1b}[?1049h", "device", "\u{1b}[?25h\u{1b}[?1049l"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    assert!(text.rfind("\u{1b}[?1049l") > text.rfind("q ends"), "{text}");
}
