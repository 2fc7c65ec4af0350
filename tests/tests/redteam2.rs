//! Failing tests of the second round, part A: tasks, claims, modules' hosts, worlds, relays, kept devices.

use hamr::serve::Keeper;
use hamr::world::ProgramError;
use hamr::{Image, Node, Options, Runtime};
use hamr_comm::abi::buffer::{BufferParts, WireBuffer};
use hamr_comm::testing::Heap;
use hamr_comm::{BufferPtr, Call, Context, Fault, HOST, Handler, Host, Task, TaskCallError, Why, offload};
use hamr_tests::conformance::{options, until};
use hamr_tests::devices;
use hamr_tests_kernels::echo;
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

fn devices_image() -> Image {
    Image::find(devices::IMAGE).expect("a name")
}

// --- e: services and relays ---

fn loopback(runtime: &Runtime, options: Options) -> Node {
    runtime.open_with("loopback", devices_image(), options).expect("a device")
}

/// Runs an ignored test of this file in a process of its own.
fn child(name: &str) -> (bool, String) {
    let me = std::env::current_exe().expect("a path");
    let output = Command::new(me).args(["--exact", name, "--ignored", "--nocapture"]).output().expect("it starts");
    (output.status.success(), format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
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
