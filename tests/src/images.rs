//! An image in the place of another, on devices of any kind.

use crate::conformance::{Gate, Stop, options, until};
use crate::crashes::fault;
use crate::devices;
use hamr::{CallError, CallOptions, Error, Image, Node, Options, Stream, StreamOptions, SubmitError};
use hamr_comm::abi::status::Status;
use hamr_comm::{BufferPtr, Context, Fault, Task};
use hamr_kernels::faults::{background, divide};
use hamr_tests_kernels::crashes::{loops, null, overflows, writes_code};
use hamr_tests_kernels::variants::FAILS_LATE;
use hamr_tests_kernels::waits::{gather_at, wait_task_at};
use hamr_tests_kernels::{echo, wait_at};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Of `tests/image`: it has none of the handlers of `tests/kernels`.
const NEXT: &str = "hamr-checks-next";

type Calls = fn(&mut Context, u64) -> (u64, u64);
type Sum = fn(&mut Context, BufferPtr<u64>) -> Result<u64, Fault>;
type Yields = fn(&mut Task, u32) -> Result<u32, Fault>;
type Panics = fn(&mut Context, u32) -> u32;

fn open(spec: &str) -> Node {
    devices::open(spec, options())
}

/// The image after the first one.
pub fn next(spec: &str) -> Image {
    devices::image_of(NEXT, spec)
}

/// Its file.
fn next_file(spec: &str) -> PathBuf {
    let target = devices::runtime().target(spec).expect("a known device").expect("it takes images");
    next(spec).resolve(&target).expect("the image builds").path
}

fn path_of(handler: &str) -> String {
    format!("hamr_checks_next::{handler}")
}

fn calls(node: &Node, value: u64) -> (u64, u64) {
    node.named::<Calls>(&path_of("calls")).expect("it has it").sync((value,)).expect("runs")
}

fn is_missing(stream: &Stream<'_>) -> bool {
    let error = stream.sync(echo::with(1u64)).expect_err("the image has it not");
    assert!(error.to_string().contains("echo"), "{error}");
    matches!(error, CallError::Submit(why) if matches!(*why, SubmitError::MissingHandler { .. }))
}

/// The processes that this one has started and that run.
fn children() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let mut all: Vec<String> =
        tasks.flatten().map(of).flat_map(|text| text.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    all.retain(|pid| !pid.is_empty());
    all.sort();
    all
}

/// The handlers of the new image are called, those of the old are refused by name; streams go on, and
/// buffers keep their content. A machine goes on, a process is another one.
pub fn replaces(spec: &str) {
    let node = open(spec);
    let stream = node.stream().expect("free");
    let numbers: Vec<u64> = (0..1000).collect();
    let x = node.buffer(&numbers).expect("room");
    let unread = stream.offload(echo::with(7u64)).expect("sent");
    stream.flush().expect("it ran");
    let old = node.named::<fn(&mut Context, u64) -> u64>("hamr_tests_kernels::echo<u64>");
    let (info, live, processes) = (node.info(), node.live_buffers(), children());
    let longest = node.limits().message;
    node.load_image(&next(spec)).expect("it starts");
    let after = node.info();
    assert_eq!(node.limits().message == longest, spec.ends_with("shm"), "an image says how long, a process takes any");
    assert_eq!((after.epoch, node.live_buffers()), (info.epoch + 1, live));
    assert!(after.build_id != info.build_id && after.image == Some(next_file(spec)), "{after:?}");
    assert_eq!(children() == processes, !spec.ends_with("shm"));
    assert_eq!(unread.wait().expect("it had its reply before"), 7);
    assert!(is_missing(&stream) && is_missing(&node.stream().expect("free")));
    assert!(node.warnings().iter().any(|warning| warning.to_string().contains("wait_at")));
    if let Ok(old) = old {
        let error = old.sync((1,)).expect_err("of the old image");
        assert!(matches!(error, CallError::Submit(why) if matches!(*why, SubmitError::Unloaded { .. })));
    }
    assert_eq!((calls(&node, 5), calls(&node, 6)), ((41, 0), (42, 5)), "the image's own data");
    let sum = node.named::<Sum>(&path_of("sum")).expect("it has it");
    assert_eq!(sum.sync((x.ptr(),)).expect("the buffer stays"), numbers.iter().sum::<u64>());
    assert_eq!(x.read().expect("there"), numbers);
    let yields = node.named::<Yields>(&path_of("yields")).expect("it has it");
    assert_eq!(yields.sync((3,)).expect("tasks run"), 3);
    let panics = node.named::<Panics>(&path_of("panics")).expect("it has it");
    let Err(CallError::Fault(report)) = panics.sync((9,)) else { panic!("it panics") };
    let text = report.to_string();
    assert!(text.contains("was given 9") && text.contains("next.rs"), "{text}");
    assert!(report.backtrace().names("panics"), "names are of the new file: {text}");
    node.load_image(&devices::image(spec)).expect("it starts");
    assert_eq!(stream.sync(echo::with(8u64)).expect("it is back"), 8);
    if !spec.ends_with("shm") {
        assert_eq!(children(), processes);
        is_guarded(&node);
    }
    assert!(node.named::<Sum>(&path_of("sum")).is_err());
    node.load_image(&next(spec)).expect("it starts");
    assert_eq!(calls(&node, 0), (41, 0), "its data begin anew");
    node.restart().expect("starts again");
    assert_eq!(calls(&node, 0), (41, 0), "a restart is of the new image");
}

/// The image's memory is protected: a machine's handlers end at its guards, and it goes on.
fn is_guarded(node: &Node) {
    let epoch = node.info().epoch;
    for report in [node.sync(null::with()), node.sync(overflows::with(u64::MAX)), node.sync(writes_code::with())] {
        let report = fault(report);
        assert_eq!(report.status, Status::TRAP, "{report}");
    }
    assert_eq!((node.sync(echo::with(9u64)).expect("runs"), node.info().epoch), (9, epoch));
}

/// A stream whose tasks need more stack than those of the next image have runs none of them there, and again
/// those of the first image; its inline handlers run on, and a stream that needs less has both.
pub fn less_stack(spec: &str) {
    let node = open(spec);
    let (first, stack) = (devices::image(spec), node.info().task_stack);
    let needs = |bytes| StreamOptions { task_stack: Some(bytes), ..StreamOptions::default() };
    let (deep, plain) = (node.stream_with(needs(stack)).expect("as it has"), node.stream().expect("free"));
    let runs = |stream: &Stream<'_>| {
        assert_eq!(stream.sync(background::with(3)).expect("runs"), 9);
        assert_eq!(stream.offload(background::with(4)).expect("sent").wait().expect("runs"), 12);
    };
    runs(&deep);
    node.load_image(&next(spec)).expect("it starts");
    let less = node.info().task_stack;
    assert!(less < stack);
    let CallError::Submit(why) = deep.sync(background::with(5)).expect_err("refused") else { panic!("it was sent") };
    for why in [*why, deep.offload(background::with(6)).map(drop).expect_err("refused")] {
        assert!(matches!(why, SubmitError::TaskStack { needed, has, .. } if (needed, has) == (stack, less)), "{why}");
        let text = why.to_string();
        assert!(text.contains(&stack.to_string()) && text.contains(&less.to_string()), "{text}");
    }
    assert!(matches!(deep.send(background::with(7)), Err(SubmitError::TaskStack { .. })));
    assert_eq!(deep.sync(divide::with(8, 2)).expect("an inline handler"), 4);
    runs(&plain);
    let Err(Error::InvalidConfig { option: "StreamOptions::task_stack", .. }) = node.stream_with(needs(stack)) else {
        panic!("it is not refused")
    };
    // The queue pair of the one that had none, or of the one that was not opened.
    drop(deep);
    for _ in 0..3 {
        runs(&node.stream_with(needs(less)).expect("as the image has"));
    }
    let deep = node.stream_with(needs(less)).expect("as the image has");
    node.load_image(&first).expect("it starts");
    runs(&deep);
    runs(&node.stream_with(needs(stack)).expect("as it has"));
}

/// So many images, each in the place of the one before, in one process of a machine.
pub fn again(spec: &str, times: u32) {
    let node = open(spec);
    let stream = node.stream().expect("free");
    let x = node.buffer(&[1u64, 2, 3]).expect("room");
    let images = [next(spec), devices::image(spec)];
    let processes = children();
    for round in 0..times {
        node.load_image(&images[round as usize % 2]).expect("it starts");
        if round % 2 == 0 {
            assert!(is_missing(&stream));
            assert_eq!(calls(&node, 0), (41, 0));
        } else {
            assert_eq!(stream.sync(echo::with(u64::from(round))).expect("runs"), u64::from(round));
        }
        assert_eq!(x.read().expect("there"), [1, 2, 3]);
        assert_eq!(children() == processes, !spec.ends_with("shm"));
    }
    assert_eq!(node.info().epoch, times + 1);
}

/// A call in flight ends first; where it does not in time, it is named and goes on, and the old image
/// stays.
pub fn in_flight(spec: &str) {
    let node = open(spec);
    let stream = node.stream().expect("free");
    let refused = |handler: &str| {
        let error = node.load_image_within(&next(spec), Duration::from_millis(20)).expect_err("a call runs");
        let text = error.to_string();
        assert!(matches!(error, Error::LoadImage { .. }) && text.contains(handler), "{text}");
        assert!(text.contains("in flight after 20ms"), "{text}");
    };
    let gate = Gate::new(&node);
    let pending = stream.offload(wait_task_at::with(gate.ptr(), 3)).expect("sent");
    gate.wait_for(1);
    refused("wait_task_at");
    gate.open();
    assert_eq!(pending.wait().expect("it goes on"), 3);
    let gate = Gate::new(&node);
    let pending = stream.offload(wait_at::with(gate.ptr(), 4)).expect("sent");
    gate.wait_for(1);
    refused("wait_at");
    let behind = stream.offload(echo::with(5u64)).expect("sent");
    std::thread::scope(|scope| {
        let load = scope.spawn(|| node.load_image(&next(spec)));
        // A limit counts beside another thread that waits longer, once that has begun.
        until("the other thread loads an image", || {
            let error = node.load_image_within(&next(spec), Duration::from_millis(20)).expect_err("a call runs");
            error.to_string().contains("another thread loads an image after 20ms")
        });
        assert!(!load.is_finished(), "it waits");
        gate.open();
        load.join().expect("a thread").expect("the calls have ended");
    });
    assert_eq!(pending.wait().expect("it ended first"), 4);
    assert_eq!(behind.wait().expect("it ended first"), 5);
    assert!(is_missing(&stream));
}

/// Calls that the device has refused are not in flight, though their thread has not read that.
pub fn refused_and_unread(spec: &str) {
    let node = devices::open(spec, Options { tickets: 64, ..options() });
    let gate = Gate::new(&node);
    std::thread::scope(|scope| {
        let node = &node;
        // Dropped by a check that fails, which ends the other thread's wait.
        let (sent, is_sent) = std::sync::mpsc::channel();
        let (read, is_read) = std::sync::mpsc::channel::<()>();
        let (places, ptr) = (u64::from(node.info().tasks), gate.ptr());
        let caller = scope.spawn(move || {
            let stream = node.stream().expect("free");
            // The backlog has room for 16.
            let held = (0..places + 16 + 4).map(|n| stream.offload(gather_at::with(ptr, n)).expect("sent"));
            let held: Vec<_> = held.collect();
            sent.send(()).expect("it waits");
            is_read.recv().expect("it says so");
            held.into_iter().map(|call| call.wait()).collect::<Vec<_>>()
        });
        is_sent.recv().expect("sent");
        gate.wait_for(places as u32);
        let error = node.load_image_within(&next(spec), Duration::from_millis(20)).expect_err("calls run").to_string();
        assert!(error.contains("gather_at"), "{error}");
        gate.open();
        node.load_image(&next(spec)).expect("the rest was refused");
        read.send(()).expect("it waits");
        let outcomes = caller.join().expect("a thread");
        for (n, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(value) => assert_eq!(value, n as u64),
                Err(CallError::Submit(why)) => assert!(matches!(*why, SubmitError::QueueFull { .. }), "{why}"),
                Err(error) => panic!("expected a value or a full queue, got {error}"),
            }
        }
        assert_eq!(calls(node, 5), (41, 0));
    });
}

/// A device that is lost gets a new epoch first, and one that gets none says why it was lost.
pub fn after_a_loss(spec: &str) {
    for restart in [true, false] {
        let node = devices::open(spec, Options { restart, ..options() });
        let report = fault(node.sync(null::with()));
        let loaded = node.load_image(&next(spec));
        if restart {
            loaded.expect("it starts");
            assert_eq!((calls(&node, 5), node.info().epoch), ((41, 0), 3), "{report}");
        } else {
            let error = loaded.expect_err("it is lost");
            let text = error.to_string();
            assert!(matches!(error, Error::Lost { .. }) && text.contains("loading an image"), "{text}");
            assert!(text.contains("it ended by a fault"), "{text}");
        }
    }
}

/// Threads that load images at once do it one after the other.
pub fn by_threads(spec: &str) {
    let node = open(spec);
    let (old, new) = (devices::image(spec), next(spec));
    std::thread::scope(|scope| {
        for image in [&old, &new] {
            let node = &node;
            scope.spawn(move || (0..4).for_each(|_| node.load_image(image).expect("it starts")));
        }
    });
    assert_eq!(node.info().epoch, 9);
    node.load_image(&new).expect("it starts");
    assert_eq!(calls(&node, 5), (41, 0));
}

/// Threads that call meanwhile get values, or errors with names; behind each load they are called on.
pub fn beside_calls(spec: &str) {
    let node = open(spec);
    let kept = [devices::image(spec), next(spec)];
    let stop = AtomicBool::new(false);
    let is_over = || stop.load(Ordering::Relaxed);
    let values = AtomicU64::new(0);
    let count = || values.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stream = node.stream().expect("free");
            let mut n = 0u64;
            while !is_over() {
                n += 1;
                match stream.sync(echo::with(n)) {
                    Ok(value) => {
                        assert_eq!(value, n);
                        values.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => assert!(error.to_string().contains("echo"), "{error}"),
                }
            }
        });
        let _stop = Stop(&stop);
        for round in 0..7 {
            // A caller that never pauses may be in flight at each look.
            until("no call is in flight", || node.load_image(&kept[round % 2]).is_ok());
            let before = count();
            if round % 2 == 0 {
                until("the caller gets values again", || count() > before);
            }
        }
    });
}

/// What cannot run there is refused by name, and the old image goes on.
pub fn refusals(spec: &str, other: &str) {
    let node = open(spec);
    let folder = tempfile::tempdir().expect("a folder");
    let whole = std::fs::read(next_file(spec)).expect("a file");
    let still_runs = |epoch: u32| {
        assert_eq!(node.sync(echo::with(6u64)).expect("the old image runs"), 6);
        assert_eq!(node.info().epoch, epoch);
    };
    let refused = |image: Result<Image, Error>| {
        let error = image.and_then(|image| node.load_image(&image)).expect_err("refused").to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    let bytes = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("it is ours");
        refused(Image::file(path))
    };
    let error = refused(Ok(devices::image(other)));
    assert!(error.contains("expected a"), "{error}");
    let error = bytes("text", b"no image");
    assert!(error.contains("expected an ELF file"), "{error}");
    let error = bytes("short", &whole[..whole.len() / 2]);
    assert!(error.contains("cut short"), "{error}");
    let mut future = whole.clone();
    let note = find(&future, b"hamr\0\0\0\0");
    future[note + 8..note + 16].copy_from_slice(&[9, 0, 9, 0, 9, 0, 9, 0]);
    let error = bytes("future", &future);
    assert!(error.contains("ABI"), "{error}");
    still_runs(1);
    // The device tries it, and goes back.
    let error = if spec.ends_with("shm") {
        let mut broken = whole.clone();
        let entry = entry_in(&broken);
        broken[entry..entry + 16].fill(0);
        bytes("broken", &broken)
    } else {
        let mut large = whole.clone();
        data_memory_in(&mut large).copy_from_slice(&(1u64 << 32).to_le_bytes());
        let error = bytes("large", &large);
        assert!(error.contains("large: expected an image between 0x"), "{error}");
        still_runs(1);
        refused(Ok(devices::variant(spec, FAILS_LATE)))
    };
    assert!(error.contains("it did not start, so the device has its old image again"), "{error}");
    still_runs(3);
}

/// A processor that protects the image until reset refuses another by name, and runs its own on: calls, the end
/// of those that run too long, and its guards.
pub fn is_protected(spec: &str) {
    let node = open(spec);
    let stream = node.stream().expect("free");
    let epoch = node.info().epoch;
    for value in 0..2u64 {
        let error = node.load_image(&next(spec)).expect_err("it is protected");
        let text = error.to_string();
        assert!(matches!(error, Error::LoadImage { .. }) && text.contains("supervisor mode"), "{text}");
        assert_eq!((stream.sync(echo::with(value)).expect("runs"), node.info().epoch), (value, epoch));
    }
    is_guarded(&node);
    let limit = CallOptions { limit: Some(Duration::from_millis(1)), ..CallOptions::default() };
    let report = fault(stream.sync_with(loops::with(), limit));
    assert_eq!(report.status, Status::RUNAWAY, "{report}");
    assert_eq!(stream.sync(echo::with(5u64)).expect("runs"), 5);
}

fn find(bytes: &[u8], wanted: &[u8]) -> usize {
    bytes.windows(wanted.len()).position(|part| part == wanted).expect("it is there")
}

/// How long the memory of the data is, in a header of the file.
fn data_memory_in(file: &mut [u8]) -> &mut [u8] {
    let number = |at: usize, len: usize| file[at..at + len].iter().rev().fold(0, |n, byte| n << 8 | usize::from(*byte));
    let (first, len, count) = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
    // PT_LOAD, read and written.
    let is_data = |at: &usize| number(*at, 4) == 1 && number(at + 4, 4) == 6;
    let at = (0..count).map(|i| first + i * len).find(is_data).expect("it has data") + 0x28;
    &mut file[at..at + 8]
}

/// Where in the file the code is that runs first.
fn entry_in(file: &[u8]) -> usize {
    use object::{Object, ObjectSegment};
    let elf = object::File::parse(file).expect("an ELF file");
    let segment = elf.segments().find(|s| (s.address()..s.address() + s.size()).contains(&elf.entry()));
    let segment = segment.expect("it is loaded");
    (segment.file_range().0 + (elf.entry() - segment.address())) as usize
}
