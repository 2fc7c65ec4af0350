//! `hamr` without a command: starts a device, calls it, makes a handler panic, inspects the window,
//! and prints what to try next.

use hamr::cli::{Cli, Failure, bytes, duration, one_line};
use hamr::inspect::InspectError;
use hamr::{CallError, Node, inspect};
use hamr_kernels::demo::{dot_f64, isa};
use hamr_kernels::faults::{divide, panics};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Elements of each vector: so many that transfer and computation take a visible time.
const ELEMENTS: usize = 1_000_000;
/// Short calls that are timed together.
const CALLS: u32 = 20_000;

/// Prints as it runs, or collects the results for `--json`.
struct Demo<'c> {
    cli: &'c Cli,
    facts: Map<String, Value>,
}

pub(crate) fn run(cli: &Cli) -> Result<(), Failure> {
    let mut demo = Demo { cli, facts: Map::new() };
    let node = demo.start()?;
    let expected = demo.call(&node)?;
    demo.call_later(&node, expected)?;
    demo.fault(&node)?;
    demo.look_inside()?;
    let begin = Instant::now();
    drop(node);
    let took = duration(begin.elapsed());
    demo.print(&match on_bus(cli) {
        Some(_) => format!("\nLeft the device in {took}; its image goes on, and waits for its next host.\n"),
        None => format!("\nStopped the device in {took}; nothing of it is left.\n"),
    })?;
    demo.print(NEXT)?;
    if cli.global.json { cli.print_json(&Value::Object(demo.facts)) } else { Ok(()) }
}

/// The address of a device that was running before this program.
fn on_bus(cli: &Cli) -> Option<&str> {
    cli.global.device.strip_prefix("pci:")
}

const NEXT: &str = "
Go on
  hamr dot A.npy B.npy   inner product of two vectors
  cargo xtask bench      the cost of calls and transfers
  hamr devices           the devices and the live windows
  hamr handlers          the handlers of the device
  hamr inspect           the contents of a live window
  docs/offload.md        write handlers of your own
";

impl Demo<'_> {
    fn print(&self, text: &str) -> Result<(), Failure> {
        if self.cli.global.json { Ok(()) } else { self.cli.print(text) }
    }

    fn note(&mut self, name: &str, value: Value) {
        self.facts.insert(name.into(), value);
    }

    fn start(&mut self) -> Result<Node, Failure> {
        self.print("hamr calls functions on a device, like this.\n\nA device\n")?;
        let begin = Instant::now();
        let node = self.cli.open()?;
        let took = begin.elapsed();
        let d = node.info();
        let process = if d.pid == 0 { "no process of its own".into() } else { format!("process {}", d.pid) };
        let build = &d.build_id;
        self.print(&format!(
            "  `{}`: {}, {}, {process}\n  up in {}, the search for its image included\n",
            one_line(&d.name),
            d.isa,
            one_line(&d.board),
            duration(took)
        ))?;
        self.print(&format!(
            "  {} handlers, ABI {}, build id\n    {build}\n  window of {}, {} of it heap\n",
            d.handlers,
            d.abi,
            bytes(d.window),
            bytes(d.heap)
        ))?;
        self.note("device", json!({ "name": d.name, "isa": d.isa.name(), "board": d.board, "pid": d.pid }));
        self.note("start_ns", nanoseconds(took));
        Ok(node)
    }

    /// The inner product, beside the same loop on the host.
    fn call(&mut self, node: &Node) -> Result<f64, Failure> {
        let xs: Vec<f64> = (0..ELEMENTS).map(|i| 1.0 / (i + 1) as f64).collect();
        let ys: Vec<f64> = (0..ELEMENTS).map(|i| 1.0 / (i + 2) as f64).collect();
        let begin = Instant::now();
        let (x, y) = (node.buffer(&xs)?, node.buffer(&ys)?);
        let put = begin.elapsed();
        let begin = Instant::now();
        let value = node.sync(dot_f64::with(x.ptr(), y.ptr()))?;
        let call = begin.elapsed();
        let here = xs.iter().zip(&ys).fold(0.0, |sum, (a, b)| sum + a * b);
        if value.to_bits() != here.to_bits() {
            return Err(Failure::new(format!(
                "expected the device's result to have the bits of the host's, {here:?}, got {value:?}"
            )));
        }
        let moved = x.bytes() + y.bytes();
        self.print(&format!(
            "\nA call\n  two vectors of {ELEMENTS} f64: {} moved in {}\n  dot_f64(x, y) = {value:?} in {}\n  \
             the same loop on the host gives the same bits\n",
            bytes(moved),
            duration(put),
            duration(call)
        ))?;
        let stream = node.stream()?;
        let begin = Instant::now();
        for _ in 0..CALLS {
            stream.sync(isa::with())?;
        }
        let each = begin.elapsed() / CALLS;
        self.print(&format!("  isa(), a call without arguments: {} (mean of {CALLS})\n", duration(each)))?;
        self.note(
            "dot",
            json!({ "value": value, "bytes": moved, "put_ns": nanoseconds(put), "call_ns": nanoseconds(call) }),
        );
        self.note("short_call_ns", nanoseconds(each));
        Ok(value)
    }

    /// The same call, submitted without waiting.
    fn call_later(&mut self, node: &Node, expected: f64) -> Result<(), Failure> {
        let xs: Vec<f64> = (0..ELEMENTS).map(|i| 1.0 / (i + 1) as f64).collect();
        let ys: Vec<f64> = (0..ELEMENTS).map(|i| 1.0 / (i + 2) as f64).collect();
        let (x, y) = (node.buffer(&xs)?, node.buffer(&ys)?);
        let begin = Instant::now();
        let pending = node.offload(dot_f64::with(x.ptr(), y.ptr()))?;
        let submitted = begin.elapsed();
        let mut polls = 0u64;
        while !pending.is_done() {
            polls += 1;
        }
        let value = pending.wait()?;
        let took = begin.elapsed();
        if value.to_bits() != expected.to_bits() {
            return Err(Failure::new(format!(
                "expected the second call to have the result of the first, {expected:?}, got {value:?}"
            )));
        }
        self.print(&format!(
            "\nA call without waiting\n  submitted in {}; the host polled {polls} times\n  \
             before the result was there, {} later\n",
            duration(submitted),
            duration(took)
        ))?;
        self.note(
            "pending",
            json!({ "submit_ns": nanoseconds(submitted), "total_ns": nanoseconds(took), "polls": polls }),
        );
        Ok(())
    }

    fn fault(&mut self, node: &Node) -> Result<(), Failure> {
        let report = match node.sync(panics::with(7)) {
            Err(CallError::Fault(report)) => report,
            Err(other) => return Err(other.into()),
            Ok(n) => return Err(Failure::new(format!("expected a handler that panics, got {n}"))),
        };
        let next = node.sync(divide::with(84, 2))?;
        self.print(&format!(
            "\nA handler that panics fails its own call only\n  panics(7): {}\n  divide(84, 2), called next: {next}\n",
            one_line(&report.text)
        ))?;
        self.note("fault", json!({ "handler": report.site.handler, "text": report.text, "next": next }));
        Ok(())
    }

    /// The inspector's report of this very window.
    fn look_inside(&mut self) -> Result<(), Failure> {
        let cli = self.cli;
        let name = &cli.global.device;
        let mine = || inspect::windows_of(std::process::id()).into_iter().find(|w| w.name == *name);
        let found = match on_bus(cli) {
            Some(address) => Some((
                hamr::pci::window_file(address)?,
                format!("Root may inspect the window (`hamr inspect --device {name}`)"),
            )),
            None => mine()
                .map(|w| (w.path, format!("Any user may inspect the window (`hamr inspect {}`)", std::process::id()))),
        };
        let Some((path, who)) = found else {
            return self.print("\nThis device has no window that other processes can inspect.\n");
        };
        let dump = match inspect::dump(&path) {
            // A user who owns a function through vfio need not be root.
            Err(InspectError::Os { .. }) if on_bus(cli).is_some() => {
                return self.print(&format!("\n{who}; this user may not.\n"));
            }
            dump => dump?,
        };
        let used: usize = dump.queues.iter().map(|q| q.slots.len()).sum();
        self.print(&format!(
            "\n{who}, without an effect on it\n  host {}, device {}, epoch {}, {used} slots used\n",
            dump.host.state, dump.device.state, dump.device.epoch
        ))?;
        let hot = dump.queues.iter().flat_map(|q| &q.slots).find(|s| s.kind == "hot");
        if let Some((request, reply)) = hot.and_then(|s| s.request.as_ref().zip(s.reply.as_ref())) {
            let handler = request.handler.as_deref().unwrap_or("?");
            let (count, status) = (request.count, reply.status);
            self.print(&format!("  last in a hot slot: {}, message {count}, {status}\n", one_line(handler)))?;
        }
        self.note("window", json!({ "path": path, "slots_used": used }));
        Ok(())
    }
}

fn nanoseconds(time: Duration) -> Value {
    (time.as_nanos() as u64).into()
}
