//! Commands with a time limit, and those that measure.

use super::*;
use crate::common::within;

/// How long the end of a process may take to be noticed.
const SOON: Duration = Duration::from_secs(1);

#[test]
fn bad_files_are_one_clear_line() {
    let v = Vectors::new(3);
    let good = v.path("a64");
    let elements = [0u8; 24];
    let long_header = [&b"\x93NUMPY\x02\x00\xff\xff\xff\xff"[..], &elements].concat();
    let whole = std::fs::read(&good).expect("just written");
    let cases: [(&str, String, &str); 17] = [
        ("empty", v.raw("empty", &[]), "zero bytes"),
        ("magic", v.raw("magic", b"PK\x03\x04 and so on"), "begins with"),
        ("half a magic", v.raw("half", &whole[..4]), "truncated"),
        ("half a header", v.raw("header", &whole[..30]), "truncated"),
        ("half the data", v.raw("data", &whole[..whole.len() - 5]), "truncated"),
        ("too much data", v.raw("more", &[&whole[..], &[0]].concat()), "longer than its shape"),
        ("4 GiB - 1", v.raw("long", &long_header), "4294967295"),
        ("noise", v.raw("noise", b"\x93NUMPY\x01\x00\x04\x00oops"), "Python dict"),
        ("version", v.raw("version", b"\x93NUMPY\x09\x00\x04\x00oops"), "version"),
        ("integers", v.write("i8", "'<i8'", "(3,)", &elements), "<f8 or <f4"),
        ("big-endian", v.write("be", "'>f8'", "(3,)", &elements), "big-endian"),
        ("matrix", v.write("2d", "'<f8'", "(1, 3)", &elements), "shape (1, 3)"),
        ("overflow", v.write("over", "'<f8'", "(4611686018427387904,)", &elements), "more than any file"),
        ("shorter", v.write("two", "'<f8'", "(2,)", &elements[..16]), "length"),
        ("other type", v.path("a32"), "element type"),
        ("missing", v.path("nothing-here"), "No such file"),
        ("directory", v.dir(), "directory"),
    ];
    for (name, bad, word) in &cases {
        for pair in [[bad, &good], [&good, bad]] {
            within(name, Duration::from_secs(2), || {
                let run = hamr(&["dot", pair[0], pair[1]]);
                refused(&run, &[word, bad.as_str()]);
                run.took
            });
        }
    }
    refused(&hamr(&["dot", "/dev/zero", &good]), &["/dev/zero", "device"]);
}

#[test]
fn the_demo_succeeds_within_its_limit() {
    let run = hamr(&[]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    run.left_nothing();
    let lines = run.stdout.lines().count();
    assert!((20..=45).contains(&lines), "{lines} lines: {}", run.stdout);
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{}", run.stdout);
    for word in ["dot_f64", "same bits", "faults.rs:", "host ready, device serving", "hamr dot A.npy"] {
        assert!(run.stdout.contains(word), "`{word}` in {}", run.stdout);
    }
    // The demo makes many empty calls, which take seconds where both sides share a processor.
    let mut took = Some(run.took);
    within("the demonstration", Duration::from_secs(5), || took.take().unwrap_or_else(|| hamr(&[]).took));
    let facts = json(&hamr(&["--json"]));
    assert!(facts["fault"]["text"].as_str().is_some_and(|t| t.contains("faults.rs:")), "{facts}");
    assert_eq!(hamr(&["--device", "loopback"]).code, Some(0));
}

#[test]
fn a_device_killed_in_a_call_is_named_with_its_handler_and_stage() {
    let vectors = Sparse::new();
    within("the end of the host", SOON, || {
        let host = spawn(&["dot", &vectors.path, &vectors.path]);
        let pid = host.id();
        let window = until("the device serves", || windows_of(pid).into_iter().find(|w| w.device_state == "serving"));
        // The stopped device leaves the next call without a reply.
        common::signal(window.device_pid, "STOP");
        until("a call is in flight", || {
            let dump = dump(&window.path).ok()?;
            dump.queues.iter().flat_map(|q| &q.slots).any(|s| s.state == "requested").then_some(())
        });
        let begin = Instant::now();
        common::signal(window.device_pid, "KILL");
        let run = host.wait();
        let took = begin.elapsed();
        refused(&run, &["device shm", "dot_f64_from", "waiting for the reply", "signal: 9"]);
        took
    });
}

#[test]
fn a_device_ends_with_its_host() {
    let vectors = Sparse::new();
    within("the end of the device", SOON, || {
        let host = spawn(&["dot", &vectors.path, &vectors.path]);
        let pid = host.id();
        let window = until("the device serves", || windows_of(pid).into_iter().find(|w| w.device_state == "serving"));
        let begin = Instant::now();
        let run = host.kill().wait();
        until("the device is gone", || {
            // A zombie still has a folder, but no program.
            std::fs::read_link(format!("/proc/{}/exe", window.device_pid)).is_err().then_some(())
        });
        let took = begin.elapsed();
        run.left_nothing();
        took
    });
}
