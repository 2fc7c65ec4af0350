//! The handshake as two explicit state machines over one window (abi §3.4).
//!
//! ```text
//! host    RESET -> OFFERED -------------------> READY -> CLOSING
//!                     |                           ^         |
//! device  ABSENT -> CHECKING -> ACCEPTED ---------+-> SERVING -> STOPPED -> ...
//!                        \---> REFUSED (reason, expected, got)
//! ```
//! Each step reads what the peer published, copies it out, checks the copy, and publishes one word. Calling a step again
//! when nothing changed changes nothing, so both sides may poll.

use crate::registry::Table;
use hamr_shared_abi::ids::{Epoch, Isa, NodeId};
use hamr_shared_abi::layout::{Layout, LayoutError, Plan, PlanError};
use hamr_shared_abi::preamble::{
    BYTE_ORDER, DEVICE_RECORD, DeviceRecord, DeviceState, HostState, MAGIC, PREAMBLE_BYTES, Preamble, Refusal, word,
};
use hamr_shared_abi::rings::RingHeader;
use hamr_shared_abi::section::SectionKind;
use hamr_shared_abi::sync::{Ordering, fence};
use hamr_shared_abi::table::{TableHeader, TableRecord};
use hamr_shared_abi::version::AbiVersion;
use hamr_shared_abi::window::{Loan, OutOfWindow, Window};
use zerocopy::FromZeros;

/// What a device says of itself.
#[derive(Clone, Copy, Debug)]
pub struct DeviceProfile {
    /// Feature bits the image supports.
    pub features: u32,
    /// Board name, at most 24 bytes.
    pub board: &'static str,
    /// Bytes of the board's memory; 0 unknown.
    pub memory: u64,
    /// Process id of a hosted image; 0 otherwise.
    pub pid: u32,
    /// The image's build id; zero when it has none.
    pub build_id: [u8; 20],
    /// Queue pairs the image can poll.
    pub max_queues: u32,
    /// Longest staging chunk the image can copy out.
    pub max_chunk: u32,
}

/// What the device found out about its window.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// Checked sections.
    pub layout: Layout,
    /// The id the host gave.
    pub node: NodeId,
    /// The epoch that begins.
    pub epoch: Epoch,
    /// Features both sides have.
    pub features: u32,
    /// How the host would like the device to rest.
    pub idle_policy: IdlePolicy,
}

/// How a device rests, as the host likes it (abi §7.1); it counts with the feature DOORBELL only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IdlePolicy {
    /// Microseconds of polling without result before it sleeps.
    pub spin_us: u32,
    /// Microseconds that it sleeps at most; [`hamr_shared_abi::preamble::FOR_EVER`] is no limit.
    pub sleep_us: u32,
}

/// Why a device refused: the reason and its two detail words (expected, got).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The reason.
    pub reason: Refusal,
    /// What was expected.
    pub expected: u32,
    /// What came.
    pub got: u32,
}

impl Refused {
    const fn new(reason: Refusal, expected: u32, got: u32) -> Self {
        Self { reason, expected, got }
    }
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: ", self.reason.text())?;
        match self.reason {
            Refusal::ABI => write!(
                f,
                "the image speaks {}, the host offers up to {}",
                AbiVersion::from_wire(self.expected),
                AbiVersion::from_wire(self.got)
            ),
            Refusal::SECTION => write!(f, "section kind {} is absent, misplaced or too small", self.expected),
            Refusal::QUEUE => write!(f, "queue pair {} is malformed", self.expected),
            Refusal::FEATURES => write!(f, "required {:#x}, available {:#x}", self.expected, self.got),
            Refusal::DUPLICATE => write!(f, "entries {} and up of the image share a name", self.expected),
            _ => write!(f, "expected {:#x}, got {:#x}", self.expected, self.got),
        }
    }
}

impl From<LayoutError> for Refused {
    fn from(e: LayoutError) -> Self {
        match e {
            LayoutError::Section(kind) => Self::new(Refusal::SECTION, kind.0, 0),
            LayoutError::Queue(index) => Self::new(Refusal::QUEUE, index, 0),
            LayoutError::Window(len) => Self::new(Refusal::WINDOW_LEN, 0, len as u32),
        }
    }
}

impl From<OutOfWindow> for Refused {
    fn from(e: OutOfWindow) -> Self {
        Self::new(Refusal::WINDOW_LEN, e.off.saturating_add(e.want) as u32, e.len as u32)
    }
}

/// The device's side.
#[derive(Clone, Copy, Debug)]
pub enum DeviceHandshake {
    /// Waits for the magic word and an offer.
    Waiting,
    /// Said ACCEPTED; waits for READY.
    Accepted(Accepted),
    /// May serve.
    Serving(Accepted),
    /// Said REFUSED. A host that offers again starts over by raising the epoch, which stands here.
    Refused(Refused, Epoch),
}

impl DeviceHandshake {
    /// One step; call it until it is `Serving` or `Refused`.
    pub fn step<K>(self, window: &Window<K>, table: Table, profile: &DeviceProfile) -> Self {
        self.step_lent(&window.lend(), table, profile)
    }

    /// [`Self::step`], one copy for all kinds of windows: an image has two callers.
    #[inline(never)]
    fn step_lent(self, window: &Window<Loan>, table: Table, profile: &DeviceProfile) -> Self {
        let load = |off| observe_lent(window, off);
        let epoch = Epoch(load(word::EPOCH));
        match self {
            Self::Waiting => {
                // No offer yet: an absent or half-written preamble is "not now", never an error.
                let host = HostState(load(word::HOST_STATE));
                if load(0) != MAGIC || host != HostState::OFFERED {
                    // A host may be ending an epoch of which a reset took all memory: nothing of it is left to write.
                    let is_known =
                        load(word::DEVICE_STATE) == DeviceState::STOPPED.0 && load(word::EPOCH_ACK) == epoch.0;
                    if load(0) == MAGIC && host == HostState::CLOSING && !is_known {
                        publish_word(window, word::EPOCH_ACK, epoch.0);
                        Self::leave(window);
                    }
                    return self;
                }
                publish_word(window, word::DEVICE_STATE, DeviceState::CHECKING.0);
                let outcome = check(window, epoch, table, profile);
                // What was copied out must be older than the second look at the epoch: a host that began anew, or gave
                // up, has mixed two offers in it, and neither may be answered.
                fence(Ordering::Acquire);
                publish_word(window, word::EPOCH_ACK, epoch.0);
                if load(word::EPOCH) != epoch.0 || load(word::HOST_STATE) != HostState::OFFERED.0 {
                    Self::leave(window);
                    return Self::Waiting;
                }
                match outcome {
                    Ok(accepted) => {
                        publish_word(window, word::DEVICE_STATE, DeviceState::ACCEPTED.0);
                        Self::Accepted(accepted)
                    }
                    Err(why) => {
                        publish_word(window, word::REFUSAL, why.reason.0);
                        publish_word(window, word::REFUSAL_DETAIL, why.expected);
                        publish_word(window, word::REFUSAL_DETAIL + 4, why.got);
                        publish_word(window, word::DEVICE_STATE, DeviceState::REFUSED.0);
                        Self::Refused(why, epoch)
                    }
                }
            }
            Self::Accepted(accepted) => {
                let host = HostState(load(word::HOST_STATE));
                if epoch != accepted.epoch || host == HostState::CLOSING {
                    Self::leave(window);
                    return Self::Waiting;
                }
                if host == HostState::READY { Self::Serving(accepted) } else { self }
            }
            Self::Refused(_, refused_in) if epoch != refused_in => Self::Waiting,
            Self::Serving(_) | Self::Refused(..) => self,
        }
    }

    /// Publishes SERVING: after the poller was set up, so that the first call finds it.
    pub fn announce<K>(window: &Window<K>) {
        publish_word(window, word::DEVICE_STATE, DeviceState::SERVING.0);
    }

    /// Publishes STOPPED: the device writes nothing of this epoch any more.
    pub fn leave<K>(window: &Window<K>) {
        publish_word(window, word::DEVICE_STATE, DeviceState::STOPPED.0);
    }

    /// Publishes CRASHED: the device serves nothing any more, and has to be restarted.
    pub fn crash<K>(window: &Window<K>) {
        publish_word(window, word::DEVICE_STATE, DeviceState::CRASHED.0);
    }
}

fn publish_word<K>(window: &Window<K>, off: u64, value: u32) {
    publish_lent(&window.lend(), off, value);
}

// One copy each of publishing and reading a word: the handshake does little else.
#[inline(never)]
fn publish_lent(window: &Window<Loan>, off: u64, value: u32) {
    if let Ok(word) = window.word(off) {
        word.publish(value);
    }
}

#[inline(never)]
fn observe_lent(window: &Window<Loan>, off: u64) -> u32 {
    window.word(off).map_or(0, |word| word.observe())
}

/// Everything a device checks before it believes a window, in the order of what depends on what.
fn check(window: &Window<Loan>, epoch: Epoch, table: Table, profile: &DeviceProfile) -> Result<Accepted, Refused> {
    let mut p = Preamble::new_zeroed();
    window.read_into(0, &mut p)?;
    if p.byte_order != BYTE_ORDER {
        return Err(Refused::new(Refusal::BYTE_ORDER, BYTE_ORDER, p.byte_order));
    }
    let (min, max) = (AbiVersion::from_wire(p.abi_min), AbiVersion::from_wire(p.abi_max));
    let abi =
        AbiVersion::negotiate(min, max).ok_or(Refused::new(Refusal::ABI, AbiVersion::CURRENT.to_wire(), p.abi_max))?;
    if epoch.0 == 0 {
        return Err(Refused::new(Refusal::EPOCH, 1, 0));
    }
    if p.window_len > window.len() {
        return Err(Refused::new(Refusal::WINDOW_LEN, p.window_len as u32, window.len() as u32));
    }
    let layout = Layout::read(&p, window)?;
    if layout.queues() > profile.max_queues {
        return Err(Refused::new(Refusal::QUEUE_COUNT, profile.max_queues, layout.queues()));
    }
    for index in 0..layout.queues() {
        let chunk = layout.queue(window, index).map(|d| d.req_chunk.max(d.rep_chunk))?;
        if chunk > profile.max_chunk {
            return Err(Refused::new(Refusal::CHUNK, profile.max_chunk, chunk));
        }
    }
    let missing = p.features_required & !profile.features;
    if missing != 0 {
        return Err(Refused::new(Refusal::FEATURES, p.features_required, profile.features));
    }
    if let Err(two) = table.check() {
        return Err(Refused::new(Refusal::DUPLICATE, two.first as u32, 0));
    }
    write_table(window, &layout, table)?;
    let features = p.features_offered & profile.features;
    let record = DeviceRecord {
        byte_order: BYTE_ORDER,
        abi: abi.to_wire(),
        features,
        isa: Isa::of_this_build().0,
        fingerprint: table.fingerprint(),
        handlers: table.len() as u32,
        pid: profile.pid,
        build_id: profile.build_id,
        board: DeviceRecord::board_field(profile.board),
        memory: profile.memory,
        ..DeviceRecord::new_zeroed()
    };
    window.write(DEVICE_RECORD, &record)?;
    let idle_policy = IdlePolicy { spin_us: p.spin_us, sleep_us: p.sleep_us };
    Ok(Accepted { layout, node: NodeId(p.node as u16), epoch, features, idle_policy })
}

/// Writes the handler table into its section (abi §3.7).
fn write_table(window: &Window<Loan>, layout: &Layout, table: Table) -> Result<(), Refused> {
    let section = layout.section(SectionKind::TABLE)?;
    let names: usize = table.iter().map(|e| e.name.len()).sum();
    let need = size_of::<TableHeader>() + table.len() * size_of::<TableRecord>() + names;
    if need as u64 > section.len {
        return Err(Refused::new(Refusal::TABLE, need as u32, section.len as u32));
    }
    let header = TableHeader { count: table.len() as u32, bytes: need as u32, fingerprint: table.fingerprint() };
    window.write(section.off, &header)?;
    let mut record_at = section.off + size_of::<TableHeader>() as u64;
    let mut name_off = size_of::<TableHeader>() + table.len() * size_of::<TableRecord>();
    for e in table.iter() {
        let record = TableRecord {
            id: e.id,
            signature: e.signature,
            body: e.body,
            flags: e.flags,
            name_off: name_off as u32,
            name_len: e.name.len() as u32,
            reserved: 0,
        };
        window.write(record_at, &record)?;
        window.write_bytes(section.off + name_off as u64, e.name.as_bytes())?;
        record_at += size_of::<TableRecord>() as u64;
        name_off += e.name.len();
    }
    Ok(())
}

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
    /// Its process id.
    pub pid: u32,
    /// How the device should rest.
    pub idle_policy: IdlePolicy,
}

/// Why a host could not make its offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfferError {
    /// The plan is not one the protocol allows.
    Plan(PlanError),
    /// The window is too small: bytes needed, bytes there.
    Window(u64, u64),
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
        }
    }
}
impl core::error::Error for OfferError {}

/// What the device answered so far.
#[derive(Clone, Copy, Debug)]
pub enum OfferState {
    /// Nothing yet.
    Waiting,
    /// It accepted, and this is what it is. Read its table, then [`HostHandshake::ready`].
    Accepted(DeviceRecord),
    /// It runs calls.
    Serving,
    /// It refused.
    Refused(Refused),
    /// It crashed before it served; its crash record says why (abi §9).
    Crashed,
    /// It answered with something no device may say; its state word.
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
    /// Lays the window out and publishes the offer. Whatever was in it before is gone.
    pub fn offer<K>(window: &Window<K>, offer: &Offer, epoch: Epoch) -> Result<(Self, Layout), OfferError> {
        let layout = Layout::plan(&offer.plan).map_err(OfferError::Plan)?;
        let small = |_| OfferError::Window(layout.window_len(), window.len());
        if layout.window_len() > window.len() {
            return Err(OfferError::Window(layout.window_len(), window.len()));
        }
        publish_word(window, word::HOST_STATE, HostState::RESET.0);
        publish_word(window, 0, 0);
        // Never zero again: a host that comes after one that died here goes on counting (`Takeover`).
        publish_word(window, word::EPOCH, epoch.0);
        window.zero(0, word::EPOCH).map_err(small)?;
        window.zero(word::EPOCH + 4, PREAMBLE_BYTES - word::EPOCH - 4).map_err(small)?;
        for kind in [SectionKind::QUEUES, SectionKind::LINES, SectionKind::TABLE, SectionKind::CRASH] {
            if let Ok(s) = layout.section(kind) {
                window.zero(s.off, s.len).map_err(small)?;
            }
        }
        // The host's own words of a ring, which level and whether anybody reads, hold for every epoch.
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
        let offered = offer.features | offer.required;
        let preamble = Preamble {
            magic: 0,
            byte_order: BYTE_ORDER,
            abi_max: AbiVersion::CURRENT.to_wire(),
            abi_min: AbiVersion::MIN.to_wire(),
            window_len: layout.window_len(),
            sections: layout.sections().len() as u32,
            node: u32::from(offer.node.0),
            features_offered: offered,
            features_required: offer.required,
            queues: layout.queues(),
            host_pid: offer.pid,
            fingerprint: offer.fingerprint,
            spin_us: offer.idle_policy.spin_us,
            sleep_us: offer.idle_policy.sleep_us,
            ..Preamble::new_zeroed()
        };
        window.write(0, &preamble).map_err(small)?;
        // The control stream is open from the start; streams open as they are made.
        publish_word(window, word::OPEN_QUEUES, 1);
        publish_word(window, word::HOST_STATE, HostState::OFFERED.0);
        // Last: nothing before this word is believed without it.
        publish_word(window, 0, MAGIC);
        Ok((Self { epoch, offered, required: offer.required }, layout))
    }

    /// Looks at what the device published.
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

    /// Facts that an honest device could have written as the answer to this offer.
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

    /// Has the device said that it writes nothing of `epoch` any more (abi §8, rule 28)?
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

/// A host that comes to a device which outlives its hosts: what an earlier one left in the window is ended first (abi §8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Takeover {
    last: Epoch,
    /// A layout is there, so a device may be writing by it.
    is_laid_out: bool,
}

impl Takeover {
    /// Asks whoever serves the last epoch to leave it.
    pub fn begin<K>(window: &Window<K>) -> Self {
        let load = |off| window.word(off).map_or(0, |w| w.observe());
        let this = Self { last: Epoch(load(word::EPOCH)), is_laid_out: load(0) == MAGIC };
        if this.is_laid_out && this.step(window).is_none() {
            HostHandshake::close(window);
        }
        this
    }

    /// The epoch to offer, once the last one is over. Without a layout nobody writes: a device has said so, or never was.
    pub fn step<K>(&self, window: &Window<K>) -> Option<Epoch> {
        let is_over = !self.is_laid_out || HostHandshake::has_acknowledged(window, self.last);
        is_over.then(|| if self.last.0 == 0 { Epoch::FIRST } else { self.last.next() })
    }

    /// The epoch that is being ended.
    pub fn last(&self) -> Epoch {
        self.last
    }
}
