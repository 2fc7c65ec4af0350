//! What only a machine of its own can show: its instruction set, atomics and fences against another program, an image that
//! outlives garbage. One macro call per machine:
//!
//! ```no_run
//! hamr_tests::machine!(hamr::qemu::Machine::RISCV64);
//! # fn main() {}
//! ```

use crate::conformance::Random;
use crate::crashes::{fault, still_works};
use crate::devices;
use hamr::qemu::{Machine, QemuLauncher};
use hamr::{HandlerInfo, Image, ImageFile, LaunchRequest, Launcher, Options};
use hamr_comm::Handler;
use hamr_comm::abi::ids::{Epoch, HandlerKey, NodeId};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{DeviceState, HostState, MAGIC, PREAMBLE_BYTES, Preamble, Refusal, feature, word};
use hamr_comm::abi::slot::{RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Queue, Shared, Window};
use hamr_comm::am::Requester;
use hamr_comm::handshake::{Answer, HostHandshake, Offer, Rest};
use hamr_comm::link::{Link, Peer};
use hamr_comm::registry::Table;
use hamr_tests_kernels::crashes::leaps;
use object::{Object, ObjectSymbol};
use std::mem::offset_of;
use std::time::{Duration, Instant};

/// One test per case, on one machine with the image of `tests/image`.
#[macro_export]
macro_rules! machine {
    ($machine:expr) => {
        mod machine {
            use super::*;
            $crate::__machine! { $machine;
                its_table_is_in_the_file, a_lock_without_atomics, the_same_bits, garbage_in_the_preamble,
                garbage_in_every_line, faults_are_contained, a_window_too_small_is_refused,
                a_fault_before_the_window_is_found, a_fault_before_serving, large_frames_do_not_leap_the_guard
            }
        }
    };
}

/// Behind [`machine!`].
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

/// The image file holds the handler table: read-only, in the linker's order, with the keys that this program has.
pub fn its_table_is_in_the_file(machine: &Machine) {
    let target = devices::runtime().target(&spec(machine)).expect("known").expect("takes an image");
    let file = devices::image(&spec(machine)).resolve(&target).expect("an image");
    let node = devices::open(&spec(machine), Options::default());
    let table = file.handlers().expect("the table is in the file");
    let names: Vec<&str> = table.iter().map(|h| &*h.name).collect();
    // A test program holds more handlers than the image; those that both hold stand in one order, so have one order of keys.
    let ours = Table::of_this_image();
    let shared: Vec<&str> = ours.iter().map(|e| e.name).filter(|name| names.contains(name)).collect();
    assert_eq!(shared, names, "host and file agree on the order");
    let shown: Vec<&str> = node.handlers().iter().map(|h| &*h.name).collect();
    assert_eq!(shown, names, "the running image shows the same");
    for h in &table {
        let entry = ours.iter().find(|e| e.name == h.name).expect("in both");
        assert_eq!((entry.id, entry.signature), (h.id, h.signature), "{}", h.name);
    }
    assert!(file.handlers_are_read_only().expect("an image"), "nothing may write the table");
    let hosted = devices::image("shm").resolve(&hamr::Target::hosted()).expect("an image");
    assert_eq!(file.fingerprint, hosted.fingerprint, "the process and the machine hold the same handlers");
    let there: Vec<String> = hosted.handlers().expect("the table is in the file").into_iter().map(|h| h.name).collect();
    assert_eq!(there, names, "in the same order");
}

/// Peterson's lock between this program and the machine: needs both sides' stores, loads and full fences to mean what they say.
/// An emulator that knows of one processor only drops the fences, and loses counts.
pub fn a_lock_without_atomics(machine: &Machine) {
    use hamr_tests_kernels::{CELLS, compete, competed, peterson};
    const ROUNDS: u32 = 1_000_000;
    let node = devices::open(&spec(machine), Options::default());
    let cells = node.buffer(&[0u32; CELLS]).expect("room");
    let words = node.words(cells.ptr()).expect("the cells");
    let there = node.offload(peterson::with(cells.ptr(), ROUNDS)).expect("sent");
    // Both at once, or the lock is never contended.
    let waited = compete(words, 0, ROUNDS).expect("enough cells");
    there.get().expect("the device counted too");
    assert_eq!(competed(words), Some(2 * ROUNDS), "both were inside at once");
    assert!(waited > ROUNDS / 1000, "the lock was contended: {waited} of {ROUNDS} rounds waited");
}

/// Floating point of the machine is the host's, bit for bit, and every device says what it is.
pub fn the_same_bits(machine: &Machine) {
    use hamr_kernels::demo::{dot_f64, isa};
    let node = devices::open(&spec(machine), Options::default());
    let mut random = Random(7);
    let mut numbers = || -> Vec<f64> { (0..10_007).map(|_| random.number() as i64 as f64 * 1e-17).collect() };
    let (x, y) = (numbers(), numbers());
    let here = x.iter().zip(&y).fold(0.0f64, |sum, (a, b)| sum + a * b);
    let (x, y) = (node.buffer(&x).expect("room"), node.buffer(&y).expect("room"));
    let there = node.sync(dot_f64::with(x.ptr(), y.ptr())).expect("computes");
    assert_eq!(there.to_bits(), here.to_bits(), "{there} and {here}");
    assert_eq!(node.sync(isa::with()).expect("answers"), machine.isa.0);
    assert_eq!(node.info().isa, machine.isa.name());
}

/// What a handler does wrong ends its own call; the image serves the next one, many times over.
pub fn faults_are_contained(machine: &Machine) {
    use hamr_kernels::faults::{divide, panics};
    let node = devices::open(&spec(machine), Options::default());
    for n in 0..1000 {
        let error = node.sync(panics::with(n)).expect_err("panics").to_string();
        assert!(error.contains(&format!("asked to panic with {n}")) && error.contains("faults.rs:"), "{error}");
        assert_eq!(node.sync(divide::with(84, 2)).expect("the next call works"), 42);
    }
}

/// An image that waits for a host reads preambles of every kind of garbage, and then serves a good one.
pub fn garbage_in_the_preamble(machine: &Machine) {
    let rig = Rig::start(machine);
    let mut random = Random(11);
    let mut refused = 0;
    for round in 0..2000u64 {
        // In good order first, so that one wrong word is not hidden behind others.
        let epoch = Epoch(0x0100_0000 + round as u32);
        HostHandshake::offer(rig.window(), &rig.offer, epoch).expect("long enough");
        for _ in 0..=random.below(3) {
            let at = random.below(PREAMBLE_BYTES / 4) * 4;
            let value = match random.below(3) {
                0 => random.number() as u32,
                1 => 1 << random.below(32),
                _ => 0,
            };
            rig.say(at, value);
        }
        rig.say(word::HOST_STATE, HostState::OFFERED.0);
        rig.say(0, if random.below(8) == 0 { random.number() as u32 } else { MAGIC });
        // Now and then it gets the time to say what it thinks of it.
        std::thread::sleep(Duration::from_micros(if round % 50 == 0 { 3000 } else { random.below(200) }));
        let state = rig.window().word(word::DEVICE_STATE).expect("in the preamble").observe();
        refused += u32::from(state == DeviceState::REFUSED.0);
        assert_eq!(rig.link.peer(), Peer::Alive, "round {round}");
    }
    assert!(refused > 10, "it said of {refused} preambles that they are bad");
    let (_, stream) = rig.serve(Epoch(0x0200_0000));
    rig.expect_ping(stream);
}

/// Requests with random headers and arguments in hot, ring and side lines, published as good ones are: each is answered, and the image
/// goes on.
pub fn garbage_in_every_line(machine: &Machine) {
    let rig = Rig::start(machine);
    let (_, mut stream) = rig.serve(Epoch(3));
    let mut random = Random(13);
    for round in 0..20_000u32 {
        let hdr = ReqHdr(random.number() as u32 & !ReqHdr::CANCEL & !KEY | rig.any_key(&mut random));
        let words: [u64; 6] = core::array::from_fn(|_| random.number() >> random.below(64));
        if let Some(side) = stream.slots().side(random.below(9) as u32) {
            side.set_req_hdr(random.number() as u32 & !ReqHdr::CANCEL);
        }
        let no_answer = || -> ! { panic!("round {round}: no answer to {hdr:?}, {words:x?}") };
        let answer = if random.below(2) == 0 {
            stream.submit_hot(hdr, &words);
            let answer = rig.wait(|| stream.hot_answer()).unwrap_or_else(|| no_answer());
            stream.release_hot();
            answer
        } else {
            let at = stream.submit_ring(hdr, &words);
            let answer = rig.wait(|| stream.ring_answer(at)).unwrap_or_else(|| no_answer());
            stream.release_oldest();
            answer
        };
        assert_ne!(answer.status().name(), "UNKNOWN", "{answer:?} to {hdr:?}");
    }
    rig.expect_ping(stream);
}

/// A layout that is larger than the card's memory: the host says so before it writes a word, and a host that lies about it is
/// refused by the device.
pub fn a_window_too_small_is_refused(machine: &Machine) {
    let rig = Rig::start(machine);
    let mut offer = rig.offer;
    offer.plan.heap = 1 << 20;
    let (_, layout) = HostHandshake::offer(rig.window(), &offer, Epoch(5)).expect("long enough");
    rig.say(0, 0);
    // The preamble's window_len, a whole card longer.
    let claimed = layout.window_len().next_power_of_two() * 2;
    rig.window().write(offset_of!(Preamble, window_len) as u64, &claimed).expect("in the preamble");
    rig.say(word::EPOCH, 6);
    rig.say(0, MAGIC);
    let refused = rig.wait(|| {
        let state = rig.window().word(word::DEVICE_STATE).expect("in the preamble").observe();
        (state == DeviceState::REFUSED.0).then(|| rig.window().word(word::REFUSAL).expect("in the preamble").load())
    });
    assert_eq!(refused, Some(Refusal::WINDOW_LEN.0));
    let options = Options { heap: 64 << 20, ..Options::default() };
    let error = devices::runtime().attach("small", rig.link, options).expect_err("too small").to_string();
    assert!(error.contains("small") && error.contains("window") && error.contains("bytes"), "{error}");
}

/// Frames larger than a page end in the guard, whatever of them is touched.
pub fn large_frames_do_not_leap_the_guard(machine: &Machine) {
    let node = devices::open(&spec(machine), Options::default());
    let target = devices::runtime().target(&spec(machine)).expect("known").expect("takes an image");
    let path = devices::image(&spec(machine)).resolve(&target).expect("an image").path;
    let guard = symbol(&path, "__hamr_serve_guard")..symbol(&path, "__hamr_serve_stack");
    for kib in (12..=32).step_by(4) {
        let report = fault(node.sync(leaps::with(kib)));
        assert_eq!(report.status, Status::TRAP, "{report}");
        assert!(report.backtrace().names("leap"), "{kib} KiB: {report}");
        // aarch64 and x86_64 touch each page of a frame before they use it; riscv64 may be anywhere in its wider guard.
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

/// What opening a machine with an image says that does not come up.
fn refusal_of(machine: &Machine, image: &str) -> (String, ImageFile) {
    let target = devices::runtime().target(&spec(machine)).expect("known").expect("takes an image");
    let file = Image::find(image).expect("a name").resolve(&target).expect("the image builds");
    let options = Options { start_deadline: devices::PATIENCE, ..Options::default() };
    let image = Image::file(&file.path).expect("an image");
    let said = devices::runtime().open_with(&spec(machine), image, options).expect_err("no device").to_string();
    println!("{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    (said, file)
}

/// There is no window to write to: the console's line is in the host's error.
pub fn a_fault_before_the_window_is_found(machine: &Machine) {
    let begin = Instant::now();
    let (said, _) = refusal_of(machine, "hamr-checks-early");
    for part in ["starting", "code 101", "no bus to be found at tests/image/src/early.rs:"] {
        assert!(said.contains(part), "no `{part}` in: {said}");
    }
    assert!(begin.elapsed() < devices::PATIENCE / 2, "it is not waited for in vain: {:?}", begin.elapsed());
}

/// The host reads in the crash record what the image's start came to, and so does `hamr inspect` in a copy of the window.
pub fn a_fault_before_serving(machine: &Machine) {
    let (said, file) = refusal_of(machine, "hamr-checks-late");
    for part in ["epoch 1 ended by a fault: load", "crashes.rs:"] {
        assert!(said.contains(part), "no `{part}` in: {said}");
    }
    let rig = Rig::start_with(machine, &file);
    let window = rig.window();
    let state = || DeviceState(window.word(word::DEVICE_STATE).expect("in the preamble").observe());
    // The image waits for an offer, to have a place to write to.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!((state(), rig.link.peer()), (DeviceState::ABSENT, Peer::Alive));
    HostHandshake::offer(window, &rig.offer, Epoch(9)).expect("long enough");
    let begin = Instant::now();
    while state() != DeviceState::CRASHED {
        assert!(begin.elapsed() < devices::PATIENCE, "{:?}", state());
        std::thread::yield_now();
    }
    let mut bytes = vec![0; window.len() as usize];
    window.read_bytes(0, &mut bytes).expect("all of it");
    let copy = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(copy.path(), bytes).expect("written");
    let dump = hamr::inspect::dump(copy.path()).expect("a window");
    println!("{dump}");
    let crash = dump.crash.as_ref().expect("a crash record");
    assert_eq!((crash.epoch, dump.device.state), (9, "crashed"));
    assert_eq!(dump.device.build_id, file.build_id);
    assert!(crash.pc.0 != 0 && crash.stack.0 != 0 && !crash.frames.is_empty(), "{crash:?}");
    assert!(dump.to_string().contains(&crash.text), "{dump}");
}

/// Bits of the key in a request's header.
const KEY: u32 = 0xFFFF;
/// A machine with its image and without the host library: what a host of somebody else's would see.
struct Rig {
    link: Box<dyn Link>,
    offer: Offer,
    /// The image's own table: a test program holds other handlers as well.
    handlers: Vec<HandlerInfo>,
}

impl Rig {
    fn start(machine: &Machine) -> Self {
        let target = devices::runtime().target(&spec(machine)).expect("known").expect("takes an image");
        Self::start_with(machine, &devices::image(&spec(machine)).resolve(&target).expect("an image"))
    }

    fn start_with(machine: &Machine, image: &ImageFile) -> Self {
        let plan = Plan { heap: 1 << 20, ..Plan::default() };
        let layout = Layout::plan(&plan).expect("allowed");
        let request = LaunchRequest {
            device: "garbage",
            argument: "",
            image: Some(image),
            window_len: layout.window_len(),
            cpu: None,
        };
        let link = QemuLauncher::machine(*machine).launch(&request).expect("starts");
        let features = feature::TICKETS | feature::DEADLINES;
        Self {
            link,
            handlers: image.handlers().expect("a table"),
            offer: Offer {
                plan,
                node: NodeId(1),
                features,
                required: 0,
                fingerprint: 0,
                pid: 0,
                rest: Rest::default(),
            },
        }
    }

    fn window(&self) -> &Window<Shared> {
        self.link.window()
    }

    /// A key of no handler, or of one that ends whatever its arguments are: others run for as long as those say.
    fn any_key(&self, random: &mut Random) -> u32 {
        const ENDING: [&str; 8] =
            ["::ping", "::axpy", "::dot_f64", "::divide", "::panics", "::echo_many", "::node_of_device", "::bump"];
        let ends = |h: &&HandlerInfo| ENDING.iter().any(|end| h.name.ends_with(end));
        let keys: Vec<u32> = self.handlers.iter().filter(ends).map(|h| h.key.into()).collect();
        assert!(keys.len() >= ENDING.len());
        match random.below(2) {
            0 => keys[random.below(keys.len() as u64) as usize],
            _ => 0x200 + random.below(0xFD00) as u32,
        }
    }

    fn say(&self, off: u64, value: u32) {
        self.window().word(off).expect("in the preamble").publish(value);
    }

    /// Waits until the machine has done something, a minute at most.
    fn wait<T>(&self, mut what: impl FnMut() -> Option<T>) -> Option<T> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(60) {
            if let Some(found) = what() {
                return Some(found);
            }
            assert_eq!(self.link.peer(), Peer::Alive);
            std::thread::yield_now();
        }
        None
    }

    /// A handshake in good order.
    fn serve(&self, epoch: Epoch) -> (Layout, Requester<Queue<Shared>>) {
        let (hand, layout) = HostHandshake::offer(self.window(), &self.offer, epoch).expect("long enough");
        let serving = self.wait(|| match hand.step(self.window()) {
            Answer::Accepted(_) => {
                hand.ready(self.window());
                None
            }
            Answer::Serving => Some(()),
            Answer::Waiting => None,
            other => panic!("{other:?}"),
        });
        serving.expect("the image serves");
        self.say(word::OPEN_QUEUES, layout.queues());
        let descriptor = layout.queue(self.window(), 1).expect("own descriptor");
        (layout, Requester::new(self.window().queue(&descriptor).expect("own queue"), epoch))
    }

    fn expect_ping(&self, mut stream: Requester<Queue<Shared>>) {
        let ping = self.handlers.iter().find(|h| h.name == hamr_comm::builtin::ping::NAME).expect("built in").key;
        stream.submit_hot(ReqHdr::inline(HandlerKey::of_index(ping), 8), &[0x1234_5678_9ABC_DEF0]);
        let answer: RepHdr = self.wait(|| stream.hot_answer()).expect("answers a good request");
        assert_eq!((answer.status(), answer.len()), (Status::OK, 8));
        let mut words = [0];
        stream.slots().hot().read_reply(&mut words);
        assert_eq!(words, [0x1234_5678_9ABC_DEF0]);
    }
}
