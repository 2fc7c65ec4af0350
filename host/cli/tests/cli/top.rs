//! `hamr top`: a frame of what runs on this machine, and the screen.

use super::{json, refused};
use crate::common::{hamr, signal, spawn, until};
use serde_json::Value;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

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

/// A shell in a terminal that `script` makes. What appears is read until something is found.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    shown: Vec<u8>,
}

impl Terminal {
    fn new() -> Self {
        let mut script = Command::new("timeout")
            .args(["60", "script", "--quiet", "--return", "--command", "bash --norc --noediting -i", "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("util-linux has script");
        let (keys, screen) = (script.stdin.take().expect("piped"), script.stdout.take().expect("piped"));
        Self { script, keys, screen, shown: Vec::new() }
    }

    fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it reads");
    }

    /// All up to this text, which is read with it.
    fn until(&mut self, text: &str) -> String {
        let mut chunk = [0; 4096];
        loop {
            if let Some(at) = self.shown.windows(text.len()).position(|bytes| bytes == text.as_bytes()) {
                let before: Vec<u8> = self.shown.drain(..at + text.len()).collect();
                return String::from_utf8_lossy(&before).into_owned();
            }
            let read = self.screen.read(&mut chunk).expect("a pipe");
            assert!(read > 0, "it ended without {text:?}: {}", String::from_utf8_lossy(&self.shown));
            self.shown.extend(&chunk[..read]);
        }
    }

    /// Starts `hamr top` in it; its process.
    fn top(&mut self) -> u32 {
        let command = format!("sh -c 'echo process $$.; exec {} top --every 0.1'\n", env!("CARGO_BIN_EXE_hamr"));
        self.keys(&command);
        // Behind the command's echo.
        self.until("top --every 0.1'");
        self.until("process ");
        let pid = self.until(".").trim_end_matches('.').parse().expect("a number");
        self.until("q ends");
        pid
    }

    /// True if the terminal edits and shows lines.
    fn is_plain(&mut self) -> bool {
        self.keys("echo modes; stty -a; echo en\"\"ded\n");
        let text = self.until("ended\r\n");
        [" icanon", " echo "].iter().all(|mode| text.contains(mode))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.keys.write_all(b"exit\n");
        let _ = self.script.wait();
    }
}

const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

#[test]
fn the_screen_is_as_before_after_q() {
    let mut terminal = Terminal::new();
    terminal.top();
    // Another key only shows the next frame.
    terminal.keys("x");
    terminal.until("device");
    terminal.until("q ends");
    terminal.keys("q");
    terminal.until(LEAVE);
    assert!(terminal.is_plain());
}

#[test]
fn the_screen_is_as_before_after_a_signal() {
    let mut terminal = Terminal::new();
    for name in ["TERM", "HUP", "INT", "QUIT"] {
        let pid = terminal.top();
        signal(pid, name);
        terminal.until(LEAVE);
        assert!(terminal.is_plain(), "{name}");
    }
}

#[test]
fn the_screen_comes_back_when_a_stopped_command_goes_on() {
    let mut terminal = Terminal::new();
    let pid = terminal.top();
    signal(pid, "TSTP");
    terminal.until(LEAVE);
    assert!(terminal.is_plain(), "stopped");
    terminal.keys("fg\n");
    terminal.until("\u{1b}[?1049h");
    terminal.until("q ends");
    // Without a line's end.
    terminal.keys("q");
    terminal.until(LEAVE);
    assert!(terminal.is_plain(), "ended");
}
