//! The host's half: lays a window out, offers it, follows the state that the device publishes, and
//! ends epochs.

use super::{IdlePolicy, Refused, publish_word, write_table};
use crate::registry::Table;
use hamr_shared_abi::ids::{Epoch, NodeId};
use hamr_shared_abi::layout::{Layout, Plan, PlanError};
use hamr_shared_abi::preamble::{
    BYTE_ORDER, DEVICE_RECORD, DeviceRecord, DeviceState, HostState, MAGIC, PREAMBLE_BYTES, Preamble, Refusal, feature,
    word,
};
use hamr_shared_abi::rings::RingHeader;
use hamr_shared_abi::section::{SectionKind, VERBS_FRONT};
use hamr_shared_abi::version::AbiVersion;
use hamr_shared_abi::window::Window;
use zerocopy::FromZeros;

/// What a host offers.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Sizes.
    pub plan: Plan,
    /// The id of the device.
    pub node: NodeId,
    /// Features the host would like.
    pub features: u32,
    /// Features it insists on.
    pub required: u32,
    /// Fingerprint of its own table.
    pub fingerprint: u64,
    /// What the device can call on the host; keys are positions in it.
    pub host_handlers: Table,
    /// Its process id.
    pub pid: u32,
    /// How the device should poll and sleep.
    pub idle_policy: IdlePolicy,
}

impl Offer {
    /// These sizes for a device with this id: no feature, no handler that it can call.
    pub const fn new(plan: Plan, node: NodeId) -> Self {
        let idle_policy = IdlePolicy { spin_us: 0, sleep_us: 0 };
        let host_handlers = Table::EMPTY;
        Self { plan, node, features: 0, required: 0, fingerprint: 0, host_handlers, pid: 0, idle_policy }
    }
}

/// Why a host could not make its offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfferError {
    /// The plan is not one the protocol allows.
    Plan(PlanError),
    /// The window is too small: bytes needed, bytes there.
    Window(u64, u64),
    /// The host's table is longer than the plan has room for: bytes needed.
    HostTable(u64),
}

impl core::fmt::Display for OfferError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Plan(why) => write!(f, "the layout is not one the protocol allows ({why:?})"),
            Self::Window(need, there) => write!(
                f,
                "expected a window of at least {need} bytes, got {there}; ask for less heap or fewer streams, or give the device \
                 more memory"
            ),
            Self::HostTable(need) => write!(f, "expected a plan with {need} bytes for the table of host handlers"),
        }
    }
}
impl core::error::Error for OfferError {}

/// What the device has published after the offer so far.
#[derive(Clone, Copy, Debug)]
pub enum OfferState {
    /// Nothing yet.
    Waiting,
    /// It accepted, with this record. Read its table, then [`HostHandshake::ready`].
    Accepted(DeviceRecord),
    /// It runs calls.
    Serving,
    /// It refused.
    Refused(Refused),
    /// It crashed before it served; its crash record has the reason (abi §9).
    Crashed,
    /// It published a value that no device may publish; its state word.
    Corrupt(u32),
}

/// The host's side.
#[derive(Clone, Copy, Debug)]
pub struct HostHandshake {
    epoch: Epoch,
    offered: u32,
    required: u32,
}

impl HostHandshake {
    /// Lays the window out and publishes the offer. The former contents are lost.
    pub fn offer<K>(window: &Window<K>, offer: &Offer, epoch: Epoch) -> Result<(Self, Layout), OfferError> {
        let layout = Layout::plan(&offer.plan).map_err(OfferError::Plan)?;
        let small = |_| OfferError::Window(layout.window_len(), window.len());
        // A host writes nothing into the heap, and may have no window of it.
        let (split, at_host) = (layout.split(), layout.at_host());
        if layout.heap().start.max(at_host.end) > window.len() {
            return Err(OfferError::Window(layout.window_len().max(at_host.end), window.len()));
        }
        publish_word(window, word::HOST_STATE, HostState::RESET.0);
        publish_word(window, 0, 0);
        // Never zero again: a host that follows one that crashed here continues its count
        // (`Takeover`).
        publish_word(window, word::EPOCH, epoch.0);
        window.zero(0, word::EPOCH).map_err(small)?;
        window.zero(word::EPOCH + 4, PREAMBLE_BYTES - word::EPOCH - 4).map_err(small)?;
        for kind in
            [SectionKind::QUEUES, SectionKind::LINES, SectionKind::TABLE, SectionKind::CRASH, SectionKind::TASKS]
        {
            if let Ok(s) = layout.section(kind) {
                window.zero(s.off, s.len).map_err(small)?;
            }
        }
        if let Ok(s) = layout.section(SectionKind::VERBS) {
            window.zero(s.off, s.len.min(VERBS_FRONT)).map_err(small)?;
        }
        if !at_host.is_empty() {
            window.zero(at_host.start, PREAMBLE_BYTES).map_err(small)?;
            for s in [SectionKind::LINES, SectionKind::TASKS].into_iter().filter_map(|kind| layout.section(kind).ok()) {
                window.zero(split.at_host(s.off), s.len).map_err(small)?;
            }
        }
        // The host's own words of a ring, the level and whether it is read, are valid in every
        // epoch.
        for kind in [SectionKind::LOG, SectionKind::TRACE] {
            if let Ok(s) = layout.section(kind)
                && s.len >= RingHeader::BYTES
            {
                for word in [RingHeader::WRITTEN, RingHeader::DROPPED, RingHeader::CONSUMED, RingHeader::FRAMES] {
                    publish_word(window, s.off + word, 0);
                }
            }
        }
        layout.write(&offer.plan, window).map_err(|_| OfferError::Window(layout.window_len(), window.len()))?;
        if let Ok(tasks) = layout.planned_tasks(&offer.plan) {
            let (at, room) = tasks.table();
            write_table(&window.lend(), at, room, offer.host_handlers).map_err(OfferError::HostTable)?;
        }
        let required = offer.required
            | if at_host.is_empty() { 0 } else { feature::SPLIT }
            | if offer.plan.staging == 0 { 0 } else { feature::DRIVEN };
        let offered = offer.features | required;
        let preamble = Preamble {
            magic: 0,
            byte_order: BYTE_ORDER,
            abi_max: AbiVersion::CURRENT.to_wire(),
            abi_min: AbiVersion::MIN.to_wire(),
            window_len: layout.window_len(),
            sections: layout.sections().len() as u32,
            node: u32::from(offer.node.0),
            features_offered: offered,
            features_required: required,
            queues: layout.queues(),
            host_pid: offer.pid,
            fingerprint: offer.fingerprint,
            spin_us: offer.idle_policy.spin_us,
            sleep_us: offer.idle_policy.sleep_us,
            split: split.distance(),
            ..Preamble::new_zeroed()
        };
        window.write(0, &preamble).map_err(small)?;
        // The control stream is open from the start; streams open as they are made.
        publish_word(window, word::OPEN_QUEUES, 1);
        publish_word(window, word::HOST_STATE, HostState::OFFERED.0);
        // Last: the device uses no value before this word without it.
        publish_word(window, 0, MAGIC);
        Ok((Self { epoch, offered, required }, layout))
    }

    /// Checks what the device published.
    pub fn step<K>(&self, window: &Window<K>) -> OfferState {
        let load = |off| window.word(off).map_or(0, |w| w.observe());
        match DeviceState(load(word::DEVICE_STATE)) {
            // STOPPED is of an earlier epoch: the device has not seen the offer yet.
            DeviceState::ABSENT | DeviceState::CHECKING | DeviceState::STOPPED => OfferState::Waiting,
            DeviceState::ACCEPTED | DeviceState::SERVING | DeviceState::REFUSED | DeviceState::CRASHED
                if load(word::EPOCH_ACK) != self.epoch.0 =>
            {
                OfferState::Waiting
            }
            DeviceState::REFUSED => OfferState::Refused(Refused::new(
                Refusal(load(word::REFUSAL)),
                load(word::REFUSAL_DETAIL),
                load(word::REFUSAL_DETAIL + 4),
            )),
            DeviceState::ACCEPTED => match window.read::<DeviceRecord>(DEVICE_RECORD) {
                Ok(record) if self.is_believable(&record) => OfferState::Accepted(record),
                _ => OfferState::Corrupt(DeviceState::ACCEPTED.0),
            },
            DeviceState::SERVING => OfferState::Serving,
            DeviceState::CRASHED => OfferState::Crashed,
            DeviceState(other) => OfferState::Corrupt(other),
        }
    }

    /// Could a correct device have written this record after this offer?
    fn is_believable(&self, record: &DeviceRecord) -> bool {
        let abi = AbiVersion::from_wire(record.abi);
        record.byte_order == BYTE_ORDER
            && (AbiVersion::MIN..=AbiVersion::CURRENT).contains(&abi)
            && record.features & !self.offered == 0
            && record.features & self.required == self.required
    }

    /// Lets the device serve.
    pub fn ready<K>(&self, window: &Window<K>) {
        publish_word(window, word::HOST_STATE, HostState::READY.0);
    }

    /// Has the device acknowledged that it writes no byte of `epoch` any more (abi §8, rule 28)?
    pub fn has_acknowledged<K>(window: &Window<K>, epoch: Epoch) -> bool {
        let load = |off| window.word(off).map_or(0, |w| w.observe());
        // The state first: it is published last.
        let state = DeviceState(load(word::DEVICE_STATE));
        matches!(state, DeviceState::STOPPED | DeviceState::REFUSED) && load(word::EPOCH_ACK) == epoch.0
    }

    /// Asks the device to stop.
    pub fn close<K>(window: &Window<K>) {
        publish_word(window, word::HOST_STATE, HostState::CLOSING.0);
    }
}

/// A host that comes to a device which outlives its hosts: what an earlier one left in the window
/// is ended first (abi §8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Takeover {
    last: Epoch,
    /// A layout is there, so a device may be writing by it.
    is_laid_out: bool,
}

impl Takeover {
    /// Asks the device to end the last epoch, if it serves one.
    pub fn begin<K>(window: &Window<K>) -> Self {
        let load = |off| window.word(off).map_or(0, |w| w.observe());
        let this = Self { last: Epoch(load(word::EPOCH)), is_laid_out: load(0) == MAGIC };
        if this.is_laid_out && this.step(window).is_none() {
            HostHandshake::close(window);
        }
        this
    }

    /// The epoch to offer, once the last one is over. Without a layout no device writes: none was
    /// there, or it has acknowledged.
    pub fn step<K>(&self, window: &Window<K>) -> Option<Epoch> {
        let is_over = !self.is_laid_out || HostHandshake::has_acknowledged(window, self.last);
        is_over.then(|| if self.last.0 == 0 { Epoch::FIRST } else { self.last.next() })
    }

    /// The epoch that is being ended.
    pub fn last(&self) -> Epoch {
        self.last
    }
}
