//! The report of `hamr inspect` for a prepared window file: every line is compared with the files
//! in `golden/inspect`. `HAMR_BLESS=1` rewrites them; read the difference.
//!
//! The window is made by the real ends of the protocol as far as possible. The crash and the slot
//! of an earlier epoch, which only a failed device leaves, are written by hand.

use hamr::inspect::dump;
use hamr_comm::abi::ids::{Epoch, HandlerKey, NodeId};
use hamr_comm::abi::layout::{Layout, Placement, Plan};
use hamr_comm::abi::preamble::{DeviceState, feature, word};
use hamr_comm::abi::rings::{CrashRecord, LogLevel, RingHeader};
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::{RepHdr, ReqHdr, seq};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::task_line::{TaskLine, WaitKind};
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::am::{MAX_QUEUES, SlotAccess, Slots};
use hamr_comm::handshake::{DeviceHandshake, DeviceProfile, HostHandshake, Offer};
use hamr_comm::registry::Table;
use hamr_comm::{Context, Entry, Fault, Task, offload};
use std::path::PathBuf;

/// Adds.
#[offload(name = "inspect::add")]
fn add(_cx: &mut Context, a: u64, b: u64) -> u64 {
    a.wrapping_add(b)
}

/// Fails.
#[offload(name = "inspect::fail")]
fn fail(_task: &mut Task) -> Result<u64, Fault> {
    Err(Fault::msg("asked to"))
}

static ADD: Entry = Entry::of::<add>();
static FAIL: Entry = Entry::of::<fail>();
const ADD_KEY: HandlerKey = HandlerKey(0);
const FAIL_KEY: HandlerKey = HandlerKey(1);
const EPOCH: Epoch = Epoch(3);
const PLAN: Plan = Plan {
    streams: 1,
    ring: 4,
    tickets: 2,
    chunk: 64,
    table: 512,
    log: 2048,
    trace: 128,
    heap: 4096,
    tasks: 2,
    host_chunk: 64,
    host_table: 64,
    verbs: 0,
    placement: Placement::Coherent,
    staging: 0,
    packed: false,
};

/// A window with a device that crashed while it served.
fn crashed() -> Vec<u8> {
    let (host, device) = hamr_tests::both_ends::both_ends(Layout::plan(&PLAN).expect("allowed").window_len());
    let features = feature::TICKETS | feature::LOGS | feature::CONTAIN;
    let offer = Offer { features, required: feature::TICKETS, fingerprint: 7, pid: 42, ..Offer::new(PLAN, NodeId(2)) };
    let (handshake, layout) = HostHandshake::offer(&host, &offer, EPOCH).expect("long enough");
    let profile = DeviceProfile {
        memory: 1 << 20,
        build_id: [0xAB; 20],
        ..DeviceProfile::new("golden", features, MAX_QUEUES as u32)
    };
    let table = Table::of(vec![&ADD, &FAIL]);
    let mut state = DeviceHandshake::Waiting;
    state.step(&device, table, &profile);
    handshake.ready(&host);
    state.step(&device, table, &profile);
    assert!(matches!(state, DeviceHandshake::Serving(_)));
    DeviceHandshake::announce(&device);

    let say = |off: u64, value: u32| host.word(off).expect("in the window").publish(value);
    let count = |n| seq(EPOCH.tag(), n, 24);
    let queue = host.queue(&layout.queue(&host, 1).expect("its own")).expect("in the window");
    say(word::OPEN_QUEUES, 2);
    // The device served this one when it crashed.
    queue.hot().write_request(&[5, 6, 0, 0, 0, 0]);
    queue.hot().publish_request(ReqHdr::inline(ADD_KEY, 16).0, count(1));
    // One with a value, one with a fault; one cancelled while it waits; one of an earlier epoch.
    queue.ring(0).publish_request(ReqHdr::inline(ADD_KEY, 16).0, count(1));
    queue.ring(0).write_reply(&[11, 0, 0, 0, 0, 0]);
    queue.ring(0).publish_reply(RepHdr::inline(Status::OK, 8).0, count(1));
    queue.ring(1).publish_request(ReqHdr::inline(FAIL_KEY, 0).0, count(1));
    let short = u64::from_le_bytes(*b"asked to");
    queue.ring(1).write_reply(&[0, 0, 0, short, 0, 0]);
    queue.ring(1).publish_reply(RepHdr::inline(Status::FAILED, 32).0 | RepHdr::FAULT, count(1));
    queue.ring(2).publish_request(ReqHdr::inline(FAIL_KEY, 0).0 | ReqHdr::ONE_WAY | ReqHdr::CANCEL, count(1));
    queue.ring(3).publish_request(ReqHdr::inline(HandlerKey(99), 0).0, seq(EPOCH.tag() - 1, 1, 24));

    // A task that waits, as a device of another version or a hostile one may state it, too.
    let tasks = layout.planned_tasks(&PLAN).expect("planned");
    let line = TaskLine {
        state: TaskLine::WAITS,
        wait: WaitKind::CONDITION,
        key: FAIL_KEY.0,
        queue: 1,
        slot: 6,
        of: 0,
        word: 0,
        line: 24,
        since: 1_000_000,
        seen: 4_104_000,
        file: TaskLine::tail("tests/tests/protocol/inspect.rs"),
    };
    line.write(&host.lend(), tasks.line(0));
    let other = TaskLine { wait: WaitKind(77), key: 99, since: u64::MAX, file: TaskLine::tail("\x1b[2J"), ..line };
    other.write(&host.lend(), tasks.line(1));

    let log = layout.section(SectionKind::LOG).expect("planned").off;
    for (off, value) in [
        (RingHeader::WRITTEN, 120),
        (RingHeader::CONSUMED, 100),
        (RingHeader::DROPPED, 4),
        (RingHeader::LEVEL, LogLevel::DEBUG.0),
        (RingHeader::READER, 1),
    ] {
        say(log + off, value);
    }
    let mut crash = CrashRecord {
        valid: CrashRecord::VALID,
        epoch: EPOCH.0,
        cause: 5,
        text_len: 0,
        pc: 0x8000_1234,
        address: 0x10,
        frames: [0; 12],
        stack: 0x8004_0000,
        text: [0; 376],
    };
    // A peer's text must not move the cursor.
    let text = b"load access fault\x1b[2J while serving";
    crash.text_len = text.len() as u32;
    crash.text[..text.len()].copy_from_slice(text);
    crash.frames[..2].copy_from_slice(&[0x8000_2000, 0x8000_0100]);
    host.write(layout.section(SectionKind::CRASH).expect("planned").off, &crash).expect("in the window");
    say(word::HOST_DOORBELL, 0x0002_0000);
    say(word::DEVICE_DOORBELL, 0x0001_0000);
    say(word::DEVICE_ALIVE, 1000);
    say(word::DEVICE_PROGRESS, 500);
    say(word::DEVICE_STATE, DeviceState::CRASHED.0);
    bytes(&host)
}

fn bytes(window: &Window<Shared>) -> Vec<u8> {
    let mut bytes = vec![0; window.len() as usize];
    window.read_bytes(0, &mut bytes).expect("all of it");
    bytes
}

/// Compares with a file of `golden/inspect`, or writes it.
fn golden(name: &str, got: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/inspect").join(name);
    if std::env::var_os("HAMR_BLESS").is_some_and(|v| v == "1") {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        return std::fs::write(&path, got).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let different = expected.lines().zip(got.lines()).find(|(expected, got)| expected != got);
    assert!(expected == got, "{}: {different:#?}; all of it:\n{got}", path.display());
}

#[test]
fn a_crashed_window_is_shown_line_by_line() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), crashed()).expect("written");
    let mut dump = dump(file.path()).expect("a window");
    dump.path = "crashed.window".into();
    // The golden files are of one machine.
    dump.device.isa = "x86_64";
    assert_eq!(dump.problems, Vec::<String>::new());
    golden("crashed.txt", &dump.to_string());
    let json = serde_json::to_string_pretty(&dump).expect("plain data");
    golden("crashed.json", &format!("{json}\n"));
}

#[test]
fn a_window_cut_short_is_shown_as_far_as_it_goes() {
    let whole = crashed();
    for len in [0x400, 0x800, 0x1000, 0x3000, whole.len() - 1] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &whole[..len]).expect("written");
        let dump = dump(file.path()).expect("longer than a preamble");
        assert!(dump.problems.iter().any(|p| p.contains("bytes")), "{len}: {:?}", dump.problems);
        assert_eq!((dump.host.epoch, dump.device.board.as_str()), (3, "golden"), "{len}");
    }
}
