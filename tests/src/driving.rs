//! Two copies of a window and what carries between them, with its operations noted: a device that drives its host's memory
//! (docs/model.md, "Device-driven"), and parts for the tests of the other ways.

use hamr_comm::abi::ids::{Epoch, HandlerKey, NodeId};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{DeviceState, MAGIC, word};
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::RepHdr;
use hamr_comm::abi::staging::Staging;
use hamr_comm::abi::window::{Queue, Shared, Window};
use hamr_comm::am::{Requester, Responder, SlotAccess};
use hamr_comm::handshake::{HostHandshake, Offer};
use hamr_comm::mirror::{DrivenMemory, Driver, HostPort, Lost, Promises};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// A handler.
pub const KEY: HandlerKey = HandlerKey(7);
/// Bytes of a window.
pub const WINDOW: u64 = 1 << 17;
/// What is offered.
pub const PLAN: Plan = Plan { streams: 3, chunk: 1024, log: 2048, staging: Staging::DATA + 1024, ..SMALL };
/// A plan with one of each, for other ways.
pub const SMALL: Plan = Plan {
    streams: 2,
    ring: 4,
    tickets: 2,
    chunk: 128,
    heap: 4096,
    table: 4096,
    log: 1024,
    trace: 0,
    tasks: 1,
    host_chunk: 64,
    host_table: 64,
    ..Plan::NO_TASKS
};
/// Steps behind which BELL was looked at, and all behind it.
pub const MANY: u32 = 200;

/// In their order.
pub type Operations = Arc<Mutex<Vec<Operation>>>;

/// An operation at the host's memory: offset, and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "those of a port")]
pub enum Operation {
    Load(u64),
    Store(u64),
    Pull(u64, usize),
    Push(u64, usize),
}
use Operation::{Load, Pull, Push, Store};

/// The other side's memory, whose operations are noted.
pub struct Counted {
    /// The memory.
    pub memory: Window<Shared>,
    /// Keeps its operations what a host that drives relies on?
    pub keeps: bool,
    /// What was done.
    pub operations: Operations,
}

impl Counted {
    fn note(&self, operation: Operation) {
        self.operations.lock().expect("nobody panics").push(operation);
    }
}

impl HostPort for Counted {
    fn load(&mut self, off: u64) -> u64 {
        self.note(Load(off));
        HostPort::load(&mut self.memory, off)
    }
    fn store(&mut self, off: u64, value: u64) {
        self.note(Store(off));
        HostPort::store(&mut self.memory, off, value);
    }
    fn pull(&mut self, off: u64, to: &mut [u8]) {
        self.note(Pull(off, to.len()));
        self.memory.pull(off, to);
    }
    fn push(&mut self, off: u64, from: &[u8]) {
        self.note(Push(off, from.len()));
        self.memory.push(off, from);
    }
}

impl DrivenMemory for Counted {
    fn promises(&self) -> Promises {
        Promises { write_ascends: self.keeps, line_is_whole: self.keeps }
    }
    fn read(&mut self, off: u64, to: &mut [u8]) -> Result<(), Lost> {
        self.pull(off, to);
        Ok(())
    }
    fn write(&mut self, off: u64, from: &[u8]) -> Result<(), Lost> {
        self.push(off, from);
        Ok(())
    }
}

/// A device that drives memory, without its processor, and its host.
pub struct Rig {
    /// What carries.
    pub driver: Driver<Counted, Shared>,
    /// The layout.
    pub layout: Layout,
    /// The host's memory.
    pub near: Window<Shared>,
    /// The device's.
    pub far: Window<Shared>,
    /// The ends of the streams there.
    pub host: Vec<Requester<Queue<Shared>>>,
    /// And here.
    pub device: Vec<Responder<Queue<Shared>>>,
    /// What was done at the host's memory.
    pub operations: Operations,
    /// How often the host was notified.
    pub notified: Arc<AtomicU32>,
}

/// Two copies of a window, the host's and the device's.
pub fn copies(len: u64) -> [Window<Shared>; 2] {
    [(); 2].map(|()| Window::private(len).share())
}

/// The same memory once more.
///
/// # Panics
/// Never.
pub fn again(of: &Window<Shared>) -> Window<Shared> {
    of.part(0, of.len()).expect("all of it")
}

/// Has a host make an offer.
///
/// # Panics
/// It is not one.
pub fn offer(near: &Window<Shared>, plan: Plan, epoch: Epoch) -> Layout {
    offer_with(near, plan, 0, epoch)
}

/// The same with features.
///
/// # Panics
/// It is not one.
pub fn offer_with(near: &Window<Shared>, plan: Plan, features: u32, epoch: Epoch) -> Layout {
    let offer = Offer { features, ..Offer::new(plan, NodeId(1)) };
    HostHandshake::offer(near, &offer, epoch).expect("long enough").1
}

/// Both ends of a stream, each in its copy.
///
/// # Panics
/// The layout has no such stream.
pub fn ends(
    layout: &Layout,
    near: &Window<Shared>,
    far: &Window<Shared>,
    stream: u32,
    epoch: Epoch,
) -> (Requester<Queue<Shared>>, Responder<Queue<Shared>>) {
    let queue = |window: &Window<Shared>| {
        let mut queue = window.queue(&layout.queue(near, stream).expect("laid out")).expect("inside");
        queue.use_two_lines(true);
        queue
    };
    (Requester::new(queue(near), epoch), Responder::new(queue(far), epoch))
}

/// Publishes a word.
///
/// # Panics
/// It is outside.
pub fn set(window: &Window<Shared>, off: u64, value: u32) {
    window.word(off).expect("inside").publish(value);
}

/// Loads a word.
///
/// # Panics
/// It is outside.
pub fn get(window: &Window<Shared>, off: u64) -> u32 {
    window.word(off).expect("inside").observe()
}

/// Has the device publish a state.
pub fn leave(far: &Window<Shared>, epoch: u32, state: DeviceState) {
    set(far, word::EPOCH_ACK, epoch);
    set(far, word::DEVICE_STATE, state.0);
}

impl Rig {
    /// Both windows, and nothing offered.
    ///
    /// # Panics
    /// Something is not as it is to be.
    pub fn idle() -> (Driver<Counted, Shared>, [Window<Shared>; 2], Operations, Arc<AtomicU32>) {
        let [near, far] = copies(WINDOW);
        let (operations, notified) = (Operations::default(), Arc::<AtomicU32>::default());
        let port = Counted { memory: again(&near), keeps: true, operations: operations.clone() };
        let count = notified.clone();
        let notify = move || _ = count.fetch_add(1, Ordering::Relaxed);
        let driver = Driver::new(port, again(&far), Box::new(notify), Box::new(|| ())).expect("both are there");
        (driver, [near, far], operations, notified)
    }

    /// A device that serves three streams.
    ///
    /// # Panics
    /// Something is not as it is to be.
    #[expect(clippy::new_without_default, reason = "it does much")]
    pub fn new() -> Self {
        let epoch = Epoch(1);
        let (driver, [near, far], operations, notified) = Self::idle();
        let layout = offer(&near, PLAN, epoch);
        set(&near, word::OPEN_QUEUES, 4);
        let (host, device) = (1..4).map(|stream| ends(&layout, &near, &far, stream, epoch)).unzip();
        let mut rig = Self { driver, layout, near, far, host, device, operations, notified };
        rig.steps(MANY);
        assert_eq!(get(&rig.far, 0), MAGIC, "the offer is carried");
        leave(&rig.far, 1, DeviceState::SERVING);
        rig.steps(MANY);
        assert_eq!(get(&rig.near, word::DEVICE_STATE), DeviceState::SERVING.0);
        rig
    }

    /// So many steps.
    pub fn steps(&mut self, count: u32) {
        for _ in 0..count {
            self.driver.step();
        }
    }

    /// What was published is told, where the device asked for that.
    pub fn ring(&self) {
        if get(&self.near, word::DEVICE_WAIT) & 1 == 1 {
            set(&self.near, word::BELL, get(&self.near, word::BELL) + 1);
        }
    }

    /// Has one request of STAGING done, and returns its status.
    ///
    /// # Panics
    /// Something is not as it is to be.
    pub fn ask(&mut self, kind: u32, off: u64, len: u64) -> u32 {
        let staging = self.layout.section(SectionKind::STAGING).expect("planned").off;
        let number = get(&self.near, staging + Staging::NUMBER) + 1;
        for (at, value) in [(Staging::OFF, off), (Staging::LEN, len)] {
            self.near.write_bytes(staging + at, &value.to_le_bytes()).expect("inside");
        }
        set(&self.near, staging + Staging::KIND, kind);
        set(&self.near, staging + Staging::NUMBER, number);
        set(&self.near, word::BELL, get(&self.near, word::BELL) + 1);
        self.steps(MANY);
        assert_eq!(get(&self.near, staging + Staging::DONE), number);
        get(&self.near, staging + Staging::STATUS)
    }

    /// The operations of a step.
    ///
    /// # Panics
    /// Another test has.
    pub fn step(&mut self) -> Vec<Operation> {
        self.operations.lock().expect("nobody panics").clear();
        self.driver.step();
        std::mem::take(&mut *self.operations.lock().expect("nobody panics"))
    }

    /// Runs the call that was carried to a stream.
    ///
    /// # Panics
    /// Something is not as it is to be.
    #[track_caller]
    pub fn reply(&mut self, stream: usize, hdr: RepHdr, payload: &[u64]) -> u32 {
        let found = self.device[stream].next(true).expect("carried");
        self.device[stream].slot(found.slot).write_reply(payload);
        self.device[stream].slot(found.slot).publish_reply(hdr.0, found.seq);
        found.slot
    }

    /// Where a slot is.
    ///
    /// # Panics
    /// Something is not as it is to be.
    pub fn line(&self, stream: u32, slot: u32) -> u64 {
        self.layout.queue(&self.near, stream + 1).expect("laid out").slot(slot).expect("there")
    }
}
