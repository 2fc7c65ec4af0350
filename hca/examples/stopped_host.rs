//! A device goes on without its host: a handler sends messages through an adapter while the host program is stopped.
//!
//! ```console
//! $ cargo build --release -p hamr-hca
//! $ cargo run --release -p hamr-hca --example stopped_host [DEVICE]
//! ```
//!
//! This program starts itself as the host of the device, stops that for two seconds with SIGSTOP, and reads the counters of the
//! section VERBS in the window's memory before and after.

use hamr::{Image, Options, Runtime};
use hamr_comm::abi::slot::seq_count;
use hamr_verbs::handlers::send_all;
use hamr_verbs::host::{Fabric, QpPlan};
use hamr_verbs::wire::{Access, CQ_CI, SQ_CI, word_of};
use rustix::process::{Pid, Signal, kill_process};
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// How long the host is stopped.
const STOP: Duration = Duration::from_secs(2);
/// How long the handler sends at least.
const RUN: f64 = 5.0;
/// Messages that it sends, unless the device is so slow that they would take too long.
const MESSAGES: f64 = 1e6;
/// Too long.
const LONGEST: f64 = 60.0;
/// How long all of it may take.
const LIMIT: Duration = Duration::from_secs(240);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [role, device] if role == "host" => host(device),
        [] | [_] => std::env::current_exe().map_err(Into::into).and_then(|own| {
            let mut command = Command::new(own);
            command.args(["host", arguments.first().map_or("shm", String::as_str)]);
            watch(command)
        }),
        _ => Err("expected at most one argument, a device".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("stopped_host: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The host program: opens the device and its adapter, and calls the handler.
pub(crate) fn host(device: &str) -> Result<(), Box<dyn Error>> {
    let limit = Some(LIMIT);
    let options =
        Options { verbs: 1 << 20, deadline: limit, start_deadline: Duration::from_secs(60), ..Options::default() };
    let node = Runtime::new()?.open_with(device, Image::find("hamr-verbs-image")?, options)?;
    let fabric = Fabric::open(&node)?;
    let (cq, region) = (fabric.completion_queue(64)?, fabric.region(64, Access::LOCAL_WRITE)?);
    let [a, b] = [fabric.queue_pair(&QpPlan::new(cq))?, fabric.queue_pair(&QpPlan::new(cq))?];
    fabric.connect(a, b)?;
    let send = |count| send_all::with(a, b, cq, region.id(), count);
    let (begin, first) = (Instant::now(), 2_000);
    node.sync(send(first))?;
    let rate = first as f64 / begin.elapsed().as_secs_f64();
    let count = (RUN * rate).max(MESSAGES).min(LONGEST * rate) as u64;
    let section = fabric.section().ok_or("the adapter has ended")?;
    println!("sends {} {} {count} {rate:.0}", section.start, a.index());
    let begin = Instant::now();
    let sum = node.sync(send(count))?;
    let sent = fabric.completed(a)?;
    let seconds = begin.elapsed().as_secs_f64();
    if sum != (0..count).sum::<u64>() || u64::from(sent) != (first + count) & u64::from(u32::MAX) {
        return Err(format!("expected {} messages, the adapter has completed {sent}", first + count).into());
    }
    println!("done {sent} {seconds:.3}");
    Ok(())
}

/// A child that does not outlive its user.
struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is seen of the handler in the window's memory.
#[derive(Debug)]
struct Counters {
    /// Messages that the adapter has completed.
    sent: u32,
    /// Completions that the device has taken, modulo 2^24.
    taken: u32,
}

/// Starts the host program, stops it while its handler sends, and looks whether the handler goes on.
pub(crate) fn watch(mut command: Command) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let mut host = Host(command.stdout(Stdio::piped()).spawn()?);
    let process = Pid::from_child(&host.0);
    let output = host.0.stdout.take().ok_or("the host has no output")?;
    let mut lines = BufReader::new(output).lines();
    let mut line = |first: &str| -> Result<Vec<f64>, Box<dyn Error>> {
        loop {
            let line = lines.next().ok_or("the host has ended")??;
            // A test's harness writes lines of its own.
            if let Some((_, rest)) = line.split_once(first) {
                return Ok(rest.split_whitespace().map(str::parse).collect::<Result<_, _>>()?);
            }
        }
    };
    let [off, qp, count, rate] = line("sends ")?[..] else { return Err("expected four numbers of the host".into()) };
    println!("a handler sends {count} messages of 8 bytes over two queue pairs, some {rate} a second");
    let memory = window_of(process)?;
    let word = |at: u64| -> std::io::Result<u32> {
        let mut bytes = [0; 4];
        memory.read_exact_at(&mut bytes, off as u64 + at)?;
        Ok(u32::from_le_bytes(bytes))
    };
    let counters = || -> std::io::Result<Counters> {
        Ok(Counters { sent: word(word_of(SQ_CI, qp as u16))?, taken: seq_count(word(CQ_CI)?) })
    };
    // It sends by now.
    let start = counters()?.sent;
    while counters()?.sent.wrapping_sub(start) < 100 {
        if begin.elapsed() > LIMIT {
            return Err("the handler does not begin".into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(process, Signal::STOP)?;
    while state(process)? != 'T' {
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = counters()?;
    println!("the host is stopped:           {before:?}");
    std::thread::sleep(STOP);
    let (stopped, after) = (state(process)?, counters()?);
    println!("the host is stopped for {STOP:?}:   {after:?}");
    kill_process(process, Signal::CONT)?;
    let [sent, seconds] = line("done ")?[..] else { return Err("expected two numbers of the host".into()) };
    println!("the host goes on, and has all: {sent} messages completed, the last {count} in {seconds} s");
    let (more, taken) = (after.sent.wrapping_sub(before.sent), seq_count(after.taken.wrapping_sub(before.taken)));
    println!("without the host: {more} messages, {taken} completions taken (modulo 2^24)");
    let status = host.0.wait()?;
    if stopped != 'T' || more < 100 || taken == 0 || !status.success() {
        return Err(
            format!("expected traffic while the host is stopped ({stopped}); the host ended with {status}").into()
        );
    }
    Ok(())
}

/// The memory of the window of a process with one device.
fn window_of(process: Pid) -> Result<File, Box<dyn Error>> {
    let folder = PathBuf::from(format!("/proc/{}/fd", process.as_raw_nonzero()));
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if std::fs::read_link(&path).is_ok_and(|name| name.to_string_lossy().starts_with("/memfd:hamr:")) {
            return Ok(File::open(path)?);
        }
    }
    Err("the host has no window".into())
}

/// The state of a process, as the system shows it: T is stopped.
fn state(process: Pid) -> Result<char, Box<dyn Error>> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()))?;
    let behind = text.rsplit_once(") ").ok_or("expected a state behind the name")?.1;
    behind.chars().next().ok_or("expected a state".into())
}
