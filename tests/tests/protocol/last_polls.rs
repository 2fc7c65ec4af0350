//! A device behind whose last polls nothing is left: messages come while it notifies the host, in every kind of round.

use hamr_comm::abi::ids::{Epoch, HandlerKey, NodeId};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{FOR_EVER, feature, word};
use hamr_comm::abi::slot::{Ext, ReqHdr};
use hamr_comm::abi::window::{DeviceWindow, Queue, Shared, Window};
use hamr_comm::am::{Requester, TaskSlot};
use hamr_comm::handshake::{HostHandshake, IdlePolicy, Offer, OfferState};
use hamr_comm::migrate::MAX_MESSAGE;
use hamr_comm::registry::Table;
use hamr_comm::{Context, Entry, Fault, Handler, Task};
use hamr_device_fw::{Board, Device};
use std::cell::{Cell, RefCell};
use std::mem::offset_of;
use std::rc::Rc;
use std::time::Duration;

const PLAN: Plan = Plan { streams: 1, ring: 8, tickets: 1, chunk: 64, table: 1024, heap: 4096, ..Plan::NO_TASKS };
const EMPTY_KEY: HandlerKey = HandlerKey::of_index(0);
const SLEEPS_KEY: HandlerKey = HandlerKey::of_index(1);

struct Empty;

impl Handler for Empty {
    const NAME: &'static str = "last_polls::empty";
    type Kind = Context<'static>;
    type Args = ();
    type Output = ();
    fn run(_: &mut Context<'_>, (): ()) {}
}

struct Sleeps;

impl Handler for Sleeps {
    const NAME: &'static str = "last_polls::sleeps";
    type Kind = Task<'static>;
    type Args = ();
    type Output = Result<(), Fault>;
    fn run(task: &mut Task<'_>, (): ()) -> Result<(), Fault> {
        Ok(task.sleep(Duration::from_secs(3600))?)
    }
}

/// The host's end, of which the board has a part: it sends while it is notified.
struct Host {
    window: Window<Shared>,
    stream: RefCell<Option<Requester<Queue<Shared>>>>,
    sends_when_notified: Cell<bool>,
    clock: Cell<u64>,
    /// Rounds of [`Device::serve_while`].
    rounds: Cell<u32>,
}

impl Host {
    fn send(&self) {
        let mut stream = self.stream.borrow_mut();
        stream.as_mut().expect("open").submit_ring(ReqHdr::inline(EMPTY_KEY, 0), &[]);
    }

    /// Takes the replies that are there: are all?
    fn has_all(&self) -> bool {
        let mut stream = self.stream.borrow_mut();
        let Some(stream) = stream.as_mut() else { return true };
        while stream.oldest().is_some_and(|oldest| stream.ring_reply(oldest).is_some()) {
            stream.release_oldest();
        }
        stream.oldest().is_none()
    }

    fn wait_word(&self, value: u32) {
        self.window.word(word::HOST_WAIT).expect("in the preamble").publish(value);
    }
}

struct Bell(Rc<Host>, Option<DeviceWindow<Shared>>);

impl Board for Bell {
    type Keep = Shared;
    type Order = hamr_comm::abi::sync::Coherent;
    fn name(&self) -> &'static str {
        "bell"
    }
    fn window(&mut self) -> Option<DeviceWindow<Shared>> {
        self.1.take()
    }
    fn doorbell(&self) -> bool {
        true
    }
    fn micros(&mut self) -> u64 {
        self.0.clock.set(self.0.clock.get() + 10);
        self.0.clock.get()
    }
    fn notify(&mut self) {
        if self.0.sends_when_notified.take() {
            self.0.send();
        }
    }
    fn sleep(&mut self, _: u32) {
        assert!(self.0.has_all(), "it sleeps behind a message that nothing will notify it of");
    }
    fn idle(&mut self, _: u32) {}
}

fn round(device: &mut Device<'_, Bell>, host: &Host) {
    host.rounds.set(1);
    device.serve_while(|| host.rounds.replace(0) != 0);
}

fn serve_all(device: &mut Device<'_, Bell>, host: &Host) {
    for _ in 0..256 {
        round(device, host);
        if host.has_all() && !host.sends_when_notified.get() {
            return;
        }
    }
    panic!("no reply");
}

#[test]
fn no_message_comes_between_the_last_polls_and_the_sleep() {
    let layout = Layout::plan(&PLAN).expect("the plan is allowed");
    let (window, for_device) = hamr_tests::both_ends::both_ends(layout.window_len());
    let host = Rc::new(Host {
        window,
        stream: RefCell::new(None),
        sends_when_notified: Cell::new(false),
        clock: Cell::new(0),
        rounds: Cell::new(0),
    });
    static ENTRIES: [Entry; 2] = [Entry::of::<Empty>(), Entry::of::<Sleeps>()];
    let (mut scratch, mut places) = (vec![0; MAX_MESSAGE], [TaskSlot::new(64 << 10)]);
    let device = Device::new(Bell(host.clone(), Some(for_device)), Table::of(ENTRIES.iter().collect()), &mut scratch);
    let device = &mut device.expect("a window").with_tasks(&mut places, 64 << 10);
    let offer = Offer {
        features: feature::TICKETS | feature::DOORBELL,
        required: feature::DOORBELL,
        idle_policy: IdlePolicy { spin_us: 0, sleep_us: FOR_EVER },
        ..Offer::new(PLAN, NodeId(1))
    };
    let (offered, _) = HostHandshake::offer(&host.window, &offer, Epoch::FIRST).expect("long enough");
    while !matches!(offered.step(&host.window), OfferState::Serving) {
        round(device, &host);
        if matches!(offered.step(&host.window), OfferState::Accepted(_)) {
            offered.ready(&host.window);
        }
    }
    host.window.word(word::OPEN_QUEUES).expect("in the preamble").publish(layout.queues());
    let descriptor = layout.queue(&host.window, 1).expect("own descriptor");
    let mut stream = Requester::new(host.window.queue(&descriptor).expect("own queue"), Epoch::FIRST);
    // A task is here, and waits for nothing that comes.
    const { assert!(offset_of!(Ext, ticket_seq) == 4) };
    let words = [1 << 32, 0];
    let flags = ReqHdr::EXT | ReqHdr::TICKET | ReqHdr::UNORDERED;
    stream.submit_ring(ReqHdr::inline(SLEEPS_KEY, 16).with(flags), &words);
    host.stream.replace(Some(stream));
    serve_all(device, &host);
    for n in 0..256 {
        // The host is awake when it has the reply, then sleeps, and sends something when it is notified.
        host.wait_word(4 * n + 2);
        host.send();
        serve_all(device, &host);
        host.wait_word(4 * n + 3);
        host.sends_when_notified.set(true);
        serve_all(device, &host);
        for _ in 0..n % 5 {
            round(device, &host);
        }
    }
}
