//! Faults that do not end with a call: of the runtime between calls, and of a call inside of a
//! no-abort section. The image writes the crash record and restarts; its machine keeps running. One
//! macro call per machine:
//!
//! ```no_run
//! hamr_tests::broken!("qemu:riscv64");
//! # fn main() {}
//! ```

use crate::conformance::{Gate, options, until};
use crate::crashes::{fault, still_works};
use crate::devices;
use crate::processes::children;
use hamr::inspect::Dump;
use hamr::logs::{LogEvent, Logs};
use hamr::{CallError, CallOptions, CrashReport, Node};
use hamr_comm::BufferPtr;
use hamr_comm::abi::status::Status;
use hamr_kernels::bench::sum_4;
use hamr_tests_kernels::crashes::{logs_nothing, loops, misleads};
use hamr_tests_kernels::{flood, say, wait_at};
use object::{Object, ObjectSymbol};
use std::ops::Range;
use std::time::{Duration, Instant};

#[path = "../image/src/marks.rs"]
pub mod marks;

/// One test per case, on one machine with the image of `tests/image`.
#[macro_export]
macro_rules! broken {
    ($spec:expr) => {
        mod broken {
            #[test]
            fn the_runtime_fails_between_calls() {
                $crate::broken::between_calls($spec);
            }
            #[test]
            fn a_call_fails_inside_a_no_abort_section() {
                $crate::broken::marked($spec);
            }
            #[test]
            fn a_no_abort_section_delays_the_end_of_a_runaway() {
                $crate::broken::put_off($spec);
            }
            #[test]
            fn a_trap_in_the_logger_does_not_stop_later_logs() {
                $crate::broken::in_the_logger($spec);
            }
            #[test]
            fn a_trap_in_the_middle_of_a_line_costs_that_line() {
                $crate::broken::in_a_line($spec);
            }
            #[test]
            fn a_runaway_is_not_ended_inside_of_the_logger() {
                $crate::broken::logs_for_ever($spec);
            }
        }
    };
}

/// Calls after the one that breaks the runtime.
const BEHIND: u64 = 64;

/// A handler overwrites pointers of the runtime. The runtime traps when it polls for the next call,
/// outside of every call.
pub fn between_calls(spec: &str) {
    let node = devices::open(spec, options());
    let (machines, memory) = (children(std::process::id()), boot_stack(spec));
    let kept = node.buffer(&[7_u64; 100]).expect("room");
    for epoch in 1..4 {
        assert_eq!(node.info().epoch, epoch);
        mislead(&node, kept.ptr(), memory.clone());
        // Before a host begins the next epoch, which wipes the window.
        let crash = expect(&node, epoch, "serve", "poller.rs");
        assert!(
            crash.backtrace().names("hamr_device_fw::bare::serve") && !crash.backtrace().names("misleads"),
            "{crash}"
        );
        shown(&node, epoch);
        still_works(&node);
        assert_eq!(node.info().epoch, epoch + 1);
        // The record outlives its epoch.
        expect(&node, epoch, "serve", "poller.rs");
    }
    assert_eq!(node.read(kept.ptr()).expect("buffers stay"), [7; 100]);
    assert_eq!(children(std::process::id()), machines, "the machine goes on");
    assert_eq!(node.live_buffers(), 1);
}

/// The memory with the state of an image's runtime: the stack below its symbol, 64 KiB
/// (`linker/scripts/body.x`).
fn boot_stack(spec: &str) -> Range<u64> {
    let target = devices::runtime().target(spec).expect("known").expect("takes an image");
    let path = devices::image(spec).resolve(&target).expect("an image").path;
    let bytes = std::fs::read(path).expect("readable");
    let file = object::File::parse(&*bytes).expect("an image");
    let top = file.symbol_by_name("__hamr_boot_stack_top").expect("in every image").address();
    top - (64 << 10)..top
}

/// Breaks the runtime with calls in flight.
fn mislead(node: &Node, buffer: BufferPtr<u64>, memory: Range<u64>) {
    let stream = node.stream().expect("free");
    let gate = Gate::new(node);
    let waits = stream.offload(wait_at::with(gate.ptr(), 2)).expect("sent");
    gate.wait_for(1);
    let Dump { sections, .. } = dump();
    // The queues, and no part of the preamble, whose words a failed runtime still uses to report
    // its end.
    let first = sections.iter().map(|section| section.off).min().expect("planned");
    let heap = sections.iter().find(|section| section.kind == "heap").expect("planned").off;
    let card = node.info().window.next_power_of_two();
    let breaks = misleads::with(buffer, card, (first, heap), (memory.start, memory.end));
    let breaks = stream.offload(breaks).expect("sent");
    let behind: Vec<_> = (0..BEHIND).map(|n| stream.offload(sum_4::with(n, 1, 2, 3)).expect("sent")).collect();
    gate.open();
    waits.wait().expect("runs");
    // The runtime may have sent the reply before it trapped, or not.
    match breaks.wait() {
        Ok(found) => assert!(found > 0, "nothing to overwrite was found"),
        other => is_lost(other),
    }
    behind.into_iter().for_each(|call| is_lost(call.wait()));
}

fn is_lost<T: std::fmt::Debug, E: std::fmt::Debug>(outcome: Result<T, CallError<E>>) {
    match outcome {
        Err(CallError::DeviceLost(_, why)) => assert!(why.contains("it ended by a fault: "), "{why}"),
        other => panic!("expected a lost device, got {other:?}"),
    }
}

/// The inspector's report of the one window of this program.
fn dump() -> Dump {
    let windows = hamr::inspect::windows_of(std::process::id());
    let [window] = &windows[..] else { panic!("one window, not {windows:?}") };
    hamr::inspect::dump(&window.path).expect("a window")
}

/// Checks the crash record of `epoch`, as the host has read it.
fn expect(node: &Node, epoch: u32, function: &str, file: &str) -> CrashReport {
    let crash = node.last_crash().expect("a crash record");
    println!("{crash}\n");
    assert_eq!(crash.epoch, epoch);
    assert!(crash.trace.pc == 0 || crash.trace.stack != 0 && crash.trace.cause != 0, "{crash}");
    let backtrace = crash.backtrace();
    assert_eq!(backtrace.refused, None);
    assert!(backtrace.names(function) && backtrace.place().is_some(), "no {function} in\n{crash}");
    assert!(crash.to_string().contains(&format!("{file}:")), "no {file} in\n{crash}");
    crash
}

/// The inspector's report shows the same.
fn shown(node: &Node, epoch: u32) {
    let crash = node.last_crash().expect("a crash record");
    // The device replies to the calls in flight first.
    until("the device has stopped", || dump().device.state == "stopped");
    let dump = dump();
    let shown = dump.crash.as_ref().expect("a crash record");
    let (trace, frames) = (&crash.trace, crash.trace.frames().collect::<Vec<_>>());
    assert_eq!(
        (shown.epoch, shown.pc.0, shown.address.0, shown.stack.0),
        (epoch, trace.pc, trace.address, trace.stack)
    );
    assert_eq!(shown.frames.iter().map(|frame| frame.0).collect::<Vec<_>>(), frames);
    assert_eq!(shown.text, crash.text);
    let text = dump.to_string();
    for part in [format!("crash      epoch {epoch}, cause "), crash.text, format!("sp {:016x}", trace.stack)] {
        assert!(text.contains(&part), "`{part}` in {text}");
    }
    assert!(!frames.is_empty() && text.contains(&format!("called from {:016x}", frames[0])), "{text}");
}

/// A panic inside of the no-abort section: the call has its fault, the image restarts, and the
/// section is free.
pub fn marked(spec: &str) {
    let node = devices::open(spec, options());
    let machines = children(std::process::id());
    for epoch in 1..4 {
        let report = fault(node.sync(marks::breaks::with()));
        assert_eq!(report.status, Status::PANIC, "{report}");
        assert!(report.text.contains("broken in its middle at"), "{report}");
        expect(&node, epoch, "breaks", "marks.rs");
        shown(&node, epoch);
        still_works(&node);
        assert_eq!(node.info().epoch, epoch + 1);
        expect_runaway(&node, Duration::ZERO);
    }
    assert_eq!(children(std::process::id()), machines, "the machine goes on");
}

/// A call in the no-abort section is ended after it leaves the section. A call that forgets its
/// section does not protect later calls.
pub fn put_off(spec: &str) {
    let node = devices::open(spec, options());
    let begin = Instant::now();
    let call = node.offload_with(marks::puts_off::with(500_000), limit()).expect("sent");
    assert_eq!(fault(call.wait()).status, Status::RUNAWAY);
    assert!(begin.elapsed() >= Duration::from_millis(500), "not in its middle: {:?}", begin.elapsed());
    expect_runaway(&node, Duration::from_millis(100));
    for _ in 0..3 {
        node.sync(marks::forgets::with()).expect("runs");
        expect_runaway(&node, Duration::from_millis(100));
    }
    still_works(&node);
    assert_eq!(node.info().epoch, 1);
    assert!(node.last_crash().is_none());
    until("the device is there", || node.is_alive());
}

/// A text at a bad address traps while the logger has its lock: the next epoch's log begins with
/// the reason, and continues.
pub fn in_the_logger(spec: &str) {
    let node = devices::open(spec, options());
    let machines = children(std::process::id());
    let mut logs = node.logs().expect("an image that logs");
    // Lines of the first epoch do not matter here.
    log_until(&node, &mut logs, "at first");
    for epoch in 1..4 {
        let report = fault(node.sync(logs_nothing::with()));
        assert_eq!((report.status, report.trace.address & !0xff), (Status::TRAP, 0), "{report}");
        let crash = expect(&node, epoch, "logs_nothing", "crashes.rs");
        // The logger read the text, so it had its lock.
        assert!(crash.backtrace().names("write"), "{crash}");
        still_works(&node);
        assert_eq!(node.info().epoch, epoch + 1);
        let events = log_until(&node, &mut logs, &format!("after epoch {epoch}"));
        let epoch = events.iter().position(|event| *event == LogEvent::Epoch(epoch + 1)).expect("a new epoch");
        let abandoned = |event: &LogEvent| matches!(event, LogEvent::Line(line) if line.message.contains(&crash.text));
        assert!(events[epoch..].iter().any(abandoned), "no `{}` in {events:?}", crash.text);
        assert_eq!(lost(&events), 1, "{events:?}");
    }
    assert_eq!(children(std::process::id()), machines, "the machine goes on");
}

/// A value that cannot be formatted traps outside of the logger's lock: the call ends, the line is
/// lost, and the image keeps running.
pub fn in_a_line(spec: &str) {
    let node = devices::open(spec, options());
    let mut logs = node.logs().expect("an image that logs");
    log_until(&node, &mut logs, "at first");
    for round in 0..3 {
        let report = fault(node.sync(marks::breaks_a_line::with()));
        assert_eq!(report.status, Status::TRAP, "{report}");
        assert!(report.backtrace().names("breaks_a_line"), "{report}");
        let events = log_until(&node, &mut logs, &format!("round {round}"));
        assert_eq!(lost(&events), 1, "{events:?}");
    }
    assert_eq!(node.info().epoch, 1);
}

/// The log up to the line of a call with `text`.
fn log_until(node: &Node, logs: &mut Logs, text: &str) -> Vec<LogEvent> {
    node.sync(say::with(1, 2.0, heapless::String::try_from(text).expect("it fits"))).expect("a reply");
    let mut events = Vec::new();
    until("the logger works", || {
        events.extend(logs.wait_timeout(Duration::from_millis(50)));
        let is_it = |event: &LogEvent| matches!(event, LogEvent::Line(line) if line.message.contains(text));
        events.iter().any(is_it)
    });
    events
}

/// The number of lost lines.
fn lost(events: &[LogEvent]) -> u32 {
    assert!(!events.iter().any(|event| matches!(event, LogEvent::Garbled(_))), "{events:?}");
    events.iter().map(|event| if let LogEvent::Lost(lines) = event { *lines } else { 0 }).sum()
}

/// A runaway that logs is ended without harm to the logger.
pub fn logs_for_ever(spec: &str) {
    let node = devices::open(spec, options());
    for _ in 0..10 {
        let call = node.offload_with(flood::with(u32::MAX), limit()).expect("sent");
        assert_eq!(fault(call.wait()).status, Status::RUNAWAY);
    }
    let mut logs = node.logs().expect("an image that logs");
    log_until(&node, &mut logs, "still here");
    assert_eq!(node.info().epoch, 1);
}

fn limit() -> CallOptions {
    CallOptions { limit: Some(Duration::from_millis(100)), ..CallOptions::default() }
}

/// The call ends as a runaway.
fn expect_runaway(node: &Node, least: Duration) {
    let begin = Instant::now();
    let call = node.offload_with(loops::with(), limit()).expect("sent");
    assert_eq!(fault(call.wait()).status, Status::RUNAWAY);
    assert!((least..Duration::from_secs(5)).contains(&begin.elapsed()), "{:?}", begin.elapsed());
}
