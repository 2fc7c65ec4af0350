//! The handshake, step by step over private windows (abi §3.4): what a device accepts, what it
//! refuses and why, and how a host reads the reply.

mod refusals;

use hamr_comm::abi::ids::{Epoch, NodeId};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{
    BYTE_ORDER, DEVICE_RECORD, DeviceRecord, DeviceState, HostState, Preamble, Refusal, SECTIONS, feature, word,
};
use hamr_comm::abi::queue::QueueDescriptor;
use hamr_comm::abi::section::{Section, SectionKind};
use hamr_comm::abi::table::{TableHeader, TableRecord};
use hamr_comm::abi::version::AbiVersion;
use hamr_comm::abi::window::{DeviceWindow, Shared, Window};
use hamr_comm::am::{MAX_QUEUES, Poller, Round};
use hamr_comm::handshake::{
    DeviceHandshake, DeviceProfile, HostHandshake, IdlePolicy, Offer, OfferError, OfferState, Refused, Takeover,
};
use hamr_comm::migrate::MAX_MESSAGE;
use hamr_comm::registry::Table;
use hamr_comm::{Context, Entry, Handler};

struct Nothing;
impl Handler for Nothing {
    const NAME: &'static str = "handshake::nothing";
    const BODY: u64 = 1;
    type Kind = Context<'static>;
    type Args = ();
    type Output = ();
    fn run(_: &mut Context<'_>, (): ()) {}
}
static NOTHING: Entry = Entry::of::<Nothing>();
static NOTHING_AGAIN: Entry = Entry::of::<Nothing>();

const PLAN: Plan = Plan {
    streams: 2,
    ring: 4,
    tickets: 2,
    chunk: 256,
    table: 512,
    log: 256,
    trace: 128,
    heap: 4096,
    ..Plan::NO_TASKS
};
const FIRST: Epoch = Epoch(1);
const PROFILE: DeviceProfile = DeviceProfile {
    build_id: [7; 20],
    ..DeviceProfile::new("test", feature::TICKETS | feature::DEADLINES, MAX_QUEUES as u32)
};
const OFFER: Offer = Offer {
    features: feature::TICKETS | feature::LOGS,
    required: feature::TICKETS,
    fingerprint: 99,
    pid: 1,
    idle_policy: IdlePolicy { spin_us: 7, sleep_us: 8 },
    ..Offer::new(PLAN, NodeId(5))
};
const SECTION_BYTES: u64 = size_of::<Section>() as u64;

/// Both halves of a window with an offer, and the device's state.
struct Bench {
    host: Window<Shared>,
    device: DeviceWindow<Shared>,
    layout: Layout,
    offered: HostHandshake,
    state: DeviceHandshake,
    table: Table,
    profile: DeviceProfile,
}

impl Bench {
    fn new() -> Self {
        Self::with(PLAN)
    }

    fn with(plan: Plan) -> Self {
        let len = Layout::plan(&plan).expect("the plan is allowed").window_len();
        let (host, device) = hamr_tests::both_ends::both_ends(len);
        let (offered, layout) = HostHandshake::offer(&host, &Offer { plan, ..OFFER }, FIRST).expect("long enough");
        let table = Table::of(vec![&NOTHING]);
        Self { host, device, layout, offered, state: DeviceHandshake::Waiting, table, profile: PROFILE }
    }

    fn step(&mut self) {
        self.state.step(&self.device, self.table, &self.profile);
    }

    fn word(&self, off: u64) -> u32 {
        self.host.word(off).expect("in the preamble").observe()
    }

    fn say(&self, off: u64, value: u32) {
        self.host.word(off).expect("in the preamble").publish(value);
    }

    fn preamble(&self, change: impl FnOnce(&mut Preamble)) {
        let mut preamble: Preamble = self.host.read(0).expect("in the window");
        change(&mut preamble);
        self.host.write(0, &preamble).expect("in the window");
    }

    fn entry(kind: SectionKind) -> u64 {
        SECTIONS + u64::from(kind.0 - 1) * SECTION_BYTES
    }

    /// Changes one entry of the section table; a plan orders the entries by kind.
    fn section(&self, kind: SectionKind, change: impl FnOnce(&mut Section)) {
        let at = Self::entry(kind);
        let mut section: Section = self.host.read(at).expect("in the window");
        assert_eq!(section.kind, kind);
        change(&mut section);
        self.host.write(at, &section).expect("in the window");
    }

    fn queue(&self, index: u32, change: impl FnOnce(&mut QueueDescriptor)) {
        let queues = self.layout.section(SectionKind::QUEUES).expect("planned");
        let at = queues.off + u64::from(index) * size_of::<QueueDescriptor>() as u64;
        let mut descriptor: QueueDescriptor = self.host.read(at).expect("in the window");
        change(&mut descriptor);
        self.host.write(at, &descriptor).expect("in the window");
    }

    /// The device reads the offer once and refuses it, and the host reads the same reason in the
    /// window.
    fn refusal(&mut self) -> Refused {
        self.step();
        let DeviceHandshake::Refused(why, _) = self.state else { panic!("not refused: {:?}", self.state) };
        let OfferState::Refused(read) = self.offered.step(&self.host) else {
            panic!("the host sees {:?}", self.offered.step(&self.host))
        };
        assert_eq!(read, why);
        why
    }

    fn refuses(&mut self, reason: Refusal, expected: u32, got: u32) {
        assert_eq!(self.refusal(), Refused { reason, expected, got });
    }
}

#[test]
fn both_sides_reach_serving() {
    let mut b = Bench::new();
    assert!(matches!(b.offered.step(&b.host), OfferState::Waiting));

    b.step();
    assert!(matches!(b.state, DeviceHandshake::Accepted(_)));
    assert_eq!(b.word(word::DEVICE_STATE), DeviceState::ACCEPTED.0);
    assert_eq!(b.word(word::EPOCH_ACK), FIRST.0);
    let OfferState::Accepted(facts) = b.offered.step(&b.host) else { panic!("{:?}", b.offered.step(&b.host)) };
    assert_eq!(facts.abi, AbiVersion::CURRENT.to_wire());
    assert_eq!(facts.features, feature::TICKETS);
    assert_eq!((facts.handlers, facts.board_name(), facts.build_id), (1, "test", [7; 20]));
    assert_eq!(facts.fingerprint, b.table.fingerprint());

    let section = b.layout.section(SectionKind::TABLE).expect("planned");
    let header: TableHeader = b.host.read(section.off).expect("in the window");
    assert_eq!((header.count, header.fingerprint), (1, facts.fingerprint));
    let record: TableRecord = b.host.read(section.off + size_of::<TableHeader>() as u64).expect("in the window");
    let mut name = vec![0; record.name_len as usize];
    b.host.read_bytes(section.off + u64::from(record.name_off), &mut name).expect("in the window");
    assert_eq!((record.id, name.as_slice()), (Nothing::ID, Nothing::NAME.as_bytes()));

    b.step();
    assert!(matches!(b.state, DeviceHandshake::Accepted(_)), "the host has not published READY");
    b.offered.ready(&b.host);
    b.step();
    let DeviceHandshake::Serving(a) = b.state else { panic!("{:?}", b.state) };
    assert_eq!((a.node, a.epoch, a.features, a.layout), (NodeId(5), FIRST, feature::TICKETS, b.layout));
    assert!(
        matches!(b.offered.step(&b.host), OfferState::Accepted(_)),
        "SERVING is published when the poller is set up"
    );
    DeviceHandshake::announce(&b.device);
    assert!(matches!(b.offered.step(&b.host), OfferState::Serving));
}

#[test]
fn repeated_steps_change_nothing() {
    let mut b = Bench::new();
    let bytes = |b: &Bench| {
        let mut bytes = vec![0; b.host.len() as usize];
        b.host.read_bytes(0, &mut bytes).expect("the whole window");
        bytes
    };
    let settle = |b: &mut Bench| {
        b.step();
        let once = bytes(b);
        for _ in 0..3 {
            b.step();
            let _ = b.offered.step(&b.host);
        }
        assert!(bytes(b) == once, "a step without news wrote something");
    };
    settle(&mut b);
    b.offered.ready(&b.host);
    settle(&mut b);
    HostHandshake::close(&b.host);
    settle(&mut b);

    let mut b = Bench::new();
    b.preamble(|p| p.byte_order = !0);
    settle(&mut b);
    assert!(matches!(b.state, DeviceHandshake::Refused(..)));
}

#[test]
fn a_device_reads_nothing_before_the_magic_word_and_the_offer() {
    for (off, value) in [(0, 0), (0, 0x1234_5678), (word::HOST_STATE, HostState::RESET.0), (word::HOST_STATE, 77)] {
        let mut b = Bench::new();
        b.say(off, value);
        b.step();
        assert!(matches!(b.state, DeviceHandshake::Waiting));
        assert_eq!(b.word(word::DEVICE_STATE), DeviceState::ABSENT.0, "a device that waits publishes nothing");
    }
    let device = DeviceWindow::private(64);
    let mut state = DeviceHandshake::Waiting;
    state.step(&device, Table::of(vec![&NOTHING]), &PROFILE);
    assert!(matches!(state, DeviceHandshake::Waiting), "a window without room for a preamble has no offer");
}

#[test]
fn a_refused_device_checks_again_when_the_epoch_rises() {
    let mut b = Bench::new();
    b.preamble(|p| p.features_required = feature::DOORBELL);
    assert_eq!(b.refusal().reason, Refusal::FEATURES);
    let (second, _) = HostHandshake::offer(&b.host, &OFFER, FIRST.next()).expect("long enough");
    assert!(matches!(second.step(&b.host), OfferState::Waiting), "the refusal is of the epoch before");
    b.step();
    assert!(matches!(b.state, DeviceHandshake::Waiting));
    b.step();
    assert!(matches!(b.state, DeviceHandshake::Accepted(a) if a.epoch == FIRST.next()));
    assert!(matches!(second.step(&b.host), OfferState::Accepted(_)));
}

#[test]
fn a_reply_to_an_earlier_epoch_is_no_reply() {
    let mut b = Bench::new();
    b.step();
    let (second, _) = HostHandshake::offer(&b.host, &OFFER, Epoch(2)).expect("long enough");
    for state in [DeviceState::ACCEPTED, DeviceState::SERVING, DeviceState::REFUSED] {
        b.say(word::EPOCH_ACK, FIRST.0);
        b.say(word::DEVICE_STATE, state.0);
        assert!(matches!(second.step(&b.host), OfferState::Waiting), "{}", state.text());
    }
}

#[test]
fn an_accepted_device_leaves_when_the_host_does() {
    for new_epoch in [false, true] {
        let mut b = Bench::new();
        b.step();
        if new_epoch {
            b.say(word::EPOCH, 2);
        } else {
            HostHandshake::close(&b.host);
        }
        b.step();
        assert!(matches!(b.state, DeviceHandshake::Waiting));
        assert_eq!(b.word(word::DEVICE_STATE), DeviceState::STOPPED.0, "else its memory could not be used again");
    }
}

/// Runs a serving device to its end.
fn serve_until_left(b: Bench, leave: impl FnOnce(&Bench)) -> Bench {
    let DeviceHandshake::Serving(a) = b.state else { panic!("{:?}", b.state) };
    let scratch = vec![0; MAX_MESSAGE].leak();
    let Bench { host, device, layout, offered, state, table, profile } = b;
    let len = device.len();
    let Ok(mut poller) = Poller::new(device, &a, table, scratch) else { panic!("no poller") };
    DeviceHandshake::announce(poller.window());
    assert_eq!(poller.poll(), Round::Idle);
    // The poller owns the device's half; `leave` needs the host's half only.
    let stand_in = DeviceWindow::private(64).share();
    let mut b = Bench { host, device: stand_in, layout, offered, state, table, profile };
    leave(&b);
    // It reads the state words every 64 rounds.
    assert!((0..64).any(|_| poller.poll() == Round::HostGone), "the device still serves");
    DeviceHandshake::leave(poller.window());
    let (device, _) = poller.into_parts();
    assert_eq!(device.len(), len, "the heap is part of the window again");
    b.device = device;
    b.state = DeviceHandshake::Waiting;
    b
}

#[test]
fn a_device_serves_each_restarted_host() {
    let mut b = Bench::new();
    for epoch in 1..=3 {
        let (offered, _) = HostHandshake::offer(&b.host, &OFFER, Epoch(epoch)).expect("long enough");
        b.offered = offered;
        b.step();
        assert!(matches!(b.offered.step(&b.host), OfferState::Accepted(_)));
        b.offered.ready(&b.host);
        b.step();
        b = serve_until_left(b, |b| match epoch {
            // A correct host, one that only raised the epoch, one that began to write the layout.
            1 => HostHandshake::close(&b.host),
            2 => b.say(word::EPOCH, 77),
            _ => drop(HostHandshake::offer(&b.host, &OFFER, Epoch(99)).expect("long enough")),
        });
        assert_eq!(b.word(word::DEVICE_STATE), DeviceState::STOPPED.0);
    }
    b.step();
    assert!(matches!(b.state, DeviceHandshake::Accepted(a) if a.epoch == Epoch(99)));
}

/// A device outlives its hosts: the next host ends the epoch of the last one, in whatever state
/// that is.
#[test]
fn a_host_takes_over_from_one_that_did_not_close() {
    type Before = fn(&mut Bench);
    let befores: [(&str, Before); 4] = [
        ("offered, not seen", |_| {}),
        ("accepted", |b| b.step()),
        ("ready, not seen", |b| {
            b.step();
            b.offered.ready(&b.host);
        }),
        ("refused", |b| {
            b.profile.max_queues = 1;
            b.step();
        }),
    ];
    for (what, before) in befores {
        let mut b = Bench::new();
        before(&mut b);
        let takeover = Takeover::begin(&b.host);
        assert_eq!(takeover.last(), FIRST);
        if what == "refused" {
            assert_eq!(b.word(word::HOST_STATE), HostState::OFFERED.0, "it publishes no more");
        } else {
            assert_eq!(takeover.step(&b.host), None, "{what}: no device has acknowledged");
            b.step();
        }
        assert_eq!(takeover.step(&b.host), Some(Epoch(2)), "{what}");
        let (offered, _) = HostHandshake::offer(&b.host, &OFFER, Epoch(2)).expect("long enough");
        b.profile = PROFILE;
        b.step();
        b.step();
        assert!(matches!(offered.step(&b.host), OfferState::Accepted(_)), "{what}: {:?}", b.state);
    }
    let mut b = Bench::new();
    b.step();
    b.offered.ready(&b.host);
    b.step();
    DeviceHandshake::announce(&b.device);
    let takeover = Takeover::begin(&b.host);
    assert_eq!(takeover.step(&b.host), None, "it serves");
    b = serve_until_left(b, |_| {});
    assert_eq!(takeover.step(&b.host), Some(Epoch(2)));
}

/// A device lost power while it served, and starts again over the same memory.
#[test]
fn a_device_that_was_reset_acknowledges_the_epoch_it_does_not_know() {
    let mut b = Bench::new();
    b.say(word::EPOCH_ACK, FIRST.0);
    b.say(word::DEVICE_STATE, DeviceState::SERVING.0);
    b.offered.ready(&b.host);
    b.step();
    assert_eq!(b.word(word::DEVICE_STATE), DeviceState::SERVING.0, "unasked, it writes nothing");
    let takeover = Takeover::begin(&b.host);
    assert_eq!(takeover.step(&b.host), None);
    b.step();
    assert_eq!((b.word(word::DEVICE_STATE), b.word(word::EPOCH_ACK)), (DeviceState::STOPPED.0, FIRST.0));
    assert_eq!(takeover.step(&b.host), Some(Epoch(2)));
    assert!(matches!(b.state, DeviceHandshake::Waiting));
}

/// A device writes only where it finds a layout. Without one, the host does not wait, and no epoch
/// is used twice.
#[test]
fn memory_without_a_layout_is_taken_at_once() {
    let mut b = Bench::new();
    b.say(0, 0);
    b.say(word::EPOCH, 0);
    let takeover = Takeover::begin(&b.host);
    assert_eq!(takeover.step(&b.host), Some(FIRST), "new memory");
    // A host that ended between clearing the magic word and publishing it again has left its epoch.
    b.say(word::EPOCH, 41);
    let takeover = Takeover::begin(&b.host);
    assert_eq!(takeover.step(&b.host), Some(Epoch(42)));
    assert_ne!(b.word(word::HOST_STATE), HostState::CLOSING.0, "there is nothing to close");
    b.step();
    assert!(matches!(b.state, DeviceHandshake::Waiting));
}

#[test]
fn a_crash_counts_in_its_own_epoch() {
    let b = Bench::new();
    b.say(word::DEVICE_STATE, DeviceState::CRASHED.0);
    assert!(matches!(b.offered.step(&b.host), OfferState::Waiting), "of an earlier epoch");
    b.say(word::EPOCH_ACK, b.word(word::EPOCH));
    assert!(matches!(b.offered.step(&b.host), OfferState::Crashed));
}

#[test]
fn garbage_from_a_device_is_corrupt() {
    for state in [7, 0xFFFF_FFFF] {
        let b = Bench::new();
        b.say(word::DEVICE_STATE, state);
        assert!(matches!(b.offered.step(&b.host), OfferState::Corrupt(got) if got == state));
    }
    type Change = fn(&mut DeviceRecord);
    let changes: [(&str, Change); 5] = [
        ("byte order", |f| f.byte_order = BYTE_ORDER.swap_bytes()),
        ("an ABI older than the offer", |f| f.abi = 0),
        ("an ABI newer than the offer", |f| f.abi = u32::MAX),
        ("a feature that was not offered", |f| f.features |= feature::DOORBELL),
        ("without a required feature", |f| f.features = 0),
    ];
    for (what, change) in changes {
        let mut b = Bench::new();
        b.step();
        let mut facts: DeviceRecord = b.host.read(DEVICE_RECORD).expect("in the window");
        change(&mut facts);
        b.host.write(DEVICE_RECORD, &facts).expect("in the window");
        let reply = b.offered.step(&b.host);
        assert!(matches!(reply, OfferState::Corrupt(s) if s == DeviceState::ACCEPTED.0), "{what}: {reply:?}");
    }
    let b = Bench::new();
    b.say(word::EPOCH_ACK, FIRST.0);
    b.say(word::REFUSAL, 0xDEAD);
    b.say(word::DEVICE_STATE, DeviceState::REFUSED.0);
    let OfferState::Refused(why) = b.offered.step(&b.host) else { panic!("{:?}", b.offered.step(&b.host)) };
    assert_eq!(why.to_string(), "unknown value: expected 0x0, got 0x0", "an unknown reason is passed on");
}
