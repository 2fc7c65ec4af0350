//! A short session with each machine as a user sees it, compared line by line with
//! `tests/golden/<machine>.txt`. Times, build ids, paths and hashes of source are masked; with
//! `HAMR_BLESS=1`, the files are rewritten.

use super::common::{Vectors, hamr};
use std::path::{Path, PathBuf};

/// The commands. Their output differs between machines only in the machines' own properties.
fn scenario(device: &str) -> String {
    let vectors = Vectors::new(20_011);
    let (a, b) = (vectors.path("a64"), vectors.path("b64"));
    let call = ["call", "axpy", "2", "[1, 2]", "[10, 20]"];
    let mut text = String::new();
    for command in [&["load", "hamr-demo"][..], &["handlers"], &call, &["dot", &a, &b], &["devices", device]] {
        let mut arguments = command.to_vec();
        if command[0] != "devices" {
            arguments.extend(["--device", device]);
        }
        if command[0] != "load" {
            // A typed name takes precedence over the image that the other tests load.
            arguments.extend(["--image", "hamr-demo"]);
        }
        let run = hamr(&arguments);
        assert_eq!(run.code, Some(0), "{arguments:?}: {run:?}");
        run.left_nothing();
        text.push_str(&format!("$ hamr {}\n", command.join(" ")));
        text.push_str(&run.stdout);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    let same = hamr(&["dot", &a, &b, "--device", "shm"]);
    let first = |out: &str| out.lines().next().map(str::to_owned);
    let dot = text.split("$ hamr dot ").nth(1).expect("it ran").split_once('\n').expect("more lines").1;
    assert_eq!(first(dot), first(&same.stdout), "the very bits that shared memory gives");
    mask(&text, &vectors.dir())
}

/// Masks everything that may differ between runs.
fn mask(text: &str, dir: &str) -> String {
    let is_hex = |word: &str| [16, 40].contains(&word.len()) && word.chars().all(|c| c.is_ascii_hexdigit());
    let mut masked = String::new();
    for line in text.replace(dir, "DIR").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut out: Vec<String> = Vec::new();
        for (i, word) in words.iter().enumerate() {
            let bare = word.trim_end_matches(',');
            let is_unit = ["ns", "µs", "ms", "s"].contains(&bare);
            if is_unit && i > 0 && words[i - 1].parse::<f64>().is_ok() {
                out.pop();
                out.push("TIME".into());
            } else if is_hex(bare) {
                out.push(if bare.len() == 40 { "BUILD".into() } else { "HASH".into() });
            } else if word.contains("/release/") {
                out.push("PATH".into());
            } else {
                out.push((*word).into());
            }
        }
        masked.push_str(&out.join(" "));
        masked.push('\n');
    }
    masked
}

fn compare(machine: &str) {
    let got = scenario(&format!("qemu:{machine}"));
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{machine}.txt"));
    if std::env::var_os("HAMR_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(&path, &got).expect("writes the golden file");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (expected, got)) in expected.lines().zip(got.lines()).enumerate() {
        assert_eq!(expected, got, "{}:{}", path.display(), number + 1);
    }
    assert_eq!(expected.lines().count(), got.lines().count(), "{}: other length, {got}", path.display());
}

#[test]
fn x86_64() {
    compare("x86_64");
}

#[test]
fn aarch64() {
    compare("aarch64");
}

#[test]
fn riscv64() {
    compare("riscv64");
}
