//! Code of the program inside of calls: conversions and destructors of its types panic, unwind, wait for
//! another thread, or call again, at each place and by each way to call. Such a call may end as that code
//! does; nothing of the stream is in use afterwards.

use hamr::{CallOptions, Node, Options, SharedStream, Stream};
use hamr_comm::migrate::{Decoder, Encoder, Malformed, Migratable, VisitBuffer};
use hamr_comm::{BufferPtr, Context, Task, offload};
use hamr_tests::threaded::Card;
use hamr_tests_kernels::echo;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Encode,
    Visit,
    Drop,
    Decode,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    Panics,
    /// As a thread that ends by unwinding does.
    Unwinds,
    /// For another thread that uses the device and the shared stream.
    Waits,
    /// Uses the same streams.
    Calls,
}

struct Env {
    node: Arc<Node>,
    stream: Stream<'static>,
    shared: SharedStream,
    buffer: BufferPtr<u8>,
}

thread_local! {
    /// What the next conversion or destructor of this thread does, and where.
    static NEXT: Cell<Option<(At, Does)>> = const { Cell::new(None) };
    static ENV: Cell<Option<&'static Env>> = const { Cell::new(None) };
}

/// Acts that took place: a way that calls none of them tests nothing.
static ACTS: AtomicU32 = AtomicU32::new(0);

fn act(here: At) {
    let Some((_, does)) = NEXT.take_if(|(at, _)| *at == here) else { return };
    ACTS.fetch_add(1, Ordering::Relaxed);
    let env = ENV.get().expect("set by the test");
    match does {
        Does::Panics => panic!("asked to"),
        Does::Unwinds => std::panic::resume_unwind(Box::new("asked to")),
        Does::Waits => {
            let (tell, told) = channel();
            let (node, shared) = (env.node.clone(), env.shared.clone());
            let other = std::thread::spawn(move || {
                let is_right = node.sync(echo::with(3u64)).is_ok() && shared.sync(echo::with(4u64)).is_ok();
                let _ = tell.send(is_right && shared.outstanding() < 4);
            });
            assert_eq!(told.recv_timeout(Duration::from_secs(5)), Ok(true), "another thread is kept away");
            // Its stream is free for the next one.
            other.join().expect("no panic");
        }
        Does::Calls => {
            assert_eq!(env.node.sync(echo::with(5u64)).expect("runs"), 5);
            assert_eq!(env.stream.sync(echo::with(6u64)).expect("runs"), 6);
            assert_eq!(env.shared.sync(echo::with(7u64)).expect("runs"), 7);
            assert_eq!(env.shared.offload(echo::with(8u64)).expect("sent").wait().expect("runs"), 8);
        }
    }
}

trait Armed {
    fn take_if(&'static self, is_due: impl FnOnce(&(At, Does)) -> bool) -> Option<(At, Does)>;
}

impl Armed for std::thread::LocalKey<Cell<Option<(At, Does)>>> {
    fn take_if(&'static self, is_due: impl FnOnce(&(At, Does)) -> bool) -> Option<(At, Does)> {
        let next = self.get().filter(is_due)?;
        self.set(None);
        Some(next)
    }
}

/// An argument: of one length or not, with a buffer or not.
struct Acts<const FIXED: bool, const NAMES: bool>(BufferPtr<u8>);

impl<const FIXED: bool, const NAMES: bool> Migratable for Acts<FIXED, NAMES> {
    const SIZE: Option<usize> = if FIXED { Some(16) } else { None };
    const SHAPE: u64 = 7 + FIXED as u64 + 2 * NAMES as u64;
    const TYPE_NAME: &'static str = "Acts";
    const HAS_BUFFERS: bool = NAMES;
    fn encode(&self, out: &mut Encoder<'_>) {
        self.0.encode(out);
        act(At::Encode);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        BufferPtr::decode(from).map(Self)
    }
    fn visit_buffers(&self, visit: &mut impl VisitBuffer) {
        if NAMES {
            self.0.visit_buffers(visit);
        }
        act(At::Visit);
    }
}

impl<const FIXED: bool, const NAMES: bool> Drop for Acts<FIXED, NAMES> {
    fn drop(&mut self) {
        act(At::Drop);
    }
}

/// A result.
#[derive(Debug)]
struct Told<const FIXED: bool>(u64);

impl<const FIXED: bool> Migratable for Told<FIXED> {
    const SIZE: Option<usize> = if FIXED { Some(8) } else { None };
    const SHAPE: u64 = 17 + FIXED as u64;
    const TYPE_NAME: &'static str = "Told";
    fn encode(&self, out: &mut Encoder<'_>) {
        self.0.encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let value = u64::decode(from)?;
        act(At::Decode);
        Ok(Self(value))
    }
}

#[offload]
fn short(_: &mut Context, x: Acts<true, false>) -> Told<true> {
    drop(x);
    Told(1)
}

#[offload]
fn names(_: &mut Context, x: Acts<true, true>) -> Told<true> {
    drop(x);
    Told(1)
}

#[offload]
fn long(_: &mut Context, x: Acts<false, true>) -> Told<false> {
    drop(x);
    Told(1)
}

#[offload]
fn short_task(_: &mut Task, x: Acts<true, false>) -> Told<true> {
    drop(x);
    Told(1)
}

#[offload]
fn long_task(_: &mut Task, x: Acts<false, true>) -> Told<false> {
    drop(x);
    Told(1)
}

type Way = (&'static str, Box<dyn Fn(&'static Env)>);

/// Each way to call one handler; its value is 1 where there is one.
macro_rules! ways {
    ($handler:ident) => {{
        let call = |env: &Env| $handler::with(Acts(env.buffer));
        let limit = || CallOptions::deadline(Duration::from_secs(4000));
        let ways: Vec<Way> = vec![
            (
                concat!("node.sync ", stringify!($handler)),
                Box::new(move |env| assert_eq!(env.node.sync(call(env)).expect("runs").0, 1)),
            ),
            ("sync", Box::new(move |env| assert_eq!(env.stream.sync(call(env)).expect("runs").0, 1))),
            (
                "sync_with",
                Box::new(move |env| assert_eq!(env.stream.sync_with(call(env), limit()).expect("runs").0, 1)),
            ),
            (
                "put_sync",
                Box::new(move |env| {
                    assert_eq!(env.stream.put_sync(&[1u8; 8], env.buffer, call(env)).expect("runs").0, 1);
                }),
            ),
            (
                "start",
                Box::new(move |env| assert_eq!(env.stream.start(call(env)).expect("sent").wait().expect("runs").0, 1)),
            ),
            ("start, detached", Box::new(move |env| drop(env.stream.start(call(env)).expect("sent")))),
            (
                "offload",
                Box::new(move |env| {
                    assert_eq!(env.stream.offload(call(env)).expect("sent").wait().expect("runs").0, 1);
                }),
            ),
            (
                "offload, as a future",
                Box::new(move |env| {
                    let pending = env.stream.offload(call(env)).expect("sent");
                    assert_eq!(pollster::block_on(pending).expect("runs").0, 1);
                }),
            ),
            ("offload, detached", Box::new(move |env| drop(env.stream.offload(call(env)).expect("sent")))),
            (
                "offload_with",
                Box::new(move |env| {
                    let pending = env.node.offload_with(call(env), limit()).expect("sent");
                    assert_eq!(pending.wait_timeout(Duration::from_secs(5)).expect("runs").0, 1);
                }),
            ),
            ("send", Box::new(move |env| env.stream.send(call(env)).expect("sent"))),
            ("shared.sync", Box::new(move |env| assert_eq!(env.shared.sync(call(env)).expect("runs").0, 1))),
            (
                "shared.sync_with",
                Box::new(move |env| {
                    assert_eq!(env.shared.sync_with(call(env), limit()).expect("runs").0, 1);
                }),
            ),
            (
                "shared.put_sync",
                Box::new(move |env| {
                    assert_eq!(env.shared.put_sync(&[1u8; 8], env.buffer, call(env)).expect("runs").0, 1);
                }),
            ),
            (
                "shared.offload",
                Box::new(move |env| {
                    assert_eq!(env.shared.offload(call(env)).expect("sent").wait().expect("runs").0, 1);
                }),
            ),
            ("shared.send", Box::new(move |env| env.shared.send(call(env)).expect("sent"))),
        ];
        ways
    }};
}

fn other_ways() -> Vec<Way> {
    type Names = fn(&mut Context, Acts<true, true>) -> Told<true>;
    vec![
        (
            "named",
            Box::new(|env| {
                let found = env.node.named::<Names>("host::streams::user_code::names").expect("there");
                assert_eq!(found.sync((Acts(env.buffer),)).expect("runs").0, 1);
            }),
        ),
        (
            "named, offloaded",
            Box::new(|env| {
                let found = env.node.named::<Names>("host::streams::user_code::names").expect("there");
                assert_eq!(found.offload((Acts(env.buffer),)).expect("sent").wait().expect("runs").0, 1);
            }),
        ),
        (
            "chain",
            Box::new(|env| {
                let chain = hamr::chain(names::with(Acts(env.buffer))).then_call(names::with(Acts(env.buffer)));
                assert_eq!(env.node.sync_chain(chain).expect("runs").0, 1);
            }),
        ),
        (
            "chain, offloaded",
            Box::new(|env| {
                let chain = hamr::chain(long::with(Acts(env.buffer)));
                assert_eq!(env.node.offload_chain(chain).expect("sent").wait().expect("runs").0, 1);
            }),
        ),
        (
            "staged",
            Box::new(|env| {
                let data = [1u8; 8];
                let value = env.node.sync_staged(|staging| names::with(Acts(staging.input(&data))));
                assert_eq!(value.expect("runs").0, 1);
            }),
        ),
    ]
}

fn env() -> (Card, &'static Env) {
    let options = Options { streams: Some(6), max_outstanding: 4, ..super::small() };
    let card = Card::new(&options, false);
    let node = Arc::new(card.attach("card", options));
    let kept: &'static Arc<Node> = Box::leak(Box::new(node.clone()));
    let (stream, shared) = (kept.stream().expect("free"), kept.shared_stream().expect("free"));
    let buffer = Box::leak(Box::new(node.buffer(&[0u8; 64]).expect("room"))).ptr();
    (card, Box::leak(Box::new(Env { node, stream, shared, buffer })))
}

#[test]
fn code_of_the_program_runs_while_nothing_is_in_use() {
    // The panics of this test are many.
    std::panic::set_hook(Box::new(|info| {
        if info.payload_as_str() != Some("asked to") {
            eprintln!("{info}");
        }
    }));
    let (card, env) = env();
    ENV.set(Some(env));
    let live = env.node.live_buffers();
    let all = [ways!(short), ways!(names), ways!(long), ways!(short_task), ways!(long_task), other_ways()];
    let mut wrong = Vec::new();
    for (handlers, ways) in all.iter().enumerate() {
        for (way, call) in ways {
            // Nothing acts: they work.
            call(env);
            for at in [At::Encode, At::Visit, At::Drop, At::Decode] {
                for does in [Does::Panics, Does::Unwinds, Does::Waits, Does::Calls] {
                    let acts = ACTS.load(Ordering::Relaxed);
                    NEXT.set(Some((at, does)));
                    let ended = catch_unwind(AssertUnwindSafe(|| call(env)));
                    NEXT.set(None);
                    let acted = ACTS.load(Ordering::Relaxed) != acts;
                    let mut is_wrong = |what: &str| wrong.push(format!("{handlers} {way}: {at:?} {does:?}: {what}"));
                    if acted && ended.is_ok() != matches!(does, Does::Waits | Does::Calls) {
                        is_wrong(if ended.is_ok() { "the panic was lost" } else { "it panicked" });
                    }
                    env.stream.flush().expect("all ran");
                    env.shared.flush().expect("all ran");
                    env.node.flush().expect("all ran");
                    if env.node.put(&[1u8; 64], env.buffer).is_err() {
                        is_wrong("its buffer is in use");
                    }
                    if env.stream.outstanding() + env.shared.outstanding() + env.node.outstanding() != 0 {
                        is_wrong("its entry is in use");
                    }
                    if env.node.live_buffers() != live {
                        is_wrong("heap of it is in use");
                    }
                    if env.stream.sync(echo::with(1u64)).is_err() || env.shared.sync(echo::with(1u64)).is_err() {
                        is_wrong("its stream is in use");
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them: {wrong:#?}", wrong.len());
    assert!(ACTS.load(Ordering::Relaxed) > 800, "few of them acted: {}", ACTS.load(Ordering::Relaxed));
    drop(card);
}
