//! From a window to a device that serves: its epoch, its record, its table.

use super::epoch_end::Loss;
use super::in_flight::TicketWords;
use super::notify::PeerPoll;
use super::open_queues::{IdleQueues, OpenQueues};
use super::service::{Service, ServiceSources};
use super::side::Side;
use super::snapshots::EpochSnapshots;
use super::{Device, EpochInfo, Running};
use crate::background::Worker;
use crate::keys::read_table;
use crate::link::{Capabilities, Link, Peer};
use crate::memory::DeviceMemory;
use crate::node_number::NodeNumber;
use crate::options::{plan_of, refused_plan};
use crate::symbols::Symbols;
use crate::wait_queue::WaitQueue;
use crate::{CrashReport, Error, HandlerInfo, ImageFile, Options};
use hamr_comm::abi::ids::{Epoch, NodeId};
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::preamble::{DEVICE_RECORD, DeviceRecord, DeviceState, feature, word};
use hamr_comm::abi::rings::CrashRecord;
use hamr_comm::abi::section::{Section, SectionKind};
use hamr_comm::handshake::{HostHandshake, Offer, OfferError, OfferState, Takeover};
use hamr_comm::registry::Table;
use hamr_qemu::origin::Origin;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// See [`pause`].
const PAUSE: Duration = Duration::from_micros(20);

/// What the device reaches of the program.
pub(crate) struct Program {
    /// The queue pairs that belong to no stream.
    pub(crate) idle: Arc<dyn IdleQueues>,
    /// What bodies find that it calls.
    pub(crate) services: ServiceSources,
}

impl Device {
    /// Shakes hands with the device at the other end of `link`.
    pub(crate) fn attach(
        name: &str,
        number: NodeNumber,
        link: Box<dyn Link>,
        image: Option<ImageFile>,
        options: Options,
        begin: Instant,
        program: Program,
    ) -> Result<Arc<Self>, Error> {
        let id = number.id();
        let layout = plan_of(&options, link.capabilities().host_memory)?;
        let epoch = first_epoch(name, link.as_ref(), options.start_deadline)?;
        #[cfg(feature = "device-logs")]
        crate::log_ring::set_level(link.window(), layout.section(SectionKind::LOG).ok(), options.log_level);
        let (record, handlers) =
            shake_hands(name, id, link.as_ref(), &options, epoch, image.as_ref(), options.start_deadline)?;
        let running = Running::new(image.map(Arc::new), handlers, 0);
        let epoch_info = EpochInfo::new(record, begin.elapsed(), running);
        let too_short = || Error::too_short(name, &layout, link.window().len());
        let heap = layout.section(SectionKind::HEAP).map_err(|_| too_short())?;
        // The segment behind the buffers is the rank's.
        let heap = Section { len: heap.len.saturating_sub(options.segment), ..heap };
        let hook = options.memory_hook.clone();
        let copies = link.heap(heap.off, heap.len).map_err(|_| too_short())?;
        let memory = DeviceMemory::new(number, name, copies, heap, options.max_buffers, hook);
        let uses_doorbell = record.features & feature::DOORBELL != 0;
        let wait_queue = WaitQueue::new(link.as_ref(), layout.split(), uses_doorbell).map_err(|_| too_short())?;
        let service = Service::new(link.window(), &layout, &options, program.services);
        let tickets = TicketWords::new(layout.queues(), options.tickets);
        let device = Arc::new_cyclic(|me: &Weak<Self>| Self {
            name: name.into(),
            id,
            link,
            layout,
            options,
            memory: Arc::new(memory),
            wait_queue,
            me: me.clone(),
            this: me.clone(),
            peer_poll: PeerPoll::new(),
            epoch: AtomicU32::new(epoch.0),
            last_epoch: Mutex::new(epoch),
            image_load: Mutex::new(()),
            first_info: epoch_info.clone(),
            epoch_info: Mutex::new(epoch_info),
            loss: Loss::default(),
            snapshots: EpochSnapshots::new(layout.queues()),
            tickets,
            #[cfg(feature = "device-logs")]
            log_backlogs: Mutex::default(),
            open_queues: OpenQueues::new(program.idle),
            service,
            side: Side::default(),
            closed: AtomicBool::new(false),
            origin: Origin::here(),
            transfers: Worker::new("hamr-transfers"),
        });
        let weak: Weak<Self> = Arc::downgrade(&device);
        hamr_qemu::origin::register(weak);
        device.start_service()?;
        device.enter_service(epoch);
        Ok(device)
    }
}

/// The epoch to begin in. A device that outlives its hosts leaves the one it is in first.
fn first_epoch(name: &str, link: &dyn Link, limit: Duration) -> Result<Epoch, Error> {
    if !link.outlives_host() {
        return Ok(Epoch::FIRST);
    }
    let window = link.window();
    let takeover = Takeover::begin(window);
    link.notify();
    let begin = Instant::now();
    loop {
        if let Some(epoch) = takeover.step(window) {
            return Ok(epoch);
        }
        if begin.elapsed() > limit {
            let state = window.word(word::DEVICE_STATE).map_or(DeviceState::ABSENT, |w| DeviceState(w.observe()));
            return Err(Error::Bus {
                device: name.into(),
                why: format!(
                    "expected its image to leave epoch {} of an earlier host within {limit:?}, it still says `{}`: no image \
                     runs there, or a handler of it never ends; reset the device",
                    takeover.last().0,
                    state.text()
                ),
            });
        }
        link.wait(20);
    }
}

/// Lays the window out, waits for the device's word, reads its table, lets it serve: within `limit`.
pub(super) fn shake_hands(
    name: &str,
    id: NodeId,
    link: &dyn Link,
    options: &Options,
    epoch: Epoch,
    image: Option<&ImageFile>,
    limit: Duration,
) -> Result<(DeviceRecord, Vec<HandlerInfo>), Error> {
    let window = link.window();
    let Capabilities { doorbell, world, host_memory, .. } = link.capabilities();
    let doorbell = if doorbell { feature::DOORBELL } else { 0 };
    let world = if world { feature::WORLD } else { 0 };
    let plan = options.plan_for(host_memory);
    let offer = Offer {
        plan,
        node: id,
        features: feature::TICKETS
            | feature::DEADLINES
            | feature::CONTAIN
            | feature::LOGS
            | feature::TASKS
            | feature::TWO_LINES
            | feature::LONG_VALUES
            | if plan.tasks == 0 { 0 } else { feature::HOST_CALLS }
            | if plan.verbs == 0 || world != 0 { 0 } else { feature::VERBS }
            | doorbell
            | world,
        required: feature::TICKETS | world,
        fingerprint: Table::of_this_image().fingerprint(),
        host_handlers: options.host_handlers(),
        pid: std::process::id(),
        idle_policy: options.idle_policy(),
    };
    let planned = plan_of(options, host_memory)?;
    let has_heap = planned.section(SectionKind::HEAP).is_ok_and(|heap| link.heap(heap.off, heap.len).is_ok());
    if !has_heap {
        return Err(Error::too_short(name, &planned, window.len()));
    }
    let (handshake, layout) = HostHandshake::offer(window, &offer, epoch).map_err(|e| match e {
        OfferError::Plan(why) => refused_plan(options, why),
        OfferError::Window(_, has) => Error::too_short(name, &planned, has),
        OfferError::HostTable(needed) => Error::InvalidConfig {
            option: "host handlers",
            expected: format!("a table of at most {} bytes", plan.host_table),
            got: needed.to_string(),
        },
    })?;
    if let Ok(doorbell) = window.word(word::HOST_DOORBELL) {
        doorbell.store(link.doorbell());
    }
    let mut told = None;
    let begin = Instant::now();
    loop {
        let stage = if told.is_none() { "starting" } else { "being told to serve" };
        match handshake.step(window) {
            OfferState::Waiting => {}
            OfferState::Crashed => return Err(crashed(name, link, &layout, stage, image)),
            OfferState::Refused(why) => return Err(Error::Refused { device: name.into(), why: why.to_string() }),
            OfferState::Corrupt(what) => {
                return Err(Error::Corrupt { device: name.into(), what: format!("{what:#x}") });
            }
            OfferState::Accepted(epoch_info) if told.is_none() => {
                let table =
                    layout.section(SectionKind::TABLE).map_err(|_| Error::too_short(name, &layout, window.len()))?;
                let handlers =
                    read_table(window, table).map_err(|what| Error::Corrupt { device: name.into(), what })?;
                told = Some((epoch_info, handlers));
                handshake.ready(window);
            }
            OfferState::Accepted(_) => {}
            OfferState::Serving => match told {
                Some(known) => return Ok(known),
                None => {
                    let what = "that it serves, and not what it is".into();
                    return Err(Error::Corrupt { device: name.into(), what });
                }
            },
        }
        if let Peer::Gone(why) = link.peer() {
            // The device may have published the crash right before its end.
            if let OfferState::Crashed = handshake.step(window) {
                return Err(crashed(name, link, &layout, stage, image));
            }
            return Err(Error::Lost { device: name.into(), stage, why });
        }
        if begin.elapsed() > limit {
            if link.outlives_host() && told.is_none() {
                let why = format!("expected an image to answer within {limit:?}, none did: load one into the device");
                return Err(Error::Bus { device: name.into(), why });
            }
            return Err(Error::Timeout { device: name.into(), stage, after: limit });
        }
        pause(link);
    }
}

/// Between two polls of a device that begins an epoch. Takes no doorbell: the doorbell may be the
/// only one that wakes a waiter at the end of the last epoch.
pub(super) fn pause(link: &dyn Link) {
    // A device inside this process runs now.
    link.wait(0);
    std::thread::sleep(PAUSE);
}

/// The error for a device that crashed before it served.
fn crashed(name: &str, link: &dyn Link, layout: &Layout, stage: &'static str, image: Option<&ImageFile>) -> Error {
    let window = link.window();
    let build_id = window.read::<DeviceRecord>(DEVICE_RECORD).map_or([0; 20], |epoch_info| epoch_info.build_id);
    let symbols = Symbols::new(image.map(|image| image.path.clone()), build_id);
    let section = layout.section(SectionKind::CRASH).ok();
    let record = section.and_then(|section| window.read::<CrashRecord>(section.off).ok());
    let why = match record.filter(|record| record.valid == CrashRecord::VALID) {
        // Its first line: what and where.
        Some(record) => {
            CrashReport::read(&record, symbols.into()).to_string().lines().next().unwrap_or_default().into()
        }
        None => "it ended by a fault, without a crash record".into(),
    };
    Error::Lost { device: name.into(), stage, why }
}
