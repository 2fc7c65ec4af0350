//! Instructions per call, counted by callgrind: the only number that does not vary between runs.
//!
//! This program runs itself under callgrind twice, with two numbers of calls; the difference is free of start-up.

use super::callgrind::between;
use super::instructions::VARIABLE;
use super::rows::INSTRUCTIONS;
use super::{BoxError, callgrind};
use std::io::Write;

/// Goals of an empty call: `sync` on the host, the serve loop on the device.
const GOALS: [f64; 2] = [40.0, 65.0];
const FEW: u64 = 1024;
const MANY: u64 = 2048;
/// The counted functions, and the description of each in the report.
const COUNTED: [(&str, &str); 44] = [
    ("host_submit", "start(empty)"),
    ("host_take", "its wait"),
    ("device_poll", "device, empty call found by one poll"),
    ("host_sync", "sync(empty), reply found by the first poll"),
    ("device_again", "device, one more empty call"),
    ("host_32b", "sync(32 B -> 8 B)"),
    ("device_32b", "device, 32 B -> 8 B"),
    ("host_112b", "sync(112 B -> 8 B)"),
    ("device_112b", "device, 112 B -> 8 B"),
    ("host_512b", "sync(vector of 512 B -> 8 B)"),
    ("device_512b", "device, vector of 512 B -> 8 B"),
    ("host_offload_512b", "offload(vector of 512 B -> 8 B)"),
    ("device_ring_512b", "device, one of these in the ring"),
    ("host_pointers", "sync(scalar, two pointers -> 4 B)"),
    ("device_pointers", "device, scalar, two pointers -> 4 B"),
    ("host_put_sync", "put_sync(64 B, notice(buffer))"),
    ("device_put_sync", "device, 64 B and notice(buffer)"),
    ("host_put", "put of 64 B"),
    ("host_put_8b", "put of 8 B"),
    ("host_get_8b", "get of 8 B"),
    ("host_heap", "allocate and drop of 64 B among 8,192 holes of the heap"),
    ("host_heap_4k", "the same of 4 KiB, which no hole has"),
    ("host_notify", "sync(notice(buffer))"),
    ("device_notify", "device, notice(buffer)"),
    ("host_shared", "SharedStream::sync(empty)"),
    ("threads_2", "sync(empty) of two threads at once"),
    ("host_offload", "offload(empty)"),
    ("host_get", "its wait"),
    ("device_ring", "device, one message of the ring"),
    ("host_send", "send(empty)"),
    ("device_one_way", "device, one one-way message"),
    ("host_send_batch", "send(empty), one of 16"),
    ("device_batch", "device, one of 16 one-way messages"),
    ("device_idle", "device, an idle round"),
    ("device_serve", "device, empty call in the serve loop"),
    ("device_serve_32b", "device, 32 B -> 8 B in the serve loop"),
    ("device_idle_64", "device, an idle round over 64 streams"),
    ("device_task", "device, an empty task"),
    ("device_turn", "device, a turn of a task that yields"),
    ("device_waiting", "device, a round while a task waits for the host"),
    ("device_host_call", "device, the host's reply, and the next call to it"),
    ("gas_request", "request_short to a rank"),
    ("gas_serve", "that rank's poll, and its reply"),
    ("gas_collect", "the poll that finds the reply"),
];
/// Instructions per call of each of [`COUNTED`].
struct Counts(Vec<f64>);

impl Counts {
    fn of(&self, function: &str) -> f64 {
        COUNTED.iter().zip(&self.0).find(|((name, _), _)| *name == function).map_or(0.0, |(_, count)| *count)
    }

    /// One empty call by `sync`.
    fn host(&self) -> f64 {
        self.of("host_sync")
    }

    /// One empty call by `start` and `wait`.
    fn host_in_halves(&self) -> f64 {
        self.of("host_submit") + self.of("host_take")
    }

    /// One empty call by `sync` of one of two threads.
    fn of_two_threads(&self) -> f64 {
        self.of("threads_2")
    }

    /// A short request and its reply: the side that asks, and the one that answers.
    fn gas(&self) -> [f64; 2] {
        [self.of("gas_request") + self.of("gas_collect"), self.of("gas_serve")]
    }

    /// One call in the serve loop.
    fn device(&self) -> f64 {
        self.of("device_serve")
    }

    /// Function, description and count of each row.
    fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, f64)> {
        COUNTED.iter().zip(&self.0).map(|((name, about), count)| (*name, *about, *count))
    }
}

/// Counts; where callgrind is missing, the reason.
fn count() -> Result<Result<Counts, String>, BoxError> {
    if !callgrind::is_installed() {
        return Ok(Err("valgrind is not installed (`apt-get install valgrind`)".into()));
    }
    let run = |calls: u64| callgrind::profile(VARIABLE, &calls.to_string());
    let (few, many) = (run(FEW)?, run(MANY)?);
    let per_call = |(function, _): &(&str, &str)| {
        let inside = |profile: &str| {
            inclusive(profile, function).ok_or_else(|| format!("callgrind gave no count for {function}"))
        };
        Ok((inside(&many)? - inside(&few)?) as f64 / (MANY - FEW) as f64)
    };
    Ok(Ok(Counts(COUNTED.iter().map(per_call).collect::<Result<_, BoxError>>()?)))
}

/// Instructions inside of `function`, all calls together; of a poll, those that a function of
/// [`COUNTED`] makes.
fn inclusive(profile: &str, function: &str) -> Option<u64> {
    match function {
        "device_poll" => between(profile, "counted_run", function),
        "device_serve" | "device_serve_32b" => {
            let sent = if function == "device_serve" { "empty_again" } else { "sum_again" };
            Some(between(profile, "counted_run", function)? - between(profile, "thunk", sent)?)
        }
        "device_task" | "device_turn" | "device_waiting" | "device_host_call" => {
            between(profile, "tasks_counted", function)
        }
        poll if poll.starts_with("device_") => between(profile, poll, "device_poll"),
        "threads_2" => between(profile, "threads_counted", "host_sync"),
        gas if gas.starts_with("gas_") => between(profile, "gas_counted", gas),
        host => between(profile, "counted_run", host),
    }
}

/// Prints the row, as text or JSON.
pub(super) fn print(device: &str, json: bool) -> Result<(), BoxError> {
    let goals = GOALS;
    let mut out = std::io::stdout();
    match count()? {
        Ok(counts) if json => {
            let ratio = (counts.host() / goals[0]).max(counts.device() / goals[1]);
            let all: serde_json::Map<_, _> =
                counts.rows().map(|(name, _, count)| (name.into(), count.into())).collect();
            let line = serde_json::json!({
                "name": INSTRUCTIONS, "device": device, "size": null, "gap_ns": null, "host": counts.host(),
                "host_in_halves": counts.host_in_halves(), "device_side": counts.device(), "threads_2": counts.of_two_threads(), "gas_asks": counts.gas()[0], "gas_answers": counts.gas()[1],
                "p99_ns": null,
                "floor_ns": null, "goals": goals, "ratio": ratio, "counts": all,
            });
            writeln!(out, "{line}")?;
        }
        Ok(counts) => {
            let (host, device) = (counts.host(), counts.device());
            writeln!(
                out,
                "{INSTRUCTIONS:<24} host {host:.0}, device {device:.0} instructions (goals {}, {})",
                goals[0], goals[1]
            )?;
            for (_, about, count) in counts.rows() {
                writeln!(out, "  {about:<42} {count:>6.0}")?;
            }
        }
        Err(why) if std::env::var_os("HAMR_CI").is_some() => return Err(why.into()),
        Err(why) => hamr::cli::note(format_args!("hamr-bench: {INSTRUCTIONS} skipped: {why}")),
    }
    Ok(())
}
