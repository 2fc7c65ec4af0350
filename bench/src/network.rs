//! Rows of a device at the other end of a loopback network, as a user has it: `hamr serve` is a process of its own. And of
//! one behind a mirror in this program.
//!
//! Of a call three parties are busy, as of its floor: this program's thread, the one at the server, and the device. On two
//! processors they take turns, which the figures include. So nothing is pinned in the rows of the network and their floors,
//! the system puts each where there is room.

use super::calls::call_async;
use super::exchange::{Exchange, WARM};
use super::floors::{Floors, Gap};
use super::stats::quantile;
use super::table::{Beside, Key, Table, Unit};
use super::{BoxError, Machine, PER_SAMPLE, REPETITIONS, SHM, Setup};
use hamr::link::{Link, Protocol};
use hamr::mirror::MirrorLink;
use hamr::tcp::TcpLauncher;
use hamr::{Error, LaunchRequest, Launcher, Node, Options, Runtime, ShmLauncher, Stream, Target};
use hamr_kernels::bench::empty;
use hamr_net::key;
use serde_json::Value;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The rows that need a server.
const TCP: [&str; 5] = ["tcp_ping_pong", "tcp_call", "tcp_offload", "tcp_put", "tcp_call_beside_put"];
/// Samples of a row in one repetition: a call takes a hundred times as long as one over shared memory.
const SAMPLES: u32 = 5;
/// Bytes of a SLOT without payload, an empty call or its result (abi §15.2); of a DONE.
const SLOT: usize = 24;
const DONE: usize = 16;
/// Calls in flight.
const FLIGHT: usize = 64;
/// Bytes of a put, and puts of one sample.
const PUT: usize = 1 << 20;
const PUTS: u32 = 32;
/// A put beside calls, where the machine has the memory for it: this program's and the device's.
const LONG: [usize; 2] = [256 << 20, 1 << 30];
const LONG_NEEDS: u64 = 4 << 30;
/// Calls of which the 99th percentile is taken, and how often.
const SINGLE: usize = 2000;
const PERCENTILES: usize = 6;
/// The put has begun by then.
const BEGIN: Duration = Duration::from_millis(50);

/// Adds the rows of this module.
pub(super) fn measure(setup: &Setup<'_>, machine: &Machine, table: &mut Table) -> Result<(), BoxError> {
    for row in ["mirror_call_empty", "driven_call_empty"] {
        if !table.wants(row) {
            continue;
        }
        carried_call_empty(row, setup, machine, table)?;
    }
    if !table.wants_any(&TCP) {
        return Ok(());
    }
    machine.spread()?;
    let long = long();
    match Server::start(setup, (long + (64 << 20)) as u64) {
        Ok(server) => tcp(&server, setup, long, table)?,
        Err(e) => hamr::cli::note(format_args!("hamr-bench: {} skipped: {e}", TCP.join(", "))),
    }
    machine.gather()
}

fn tcp(
    server: &Server,
    &Setup { image, global, .. }: &Setup<'_>,
    long: usize,
    table: &mut Table,
) -> Result<(), BoxError> {
    let mut runtime = Runtime::new()?;
    runtime.register("tcp", TcpLauncher::with_key(server.folder.key()));
    let options =
        Options { heap: (long + (16 << 20)) as u64, print_warnings: false, ..global.apply(Options::default()) };
    let node = runtime.open_with(&format!("tcp:{}", server.at), image.clone(), options)?;
    let (stream, key) = (node.stream()?, key::Key::read(&server.folder.key())?);
    let call = Exchange { bytes: [SLOT; 2], key: Some(&key), has_line: true, times: PER_SAMPLE };
    let from = vec![1u8; PUT];
    let buffer = node.buffer(&from)?;
    for _ in 0..REPETITIONS {
        if table.wants("tcp_ping_pong") {
            let ns = Exchange { key: None, has_line: false, ..call }.samples(SAMPLES)?;
            table.add(Key::new("tcp_ping_pong"), &ns, None);
        }
        if table.wants("tcp_call") {
            let floor = call.samples(SAMPLES)?;
            let beside = Beside { what: "TLS and a line", ns: &floor };
            table.add(Key::new("tcp_call"), &calls(&stream)?, Some(beside));
        }
        if table.wants("tcp_offload") {
            let times = PER_SAMPLE / 5;
            let batch = Exchange { bytes: [FLIGHT * SLOT; 2], has_line: false, times, ..call }.samples(SAMPLES)?;
            let floor: Vec<f64> = batch.iter().map(|ns| ns / FLIGHT as f64).collect();
            let beside = Beside { what: "TLS, batches", ns: &floor };
            table.add(Key::new("tcp_offload").unit(Unit::Rate), &call_async::<FLIGHT>(&stream)?, Some(beside));
        }
        if table.wants("tcp_put") {
            let floor = Exchange { bytes: [PUT, DONE], has_line: false, times: PUTS, ..call }.samples(1)?;
            let once = || Ok(node.put(black_box(&from), buffer.ptr())?);
            each(WARM, once)?;
            let ns = each(PUTS, once)?;
            let key = Key::new("tcp_put").size(PUT).unit(Unit::GbS);
            table.add(key, &[ns], Some(Beside { what: "TLS", ns: &floor }));
        }
    }
    if table.wants("tcp_call_beside_put") {
        drop(buffer);
        beside_put(&node, &stream, long, table)?;
    }
    Ok(())
}

/// The 99th percentile of single calls beside a long put, against that alone.
fn beside_put(node: &Node, stream: &Stream<'_>, long: usize, table: &mut Table) -> Result<(), BoxError> {
    let from = vec![1u8; long];
    // Behind it all memory has been used once.
    let buffer = node.buffer(&from)?;
    for _ in 0..PERCENTILES {
        let alone = percentile(stream)?;
        let is_over = AtomicBool::new(false);
        let beside = std::thread::scope(|scope| {
            let puts = scope.spawn(|| -> Result<(), Error> {
                while !is_over.load(Ordering::Relaxed) {
                    node.put(&from, buffer.ptr())?;
                }
                Ok(())
            });
            std::thread::sleep(BEGIN);
            let ns = percentile(stream);
            is_over.store(true, Ordering::Relaxed);
            puts.join().map_err(|_| "the thread of puts panicked")??;
            ns
        })?;
        table.add(Key::new("tcp_call_beside_put"), &[beside], Some(Beside { what: "p99 alone", ns: &[alone] }));
    }
    Ok(())
}

fn percentile(stream: &Stream<'_>) -> Result<f64, BoxError> {
    let single = |_| each(1, || Ok(stream.sync(empty::with())?));
    Ok(quantile(&(0..SINGLE).map(single).collect::<Result<Vec<_>, _>>()?, 0.99))
}

/// Behind some that do not count, in which all that sleep are woken and find a processor.
fn calls(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
    let once = || Ok(stream.sync(empty::with())?);
    each(PER_SAMPLE, once)?;
    (0..SAMPLES).map(|_| each(PER_SAMPLE, once)).collect()
}

fn each(times: u32, mut once: impl FnMut() -> Result<(), BoxError>) -> Result<f64, BoxError> {
    let begin = Instant::now();
    (0..times).try_for_each(|_| once())?;
    Ok(begin.elapsed().as_nanos() as f64 / f64::from(times))
}

/// Bytes of the put beside calls.
fn long() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10;
    let [short, long] = LONG;
    if available >= LONG_NEEDS { long } else { short }
}

/// A device of `shm` behind a mirror in this program, which reaches both windows as memory.
struct Mirrored;

impl Launcher for Mirrored {
    fn describe(&self) -> String {
        "shm behind a mirror: for the benchmark".into()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        ShmLauncher.target(argument)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let device = ShmLauncher.launch(request)?.into();
        let &LaunchRequest { window_len, start_deadline, .. } = request;
        Ok(Box::new(MirrorLink::over_memory("mirrored", device, window_len, start_deadline)?))
    }
}

/// An empty call that its caller carries, behind a mirror or by reads and writes of the device's memory, against one line
/// between the two processors: both sides are held where those of the floor are.
fn carried_call_empty(
    row: &'static str,
    &Setup { image, global, .. }: &Setup<'_>,
    machine: &Machine,
    table: &mut Table,
) -> Result<(), BoxError> {
    let mut runtime = Runtime::new()?;
    runtime.register("mirrored", Mirrored);
    let (device, protocol) = match row {
        "driven_call_empty" => (SHM, Some(Protocol::HostDriven)),
        _ => ("mirrored", None),
    };
    let cpu = Some(machine.device());
    let options = global.apply(Options { print_warnings: false, cpu, ..Options::default() });
    let beside = runtime.open_with(SHM, image.clone(), options.clone())?;
    let floors = Floors::new(&beside)?;
    // Threads of its own that a link has are not held where the caller is.
    machine.spread()?;
    let node = runtime.open_with(device, image.clone(), Options { protocol, ..options })?;
    machine.gather()?;
    let stream = node.stream()?;
    for repetition in 0..REPETITIONS {
        let floor = floors.one_line(repetition, Gap::NONE)?;
        let key = Key::new(row).spell(floor.spell());
        table.add(key, &calls(&stream)?, Some(Beside { what: "one line", ns: floor.best() }));
    }
    Ok(())
}

/// `hamr serve`, whose device nobody else has.
struct Server {
    name: String,
    folder: Folder,
    child: Child,
    /// Open, so that it has somebody to tell.
    output: BufReader<ChildStdout>,
    at: String,
}

impl Server {
    fn start(&Setup { runtime, image, .. }: &Setup<'_>, heap: u64) -> Result<Self, BoxError> {
        let target = runtime.target(SHM)?.ok_or("shm takes no image")?;
        let file = image.resolve(&target)?.path;
        let name = format!("bench-{}", std::process::id());
        let folder = Folder::make(&name)?;
        // Also where a signal ends this program: each launch has a server of that name.
        static ENDS: Once = Once::new();
        let (its, path) = (name.clone(), folder.0.clone());
        let mut watched = Ok(());
        ENDS.call_once(|| watched = hamr::cli::at_end(move || end(&its, &path)));
        watched.map_err(|e| e.to_string())?;
        key::make(&folder.key())?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", &name, "--json", "--device", SHM, "--listen", "127.0.0.1:0", "--key"]);
        command.arg(folder.key()).arg("--image").arg(file).args(["--option", &format!("heap={heap}")]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let mut server = Self { name, folder, child, output, at: String::new() };
        server.at = server.listening()?;
        Ok(server)
    }

    /// The address that it says.
    fn listening(&mut self) -> Result<String, BoxError> {
        let mut line = String::new();
        while self.output.read_line(&mut line)? != 0 {
            let said: Value = serde_json::from_str(&line)?;
            if let Some(at) = said["address"].as_str() {
                return Ok(at.into());
            }
            line.clear();
        }
        Err("expected a server at an address, it ended".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that cannot be asked is ended, and its device with it. An error means that it has ended.
        if hamr::serve::stop(&self.name).is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// A folder of this user, for as long as this value is there.
struct Folder(PathBuf);

impl Folder {
    fn make(name: &str) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("hamr-{name}"));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    fn key(&self) -> PathBuf {
        Path::join(&self.0, "key")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // An error means that it is gone.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server, and its folder. Errors mean that they are gone.
fn end(name: &str, folder: &Path) {
    let _ = hamr::serve::stop(name);
    let _ = std::fs::remove_dir_all(folder);
}
