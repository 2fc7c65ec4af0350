//! `hamr bench`: calls, transfers and their floors, in one run, on the same two processors,
//! interleaved.
//!
//! Each floor is measured within a millisecond of its row. Cache lines differ by a tenth in how
//! fast they travel between processors. So each repetition uses other cache lines on both sides,
//! and the device is launched several times.

mod calls;
mod floors;
mod instructions;
mod logging;
mod sleeping;
mod stats;
mod transfers;

pub(crate) use instructions::counted_run;

use calls::{call_32b, call_48b, call_async, call_empty, call_unread, one_way, streams_64};
use floors::Gap;
use hamr::cli::Global;
use hamr::{Image, Node, Options, Runtime, WaitMode};
use stats::{Key, Table, Unit};
use std::io::Write;
use transfers::{Area, SIZES};

/// Any error: the benchmark only prints it.
pub(crate) type BoxError = Box<dyn std::error::Error>;

/// Operations averaged into one sample: a clock call costs a fifth of a call.
const PER_SAMPLE: u32 = 100;
/// Samples of a row in one repetition.
const SAMPLES: u32 = 20;
/// Repetitions per launch, each on other cache lines.
const REPETITIONS: usize = 32;
/// The device that other devices are compared with.
const SHM: &str = "shm";
const GAPS: [u32; 3] = [0, 50, 500];
/// All row names, in the order of the table.
const NAMES: [&str; 20] = [
    "start",
    "floor_one_line",
    "floor_two_lines",
    "call_empty",
    "call_empty_vs_shm",
    "call_asleep",
    "call_32b",
    "call_48b",
    "call_async",
    "call_unread",
    "one_way",
    "streams_64",
    "log_line",
    "call_empty_logs",
    "put_8b",
    "get_8b",
    "put",
    "get",
    "put_notify",
    "instructions_call_empty",
];

/// Arguments of `hamr bench`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Only these rows, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// Launches of the device
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub(crate) launches: u32,
}

/// Measures the rows that `args` selects and prints one line per row.
///
/// # Errors
/// An unknown row, a device that does not start, a call that fails.
pub(crate) fn run(args: &Args, runtime: &Runtime, image: &Image, global: &Global) -> Result<(), BoxError> {
    let Global { device, json, .. } = global;
    let json = *json;
    if let Some(unknown) = args.only.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!("no bench is named `{unknown}`: expected some of {}", NAMES.join(", ")).into());
    }
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    let mut table = Table::default();
    // The instruction count needs no device; the other rows do.
    let timed = NAMES.iter().any(|name| *name != "instructions_call_empty" && wanted(name));
    if timed {
        let cpus = pin()?;
        for launch in 0..args.launches.max(1) {
            if !json {
                eprintln!("hamr: bench: launch {} of {}", launch + 1, args.launches.max(1));
            }
            let options = Options { streams: 72, heap: 64 << 20, cpu: cpus.device, ..Options::default() };
            let options = global.apply(options);
            let node = runtime.open_with(device, image.clone(), options.clone())?;
            let start = node.info().start.as_nanos() as f64;
            table.add(key("start", None, None, Unit::Ns), &[start], None);
            if needs_a_device(&wanted) {
                measure_calls(&node, &mut table, &wanted)?;
            }
            if wanted("call_asleep") {
                // In a device of its own: during the other rows, no side may sleep.
                let options = Options { wait: WaitMode::Sleep, ..options.clone() };
                let waiter = runtime.open_with(device, image.clone(), options)?;
                sleeping::call_asleep(&waiter, cpus.device, &mut table)?;
            }
            if device != SHM && wanted("call_empty_vs_shm") {
                // Interleaved on the same processors, so that a slow phase of the machine affects
                // both.
                match runtime.open_with(SHM, image.clone(), options) {
                    Ok(shm) => compare(&node, &shm, &mut table)?,
                    // An image file is made for one kind of device.
                    Err(e) => eprintln!("hamr: bench: call_empty_vs_shm skipped: {e}"),
                }
            }
            if wanted("log_line") || wanted("call_empty_logs") {
                logging::measure(&node, &mut table)?;
            }
            measure_transfers(&node, &mut table, &wanted)?;
        }
    }
    // Not `println!`, which panics when the reader has closed the pipe.
    let mut out = std::io::stdout();
    for row in table.rows(device) {
        if wanted(row.name()) {
            let line = if json { row.json().to_string() } else { row.text() };
            writeln!(out, "{line}")?;
        }
    }
    if wanted("instructions_call_empty") {
        print_instructions(device, json)?;
    }
    Ok(())
}

fn print_instructions(device: &str, json: bool) -> Result<(), BoxError> {
    let name = "instructions_call_empty";
    let limit = instructions::LIMIT;
    let mut out = std::io::stdout();
    match instructions::count()? {
        Ok(counts) if json => {
            let worst = counts.host().max(counts.device());
            let all: serde_json::Map<_, _> =
                counts.rows().map(|(name, _, count)| (name.into(), count.into())).collect();
            let line = serde_json::json!({
                "name": name, "device": device, "size": null, "gap_ns": null, "host": counts.host(),
                "device_side": counts.device(), "p99_ns": null, "floor_ns": null, "limit": limit,
                "ratio": worst / limit as f64, "counts": all,
            });
            writeln!(out, "{line}")?;
        }
        Ok(counts) => {
            let (host, device) = (counts.host(), counts.device());
            writeln!(out, "{name:<24} host {host:.0}, device {device:.0} instructions (goal {limit} each)")?;
            for (_, about, count) in counts.rows() {
                writeln!(out, "  {about:<42} {count:>6.0}")?;
            }
        }
        Err(why) if std::env::var_os("HAMR_CI").is_some() => return Err(why.into()),
        Err(why) => eprintln!("hamr: {name} skipped: {why}"),
    }
    Ok(())
}

/// The rows outside of [`measure_calls`].
const OTHERS: [&str; 10] = [
    "start",
    "call_empty_vs_shm",
    "call_asleep",
    "log_line",
    "call_empty_logs",
    "put_8b",
    "get_8b",
    "put",
    "get",
    "put_notify",
];

fn needs_a_device(wanted: &impl Fn(&str) -> bool) -> bool {
    NAMES.iter().any(|name| !OTHERS.contains(name) && wanted(name))
}

/// Empty calls of a device and of shared memory, alternating.
fn compare(node: &Node, shm: &Node, table: &mut Table) -> Result<(), BoxError> {
    let gap = Gap::new(0);
    for _ in 0..REPETITIONS {
        let on = |node: &Node| -> Result<Vec<f64>, BoxError> {
            let stream = node.stream()?;
            // The device has been idle and may be asleep.
            call_empty(&stream, SAMPLES, gap)?;
            call_empty(&stream, SAMPLES, gap)
        };
        let beside = on(shm)?;
        table.add(key("call_empty_vs_shm", None, Some(0), Unit::Ns), &on(node)?, Some(&beside));
    }
    Ok(())
}

struct Cpus {
    device: Option<usize>,
}

/// Puts the host on the first processor that it may use, the device on the second.
fn pin() -> Result<Cpus, BoxError> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let mut free = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let (Some(host), Some(device)) = (free.next(), free.next()) else {
        return Err(
            "expected two processors, one for the host and one for the device, got one; nothing would be measured"
                .into(),
        );
    };
    let mut set = rustix::thread::CpuSet::new();
    set.set(host);
    rustix::thread::sched_setaffinity(None, &set)?;
    Ok(Cpus { device: Some(device) })
}

const fn key(name: &'static str, size: Option<usize>, gap_ns: Option<u32>, unit: Unit) -> Key {
    Key { name, size, gap_ns, unit }
}

fn measure_calls(node: &Node, table: &mut Table, wanted: &impl Fn(&str) -> bool) -> Result<(), BoxError> {
    let lines = node.allocate::<u32>(REPETITIONS * 64)?;
    let gaps = GAPS.map(Gap::new);
    // The other end of the floors runs in a stream of its own; the calls alternate between eight.
    let peer = node.stream()?;
    let streams = (0..8).map(|_| node.stream()).collect::<Result<Vec<_>, _>>()?;
    for stream in &streams {
        call_empty(stream, 5, gaps[0])?;
    }
    for repetition in 0..REPETITIONS {
        let line = lines.ptr().slice(repetition * 64..repetition * 64 + 64).ok_or("no line")?;
        let stream = streams.get(repetition % streams.len()).ok_or("no stream")?;
        let mut floor_now = Vec::new();
        for gap in gaps {
            let one = floors::one_line(node, &peer, line, SAMPLES, gap)?;
            table.add(key("floor_one_line", None, Some(gap.ns), Unit::Ns), &one, None);
            let two = floors::two_lines(node, &peer, line, SAMPLES, gap)?;
            table.add(key("floor_two_lines", None, Some(gap.ns), Unit::Ns), &two, Some(&one));
            let calls = call_empty(stream, SAMPLES, gap)?;
            table.add(key("call_empty", None, Some(gap.ns), Unit::Ns), &calls, Some(&one));
            if gap.ns == 0 {
                floor_now = one;
            }
        }
        let now = gaps[0];
        if wanted("call_32b") {
            table.add(key("call_32b", Some(32), None, Unit::Ns), &call_32b(stream, SAMPLES, now)?, Some(&floor_now));
        }
        if wanted("call_48b") {
            table.add(key("call_48b", Some(48), None, Unit::Ns), &call_48b(stream, SAMPLES, now)?, Some(&floor_now));
        }
        if wanted("call_async") {
            table.add(key("call_async", None, None, Unit::Rate), &call_async(stream, 5)?, Some(&floor_now));
        }
        if wanted("one_way") {
            table.add(key("one_way", None, None, Unit::Rate), &one_way(stream, 2)?, Some(&floor_now));
        }
        // A hundred thousand results touch much memory, so not every repetition measures them.
        if wanted("call_unread") && repetition % 8 == 0 {
            let samples = call_unread(stream, if repetition == 0 { 3 } else { 2 })?;
            let warm = samples.get(1..).unwrap_or(&[]);
            table.add(key("call_unread", None, None, Unit::Ns), warm, Some(&floor_now));
        }
    }
    drop(streams);
    if wanted("streams_64") {
        drop(peer);
        for repetition in 0..REPETITIONS {
            let alone = {
                let stream = node.stream()?;
                call_empty(&stream, SAMPLES, gaps[0])?
            };
            let among = streams_64(node, repetition * 2, SAMPLES, gaps[0])?;
            table.add(key("streams_64", None, None, Unit::Ns), &among, Some(&alone));
        }
    }
    Ok(())
}

fn measure_transfers(node: &Node, table: &mut Table, wanted: &impl Fn(&str) -> bool) -> Result<(), BoxError> {
    if !["put_8b", "get_8b", "put", "get", "put_notify"].iter().any(|name| wanted(name)) {
        return Ok(());
    }
    let stream = node.stream()?;
    let mut area = Area::new(node)?;
    for _ in 0..REPETITIONS {
        let (put, get) = area.eight()?;
        table.add(key("put_8b", Some(8), None, Unit::Ns), &[put.0], Some(&[put.1]));
        table.add(key("get_8b", Some(8), None, Unit::Ns), &[get.0], Some(&[get.1]));
    }
    for size in SIZES {
        // Small transfers are shown in nanoseconds, large ones as bandwidth.
        let unit = if size < 64 << 10 { Unit::Ns } else { Unit::GbS };
        for _ in 0..REPETITIONS / 2 {
            if wanted("put") {
                let (ours, floor) = area.put(size)?;
                table.add(key("put", Some(size), None, unit), &[ours], Some(&[floor]));
            }
            if wanted("get") {
                let (ours, floor) = area.get(size)?;
                table.add(key("get", Some(size), None, unit), &[ours], Some(&[floor]));
            }
            if wanted("put_notify") {
                let (ours, floor) = area.put_notify(&stream, size)?;
                table.add(key("put_notify", Some(size), None, Unit::GbS), &[ours], Some(&[floor]));
            }
        }
    }
    Ok(())
}
