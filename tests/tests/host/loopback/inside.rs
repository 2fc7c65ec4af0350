//! Handlers that use their own device: its link, its control stream, its end.

use super::*;
use hamr::{LaunchRequest, Launcher, Target};
use std::sync::{Mutex, mpsc};

static LINK: OnceLock<Arc<Loopback>> = OnceLock::new();

/// A launcher that keeps its link.
struct Keeps;

impl Launcher for Keeps {
    fn describe(&self) -> String {
        "keeps its link".into()
    }
    fn target(&self, _: &str) -> Result<Option<Target>, Error> {
        Ok(None)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let heap = request.heap_off..request.window_len;
        let link = LINK.get_or_init(|| Arc::new(Loopback::new(heap, Table::of_this_image())));
        Ok(Box::new(link.clone()))
    }
}

const PATTERN: u64 = 0x5eed_5eed_0bad_cafe;

/// Has an exclusive view, and looks for its bytes in the link's window, and in copies of the link.
#[offload]
fn looks_below_its_view(cx: &mut Context, buffer: BufferPtr<u64>, heap: [u64; 2]) -> Result<(u64, bool, bool), Fault> {
    let view = cx.view_mut(buffer)?;
    view.fill(PATTERN);
    let link = LINK.get().expect("a link");
    let window = link.window();
    let mut bytes = vec![0; window.len() as usize];
    window.read_bytes(0, &mut bytes).expect("inside");
    let in_window = bytes.chunks_exact(8).any(|word| word == PATTERN.to_ne_bytes());
    let [off, len] = heap;
    let copied = link.heap(off, len).is_ok_and(|heap| {
        let copies = heap.copies().expect("mapped");
        let written = copies.write_bytes(0, &[0; 64]).is_ok() || copies.words(0, 1).is_ok();
        written || copies.read_bytes(0, &mut [0; 64]).is_ok()
    });
    Ok((view[0], in_window, copied))
}

#[test]
fn the_window_of_a_link_ends_where_views_begin() {
    let mut runtime = Runtime::new().expect("a runtime");
    runtime.register("keeps", Keeps);
    let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
    let node = runtime.open_with("keeps", image, options()).expect("opens");
    let buffer = node.buffer(&[0u64; 8]).expect("room");
    let link = LINK.get().expect("a link");
    let (off, len) = (link.window().len(), 4096);
    assert_eq!(node.sync(looks_below_its_view::with(buffer.ptr(), [off, len])).expect("runs"), (PATTERN, false, false));
    assert_eq!(node.read(buffer.ptr()).expect("free again"), [PATTERN; 8]);
    // Not inside of a handler there are copies, and none of what is before the heap.
    assert!(link.heap(off, len).expect("the heap").copies().expect("mapped").read_bytes(0, &mut [0; 64]).is_ok());
    assert!(link.heap(off - 64, len).is_err() && link.window().part(0, off + 64).is_err());
}

/// Whatever the program writes into the preamble, the device makes no view of what the link's window covers.
#[test]
fn a_layout_with_another_heap_is_not_served() {
    let few = Options { heap: 1 << 12, ..options() };
    let long = layout(&few).heap();
    let link = Loopback::new(long.end..long.end, Table::of_this_image());
    let attached = runtime().attach("other", Box::new(link), few);
    assert!(matches!(attached, Err(Error::WindowTooShort { .. })), "{attached:?}");
}

/// True if `run` returns: a thread that waits for itself is left behind.
fn returns(run: impl FnOnce() + Send + 'static) -> bool {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        run();
        let _ = tell.send(());
    });
    told.recv_timeout(Duration::from_secs(60)).is_ok()
}

static NODE: OnceLock<Node> = OnceLock::new();
static OWNED: Mutex<Option<Node>> = Mutex::new(None);

/// Runs in the thread that waits, here in one that pings.
#[offload]
fn pings(_cx: &mut Context) -> bool {
    NODE.get().expect("a node").ping().is_ok()
}

#[test]
fn a_ping_inside_of_a_ping_is_told() {
    assert!(returns(|| {
        let node = NODE.get_or_init(|| open(options()));
        let pending = node.offload(pings::with()).expect("sent");
        node.ping().expect("the device runs");
        let outcome = pending.wait();
        assert!(matches!(&outcome, Err(CallError::Fault(report)) if report.status == Status::PANIC), "{outcome:?}");
        node.ping().expect("it is free again");
    }));
}

#[offload]
fn restarts(_cx: &mut Context) -> bool {
    NODE.get().expect("a node").restart().is_ok()
}

#[offload]
fn restarts_as_a_task(_task: &mut hamr_comm::Task) -> bool {
    NODE.get().expect("a node").restart().is_ok()
}

#[test]
fn a_handler_that_restarts_its_device_is_told() {
    assert!(returns(|| {
        let node = NODE.get_or_init(|| open(options()));
        let began_again = |outcome: Result<bool, CallError>| outcome.unwrap_or(false);
        assert!(!began_again(node.sync(restarts::with())));
        node.restart().expect("another thread may");
        assert!(!began_again(node.sync(restarts_as_a_task::with())));
        node.restart().expect("another thread may");
        assert_eq!(node.sync(echo::with(7u64)).expect("serves"), 7);
    }));
}

#[offload]
fn drops_its_node(_cx: &mut Context) -> bool {
    OWNED.lock().expect("no panic").take().is_some()
}

#[offload]
fn drops_its_node_as_a_task(_task: &mut hamr_comm::Task) -> bool {
    OWNED.lock().expect("no panic").take().is_some()
}

#[test]
fn a_handler_that_drops_its_node_is_told() {
    for is_task in [false, true] {
        assert!(returns(move || {
            let node = open(options());
            let stream = node.shared_stream().expect("a stream");
            *OWNED.lock().expect("no panic") = Some(node);
            let outcome = match is_task {
                false => stream.sync(drops_its_node::with()),
                true => stream.sync(drops_its_node_as_a_task::with()),
            };
            assert!(!matches!(outcome, Ok(false)), "{outcome:?}");
            stream.sync(echo::with(7u64)).expect_err("the device has ended");
        }));
    }
}

/// Has an exclusive view, gives another thread time, and copies into the view.
#[offload]
fn puts_late_into_its_view(cx: &mut Context, words: [u64; 2]) -> Result<(u64, bool), Fault> {
    let pointer = BufferPtr::<u64>::from_wire(WireBuffer::from_words(words));
    let view = cx.view_mut(pointer)?;
    view[0] = 1;
    std::thread::sleep(Duration::from_micros(200));
    let outcome = NODE.get().expect("a node").put(&[2], pointer);
    let is_busy = matches!(outcome, Err(Error::Buffer { why: BufferError::Busy, .. }));
    Ok((view[0], is_busy))
}

/// Ends at once. Its thread gives way to all others.
#[offload]
fn gives_way(_task: &mut hamr_comm::Task) {
    let _ = rustix::process::nice(19);
}

/// The thread that ran a task leaves the gate before the one that waits goes on.
#[test]
fn a_handler_behind_a_task_is_refused_a_copy_into_what_it_views() {
    let mut one = rustix::thread::sched_getaffinity(None).expect("a set");
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| one.is_set(*cpu)).expect("one");
    one.clear();
    one.set(first);
    rustix::thread::sched_setaffinity(None, &one).expect("one of its own");
    let node = NODE.get_or_init(|| open(options()));
    let buffer = node.buffer(&[0u64]).expect("room");
    for n in 0..2000 {
        node.sync(gives_way::with()).expect("runs");
        let outcome = node.sync(puts_late_into_its_view::with(buffer.ptr().wire().words())).expect("runs");
        assert_eq!(outcome, (1, true), "behind task {n}");
    }
}
