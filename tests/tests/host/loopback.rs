//! The conformance suite over the loopback device, and cases that need a device inside the test:
//! tables made by hand, and a link that fails on purpose.

mod alone;
mod inside;
mod one_program;

use hamr::link::{FaultInjector, Faults, Link, Loopback};
use hamr::{BufferError, CallError, CallOptions, Error, Features, Image, Node, Options, Runtime, SubmitError, Warning};
use hamr_comm::abi::buffer::{BufferParts, WireBuffer};
use hamr_comm::abi::ids::NodeId;
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{DeviceState, feature, word};
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::{Place, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::am::{SlotAccess, Slots};
use hamr_comm::registry::Table;
use hamr_comm::{BufferPtr, Context, Entry, Fault, Handler, builtin, offload};
use hamr_kernels::bench::{empty, notice, sum_4, sum_14};
use hamr_kernels::demo::axpy;
use hamr_kernels::faults::{background, echo_many, make_many};
use hamr_tests::conformance::{Log, Random, options, refusal};
use hamr_tests_kernels::{append, append_named, budget, echo};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}

fn open(options: Options) -> Node {
    let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
    runtime().open_with("loopback", image, options).expect("a loopback device")
}

hamr_tests::conformance!(open);

/// A part of the suite where the host reads and writes the device's memory: what carries is in the handler while that runs, so
/// nothing reaches it meanwhile.
mod driven {
    use super::*;

    fn open(options: Options) -> Node {
        let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
        let options = Options { protocol: Some(hamr::link::Protocol::HostDriven), ..options };
        hamr_tests::devices::runtime().open_with("seen:loopback", image, options).expect("a loopback device")
    }

    hamr_tests::__conformance! { open;
        values { inline, every_length, many_buffers, of_any_length }
        outcomes { own_errors, many_panics, ping_and_info }
        order { every_path_in_submission_order, queued_calls_keep_order }
        tasks { all_places_wait_at_once, a_deadline_ends_each_wait, a_sleep_lasts_its_time, a_restart_with_waiting_tasks }
        host_calls { every_place, many_calls }
        streams { shared_by_threads }
        puts { every_length }
        memory { there_and_back, copies }
        transfers { come_in_submission_order }
        chains { results_travel }
        one_way { sent_calls_run }
        restart { streams_and_buffers_go_on }
    }
}

fn layout(options: &Options) -> Layout {
    let Options { streams, ring, tickets, chunk, heap, .. } = *options;
    Layout::plan(&Plan { streams: streams.unwrap_or(8), ring, tickets, chunk, heap, ..Plan::default() })
        .expect("a plan that can be laid out")
}

/// A device with these handlers only.
fn with_table(entries: &[&'static Entry]) -> Node {
    static PING: Entry = Entry::of::<builtin::ping>();
    let table = Table::of(entries.iter().copied().chain([&PING]).collect());
    let link = Loopback::new(layout(&options()).heap(), table);
    runtime().attach("made-by-hand", Box::new(link), options()).expect("attaches")
}

/// A device whose hot slots have one line.
fn open_with_one_line(options: Options) -> Node {
    let link = Loopback::new(layout(&options).heap(), Table::of_this_image()).without(feature::TWO_LINES);
    runtime().attach("one-line", Box::new(link), options).expect("attaches")
}

/// What travels in two lines gives the same results where there is one.
mod one_line {
    use super::open_with_one_line;
    hamr_tests::__conformance! { open_with_one_line;
        values { inline, every_length, chunks_and_buffers }
        streams { receivers_are_alike }
        puts { every_length, receivers_are_alike, refusals, busy_targets, faults_leave_the_data }
    }
}

#[test]
fn without_a_second_line_arguments_take_the_chunk_and_data_is_put_apart() {
    for without in [0, feature::TWO_LINES] {
        let has_two = without == 0;
        let layout = layout(&options());
        let link = Loopback::new(layout.heap(), Table::of_this_image()).without(without);
        let window = link.window().part(0, layout.heap().start).expect("all of it");
        let node = runtime().attach("lines", Box::new(link), options()).expect("attaches");
        assert_eq!(node.info().features.contains(Features::TWO_LINES), has_two);
        let stream = node.stream().expect("a stream is free");
        let lines = window.queue(&layout.queue(&window, 1).expect("laid out")).expect("inside");
        let last_sent = || ReqHdr(lines.hot().req_hdr());
        let args = std::array::from_fn(|i| i as u64);
        assert_eq!(stream.sync(sum_14::with(args)).expect("runs"), 91);
        assert_eq!(last_sent().place(), if has_two { Place::TwoLines } else { Place::Chunk });
        let target = node.buffer(&[0u32; 16]).expect("room");
        let data: [u32; 16] = std::array::from_fn(|i| 7 * i as u32);
        assert_eq!(stream.put_sync(&data, target.ptr(), notice::with(target.ptr())).expect("runs"), 105);
        assert_eq!((last_sent().place(), last_sent().has(ReqHdr::PUT)), (Place::Inline, has_two));
        assert_eq!(node.read(target.ptr()).expect("answered"), data);
    }
}

/// A pointer of node `node` that no host made.
#[offload]
fn points_to_much(_cx: &mut Context, node: u32) -> BufferPtr<f64> {
    let node = NodeId(node as u16);
    let parts = BufferParts { off: 0, index: 0, len: WireBuffer::MAX_LEN - 1, generation: 0, node };
    BufferPtr::from_wire(WireBuffer::pack(parts))
}

/// Without the check, the read would allocate 512 GiB.
#[test]
fn read_checks_a_device_pointer_before_it_allocates() {
    static POINTS: Entry = Entry::of::<points_to_much>();
    let node = with_table(&[&POINTS]);
    let pointer = node.sync(points_to_much::with(node.info().node.into())).expect("a reply");
    let no_buffer = node.read(pointer).map(drop);
    assert!(matches!(no_buffer, Err(Error::Buffer { why: BufferError::Freed { .. }, .. })), "{no_buffer:?}");
    let buffer = node.buffer(&[1.0]).expect("room");
    assert_eq!(pointer.parts().index, buffer.ptr().parts().index, "it names the only buffer");
    let too_long = node.read(pointer).map(drop);
    assert!(matches!(too_long, Err(Error::Buffer { why: BufferError::Overrun { .. }, .. })), "{too_long:?}");
}

static EMPTY: Entry = Entry::of::<empty>();

static PUTS: OnceLock<Node> = OnceLock::new();

/// Receives a pointer as numbers, so that its call does not use the buffer; copies to it while a
/// view of it exists.
#[offload]
fn puts_into_its_view(cx: &mut Context, words: [u64; 2]) -> Result<(u64, bool), Fault> {
    let pointer = BufferPtr::<u64>::from_wire(WireBuffer::from_words(words));
    let view = cx.view_mut(pointer)?;
    view[0] = 1;
    let node = PUTS.get().ok_or_else(|| Fault::msg("no node"))?;
    let is_busy = |outcome| matches!(outcome, Err(hamr::Error::Buffer { why: BufferError::Busy, .. }));
    let refused = is_busy(node.put(&[2], pointer)) && is_busy(node.get(pointer, &mut [0]));
    Ok((view[0], refused))
}

#[test]
fn a_handler_is_refused_a_copy_into_what_it_views() {
    let node = PUTS.get_or_init(|| open(options()));
    let buffer = node.buffer(&[0u64]).expect("room");
    let outcome = node.sync(puts_into_its_view::with(buffer.ptr().wire().words())).expect("runs");
    assert_eq!(outcome, (1, true));
    assert_eq!(node.read(buffer.ptr()).expect("free again"), [1]);
}

struct Bomb;
impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[offload]
fn panics_with_a_bomb(_cx: &mut Context) {
    std::panic::panic_any(Bomb);
}

#[test]
fn a_panic_whose_payload_panics_when_dropped_ends_its_call_only() {
    let node = open(options());
    for _ in 0..3 {
        let outcome = node.sync(panics_with_a_bomb::with());
        assert!(matches!(&outcome, Err(CallError::Fault(report)) if report.status == Status::PANIC), "{outcome:?}");
        node.sync(empty::with()).expect("the next call works");
    }
}

#[test]
fn a_body_that_only_images_have_is_refused_by_name() {
    let node = open(options());
    let error = node.sync(hamr_tests::handlers::adc::with(0)).expect_err("no body here");
    let text = error.to_string();
    assert!(text.contains("adc") && text.contains("feature `device`"), "{text}");
    assert!(matches!(refusal(error), SubmitError::NoBody { .. }));
}

#[test]
fn a_window_that_is_too_short_is_refused() {
    let link = Loopback::new(1 << 16..1 << 16, Table::of_this_image());
    let runtime = Runtime::new().expect("a runtime");
    let error = runtime.attach("short", Box::new(link), Options::default()).expect_err("too short");
    assert!(
        matches!(error, hamr::Error::WindowTooShort { has: 0x1_0000, needed, .. } if needed > 64 << 20),
        "{error:?}"
    );
    assert!(error.to_string().contains("short") && error.to_string().contains("less heap"), "{error}");
}

#[test]
fn missing_handlers_are_named_and_the_others_work() {
    let node = with_table(&[&EMPTY]);
    let warnings = node.warnings();
    let about = |name: &str| warnings.iter().map(Warning::to_string).find(|w| w.contains(&format!("`{name}`")));
    let missing = about(axpy::NAME).expect("named at attach");
    assert!(missing.contains("made-by-hand") && missing.contains("has no handler"), "{missing}");
    assert!(about(empty::NAME).is_none() && about(builtin::ping::NAME).is_none(), "{warnings:?}");
    let buffer = node.buffer(&[1.0]).expect("room");
    for _ in 0..2 {
        let error = refusal(node.sync(axpy::with(1.0, buffer.ptr(), buffer.ptr())).expect_err("not there"));
        assert!(matches!(error, SubmitError::MissingHandler { .. }), "{error:?}");
        assert!(error.to_string().contains(axpy::NAME), "{error}");
        let error = node.offload(background::with(1)).err().expect("not there");
        assert!(matches!(error, SubmitError::MissingHandler { .. }), "{error:?}");
        node.sync(empty::with()).expect("this one is there");
    }
    node.put(&[2.0], buffer.ptr()).expect("a call that was not sent uses nothing");
    node.ping().expect("always there");
}

#[test]
fn another_signature_is_refused_by_name() {
    static OTHER: Entry = Entry { signature: sum_4::SIGNATURE ^ 1, ..Entry::of::<sum_4>() };
    let node = with_table(&[&EMPTY, &OTHER]);
    let expected = Warning::OtherSignature { device: "made-by-hand".into(), handler: sum_4::NAME };
    assert!(node.warnings().contains(&expected), "{:?}", node.warnings());
    assert!(expected.to_string().contains(&format!("`{}` with another signature", sum_4::NAME)), "{expected}");
    let error = refusal(node.sync(sum_4::with(1, 2, 3, 4)).expect_err("other types"));
    assert!(matches!(error, SubmitError::OtherSignature { .. }), "{error:?}");
    assert!(error.to_string().contains(sum_4::NAME) && error.to_string().contains("rebuild"), "{error}");
    node.sync(empty::with()).expect("the others work");
}

#[test]
fn a_stale_image_is_warned_about_and_called() {
    static STALE: Entry = Entry { body: sum_4::BODY ^ 1, ..Entry::of::<sum_4>() };
    let node = with_table(&[&EMPTY, &STALE]);
    let stale: Vec<Warning> =
        node.warnings().into_iter().filter(|w| matches!(w, Warning::StaleHandler { .. })).collect();
    let expected = Warning::StaleHandler { device: "made-by-hand".into(), handler: sum_4::NAME };
    assert_eq!(stale, [expected]);
    let said = stale[0].to_string();
    assert!(said.contains(sum_4::NAME) && said.contains("made-by-hand") && said.contains("stale"), "{said}");
    assert_eq!(node.sync(sum_4::with(1, 2, 3, 4)).expect("goes through"), 10);
}

#[test]
fn bits_that_are_no_value_are_an_error_on_either_side() {
    #[offload]
    fn liar(_cx: &mut Context, _asked: u8) -> u8 {
        2
    }
    #[offload]
    fn surrogate(_cx: &mut Context, _asked: u32) -> u32 {
        0xD800
    }
    // To the host these are `echo<bool>` and so on; the reply's byte is no bool.
    static NO_BOOL: Entry = Entry { run: Entry::of::<liar>().run, ..Entry::of::<echo<bool>>() };
    static NO_CHAR: Entry = Entry { run: Entry::of::<surrogate>().run, ..Entry::of::<echo<char>>() };
    static STRICT: Entry = Entry { run: Entry::of::<echo<bool>>().run, ..Entry::of::<echo<u8>>() };
    static LONGER: Entry = Entry { run: Entry::of::<echo<u64>>().run, ..Entry::of::<sum_4>() };
    let node = with_table(&[&EMPTY, &NO_BOOL, &NO_CHAR, &STRICT, &LONGER]);
    let stream = node.stream().expect("a stream is free");
    for _ in 0..2 {
        let errors = [
            stream.sync(echo::with(true)).map(|_| ()).expect_err("2 is no bool"),
            stream.offload(echo::with(false)).expect("sent").wait().map(|_| ()).expect_err("2 is no bool"),
            stream.sync(echo::with('x')).map(|_| ()).expect_err("a surrogate is no char"),
            stream.sync(echo::with(2u8)).map(|_| ()).expect_err("the device wants a bool"),
            stream.sync(sum_4::with(1, 2, 3, 4)).map(|_| ()).expect_err("32 bytes are no u64"),
        ];
        for error in errors {
            assert!(matches!(error, CallError::Corrupt(..)), "{error:?}");
        }
        assert_eq!(stream.sync(echo::with(1u8)).expect("1 is a bool"), 1);
        stream.sync(empty::with()).expect("the stream is fine");
    }
    assert_eq!(stream.outstanding(), 0);
}

fn breakable(options: Options, table: Table) -> (Node, Arc<FaultInjector<Loopback>>, Arc<Faults>) {
    let (link, faults) = FaultInjector::new(Loopback::new(layout(&options).heap(), table));
    let link = Arc::new(link);
    let node = runtime().attach("breakable", Box::new(link.clone()), options).expect("attaches");
    (node, link, faults)
}

fn is_lost<T: std::fmt::Debug, E: std::fmt::Debug>(outcome: Result<T, CallError<E>>, handler: &str) {
    match outcome {
        Err(e @ CallError::DeviceLost(..)) => {
            let text = e.to_string();
            for part in [handler, "device breakable", "waiting for the reply", "killed by a fault"] {
                assert!(text.contains(part), "`{part}` in: {text}");
            }
        }
        other => panic!("expected a lost device, got {other:?}"),
    }
}

#[test]
fn a_slow_device_costs_time_only() {
    let (node, _, faults) = breakable(options(), Table::of_this_image());
    let stream = node.stream().expect("a stream is free");
    for n in 0..50u64 {
        faults.delay(n as u32 * 10);
        assert_eq!(stream.sync(echo::with(n)).expect("late"), n);
        faults.delay(100);
        assert_eq!(stream.offload(echo::with(n)).expect("sent").wait().expect("late"), n);
        assert_eq!(pollster::block_on(stream.offload(echo::with(n)).expect("sent")).expect("late"), n);
    }
    // Longer than the call waits.
    faults.delay(u32::MAX);
    let soon = CallOptions::deadline(Duration::from_millis(5));
    assert!(matches!(stream.sync_with(echo::with(1u64), soon), Err(CallError::Deadline(_))));
    faults.delay(0);
    assert_eq!(stream.sync(echo::with(2u64)).expect("in time"), 2);
    stream.flush().expect("the late reply is discarded");
    assert_eq!(stream.outstanding(), 0);
}

/// The device has ended its epoch, and answers no offer for a while: longer than one thread waits that knows a limit.
#[test]
fn a_wait_for_a_slow_device_ends_at_its_limit_and_the_next_one_has_it() {
    let options = Options { start_deadline: Duration::from_secs(60), ..options() };
    let (node, link, faults) = breakable(options, Table::of_this_image());
    assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
    faults.delay(u32::MAX);
    let stopped = link.window().word(word::DEVICE_STATE).expect("inside");
    stopped.publish(DeviceState::STOPPED.0);
    assert!(!node.is_alive());
    for limit in [0, 1, 50] {
        let (begin, limit) = (Instant::now(), Duration::from_millis(limit));
        assert!(matches!(node.wait_until_back(limit), Err(Error::Lost { .. })), "no device answers");
        assert!(begin.elapsed() < Duration::from_secs(10), "{limit:?}: {:?}", begin.elapsed());
    }
    faults.delay(0);
    node.wait_until_back(Duration::from_secs(20)).expect("it answers");
    assert_eq!(node.sync(echo::with(2u64)).expect("runs"), 2);
}

#[test]
fn lost_doorbells_cost_time_only() {
    let (node, _, faults) = breakable(options(), Table::of_this_image());
    faults.drop_notifications(true);
    for n in 0..100u64 {
        assert_eq!(node.sync(echo::with(n)).expect("runs"), n);
    }
}

#[test]
fn flipped_bits_never_hang_or_panic() {
    // Handlers that a wrong key may reach without harm.
    static SAFE: [Entry; 7] = [
        Entry::of::<empty>(),
        Entry::of::<sum_4>(),
        Entry::of::<echo<u64>>(),
        Entry::of::<append>(),
        Entry::of::<append_named>(),
        Entry::of::<echo_many>(),
        Entry::of::<background>(),
    ];
    let small = Options { ring: 8, tickets: 2, streams: Some(1), ..options() };
    let lines = layout(&small).section(SectionKind::LINES).expect("every window has lines");
    for seed in 1..=4 {
        let mut random = Random(seed);
        let (node, link, _) = breakable(small.clone(), Table::of(SAFE.iter().collect()));
        let log = Log::new(&node, 1000);
        for _ in 0..15 {
            let stream = node.stream().expect("a stream is free");
            let soon = CallOptions::deadline(Duration::from_millis(1));
            for _ in 0..20 {
                let word = lines.off + random.below(lines.len / 4) * 4;
                // Control words more often than payload: they are the last four of a slot.
                let word = if random.below(2) == 0 { word } else { word & !63 | 48 | word & 12 };
                let one = stream.offload_with(echo::with(random.number()), soon);
                let two = stream.offload_with(append_named::with(log.ptr(), 1), soon);
                link.flip(word, 1 << random.below(32));
                let three = stream.offload_with(background::with(1), soon);
                // Any outcome is accepted, as long as there is one.
                let _ = stream.sync_with(sum_4::with(1, 2, 3, 4), soon);
                let _ = one.map(|p| p.wait());
                link.flip(word, 1 << random.below(32));
                let _ = two.map(|p| p.wait());
                let _ = stream.sync_with(echo_many::with([1; 100]), soon);
                drop(three);
            }
            node.restart().expect("starts again");
            for n in 0..50u64 {
                assert_eq!(stream.sync(echo::with(n)).expect("a new epoch is clean"), n);
                assert_eq!(stream.offload(background::with(n)).expect("sent").wait().expect("runs"), 3 * n);
                assert_eq!(stream.sync(echo_many::with([n; 100])).expect("runs"), [n; 100]);
            }
            stream.flush().expect("nothing is left");
            assert_eq!((stream.outstanding(), node.live_buffers()), (0, 1));
        }
    }
}

/// A deadline that the message has no room for is left out: the caller keeps it.
#[test]
fn a_long_deadline_is_not_made_shorter() {
    let node = open(options());
    let hour = Duration::from_secs(3600);
    let told = node.sync_with(budget::with(), CallOptions::deadline(hour)).expect("runs");
    assert!(told == 0 || Duration::from_micros(told.into()) >= hour, "told {told} us of an hour");
}

/// A limit that the device is to enforce is refused instead.
#[test]
fn a_limit_that_no_message_has_room_for_is_refused() {
    let node = open(options());
    let limit = |micros| CallOptions { limit: Some(Duration::from_micros(micros)), ..CallOptions::default() };
    assert_eq!(node.sync_with(budget::with(), limit((1 << 31) - 1)).expect("fits"), (1 << 31) - 1);
    for micros in [1 << 31, (1 << 32) + 5, u64::MAX] {
        let error = node.sync_with(budget::with(), limit(micros)).expect_err("does not fit");
        assert!(matches!(&error, CallError::Submit(why) if matches!(**why, SubmitError::LongLimit { .. })), "{error}");
    }
}
