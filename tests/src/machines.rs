//! Tests that need a machine of its own: its instruction set, atomics and fences against another
//! program, an image that survives garbage. One macro call per machine:
//!
//! ```no_run
//! hamr_tests::machine!(hamr::qemu::Machine::RISCV64);
//! # fn main() {}
//! ```

mod garbage;
mod rig;
mod starts;
mod task_crashes;

pub use garbage::{a_window_too_small_is_refused, garbage_in_every_slot, garbage_in_the_preamble};
pub use starts::{a_fault_before_serving, a_fault_before_the_window_is_found};
pub use task_crashes::{
    crashes_beside_suspended_tasks, crashes_of_tasks, stacks_without_guards_are_not_used, ten_tasks_and_their_epoch,
};

use crate::conformance::Random;
use crate::crashes::{fault, still_works};
use crate::devices;
use hamr::Options;
use hamr::qemu::Machine;
use hamr_comm::abi::status::Status;
use hamr_comm::registry::Table;
use hamr_tests_kernels::crashes::leaps;
use object::{Object, ObjectSymbol};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::time::{Duration, Instant};

/// One test per case, on one machine with the image of `tests/image`.
#[macro_export]
macro_rules! machine {
    ($machine:expr) => {
        mod machine {
            use super::*;
            $crate::__machine! { $machine;
                the_handler_table_is_in_the_image_file, floats_have_the_hosts_bits, garbage_in_the_preamble,
                garbage_in_every_slot, faults_are_contained, a_window_too_small_is_refused,
                a_fault_before_the_window_is_found, a_fault_before_serving, large_frames_do_not_step_over_the_guard,
                crashes_of_tasks
            }
            /// One takes both processors, and in the other's image no call may take longer than 200 ms.
            mod alone {
                use super::*;
                $crate::__machine! { $machine; a_lock_without_atomics, ten_tasks_and_their_epoch }
            }
        }
    };
}

/// The tests of [`machine!`].
#[doc(hidden)]
#[macro_export]
macro_rules! __machine {
    ($machine:expr; $($case:ident),*) => {$(
        #[test]
        fn $case() {
            $crate::machines::$case(&$machine);
        }
    )*};
}

fn spec(machine: &Machine) -> String {
    format!("qemu:{}", machine.name)
}

/// The image file contains the handler table: read-only, in the linker's order, with the keys that
/// this program uses.
pub fn the_handler_table_is_in_the_image_file(machine: &Machine) {
    let target = devices::runtime().target(&spec(machine)).expect("known").expect("takes an image");
    let file = devices::image(&spec(machine)).resolve(&target).expect("an image");
    let node = devices::open(&spec(machine), Options::default());
    let table = file.handlers().expect("the table is in the file");
    let names: Vec<&str> = table.iter().map(|h| &*h.name).collect();
    // A test program has more handlers than the image, which has those that load modules and images. Those
    // in both are in the same order, so their keys are too.
    let ours = Table::of_this_image();
    let loads = |name: &str| name.starts_with("hamr_comm::module::");
    assert_eq!(names.iter().filter(|name| loads(name)).count(), 4, "{names:?}");
    let expected: Vec<&str> = names.iter().copied().filter(|name| !loads(name)).collect();
    let shared: Vec<&str> = ours.iter().map(|e| e.name).filter(|name| expected.contains(name)).collect();
    assert_eq!(shared, expected, "host and file agree on the order");
    let handlers = node.handlers();
    let shown: Vec<&str> = handlers.iter().map(|h| &*h.name).collect();
    assert_eq!(shown, names, "the running image shows the same");
    for h in table.iter().filter(|h| !loads(&h.name)) {
        let entry = ours.iter().find(|e| e.name == h.name).expect("in both");
        assert_eq!((entry.id, entry.signature), (h.id, h.signature), "{}", h.name);
    }
    assert!(file.handlers_are_read_only().expect("an image"), "nothing may write the table");
    let hosted = devices::image("shm").resolve(&hamr::Target::hosted()).expect("an image");
    assert_eq!(file.fingerprint, hosted.fingerprint, "the process and the machine have the same handlers");
    let there: Vec<String> = hosted.handlers().expect("the table is in the file").into_iter().map(|h| h.name).collect();
    assert_eq!(there, names, "in the same order");
}

/// Peterson's lock between this program and the machine. It needs correct stores, loads and full
/// fences of both sides. An emulator for one processor omits the fences, and loses counts.
pub fn a_lock_without_atomics(machine: &Machine) {
    use hamr_tests_kernels::{CELLS, compete, competed, peterson};
    const ROUNDS: u32 = 1_000_000;
    const AT_ONCE: u32 = 50_000;
    // A side that waits for the lock spins: on one shared processor, each round would last until
    // the scheduler switches sides.
    let (here, there) = two_processors().unzip();
    let node = devices::open(&spec(machine), Options { cpu: there, ..Options::default() });
    if let Some(here) = here {
        let mut set = CpuSet::new();
        set.set(here);
        sched_setaffinity(None, &set).expect("one of this thread's processors");
    }
    let cells = node.buffer(&[0u32; CELLS]).expect("room");
    let words = node.words(cells.ptr()).expect("the words");
    let (mut done, mut waited, begin) = (0, 0, Instant::now());
    let is_contended = |waited, done| waited > done / 1000;
    // Beside other programs a minute is enough, if both sides ran at the same time.
    while done < ROUNDS && (begin.elapsed() < Duration::from_secs(60) || !is_contended(waited, done)) {
        let there = node.offload(peterson::with(cells.ptr(), AT_ONCE)).expect("sent");
        waited += compete(words, 0, AT_ONCE).expect("enough words");
        there.wait().expect("the device counted too");
        done += AT_ONCE;
        assert_eq!(competed(words), Some(2 * done), "both were inside at once");
    }
    println!("{}: {waited} of {done} rounds waited, {:.1?}", machine.name, begin.elapsed());
    assert!(is_contended(waited, done), "the lock was contended: {waited} of {done} rounds waited");
}

/// Two processors that this thread may use.
fn two_processors() -> Option<(usize, usize)> {
    let allowed = sched_getaffinity(None).expect("this thread's processors");
    let mut allowed = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    Some((allowed.next()?, allowed.next()?))
}

/// Floating point on the machine has the host's bits, and the device reports its instruction set.
pub fn floats_have_the_hosts_bits(machine: &Machine) {
    use hamr_kernels::demo::{dot_f64, isa};
    let node = devices::open(&spec(machine), Options::default());
    let mut random = Random(7);
    let mut numbers = || -> Vec<f64> { (0..10_007).map(|_| random.number() as i64 as f64 * 1e-17).collect() };
    let (x, y) = (numbers(), numbers());
    let here = x.iter().zip(&y).fold(0.0f64, |sum, (a, b)| sum + a * b);
    let (x, y) = (node.buffer(&x).expect("room"), node.buffer(&y).expect("room"));
    let there = node.sync(dot_f64::with(x.ptr(), y.ptr())).expect("computes");
    assert_eq!(there.to_bits(), here.to_bits(), "{there} and {here}");
    assert_eq!(node.sync(isa::with()).expect("a reply"), machine.isa.0);
    assert_eq!(node.info().isa, machine.isa);
}

/// A handler's fault ends its own call; the image serves the next one, many times.
pub fn faults_are_contained(machine: &Machine) {
    use hamr_kernels::faults::{divide, panics};
    let node = devices::open(&spec(machine), Options::default());
    for n in 0..1000 {
        let error = node.sync(panics::with(n)).expect_err("panics").to_string();
        assert!(error.contains(&format!("asked to panic with {n}")) && error.contains("faults.rs:"), "{error}");
        assert_eq!(node.sync(divide::with(84, 2)).expect("the next call works"), 42);
    }
}

/// Frames larger than a page end in the guard, whichever part of them is used.
pub fn large_frames_do_not_step_over_the_guard(machine: &Machine) {
    let node = devices::open(&spec(machine), Options::default());
    let target = devices::runtime().target(&spec(machine)).expect("known").expect("takes an image");
    let path = devices::image(&spec(machine)).resolve(&target).expect("an image").path;
    let guard = symbol(&path, "__hamr_serve_guard")..symbol(&path, "__hamr_serve_stack");
    for kib in (12..=32).step_by(4) {
        let report = fault(node.sync(leaps::with(kib)));
        assert_eq!(report.status, Status::TRAP, "{report}");
        assert!(report.backtrace().names("leap"), "{kib} KiB: {report}");
        // aarch64 and x86_64 touch each page of a frame before they use it; on riscv64 the first
        // access may be anywhere in the wider guard.
        assert!(guard.contains(&report.trace.address), "{kib} KiB, guard {guard:x?}: {report}");
        still_works(&node);
    }
    assert_eq!(node.info().epoch, 1);
}

/// The address of a symbol of an image.
fn symbol(image: &std::path::Path, name: &str) -> u64 {
    let bytes = std::fs::read(image).expect("readable");
    let file = object::File::parse(&*bytes).expect("an image");
    file.symbol_by_name(name).unwrap_or_else(|| panic!("no symbol {name}")).address()
}
