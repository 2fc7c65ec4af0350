//! Failures of other offload libraries, as tests of this one (docs/ham-veo.md has the list, with the
//! tests that are elsewhere). Over shared memory, where a device is a process of its own.

use hamr::{CallError, Error, Image, Node, Options, Runtime, SubmitError};
use hamr_comm::{Context, offload};
use hamr_kernels::bench::empty;
use hamr_kernels::faults::panics;
use hamr_tests::conformance::transfers::Held;
use hamr_tests::conformance::{Gate, options};
use hamr_tests_kernels::{echo, wait_at};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

fn open(options: Options) -> Node {
    let image = Image::find("hamr-checks").expect("an image");
    RUNTIME.open_with("shm", image, options).expect("a device")
}

/// HAM-Offload: 200 outstanding calls had 70 wrong results, 1,000 ended the target.
#[test]
fn many_outstanding_calls_have_their_own_results() {
    let node = open(options());
    let stream = node.stream().expect("free");
    for count in [200, 1_000, 100_000u64] {
        let calls: Vec<_> = (0..count).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
        assert_eq!(stream.outstanding() as u64, count);
        // The last first: no result is in the place of another.
        for (n, call) in calls.into_iter().enumerate().rev() {
            assert_eq!(call.wait().expect("runs"), n as u64, "of {count}");
        }
        assert_eq!(stream.outstanding(), 0);
    }
}

/// Longer than a message.
type Text = heapless::String<17_000>;

#[offload]
fn doubled(_cx: &mut Context, text: Text) -> Text {
    let mut twice = text.clone();
    // Where that is longer than its type allows: once.
    let _ = twice.push_str(&text);
    twice
}

#[offload]
fn sum_of(_cx: &mut Context, x: &[u64]) -> u64 {
    x.iter().sum()
}

/// HAM-Offload: an argument longer than a slot went over its end, a result ended the job. Here each limit
/// can be asked for, and the error of what exceeds it has it.
#[test]
fn what_exceeds_a_limit_is_refused_with_the_limit() {
    let open = |options| RUNTIME.open_with("loopback", Image::find("hamr-checks").expect("an image"), options);
    let node =
        open(Options { streams: Some(2), max_buffers: 8, max_outstanding: 4, chunk: 256, heap: 1 << 20, ..options() });
    let node = node.expect("a device");
    let limits = node.limits();
    assert_eq!((limits.slot, limits.two_lines, limits.chunk, limits.message), (48, 112, 256, 16 << 10));
    let text = |len: usize| (0..len).map(|i| char::from(b'a' + (i % 26) as u8)).collect::<Text>();
    // A text has four bytes of length.
    for len in [0, limits.slot, limits.two_lines, limits.chunk, limits.message / 2].map(|most| most.saturating_sub(4)) {
        assert_eq!(node.sync(doubled::with(text(len))).expect("runs").len(), 2 * len);
    }
    let longest = limits.message - 4;
    assert_eq!(node.sync(doubled::with(text(longest))).expect("runs").len(), longest);
    match node.sync(doubled::with(text(8400))) {
        Err(CallError::ResultTooLong { needed, .. }) => assert_eq!(needed, 2 * 8400 + 4),
        other => panic!("expected a result that is too long, got {other:?}"),
    }
    let long = node.offload(doubled::with(text(longest + 1))).err().expect("one byte too many");
    assert!(
        matches!(&long, SubmitError::TooLong { len, limit, .. } if *len == longest + 5 && *limit == limits.message),
        "{long}"
    );
    assert!(long.to_string().contains(&format!("takes {}", limits.message)), "{long}");

    // Slices have no limit but the heap.
    let half = vec![1u64; limits.heap as usize / 16];
    assert_eq!(node.sync_staged(sum_of::staged(&half)).expect("runs"), half.len() as u64);
    let too_many = vec![1u64; limits.heap as usize / 4];
    let full = node.sync_staged(sum_of::staged(&too_many)).expect_err("twice the heap").to_string();
    assert!(full.contains(&limits.heap.to_string()), "{full}");
    let sums = node.stream_in(&too_many, |portion, _| sum_of::with(portion)).expect("in portions");
    assert_eq!(sums.iter().sum::<u64>(), too_many.len() as u64);

    let buffers: Vec<_> = (0..limits.buffers).map(|i| node.buffer(&[i]).expect("below the limit")).collect();
    assert!(matches!(node.buffer(&[0u8]), Err(Error::TooManyBuffers { limit, .. }) if limit == limits.buffers));
    drop(buffers);
    // This thread has one of the streams.
    let stream = node.stream().expect("the second");
    assert!(matches!(node.stream(), Err(Error::TooManyStreams { limit, .. }) if limit == limits.streams));
    let calls: Vec<_> = (0..limits.outstanding).map(|_| stream.offload(empty::with()).expect("sent")).collect();
    let full = stream.offload(empty::with()).err().expect("one too many");
    assert!(matches!(full, SubmitError::Full { limit, .. } if limit == limits.outstanding), "{full}");
    drop(calls);
}

/// HAM-Offload: each ping kept two buffers for ever, and the 129th found none.
#[test]
fn a_million_one_way_calls_leak_nothing() {
    let node = open(options());
    let stream = node.stream().expect("free");
    let send = |count: u32| {
        for _ in 0..count {
            stream.send(empty::with()).expect("sent");
        }
        stream.flush().expect("all have run");
    };
    send(10_000);
    let before = resident_pages();
    send(1_000_000);
    let grown = resident_pages().saturating_sub(before);
    assert!(grown < 256, "{grown} pages for a million calls");
    assert_eq!((stream.outstanding(), stream.one_way_failures()), (0, 0));
    assert_eq!(stream.sync(echo::with(7u64)).expect("goes on"), 7);
}

/// HAM-Offload: an asynchronous put over VEO returned after its copy. Here the copy cannot begin
/// before the put has returned, and calls run meanwhile.
#[test]
fn an_asynchronous_put_does_not_wait_for_its_copy() {
    let node = open(options());
    let x = node.buffer(&vec![0u64; 1 << 19]).expect("room");
    let (held, opens) = Held::new(vec![3; 1 << 19]);
    let put = node.put_async(held, x.ptr()).expect("submitted");
    for n in 0..100u64 {
        assert_eq!(node.sync(echo::with(n)).expect("runs"), n);
    }
    assert!(!put.is_done(), "the elements cannot be read yet");
    drop(opens);
    put.wait().expect("writes");
    assert!(node.read(x.ptr()).expect("reads").iter().all(|element| *element == 3));
}

/// VEO: a host function of a context runs when nothing of it is in flight. Here one runs between two
/// calls, of which the second is with the device before the first has its result.
#[test]
fn a_host_function_does_not_drain_its_stream() {
    let node = open(options());
    let stream = node.shared_stream().expect("free");
    let (first, second) = (Gate::new(&node), Gate::new(&node));
    let before = stream.offload(wait_at::with(first.ptr(), 1)).expect("sent");
    let function = stream.run_on_host(|| "ran").expect("submitted");
    let behind = stream.offload(wait_at::with(second.ptr(), 2)).expect("sent");
    first.open();
    second.wait_for(1);
    assert_eq!(function.wait().expect("runs while a call is in flight"), "ran");
    assert!(!behind.is_done());
    second.open();
    assert_eq!((before.wait().expect("runs"), behind.wait().expect("runs")), (1, 2));
}

/// Pages of this process in memory.
fn resident_pages() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("a /proc");
    // Without the pages of files: code that runs for the first time has its pages mapped then.
    let kib =
        |name| text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    (kib("RssAnon:").expect("a number") + kib("RssShmem:").expect("a number")) / 4
}

/// HAM-Offload: a long handler blocked puts, gets and allocations of its node.
#[test]
fn a_long_handler_stops_no_transfer() {
    let node = open(options());
    let gate = Gate::new(&node);
    let stream = node.stream().expect("free");
    let call = stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
    gate.wait_for(1);
    for n in 0..1_000u64 {
        let buffer = node.buffer(&[n; 100]).expect("the heap has room");
        node.put(&[n + 1; 50], buffer.ptr()).expect("put");
        let copy = node.allocate::<u64>(100).expect("the heap has room");
        node.copy(buffer.ptr(), copy.ptr()).expect("copied");
        assert_eq!(copy.read().expect("read"), [[n + 1; 50], [n; 50]].concat());
    }
    assert!(!call.is_done(), "the handler ran all the time");
    gate.open();
    assert_eq!(call.wait().expect("runs"), 1);
}

/// VEO: an exception made every queued request of the context an error, and every later call fail.
#[test]
fn calls_behind_a_fault_run() {
    let node = open(options());
    let (stream, other) = (node.stream().expect("free"), node.stream().expect("free"));
    for round in 0..10u64 {
        let before = stream.offload(echo::with(round)).expect("sent");
        let fault = stream.offload(panics::with(3)).expect("sent");
        let behind: Vec<_> = (0..20u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
        let beside = other.offload(echo::with(round + 1)).expect("sent");
        assert_eq!(before.wait().expect("runs"), round);
        let why = fault.wait().expect_err("it panics").to_string();
        assert!(why.contains("asked to panic with 3"), "{why}");
        for (n, call) in behind.into_iter().enumerate() {
            assert_eq!(call.wait().expect("runs"), n as u64);
        }
        assert_eq!(beside.wait().expect("runs"), round + 1);
    }
}

#[offload]
fn only_here(_cx: &mut Context, parts: (u8, [f32; 2])) -> (f32, bool) {
    (parts.1[0] + parts.1[1], parts.0 != 0)
}

/// VEO: results were u64 only, and a failed look-up of a function was the address 0.
#[test]
fn results_have_any_type_and_a_missing_handler_is_named() {
    let loopback = RUNTIME.open("loopback", Image::find("hamr-checks").expect("an image")).expect("a device");
    assert_eq!(loopback.sync(only_here::with((1, [0.5, 0.25]))).expect("runs"), (0.75, true));
    // The image does not hold the handler of this test.
    let node = open(options());
    let why = node.sync(only_here::with((1, [0.5, 0.25]))).expect_err("it is missing").to_string();
    assert!(why.contains("failures::only_here") && why.contains("no such handler"), "{why}");
}

/// Every file below a folder.
fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() { list(&path, files) } else { files.push(path) }
    }
}

/// The tables in docs/ham-veo.md name tests by module and function.
#[test]
fn the_tests_that_the_tables_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("in the checkout");
    let page = std::fs::read_to_string(root.join("docs/ham-veo.md")).expect("the page");
    let last = |row: &str| row.trim_end_matches('|').rsplit('|').next().map(str::to_owned);
    let cells: Vec<String> = page.lines().filter(|line| line.starts_with('|')).filter_map(last).collect();
    let mut files = Vec::new();
    for folder in ["tests/src", "tests/tests", "host/cli/tests"] {
        list(&root.join(folder), &mut files);
    }
    let mut count = 0;
    for name in cells.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
        let Some((module, function)) = name.rsplit_once("::") else { continue };
        let module = module.replace("::", "/");
        let ends = [format!("{module}.rs"), format!("{module}/main.rs")];
        let is_its = |file: &&PathBuf| ends.iter().any(|end| file.ends_with(end));
        let texts: Vec<String> = files.iter().filter(is_its).flat_map(std::fs::read_to_string).collect();
        assert!(!texts.is_empty(), "{name}: no such file");
        assert!(texts.iter().any(|text| text.contains(&format!("fn {function}("))), "{name}: no such test");
        count += 1;
    }
    assert!(count > 40, "{count} tests");
}
