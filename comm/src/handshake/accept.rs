//! The device's half: checks a window, accepts or refuses the offer, and publishes its state until
//! the epoch ends.

use super::{IdlePolicy, Refused, observe_lent, publish_word, write_table};
use crate::registry::Table;
use hamr_shared_abi::ids::{Epoch, Isa, NodeId};
use hamr_shared_abi::layout::{Layout, LayoutError};
use hamr_shared_abi::preamble::{
    BYTE_ORDER, DEVICE_RECORD, DeviceRecord, DeviceState, HostState, MAGIC, Preamble, Refusal, feature, word,
};
use hamr_shared_abi::queue::QueueDescriptor;
use hamr_shared_abi::section::SectionKind;
use hamr_shared_abi::sync::{Ordering, fence};
#[cfg(feature = "tasks")]
use hamr_shared_abi::tasks::TasksLayout;
use hamr_shared_abi::version::AbiVersion;
use hamr_shared_abi::window::{Loan, Window};
use zerocopy::FromZeros;

/// What a device reports of itself.
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
    /// Tasks that it runs at the same time, each on a stack with a guard.
    pub tasks: u32,
    /// Bytes of a task's stack.
    pub task_stack: u32,
    /// Bytes of the longest arguments and result, for [`feature::LONG_VALUES`].
    pub longest_message: u32,
    /// Queue pairs the image can poll.
    pub max_queues: u32,
    /// Longest staging chunk the image can copy out.
    pub max_chunk: u32,
}

impl DeviceProfile {
    /// These features on a board: no memory that is known, no process, build id or task.
    pub const fn new(board: &'static str, features: u32, max_queues: u32) -> Self {
        let (build_id, max_chunk) = ([0; 20], QueueDescriptor::MAX_CHUNK);
        let (tasks, task_stack, longest_message) = (0, 0, 0);
        Self { features, board, memory: 0, pid: 0, build_id, tasks, task_stack, longest_message, max_queues, max_chunk }
    }
}

/// The result of the checks of a window.
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
    /// How the device polls and sleeps, as the host asks.
    pub idle_policy: IdlePolicy,
}

/// The device's side.
#[derive(Clone, Copy, Debug)]
pub enum DeviceHandshake {
    /// Waits for the magic word and an offer.
    Waiting,
    /// Published ACCEPTED; waits for READY.
    Accepted(Accepted),
    /// May serve.
    Serving(Accepted),
    /// Published REFUSED. A host that offers again starts over by raising the epoch, which is here.
    Refused(Refused, Epoch),
}

impl DeviceHandshake {
    /// One step; call it until it is `Serving` or `Refused`.
    pub fn step<K>(&mut self, window: &Window<K>, table: Table, profile: &DeviceProfile) {
        self.step_lent(&window.lend(), table, profile);
    }

    /// [`Self::step`], one copy for all kinds of windows: an image has two callers. In place, since a layout is long.
    #[inline(never)]
    fn step_lent(&mut self, window: &Window<Loan>, table: Table, profile: &DeviceProfile) {
        let load = |off| observe_lent(window, off);
        let epoch = Epoch(load(word::EPOCH));
        match self {
            Self::Waiting => {
                // No offer yet: an absent or half-written preamble is "not now", never an error.
                let host = HostState(load(word::HOST_STATE));
                if load(0) != MAGIC || host != HostState::OFFERED {
                    // A host may be ending an epoch of which a reset took all memory: nothing of it
                    // is left to write.
                    let is_known =
                        load(word::DEVICE_STATE) == DeviceState::STOPPED.0 && load(word::EPOCH_ACK) == epoch.0;
                    if load(0) == MAGIC && host == HostState::CLOSING && !is_known {
                        publish_word(window, word::EPOCH_ACK, epoch.0);
                        Self::leave(window);
                    }
                    return;
                }
                publish_word(window, word::DEVICE_STATE, DeviceState::CHECKING.0);
                let outcome = check(window, epoch, table, profile);
                // The copies must be older than the second check of the epoch. A host that started
                // over, or gave up, has mixed two offers in them, and the device may accept or
                // refuse neither.
                fence(Ordering::Acquire);
                publish_word(window, word::EPOCH_ACK, epoch.0);
                if load(word::EPOCH) != epoch.0 || load(word::HOST_STATE) != HostState::OFFERED.0 {
                    return Self::leave(window);
                }
                *self = match outcome {
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
                };
            }
            Self::Accepted(accepted) => {
                let host = HostState(load(word::HOST_STATE));
                if epoch != accepted.epoch || host == HostState::CLOSING {
                    Self::leave(window);
                    *self = Self::Waiting;
                } else if host == HostState::READY {
                    *self = Self::Serving(*accepted);
                }
            }
            Self::Refused(_, refused_in) if epoch != *refused_in => *self = Self::Waiting,
            Self::Serving(_) | Self::Refused(..) => {}
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

/// Everything a device checks before it uses a window, in the order of what depends on what.
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
    let features = p.features_offered & profile.features;
    // They decide what descriptors may say.
    let missing = p.features_required & !profile.features;
    if missing != 0 {
        return Err(Refused::new(Refusal::FEATURES, p.features_required, profile.features));
    }
    for index in 0..layout.queues() {
        let d = layout.queue(window, index)?;
        if index != 0 && features & feature::TWO_LINES != 0 && !layout.second_line_fits(&d) {
            return Err(LayoutError::Queue(index).into());
        }
        check_chunk(d.req_chunk.max(d.rep_chunk), profile)?;
    }
    #[cfg(feature = "tasks")]
    let tasks = check_host_queues(window, &layout, features, profile)?;
    #[cfg(not(feature = "tasks"))]
    let tasks = profile.tasks;
    if let Err(two) = table.check() {
        return Err(Refused::new(Refusal::DUPLICATE, two.first as u32, 0));
    }
    let section = layout.section(SectionKind::TABLE)?;
    write_table(window, section.off, section.len, table)
        .map_err(|need| Refused::new(Refusal::TABLE, need as u32, section.len as u32))?;
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
        tasks,
        task_stack: profile.task_stack,
        guards: tasks,
        longest_message: if features & feature::LONG_VALUES == 0 { 0 } else { profile.longest_message },
        ..DeviceRecord::new_zeroed()
    };
    window.write(DEVICE_RECORD, &record)?;
    let idle_policy = IdlePolicy { spin_us: p.spin_us, sleep_us: p.sleep_us };
    Ok(Accepted { layout, node: NodeId(p.node as u16), epoch, features, idle_policy })
}

/// No request or reply in a chunk may be longer than what the device has scratch memory for.
fn check_chunk(chunk: u32, profile: &DeviceProfile) -> Result<(), Refused> {
    if chunk > profile.max_chunk {
        return Err(Refused::new(Refusal::CHUNK, profile.max_chunk, chunk));
    }
    Ok(())
}

/// Checks the queues in which tasks call the host. Returns how many tasks there can be: no more than
/// have a queue.
#[cfg(feature = "tasks")]
fn check_host_queues(
    window: &Window<Loan>,
    layout: &Layout,
    features: u32,
    profile: &DeviceProfile,
) -> Result<u32, Refused> {
    if features & feature::HOST_CALLS == 0 {
        return Ok(profile.tasks);
    }
    let tasks = TasksLayout::read(layout, window)?;
    check_chunk(tasks.chunk(), profile)?;
    Ok(profile.tasks.min(tasks.tasks()))
}
