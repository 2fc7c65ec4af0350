//! `hamr dot A.npy B.npy`: the inner product, left to right in f64, on the device.
//!
//! The vectors go to the device in blocks of [`BLOCK`] bytes: one read of the files and one copy
//! into the device's memory, whatever their length. Each call starts from the sum of the block
//! before. So the order of the additions, and with it every bit of the result, is that of one plain
//! loop.

mod npy;

use hamr::cli::{Cli, Failure, Progress, bytes, duration};
use hamr::{CallError, Node, Options};
use hamr_comm::{BufferPtr, Element, Never};
use hamr_kernels::demo::{dot_f32_from, dot_f64_from};
use npy::{Dtype, Npy};
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bytes of one vector that are on the device at a time.
const BLOCK: u64 = 16 << 20;
/// Room in the heap beside the two blocks: for messages that do not fit a chunk.
const SPARE: u64 = 1 << 20;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Vector of f64 or f32
    #[arg(value_name = "A.npy")]
    a: PathBuf,
    /// Vector of the same type and length
    #[arg(value_name = "B.npy")]
    b: PathBuf,
}

/// The result, and the time of each stage.
struct Outcome {
    value: f64,
    moved: u64,
    stages: Vec<(&'static str, Duration)>,
}

pub(crate) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    // All faults of the input are found before a device is started or its image is built.
    let begin = Instant::now();
    cli.check_device()?;
    let (mut a, mut b) = (Npy::open(&args.a)?, Npy::open(&args.b)?);
    let (first, second) = (a.header, b.header);
    if first.dtype != second.dtype {
        return Err(mismatch(args, "element type", first.dtype.name(), second.dtype.name()));
    }
    if first.len != second.len {
        return Err(mismatch(args, "length", &first.len.to_string(), &second.len.to_string()));
    }
    let opened = begin.elapsed();
    let outcome = match first.dtype {
        Dtype::F64 => offload(cli, &mut a, &mut b, opened, |node, sum, x, y| node.sync(dot_f64_from::with(sum, x, y))),
        Dtype::F32 => offload(cli, &mut a, &mut b, opened, |node, sum, x, y| node.sync(dot_f32_from::with(sum, x, y))),
    }?;
    show(cli, &outcome, first.len, first.dtype)
}

fn mismatch(args: &Args, what: &str, a: &str, b: &str) -> Failure {
    let (first, second) = (args.a.display(), args.b.display());
    Failure::new(format!("expected two vectors of one {what}, got {a} in {first} and {b} in {second}"))
}

/// Moves block by block and calls.
fn offload<T: Element>(
    cli: &Cli,
    a: &mut Npy,
    b: &mut Npy,
    opened: Duration,
    call: impl Fn(&Node, f64, BufferPtr<T>, BufferPtr<T>) -> Result<f64, CallError<Never>>,
) -> Result<Outcome, Failure> {
    let size = size_of::<T>() as u64;
    let total = a.header.len;
    let block = total.min(BLOCK / size) as usize;
    let mut clock = Clock::new(opened);
    let heap = (2 * block as u64 * size + SPARE).max(Options::default().heap);
    let node = cli.open_with(Options { heap, ..Options::default() })?;
    let device = [node.allocate::<T>(block)?, node.allocate::<T>(block)?];
    let mut host = [vec![T::zeroed(); block], vec![T::zeroed(); block]];
    clock.stage("start");
    let mut bar = Progress::new("moving", 2 * total * size);
    let (mut value, mut left) = (0.0, total);
    while left > 0 {
        let now = left.min(block as u64) as usize;
        for (elements, file) in host.iter_mut().zip([&mut *a, &mut *b]) {
            // Only the last block is shorter.
            elements.truncate(now);
            file.read(bytemuck::cast_slice_mut(elements))?;
        }
        clock.stage("read");
        let [x, y] = device.each_ref().map(|buffer| buffer.ptr().slice(0..now).unwrap_or(buffer.ptr()));
        node.put(&host[0], x)?;
        node.put(&host[1], y)?;
        clock.stage("put");
        value = call(&node, value, x, y)?;
        clock.stage("call");
        bar.add(2 * now as u64 * size);
        left -= now as u64;
    }
    drop((device, bar));
    drop(node);
    clock.stage("stop");
    Ok(Outcome { value, moved: 2 * total * size, stages: clock.stages })
}

/// Adds up the time of each stage, in the order in which the stages were first seen.
struct Clock {
    last: Instant,
    stages: Vec<(&'static str, Duration)>,
}

impl Clock {
    fn new(opened: Duration) -> Self {
        let none = Duration::ZERO;
        let stages =
            vec![("open", opened), ("start", none), ("read", none), ("put", none), ("call", none), ("stop", none)];
        Self { last: Instant::now(), stages }
    }

    fn stage(&mut self, name: &'static str) {
        let now = Instant::now();
        let took = now - std::mem::replace(&mut self.last, now);
        if let Some((_, sum)) = self.stages.iter_mut().find(|(known, _)| *known == name) {
            *sum += took;
        }
    }
}

fn show(cli: &Cli, outcome: &Outcome, len: u64, dtype: Dtype) -> Result<(), Failure> {
    let Outcome { value, moved, stages } = outcome;
    if cli.global.json {
        let stages_ns: serde_json::Map<_, _> =
            stages.iter().map(|(name, time)| ((*name).to_owned(), json!(time.as_nanos() as u64))).collect();
        return cli.print_json(&json!({
            "value": number(*value),
            "device": cli.global.device,
            "bytes": moved,
            "elements": len,
            "dtype": dtype.name(),
            "stages_ns": stages_ns,
        }));
    }
    let stages: Vec<_> = stages.iter().map(|(name, time)| format!("{name} {}", duration(*time))).collect();
    cli.print(&format!(
        "{value:?}\n{len} products of {} on device {}, {} moved\n{}\n",
        dtype.name(),
        cli.global.device,
        bytes(*moved),
        stages.join(", ")
    ))
}

/// JSON has no numbers for these three. The strings are those that the parsers of JavaScript and
/// Python accept.
fn number(value: f64) -> serde_json::Value {
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity".into() } else { "-Infinity".into() }
    } else {
        value.into()
    }
}
