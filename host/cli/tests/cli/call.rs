//! `hamr call`: any handler of an image, from the command line.

use crate::common::{Run, hamr};
use crate::run::checks;
use crate::{json, refused};

fn call(arguments: &[&str]) -> Run {
    hamr(&[&["call"], arguments].concat())
}

/// Of the image with handlers that this program does not link.
fn check(arguments: &[&str]) -> Run {
    call(&[arguments, &["--image", checks()]].concat())
}

fn prints(run: &Run, text: &str) {
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(0), text, ""), "{run:?}");
    run.left_nothing();
}

#[test]
fn call_prints_the_value_and_changed_buffers() {
    prints(&call(&["axpy", "2", "[1, 2]", "[10, 20]"]), "()\ny = [12.0, 24.0]\n");
    prints(&call(&["dot_f64", "[1, 2, 3]", "[4, 5, -6]", "--device", "loopback"]), "-4.0\n");
    let shown = format!("()\ny = [{}… 20 elements]\n", "255, ".repeat(16));
    prints(&call(&["demo::fill<u8>", "0xFF", "[0; 20]"]), &shown);
    let value = json(&call(&["axpy", "0.5", "[4]", "[1]", "--json"]));
    assert_eq!(value, serde_json::json!({ "value": null, "buffers": { "y": [3.0] } }));
}

#[test]
fn call_takes_values_of_every_type() {
    for (handler, value, shown) in [
        ("echo<u8>", "0x_ff", "255"),
        ("echo<u128>", "340282366920938463463374607431768211455", "340282366920938463463374607431768211455"),
        ("echo<f32>", "-1.5e3", "-1500.0"),
        ("echo<f32>", "nan", "NaN"),
        ("echo<f32>", "-1_0.5", "-10.5"),
        ("echo<f32>", "-.5", "-0.5"),
        ("echo<f32>", "-inf", "-inf"),
        ("echo<f32>", "-NaN", "NaN"),
        ("echo<String<64>>", "-0x10", "\"-0x10\""),
        ("echo<bool>", "true", "true"),
        ("echo<char>", "ü", "'ü'"),
        ("echo<char>", "'\\''", "'\\''"),
        ("echo<Shape>", "Point", "Point"),
        ("echo<Shape>", "Circle(2.5)", "Circle(2.5)"),
        ("echo<Shape>", "Box{width: 1, height: 2, filled: true}", "Box { width: 1.0, height: 2.0, filled: true }"),
        ("echo<Shape>", "Box {1, 2, false}", "Box { width: 1.0, height: 2.0, filled: false }"),
        ("echo<Option<u64>>", "none", "None"),
        ("echo<Option<u64>>", "some(7)", "Some(7)"),
        ("echo<String<64>>", "plain text", "\"plain text\""),
        ("echo<Vec<Shape, 8>>", "[Point, Circle(1),]", "[Point, Circle(1.0)]"),
    ] {
        prints(&check(&[handler, value]), &format!("{shown}\n"));
    }
    // As any other number, in front of options or behind them.
    prints(&call(&["divide", "-0x10", "4"]), "-4\n");
    prints(&call(&["divide", "--device", "loopback", "-0x10", "-0x_4"]), "4\n");
    prints(&call(&["divide", "-16", "-0x4", "--device", "loopback"]), "4\n");
    prints(&call(&["divide", "--device", "loopback", "--", "-0x10", "4"]), "-4\n");
    // A task, whose gate is open.
    let run = check(&["wait_task_at", "[1; 32]", "9"]);
    assert_eq!((run.code, run.stdout.lines().next()), (Some(0), Some("9")), "{run:?}");
}

#[test]
fn call_reads_and_writes_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("in"), [5f64.to_le_bytes(), 6f64.to_le_bytes()].concat()).expect("writes");
    let run = call(&["axpy", "1", "[1, 0]", &format!("@{}", path("in")), "--save", &format!("y={}", path("out"))]);
    prints(&run, "()\ny = [6.0, 6.0]\n");
    let out = std::fs::read(path("out")).expect("written");
    assert_eq!(out, [6f64.to_le_bytes(), 6f64.to_le_bytes()].concat());
}

#[test]
fn call_without_a_handler_lists_them() {
    let run = call(&[]);
    let line = "hamr_kernels::faults::divide(a: i64, b: i64) -> Result<i64, DivideError>";
    assert!(run.code == Some(0) && run.stdout.lines().any(|l| l == line), "{run:?}");
    let all = json(&call(&["--json"]));
    let names = all.as_array().expect("rows").iter().filter_map(|row| row["name"].as_str());
    assert!(names.into_iter().any(|name| name == "hamr_kernels::demo::fill<f64>"), "{all}");
}

#[test]
fn every_bad_call_is_one_clear_line() {
    refused(&hamr(&["setup", "-0x10"]), &["-0", "hamr --help"]);
    let dir = tempfile::tempdir().expect("a folder");
    let odd = dir.path().join("odd").to_string_lossy().into_owned();
    std::fs::write(&odd, [0; 9]).expect("writes");
    let odd = format!("@{odd}");
    for (arguments, words) in [
        (&["nothing"][..], &["`nothing`", "hamr call"][..]),
        // Of another image.
        (&["empty"], &["`empty`", "hamr call"]),
        (&["fill", "1", "[0]"], &["one handler", "fill<f64>", "fill<u8>"]),
        (&["axpy", "1", "[2]"], &["3 values, got 2", "axpy(a: f64, x: BufferPtr<f64>, y: BufferPtr<f64>)"]),
        (&["isa", "3"], &["0 values, got 1"]),
        (&["axpy", "one", "[2]", "[3]"], &["value 1 (`a: f64`)", "a number", "`one`"]),
        (&["axpy", "1e999", "[2]", "[3]"], &["value 1 (`a: f64`)", "a number", "`1e999`"]),
        (&["fill<f32>", "1e39", "[0]"], &["value 1", "a number", "`1e39`"]),
        (&["axpy", "1", "2", "[3]"], &["value 2 (`x: BufferPtr<f64>`)", "a list", "@PATH", "`2`"]),
        (&["axpy", "1", "[2", "[3]"], &["`,`", "the end"]),
        (&["axpy", "1", "[2] 3", "[3]"], &["nothing behind", "`3`"]),
        (&["fill<u8>", "256", "[0]"], &["0 to 2^8 - 1", "`256`"]),
        (&["fill<u8>", "-1", "[0]"], &["0 to 2^8 - 1", "`-1`"]),
        (&["fill<u8>", "-0x1", "[0]"], &["0 to 2^8 - 1", "`-0x1`"]),
        (&["divide", "-0x10", "4", "--nothing"], &["--nothing", "hamr --help"]),
        (&["divide", "1", "4", "--save", "-0x1"], &["-0", "hamr --help"]),
        (&["divide", "-x10", "4"], &["-x", "hamr --help"]),
        (&["-0x10"], &["-0", "hamr --help"]),
        (&["isa", "--device", "loopback:x"], &["`loopback:x`", "takes no argument"]),
        (&["fill<u8>", "1", "[0; 99999999999]"], &["4 GiB", "99999999999"]),
        (&["divide", "1.5", "1"], &["-2^63 to 2^63 - 1", "`1.5`"]),
        (&["divide", "1", ""], &["value 2", "``"]),
        (&["echo_many", "[1, 2]"], &["100 elements", "got 2"]),
        (&["fill<u8>", "1", "@/no/such/file"], &["/no/such/file", "No such file"]),
        (&["fill<u64>", "1", &odd], &["8 bytes each", "9 bytes"]),
        (&["fill<u8>", "1", "[1]", "--save", "counter"], &["PARAMETER=FILE", "no `=`", "counter"]),
        (&["fill<u8>", "1", "[1]", "--save", "x=y"], &["`x`", "no buffer"]),
        (&["isa", "--device", "toaster"], &["toaster"]),
        (&["isa", "--image", "/no/such/image"], &["/no/such/image"]),
        (&["divide", "1", "0"], &["`hamr_kernels::faults::divide`", "ByZero { dividend: 1 }"]),
        (&["panics", "3"], &["`hamr_kernels::faults::panics` on device shm", "asked to panic with 3"]),
    ] {
        refused(&call(arguments), words);
    }
    for arguments in [&["debug", "isa", "--module", "m"][..], &["debug", "--module", "m", "--", "true"]] {
        refused(&hamr(arguments), &["--module", "loads no module"]);
    }
    refused(&check(&["echo<Shape>", "Triangle"]), &["one of Point, Circle(f64), Box{", "`Triangle`"]);
    refused(&check(&["echo<String<64>>", &"x".repeat(65)]), &["at most 64 bytes, got 65"]);
    refused(&check(&["echo<char>", "xy"]), &["one character", "`xy`"]);
    refused(&check(&["echo<bool>", "yes"]), &["true or false", "`yes`"]);
    refused(&check(&["echo<Option<u64>>", "7"]), &["`none` or `some(…)`", "`7`"]);
}
