//! `cargo xtask instructions`: the number of instructions that an empty call costs each side,
//! counted by callgrind through `hamr-bench`, and compared with a limit; and what they do not show ([`pairs`]).
//! Times on a shared machine vary by more than one careless line costs; instruction counts do not vary.

mod pairs;

use crate::test::Outcome;
use crate::{Error, child, no_arguments, root};
use std::path::PathBuf;
use std::time::Duration;

/// Limits of instructions per empty call, by their names in the JSON line: `sync` on the host, or
/// `start` and `wait`; `sync` of one of two threads; the device in its serve loop. Those of `sync` and
/// of the device are the goals of `docs/performance.md`, the other is the present count and a little
/// more, so that a careless line fails.
const LIMITS: [(&str, f64); 4] =
    [("host", 40.0), ("host_in_halves", 110.0), ("threads_2", 40.0), ("device_side", 65.0)];

/// The same of rows of calls and puts in two lines, of the heap, which no look at each of its 8,192 holes passes, of
/// messages in the ring, of rounds over idle streams, of tasks, and of messages between ranks, by their names among the
/// counts.
const COUNT_LIMITS: [(&str, f64); 18] = [
    ("host_112b", 78.0),
    ("device_112b", 207.0),
    ("host_put_sync", 147.0),
    ("host_put_8b", 83.0),
    ("host_get_8b", 83.0),
    ("host_heap", 2000.0),
    ("host_heap_4k", 1400.0),
    ("device_ring", 258.0),
    ("device_one_way", 261.0),
    ("device_idle", 170.0),
    ("device_idle_64", 925.0),
    ("device_task", 975.0),
    ("device_turn", 650.0),
    ("device_waiting", 260.0),
    ("device_host_call", 1545.0),
    ("gas_request", 73.0),
    ("gas_serve", 200.0),
    ("gas_collect", 150.0),
];

/// Measures; prints one line of JSON.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    match step() {
        Outcome::Passed(_) => Ok(()),
        Outcome::Skipped(why) => {
            println!("skipped: {why}");
            Ok(())
        }
        Outcome::Failed(why) => Err(Error::Failed(why)),
    }
}

/// The same as a step of `cargo xtask test`.
pub(crate) fn step() -> Outcome {
    if !child::is_installed("valgrind") {
        return Outcome::missing("valgrind", "apt-get install valgrind");
    }
    Outcome::noted(measure())
}

fn measure() -> Result<String, Error> {
    let mut bench = child::cargo();
    bench.args(["run", "--quiet", "--release", "--package", "hamr-bench", "--"]);
    bench.args(["rows", "--json", "--only", "instructions_call_empty"]);
    let output = child::capture(&mut bench, Duration::from_secs(2400))?;
    let line = output.trim().to_string();
    println!("{line}");
    judge(&line)?;
    // Of another processor the disassembly is another one.
    if cfg!(target_arch = "x86_64") && ["nm", "objdump"].into_iter().all(child::is_installed) {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        pairs::check(&target.join("release/hamr-bench"))?;
    }
    Ok(line)
}

fn judge(line: &str) -> Result<(), Error> {
    let row: serde_json::Value =
        serde_json::from_str(line).map_err(|e| Error::Failed(format!("expected a JSON line, got `{line}`: {e}")))?;
    let sides = LIMITS.map(|(side, limit)| (side, limit, &row[side]));
    let counts = COUNT_LIMITS.map(|(name, limit)| (name, limit, &row["counts"][name]));
    for (what, limit, count) in sides.into_iter().chain(counts) {
        match count.as_f64() {
            // Zero would pass every limit; it means that callgrind counted nothing.
            Some(count) if count > 0.0 && count <= limit => {}
            count => return Err(Error::Failed(format!("{what}: expected 1 to {limit} instructions, got {count:?}"))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn too_many_none_and_garbage_fail() {
        let all_counts = |sync, halves, threads, device, task, gas, heap| {
            judge(&format!(
                r#"{{"host":{sync},"host_in_halves":{halves},"threads_2":{threads},"device_side":{device},
                "counts":{{"device_task":{task},"device_turn":500,"device_waiting":200,"device_host_call":1000,
                "host_112b":70,"device_112b":200,"host_put_sync":140,
                "device_ring":240,"device_one_way":240,"device_idle":160,"device_idle_64":900,
                "host_put_8b":79,"host_get_8b":79,"host_heap":{heap},"host_heap_4k":1000,
                "gas_request":70,"gas_serve":{gas},"gas_collect":150}}}}"#
            ))
        };
        let counts = |sync, halves, threads, device, task| all_counts(sync, halves, threads, device, task, 190, 1000);
        assert!(counts(33, 100, 33, 50, 950).is_ok());
        assert!(all_counts(33, 100, 33, 50, 950, 430, 1000).is_err());
        assert!(all_counts(33, 100, 33, 50, 950, 190, 40000).is_err());
        assert!(counts(330, 100, 33, 50, 950).is_err());
        assert!(counts(33, 1000, 33, 50, 950).is_err());
        assert!(counts(33, 100, 330, 50, 950).is_err());
        assert!(counts(33, 100, 33, 500, 950).is_err());
        assert!(counts(0, 100, 33, 50, 950).is_err());
        assert!(counts(33, 100, 33, 50, 10000).is_err());
        assert!(counts(33, 100, 33, 50, 0).is_err());
        assert!(judge(r#"{"host":100,"device_side":50}"#).is_err());
        assert!(judge("nothing").is_err());
    }
}
