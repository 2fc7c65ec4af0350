//! Failing tests of the second round, part A: tasks, claims, modules' hosts, worlds, relays, kept devices.

use hamr::serve::Keeper;
use hamr::world::ProgramError;
use hamr::{CallOptions, Image, Node, Options, Runtime, SharedStream};
use hamr_comm::abi::buffer::{BufferParts, WireBuffer};
use hamr_comm::testing::Heap;
use hamr_comm::{BufferPtr, Context, Fault, HOST, Host, Task, offload};
use hamr_tests::conformance::{driven, options, until};
use hamr_tests::devices;
use hamr_tests_kernels::host_calls::{Callback, call_back};
use hamr_tests_kernels::{budget, echo};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

fn fault(code: Result<u8, ProgramError>) -> String {
    code.map_or_else(|e| e.to_string(), |code| format!("code {code}"))
}

fn check(is_right: bool, what: &str) -> Result<u8, Fault> {
    if is_right { Ok(0) } else { Err(Fault::msg(what)) }
}

// --- a: memory that two own, from safe code ---

/// Words that a task took before it claimed the segment write below the exclusive reference that the claim
/// gives out.
#[test]
fn a1_words_write_below_an_exclusive_reference_of_a_claimed_segment() {
    let world = devices::runtime().world_of_threads(1).expect("a world");
    let code = world.run_program(|task| {
        let segment = task.world().ok_or_else(|| Fault::msg("no rank"))?.segment();
        let words = task.words(BufferPtr::<u32>::from_wire(WireBuffer::pack(BufferParts { len: 16, ..segment.parts() })))?;
        let Ok(mut claim) = task.claim_segment(0) else { return Ok(0) };
        let elements = claim.memory().piece::<u32>().into_mut_slice();
        let first = elements.first_mut().ok_or_else(|| Fault::msg("no element"))?;
        *first = 1;
        if let Some(word) = words.get(0) {
            word.store(7);
        }
        let seen = *first;
        check(seen == 1, "another path wrote below `&mut u32`")
    });
    assert_eq!(fault(code), "code 0");
}

/// The same from another task, across a wait of the one that has the reference.
#[test]
fn a2_words_of_another_task_write_below_a_reference_that_lasts_across_a_wait() {
    let world = devices::runtime().world_of_threads(1).expect("a world");
    let step = Arc::new(AtomicU32::new(0));
    let (first, second) = (step.clone(), step);
    std::thread::scope(|scope| {
        let world = &world;
        // One run at a time: the other task is a call of its own, to the same rank.
        let node = world.node(0);
        let other = scope.spawn(move || {
            until("the first task has words", || first.load(Ordering::Acquire) == 1);
            let claimed = node.sync(red::claims_and_waits::with()).expect("runs");
            first.store(3, Ordering::Release);
            claimed
        });
        let code = world.run_program(move |task| {
            let segment = task.world().ok_or_else(|| Fault::msg("no rank"))?.segment();
            let words = task.words(BufferPtr::<u32>::from_wire(WireBuffer::pack(BufferParts { len: 16, ..segment.parts() })))?;
            second.store(1, Ordering::Release);
            // Until the other one has its reference and waits.
            task.wait_until(|| red::STEP.load(Ordering::Acquire) == 2)?;
            if let Some(word) = words.get(0) {
                word.store(7);
            }
            red::STEP.store(3, Ordering::Release);
            task.wait_until(|| second.load(Ordering::Acquire) == 3)?;
            Ok(0)
        });
        assert_eq!(fault(code), "code 0");
        assert_eq!(other.join().expect("no panic"), 1, "what a `&mut u32` refers to was changed by another task");
    });
}

mod red {
    use super::*;

    pub static STEP: AtomicU32 = AtomicU32::new(0);

    #[offload(unordered)]
    pub fn claims_and_waits(task: &mut Task) -> Result<u32, Fault> {
        let Ok(mut claim) = task.claim_segment(0) else {
            STEP.store(2, Ordering::Release);
            task.wait_until(|| STEP.load(Ordering::Acquire) == 3)?;
            return Ok(1);
        };
        let elements = claim.memory().piece::<u32>().into_mut_slice();
        let first = elements.first_mut().ok_or_else(|| Fault::msg("no element"))?;
        *first = 1;
        STEP.store(2, Ordering::Release);
        task.wait_until(|| STEP.load(Ordering::Acquire) == 3)?;
        Ok(*first)
    }
}

static WROTE: AtomicU32 = AtomicU32::new(0);
static VIEWED: AtomicBool = AtomicBool::new(false);

#[offload]
fn scribbles(cx: &mut Host, x: BufferPtr<u32>) {
    until("a handler views it", || VIEWED.load(Ordering::Acquire));
    WROTE.store(1 + u32::from(cx.write(&[9u32], x).is_ok()), Ordering::Release);
}

#[offload]
fn names_it(cx: &mut Context, x: BufferPtr<u32>) -> Result<(), Fault> {
    cx.send(HOST, scribbles::with(x)).map_err(|_| Fault::msg("not sent"))
}

#[offload]
fn views_it(cx: &mut Context, x: BufferPtr<u32>) -> Result<u32, Fault> {
    let view = cx.view_mut(x)?;
    view[0] = 1;
    VIEWED.store(true, Ordering::Release);
    let begin = Instant::now();
    while WROTE.load(Ordering::Acquire) == 0 && begin.elapsed() < Duration::from_secs(2) {
        std::thread::yield_now();
    }
    Ok(view[0])
}

/// On loopback a body writes nothing that the running call names, as `put` of another thread does not.
#[test]
fn a4_a_body_does_not_write_below_a_view() {
    let runtime = Runtime::new().expect("a runtime");
    let node = loopback(&runtime, options());
    let buffer = node.buffer(&[0u32; 16]).expect("room");
    node.sync(names_it::with(buffer.ptr())).expect("runs");
    let seen = node.sync(views_it::with(buffer.ptr())).expect("runs");
    assert_eq!(seen, 1, "what a `&mut [u32]` refers to was changed by another thread");
}

/// A context can be exchanged for one over another heap. What a claim takes out of that heap it puts back
/// into the device's: that is longer then than its memory.
#[test]
fn a3_a_claim_over_an_exchanged_context_makes_the_heap_longer_than_it_is() {
    let world = devices::runtime().world_of_threads(1).expect("a world");
    let code = world.run_program(|task| {
        let before = task.inline(|cx| cx.heap_len());
        let other: &'static mut Heap = Box::leak(Box::new(Heap::new(1 << 20)));
        task.inline(|cx| *cx = other.context());
        let claim = task.claim_segment(0);
        task.yield_now()?;
        drop(claim);
        let after = task.inline(|cx| cx.heap_len());
        let parts = BufferParts { off: before, index: 0, len: 64, generation: 0, node: task.node() };
        let outside = BufferPtr::<u8>::from_wire(WireBuffer::pack(parts));
        let is_refused = task.view_mut(outside).is_err();
        check(after == before && is_refused, "a view of memory behind the heap")
    });
    assert_eq!(fault(code), "code 0");
}

// --- c: kept devices ---

fn abstract_name(name: &str) -> SocketAddrUnix {
    SocketAddrUnix::new_abstract_name(format!("hamr:{name}").as_bytes()).expect("a short name")
}

fn seqpacket() -> rustix::fd::OwnedFd {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket")
}

/// Sixteen connections that say nothing keep every host away for good, and `serve --stop`.
#[test]
fn c1_connections_that_say_nothing_do_not_keep_others_away() {
    let spec = devices::keep("shm", &options());
    let name = spec.strip_prefix("at:").expect("the kind").to_owned();
    let silent: Vec<_> = (0..16)
        .map(|_| {
            let socket = seqpacket();
            rustix::net::connect(&socket, &abstract_name(&name)).expect("it listens");
            socket
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    let attached = devices::runtime().open_with(&spec, devices::image("shm"), options()).map(drop);
    drop(silent);
    assert_eq!(attached.map_err(|e| e.to_string()), Ok(()));
}

/// `stop` reports no end of a keeper that goes on: it takes a connection that is closed for one.
#[test]
fn c5_a_stop_that_is_not_heard_is_an_error() {
    let spec = devices::keep("shm", &options());
    let name = spec.strip_prefix("at:").expect("the kind").to_owned();
    let silent: Vec<_> = (0..16)
        .map(|_| {
            let socket = seqpacket();
            rustix::net::connect(&socket, &abstract_name(&name)).expect("it listens");
            socket
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    // The connection may be closed before it has asked: then it is an error.
    let stopped = (0..200).any(|_| hamr::serve::stop(&name).is_ok());
    drop(silent);
    std::thread::sleep(Duration::from_millis(100));
    let is_there = devices::runtime().open_with(&spec, devices::image("shm"), options()).is_ok();
    assert!(!(stopped && is_there), "it was reported as stopped, and is there");
}

/// A keeper of the same name that does not answer: a wait of 100 ms takes a minute, and so does whoever asks
/// only whether the device is there.
#[test]
fn c2_a_keeper_that_does_not_answer_holds_up_no_other_thread() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("red-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let mut keeper: Keeper = devices::keeper("shm", &options(), &name);
    let keeping = std::thread::spawn(move || {
        let outcome = keeper.run(|_| ());
        drop(keeper);
        outcome.is_ok()
    });
    let node = Arc::new(
        devices::runtime()
            .open_with(&format!("at:{name}"), devices::image("shm"), Options { restart: false, ..options() })
            .expect("it has no host"),
    );
    assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
    hamr::serve::stop(&name).expect("it is there");
    assert!(keeping.join().expect("no panic"));
    // The next keeper of this name: it listens, and never answers.
    let listener = seqpacket();
    until("the name is free", || rustix::net::bind(&listener, &abstract_name(&name)).is_ok());
    rustix::net::listen(&listener, 16).expect("listens");
    until("the loss is seen", || !node.is_alive());
    let begin = Instant::now();
    let (tell, told) = mpsc::channel();
    for asks in [true, false] {
        let (node, tell) = (node.clone(), tell.clone());
        std::thread::spawn(move || {
            if asks {
                let _ = node.wait_until_back(Duration::from_millis(100));
            } else {
                std::thread::sleep(Duration::from_millis(300));
                let _ = node.sync(echo::with(2u64));
                let _ = node.link_capabilities();
                let _ = node.restart();
            }
            let _ = tell.send(asks);
        });
    }
    let first = told.recv_timeout(Duration::from_secs(8));
    drop(listener);
    assert!(first.is_ok(), "a wait of 100 ms took more than {:?}", begin.elapsed());
}

/// A keeper that gives out doorbells which block: a host that opens its device waits in `write` for good, past every
/// deadline.
#[test]
fn c3_doorbells_of_a_keeper_block_no_thread() {
    use rustix::fd::AsFd;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use rustix::pipe::{PipeFlags, pipe_with};
    let name = format!("red-blocks-{}", std::process::id());
    let listener = seqpacket();
    rustix::net::bind(&listener, &abstract_name(&name)).expect("free");
    rustix::net::listen(&listener, 16).expect("listens");
    std::thread::spawn(move || {
        let socket = rustix::net::accept(&listener).expect("a host");
        let len = 64 << 20;
        let memory = memfd_create("red", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memory");
        rustix::fs::ftruncate(&memory, len).expect("room");
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).expect("sealed");
        let (notified, _keep) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let (_drain, device) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
        // Full, and from now on it blocks.
        while rustix::io::write(&device, &[0; 4096]).is_ok() {}
        while rustix::io::write(&device, &[0; 1]).is_ok() {}
        rustix::fs::fcntl_setfl(&device, rustix::fs::OFlags::empty()).expect("its own file");
        let me = rustix::process::getpid();
        let process = rustix::process::pidfd_open(me, rustix::process::PidfdFlags::empty()).expect("this process");
        let mut answer = b"hamrsrv1G".to_vec();
        answer.extend(len.to_le_bytes());
        answer.extend(b"shm\n");
        let fds = [memory.as_fd(), notified.as_fd(), device.as_fd(), process.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        sendmsg(&socket, &[std::io::IoSlice::new(&answer)], &mut ancillary, SendFlags::empty()).expect("sent");
        std::thread::sleep(Duration::from_secs(30));
    });
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let options = Options { start_deadline: Duration::from_secs(1), ..options() };
        let opened = devices::runtime().open_with(&format!("at:{name}"), devices::image("shm"), options);
        let _ = tell.send(opened.map(drop).map_err(|e| e.to_string()));
    });
    let opened = told.recv_timeout(Duration::from_secs(8));
    assert!(matches!(opened, Ok(Err(_))), "opening with a limit of one second: {opened:?}");
}

/// Names of sockets have no owner: whoever has the name, any user, and accepts nobody keeps a host waiting for good,
/// before it sees whose it is.
#[test]
fn c4_a_listener_that_accepts_nobody_blocks_no_host() {
    let name = format!("red-full-{}", std::process::id());
    let listener = seqpacket();
    rustix::net::bind(&listener, &abstract_name(&name)).expect("free");
    rustix::net::listen(&listener, 0).expect("listens");
    let waiting: Vec<_> = std::iter::repeat_with(|| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket");
        rustix::net::connect(&socket, &abstract_name(&name)).map(|()| socket)
    })
    .map_while(Result::ok)
    .collect();
    let (tell, told) = mpsc::channel();
    for stops in [true, false] {
        let (tell, name) = (tell.clone(), name.clone());
        std::thread::spawn(move || {
            let options = Options { start_deadline: Duration::from_secs(1), ..options() };
            let outcome = match stops {
                true => hamr::serve::stop(&name),
                false => devices::runtime().open_with(&format!("at:{name}"), devices::image("shm"), options).map(drop),
            };
            let _ = tell.send((stops, outcome.map_err(|e| e.to_string())));
        });
    }
    let first = told.recv_timeout(Duration::from_secs(8));
    drop(waiting);
    assert!(matches!(first, Ok((_, Err(_)))), "{first:?}");
}

// --- d: time ---

/// A deadline that the message cannot carry is made shorter, not left out: the handler is told 35 minutes,
/// and a task is ended then.
#[test]
fn d1_a_long_deadline_is_not_made_shorter() {
    let node = devices::runtime().open_with("loopback", devices_image(), options()).expect("a device");
    let hour = Duration::from_secs(3600);
    let told = node.sync_with(budget::with(), CallOptions::deadline(hour)).expect("runs");
    assert!(told == 0 || Duration::from_micros(told.into()) >= hour, "told {told} us of an hour");
}

fn devices_image() -> Image {
    Image::find(devices::IMAGE).expect("a name")
}

// --- e: services and relays ---

fn loopback(runtime: &Runtime, options: Options) -> Node {
    runtime.open_with("loopback", devices_image(), options).expect("a device")
}

#[offload]
fn which_device(cx: &mut Context) -> u16 {
    cx.node().0
}

#[offload(unordered)]
fn ask_which(task: &mut Task, node: u16) -> Result<u16, Fault> {
    Ok(task.sync(hamr_comm::abi::ids::NodeId(node), which_device::with())?)
}

/// A node that is a service of another one is called in its place.
#[test]
fn e1_a_relayed_call_comes_to_the_device_that_it_names() {
    let runtime = Runtime::new().expect("a runtime");
    let options = Options { relay: true, ..options() };
    let (a, b, c) = (loopback(&runtime, options.clone()), loopback(&runtime, options.clone()), loopback(&runtime, options));
    let (b_number, c_number) = (b.info().node, c.info().node);
    let asked = || driven(&a, || driven(&b, || a.sync(ask_which::with(b_number))));
    assert_eq!(asked().expect("runs"), b_number);
    // Bodies that `b` calls are to reach `c`.
    b.serve(c);
    let numbers: Vec<u16> = runtime.nodes().iter().map(|node| node.info.node).collect();
    let answered = asked().map_err(|e| e.to_string());
    assert_eq!(answered, Ok(b_number), "device {c_number} was called");
    assert!(numbers.contains(&b_number), "it is missing in {numbers:?}");
}

/// A device that bodies find by `Runtime::serve` ends with the runtime.
#[test]
fn e2_a_device_that_the_runtime_serves_ends_with_it() {
    struct Told(#[expect(dead_code)] Node, Arc<AtomicBool>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.1.store(true, Ordering::Release);
        }
    }
    let runtime = Runtime::new().expect("a runtime");
    let node = loopback(&runtime, options());
    let dropped = Arc::new(AtomicBool::new(false));
    runtime.serve(Told(node, dropped.clone()));
    drop(runtime);
    assert!(dropped.load(Ordering::Acquire), "it and its device are there for good");
}

/// A list of a few thousand services is dropped by recursion. (Aborts.)
#[test]
fn e3_many_services_are_dropped_without_recursion() {
    let child = child("e3_child");
    assert!(child.0, "{}", child.1);
}

#[test]
#[ignore = "only the other test starts it"]
fn e3_child() {
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    let run = || {
        let runtime = Runtime::new().expect("a runtime");
        (0..5000u32).for_each(|n| runtime.serve(n));
        drop(runtime);
    };
    thread.spawn(run).expect("a thread").join().expect("no panic");
}

/// Runs an ignored test of this file in a process of its own.
fn child(name: &str) -> (bool, String) {
    let me = std::env::current_exe().expect("a path");
    let output = Command::new(me).args(["--exact", name, "--ignored", "--nocapture"]).output().expect("it starts");
    (output.status.success(), format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// The first body of a process that runs on a thread which unwinds: the library replaces the panic hook, which
/// a panicking thread must not. (Aborts.)
#[test]
fn e4_a_body_runs_on_a_thread_that_unwinds() {
    let child = child("e4_child");
    assert!(child.0, "{}", child.1);
}

#[offload]
fn answer(_: &mut Host, value: u64) -> u64 {
    value + 1
}

#[offload(unordered)]
fn ask_answer(task: &mut Task, value: u64) -> Result<u64, Fault> {
    Ok(task.sync(HOST, answer::with(value))?)
}

#[test]
#[ignore = "only the other test starts it"]
fn e4_child() {
    struct Saves(Node);
    impl Drop for Saves {
        fn drop(&mut self) {
            assert_eq!(self.0.sync(ask_answer::with(1)).map_err(|e| e.to_string()), Ok(2));
        }
    }
    let runtime = Runtime::new().expect("a runtime");
    let node = loopback(&runtime, options());
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _saves = Saves(node);
        std::panic::resume_unwind(Box::new("asked to"));
    }));
    assert!(outcome.is_err());
}

// --- f: epochs ---

/// "A body of the last epoch may run on; it writes nothing into the next": through its buffers it does.
#[test]
fn f1_a_body_of_an_epoch_that_is_over_writes_nothing() {
    let node = Arc::new(devices::open("shm", options()));
    let buffer = node.buffer(&[1u64; 8]).expect("room");
    let (begun, open, wrote) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (ptr, theirs) = (buffer.ptr(), (begun.clone(), open.clone(), wrote.clone()));
    let body: Callback = Box::new(move |host, value| {
        theirs.0.store(true, Ordering::Release);
        while !theirs.1.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let outcome = host.write(&[9u64; 8], ptr);
        theirs.2.store(if outcome.is_ok() { 1 } else { 2 }, Ordering::Release);
        Ok(value)
    });
    node.serve(body);
    let call = node.offload(call_back::with(1)).expect("sent");
    until("the body runs", || begun.load(Ordering::Acquire));
    node.restart().expect("it starts again");
    assert!(call.wait().is_err(), "its epoch is over");
    node.put(&[5u64; 8], buffer.ptr()).expect("free");
    open.store(true, Ordering::Release);
    until("the body has written", || wrote.load(Ordering::Acquire) != 0);
    let seen = buffer.read().expect("there");
    assert_eq!((seen[0], wrote.load(Ordering::Acquire)), (5, 2), "a body of epoch 1 wrote in epoch 2");
}

// --- g: loopback in loopback ---

static INNER: Mutex<Option<Arc<Node>>> = Mutex::new(None);
static NOTED: AtomicU64 = AtomicU64::new(0);

#[offload]
fn note_caller(cx: &mut Host, value: u64) {
    NOTED.store(value << 32 | u64::from(cx.node().0), Ordering::Release);
}

/// Calls another device of this process, then leaves a message for the host.
#[offload]
fn asks_inner_then_sends(cx: &mut Context) -> u64 {
    let inner = INNER.lock().ok().and_then(|inner| inner.clone());
    let echoed = inner.map_or(0, |inner| inner.sync(echo::with(3u64)).unwrap_or(0));
    let sent = cx.send(HOST, note_caller::with(77)).is_ok();
    echoed * 10 + u64::from(sent)
}

/// The message comes, and from the device whose handler sent it.
#[test]
fn g1_a_message_behind_a_call_of_another_loopback_device_is_its_own() {
    let runtime = Runtime::new().expect("a runtime");
    let (outer, inner) = (loopback(&runtime, options()), Arc::new(loopback(&runtime, options())));
    *INNER.lock().expect("free") = Some(inner.clone());
    let wait = |who: u16| {
        let begin = Instant::now();
        while NOTED.load(Ordering::Acquire) == 0 && begin.elapsed() < Duration::from_secs(3) {
            let _ = (outer.ping(), inner.ping());
            std::thread::sleep(Duration::from_millis(5));
        }
        let noted = NOTED.swap(0, Ordering::AcqRel);
        (noted >> 32 == 77, noted as u16 == who)
    };
    let number = outer.info().node;
    // Without the call in between it comes.
    let before = INNER.lock().expect("free").take();
    assert_eq!(outer.sync(asks_inner_then_sends::with()).expect("runs"), 1);
    assert_eq!(wait(number), (true, true));
    *INNER.lock().expect("free") = before;
    let called = outer.sync(asks_inner_then_sends::with()).expect("runs");
    assert_eq!(called, 31);
    let came = wait(number);
    *INNER.lock().expect("free") = None;
    assert_eq!(came, (true, true), "it came; from its own device");
}

// --- m: user code that panics inside of a call ---

/// A value whose conversion panics, when it is asked to.
#[derive(Debug, PartialEq, hamr_comm::Migratable)]
#[migratable(postcard)]
struct Moody(u32);

const PANICS_OUT: u32 = 1;
const PANICS_IN: u32 = 2;
const LOOKS: u32 = 3;
static SHARED: Mutex<Option<SharedStream>> = Mutex::new(None);

impl serde::Serialize for Moody {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.0 == LOOKS {
            let stream = SHARED.lock().ok().and_then(|stream| stream.clone());
            stream.iter().for_each(|stream| drop(format!("{:?}", stream.state())));
        }
        assert!(self.0 != PANICS_OUT, "asked to, on the way out");
        to.serialize_u32(self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Moody {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = <u32 as serde::Deserialize>::deserialize(from)?;
        assert!(value != PANICS_IN, "asked to, on the way in");
        Ok(Self(value))
    }
}

#[offload]
fn with_mood(cx: &mut Context, x: BufferPtr<u8>, mood: Moody) -> Result<u32, Fault> {
    Ok(mood.0 + u32::from(cx.view(x)?[0]))
}

/// A panic while arguments are encoded ends that call alone: its buffers are free.
#[test]
fn m1_a_panic_of_an_encoder_leaves_no_buffer_in_use() {
    let runtime = Runtime::new().expect("a runtime");
    let node = loopback(&runtime, options());
    let buffer = node.buffer(&[1u8; 64]).expect("room");
    assert_eq!(node.sync(with_mood::with(buffer.ptr(), Moody(5))).expect("runs"), 6);
    let call = || node.sync(with_mood::with(buffer.ptr(), Moody(PANICS_OUT))).map_err(|e| e.to_string());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
    assert_eq!(node.sync(with_mood::with(buffer.ptr(), Moody(6))).expect("runs"), 7);
    let live = node.live_buffers();
    let put = node.put(&[2u8; 64], buffer.ptr()).map_err(|e| e.to_string());
    drop(buffer);
    let left = node.live_buffers() + 1 - live;
    assert_eq!((put, left), (Ok(()), 0), "it is in use for good");
}

#[offload]
fn moody(_cx: &mut Context, value: u32) -> Moody {
    Moody(value)
}

/// A panic while a result is decoded leaves no entry of its stream in use.
#[test]
fn m2_a_panic_of_a_decoder_leaves_no_entry_in_use() {
    let runtime = Runtime::new().expect("a runtime");
    let node = loopback(&runtime, options());
    let stream = node.stream_with(hamr::StreamOptions { max_outstanding: Some(4), ..Default::default() }).expect("free");
    for _ in 0..8 {
        let pending = stream.offload(moody::with(PANICS_IN)).map_err(|e| e.to_string()).expect("there is room");
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pending.wait().map(drop).map_err(|e| e.to_string())));
        assert!(outcome.is_err());
    }
    assert_eq!(stream.offload(moody::with(7)).expect("there is room").wait().expect("runs"), Moody(7));
}

/// A use of a stream inside of a use of itself is reported, of shared ones too.
#[test]
fn m3_a_use_of_a_shared_stream_inside_of_a_use_of_it_is_reported() {
    let runtime = Runtime::new().expect("a runtime");
    let node = loopback(&runtime, options());
    let stream = node.shared_stream().expect("a queue pair");
    let buffer = node.buffer(&[1u8; 64]).expect("room");
    *SHARED.lock().expect("free") = Some(stream.clone());
    let ptr = buffer.ptr();
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || {
        let call = || stream.sync(with_mood::with(ptr, Moody(LOOKS))).is_ok();
        let _ = ended.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_ok());
    });
    let outcome = end.recv_timeout(Duration::from_secs(3));
    if outcome.is_err() {
        // Its stream keeps the device.
        std::mem::forget((buffer, node, runtime));
        panic!("the call waits for itself");
    }
}

// --- n: ends of threads ---

/// A call in the destructor of a thread's variable ends the process instead of the call. (Aborts.)
#[test]
fn n1_a_call_while_its_thread_ends_has_an_outcome() {
    let child = child("n1_child");
    assert!(child.0, "{}", child.1);
}

#[test]
#[ignore = "only the other test starts it"]
fn n1_child() {
    static NODE: Mutex<Option<Arc<Node>>> = Mutex::new(None);
    struct Calls;
    impl Drop for Calls {
        fn drop(&mut self) {
            let node = NODE.lock().expect("free").clone();
            // A value or an error.
            drop(node.map(|node| node.sync(echo::with(1u64))));
        }
    }
    std::thread_local! {
        static CALLS: Calls = const { Calls };
    }
    let node = Arc::new(loopback(devices::runtime(), options()));
    *NODE.lock().expect("free") = Some(node.clone());
    let thread = std::thread::spawn(move || {
        CALLS.with(|_| ());
        node.sync(echo::with(2u64)).expect("runs")
    });
    assert_eq!(thread.join().expect("no panic"), 2);
}

/// A rank that is a thread, and leaves its world in a destructor while it unwinds, takes the program with it.
/// (Aborts.)
#[test]
fn n2_a_thread_leaves_its_world_while_it_unwinds() {
    let child = child("n2_child");
    assert!(child.0, "{}", child.1);
}

#[test]
#[ignore = "only the other test starts it"]
fn n2_child() {
    struct Leaves<'a>(hamr_comm::world::WorldRef<'a>);
    impl Drop for Leaves<'_> {
        fn drop(&mut self) {
            self.0.exit(3);
        }
    }
    let world = devices::runtime().world_of_threads(1).expect("a world");
    let code = world.run_program(|task| {
        let _leaves = Leaves(task.world().ok_or_else(|| Fault::msg("no rank"))?);
        panic!("asked to")
    });
    assert_eq!(fault(code), "code 3");
}

// --- o: another image ---

/// The first image has no tasks. What those of the next one call on the host is served, also where no thread waits.
#[test]
fn o1_calls_of_the_next_image_are_served() {
    let first = Image::find("hamr-checks-no-tasks").expect("a name");
    let node = devices::runtime().open_with("shm", first, options()).expect("a device");
    assert_eq!(node.info().tasks, 0);
    node.load_image(&devices::image("shm")).expect("loaded");
    let body: Callback = Box::new(|_, value| Ok(value + 1));
    node.serve(body);
    assert_eq!(node.sync(call_back::with(1)).expect("its thread serves it"), 2);
    let call = node.offload(call_back::with(2)).expect("sent");
    let begin = Instant::now();
    while !call.is_done() && begin.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(call.is_done(), "nobody has served it within {:?}", begin.elapsed());
}

// --- s: worlds that do not start ---

fn threads(of: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("there");
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.flatten().filter(|task| task.path().exists()).map(name).filter(|name| of.starts_with(name.trim())).count()
}

/// Of a world whose first rank does not join, no thread is left.
#[test]
fn s1_a_world_that_does_not_start_leaves_no_thread() {
    let options = hamr::WorldOptions::default();
    let rank = Options { start_deadline: Duration::from_secs(2), ..options.rank };
    let program = Image::program("/bin/true", [""; 0]).expect("there");
    let ranks = [("shm", program), ("thread", devices_image())];
    let world = devices::runtime().world_of_images(&ranks, hamr::WorldOptions { rank, ..options });
    assert!(world.is_err());
    let begin = Instant::now();
    while threads("rank 1 (thread)") != 0 && begin.elapsed() < Duration::from_secs(3) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(threads("rank 1 (thread)"), 0, "it serves a world that nobody has");
}

// --- q: claims that are forgotten ---

/// A claim ends with its task at the latest, also one that is never dropped: those of buffers do.
#[test]
fn q1_a_claim_that_was_forgotten_ends_with_its_task() {
    let world = devices::runtime().world_of_threads(1).expect("a world");
    let forgets = world.run_program(|task| {
        std::mem::forget(task.claim_segment(0)?);
        Ok(0)
    });
    assert_eq!(fault(forgets), "code 0");
    let next = world.run_program(|task| task.claim_segment(0).map(|_| 0));
    assert_eq!(fault(next), "code 0");
}

// --- t: signals ---

/// A program in another language has SIGPIPE as the system gives it. It survives the end of a kept device.
#[test]
fn t1_a_kept_device_that_ends_kills_no_program() {
    let (is_good, how) = child("t1_child");
    assert!(is_good, "{how}");
}

#[test]
#[ignore = "run by t1_a_kept_device_that_ends_kills_no_program"]
#[expect(unsafe_code)]
fn t1_child() {
    unsafe extern "C" {
        fn signal(number: i32, handler: usize) -> usize;
    }
    let name = format!("red-t-{}", std::process::id());
    let mut keeper: Keeper = devices::keeper("shm", &options(), &name);
    let keeping = std::thread::spawn(move || keeper.run(|_| ()).is_ok());
    let node = devices::runtime()
        .open_with(&format!("at:{name}"), devices::image("shm"), Options { restart: false, ..options() })
        .expect("it has no host");
    assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
    // SAFETY: SIGPIPE (13) as before Rust's `main`: SIG_DFL.
    unsafe { signal(13, 0) };
    hamr::serve::stop(&name).expect("it is there");
    assert!(keeping.join().expect("no panic"));
    assert!(node.sync(echo::with(2u64)).is_err());
}

// --- u: processes ---

/// A process that the program forks, and that ends as programs do, leaves the program's device alone.
#[test]
fn u1_the_end_of_a_forked_process_is_not_the_end_of_the_device() {
    let (is_good, how) = child("u1_child");
    assert!(is_good, "{how}");
}

#[test]
#[ignore = "run by u1_the_end_of_a_forked_process_is_not_the_end_of_the_device"]
#[expect(unsafe_code)]
fn u1_child() {
    unsafe extern "C" {
        safe fn fork() -> i32;
        safe fn _exit(code: i32) -> !;
        safe fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    }
    let node = devices::runtime()
        .open_with("shm", devices::image("shm"), Options { restart: false, ..options() })
        .expect("a device");
    assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
    let process = fork();
    if process == 0 {
        drop(node);
        _exit(0);
    }
    until("it ends", || waitpid(process, std::ptr::null_mut(), 1) == process);
    assert_eq!(node.sync(echo::with(2u64)).map_err(|e| e.to_string()), Ok(2));
}

/// A destructor of a static of another language, or a function that is registered for the end of the program, may
/// call: threads' own values are gone then.
#[test]
fn n3_a_call_at_the_end_of_the_program_has_an_outcome() {
    let me = std::env::current_exe().expect("a path");
    let args = ["--exact", "n3_child", "--ignored", "--nocapture"];
    let output = Command::new(me).args(args).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("at the end:"), "{}\n{said}", output.status);
}

static AT_END: Mutex<Option<Node>> = Mutex::new(None);

#[test]
#[ignore = "run by n3_a_call_at_the_end_of_the_program_has_an_outcome"]
#[expect(unsafe_code)]
fn n3_child() {
    unsafe extern "C" {
        safe fn atexit(function: extern "C" fn()) -> i32;
    }
    extern "C" fn at_end() {
        let node = AT_END.lock().expect("free").take().expect("there");
        let outcome = node.sync(echo::with(2u64));
        eprintln!("at the end: {outcome:?}");
        drop(node);
    }
    let node = devices::runtime().open_with("shm", devices::image("shm"), options()).expect("a device");
    assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
    *AT_END.lock().expect("free") = Some(node);
    assert_eq!(atexit(at_end), 0);
    // What the end of `main` does.
    std::process::exit(0);
}
