//! Failing tests of the second round, part A: tasks, claims, modules' hosts, worlds, relays, kept devices.

use hamr::world::ProgramError;
use hamr::{CallOptions, Image, Node, Options, Runtime, SharedStream};
use hamr_comm::abi::buffer::{BufferParts, WireBuffer};
use hamr_comm::testing::Heap;
use hamr_comm::{BufferPtr, Call, Context, Fault, HOST, Handler, Host, Task, TaskCallError, Why, offload};
use hamr_tests::conformance::{driven, options, until};
use hamr_tests::devices;
use hamr_tests_kernels::host_calls::{Callback, call_back};
use hamr_tests_kernels::{budget, echo};
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

// --- b: calls between ranks ---

macro_rules! same_name {
    ($name:ident, $value:ty) => {
        enum $name {}
        impl Handler for $name {
            const NAME: &'static str = "hamr_tests_red::same_name";
            const BODY: u64 = 0;
            const FLAGS: u32 = 1;
            type Kind = Context<'static>;
            type Args = ($value,);
            type Output = $value;
            fn run(_: &mut Context<'_>, (value,): ($value,)) -> $value {
                value
            }
        }
    };
}
same_name!(SameU32, u32);
same_name!(SameF32, f32);

#[offload(name = "hamr_tests_red::same_name")]
fn same(_cx: &mut Context, value: u32) -> u32 {
    value
}

/// A rank remembers where a handler is by its name alone, so the second call of one of other types is not
/// refused.
#[test]
fn b1_a_handler_of_other_types_is_called_once_its_name_is_known() {
    let world = devices::runtime().world_of_threads(1).expect("a world");
    let code = world.run_program(|task| {
        let me = task.world().ok_or_else(|| Fault::msg("no rank"))?.me();
        let call = |task: &Task<'_>| task.sync(me, Call::<SameF32>::new((1.5,)));
        let why = |e: TaskCallError<_>| e.why();
        let first = call(task).map_err(why);
        if first != Err(Some(Why::OtherTypes)) {
            return check(false, "the first call of other types was not refused");
        }
        if task.sync(me, Call::<SameU32>::new((1,))).is_err() {
            return check(false, "a call of its own types was refused");
        }
        check(call(task).map_err(why) == Err(Some(Why::OtherTypes)), "it was called with other types")
    });
    assert_eq!(fault(code), "code 0");
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

// --- k: announcements of ranks ---

use hamr_comm::world::{RankId, RankSet, SharedBits, announce, collect};
use hamr_comm::abi::world::InterestWord;
use std::cell::Cell;

/// Words in which ranks announce, and how many of the next changes are made before the task is ended.
struct Bits {
    group: Cell<u32>,
    ranks: Cell<u32>,
    left: Cell<u32>,
}

#[derive(Clone, Copy)]
struct Bit<'b>(&'b Cell<u32>, &'b Cell<u32>);

impl SharedBits for Bit<'_> {
    fn load(self) -> u32 {
        self.0.get()
    }
    fn set_bits(self, bits: u32) -> u32 {
        let before = self.0.get();
        if self.1.get() != 0 {
            self.1.set(self.1.get() - 1);
            self.0.set(before | bits);
        }
        before
    }
    fn take_bits(self) -> u32 {
        self.0.replace(0)
    }
}

impl Bits {
    fn word(&self, word: InterestWord) -> Option<Bit<'_>> {
        match word {
            InterestWord::Group(0) => Some(Bit(&self.group, &self.left)),
            InterestWord::Ranks(0) => Some(Bit(&self.ranks, &self.left)),
            _ => None,
        }
    }
}

/// On bare metal a task may be ended between the two words in which it announces a message. What the rank
/// announces later is found.
#[test]
fn k1_an_announcement_behind_one_that_was_ended_is_found() {
    let bits = Bits { group: Cell::new(0), ranks: Cell::new(0), left: Cell::new(1) };
    // Ended behind the first of two changes.
    announce(RankId(3), |word| bits.word(word));
    assert_eq!((bits.ranks.get(), bits.group.get()), (1 << 3, 0));
    // The next program of that rank.
    bits.left.set(u32::MAX);
    announce(RankId(3), |word| bits.word(word));
    let mut found = RankSet::EMPTY;
    collect(1, |word| bits.word(word), &mut found);
    assert_eq!(found.next(0), Some(RankId(3)), "its messages are never looked at");
}

#[derive(Clone, Copy)]
struct OwnWord<'w>(&'w Cell<u32>);

impl hamr_comm::am::WaitWord for OwnWord<'_> {
    fn load(self) -> u32 {
        self.0.get()
    }
    fn store(self, value: u32) {
        self.0.set(value);
    }
}

/// What `Peers::wake` does, for signals of tasks and for calls of the serve loop alike, with one notifier: the
/// value is noted before the rank is notified. A task that is ended in between leaves the rank asleep for whatever
/// comes later.
#[test]
fn k2_a_rank_is_notified_by_the_next_one_when_a_task_was_ended_before_it_did() {
    let (word, notifier) = (Cell::new(1), hamr_comm::am::Notifier::new());
    let wake = |rings: &mut dyn FnMut()| {
        if notifier.needs_notify_relaxed(OwnWord(&word)) {
            rings();
        }
    };
    let mut rung = 0;
    // A task's signal: ended in front of the doorbell.
    wake(&mut || ());
    // The serve loop's call to the same rank, which sleeps still.
    wake(&mut || rung += 1);
    assert_eq!(rung, 1, "nobody notifies the rank for this sleep");
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

// --- p: barriers ---

/// A rank that waits for the others in steps, each with a limit, comes out of the barrier with them.
#[test]
fn p1_a_barrier_that_is_tried_again_is_the_same_one() {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let world = devices::runtime().world_of_threads(2).expect("a world");
        let code = world.run_program(|task| {
            let me = task.world().ok_or_else(|| Fault::msg("no rank"))?.me();
            if me.0 == 1 {
                task.sleep(200_000)?;
                task.barrier()?;
                return Ok(0);
            }
            loop {
                let _step = task.within(Duration::from_millis(20));
                match task.barrier() {
                    Ok(()) => return Ok(0),
                    Err(hamr_comm::Interrupted::Deadline) => {}
                    Err(why) => return Err(why.into()),
                }
            }
        });
        let _ = tell.send(fault(code));
    });
    assert_eq!(told.recv_timeout(Duration::from_secs(3)), Ok("code 0".into()), "rank 0 waits for more barriers of rank 1");
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
