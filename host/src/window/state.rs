//! The state at the front of a window, as the numbers in it. Each is copied out once, and none is
//! used unchecked.

use hamr_comm::abi::preamble::{DEVICE_RECORD, DeviceRecord, DeviceState, HostState, MAGIC, Preamble, Refusal, word};
use hamr_comm::abi::split::Split;
use hamr_comm::abi::window::{OutOfWindow, Shared, Window};
use zerocopy::FromZeros;

/// The values at the front of a window at one moment.
pub(crate) struct WindowState {
    /// Does it begin with the magic word? Without it the other values mean nothing.
    pub(crate) is_laid_out: bool,
    /// The preamble's bytes, whatever they are.
    pub(crate) bytes: Result<Preamble, OutOfWindow>,
    /// The host's live words.
    pub(crate) host: HostWords,
    /// The device's live words.
    pub(crate) device: DeviceWords,
    /// The device's record; zeros in a window that is too short.
    pub(crate) record: DeviceRecord,
}

/// The host's words.
pub(crate) struct HostWords {
    pub(crate) state: HostState,
    /// The device's epoch that it has opened.
    pub(crate) epoch: u32,
    pub(crate) alive: u32,
    pub(crate) open_queues: u32,
    pub(crate) wait: u32,
    pub(crate) doorbell: u32,
}

/// The device's words.
pub(crate) struct DeviceWords {
    pub(crate) state: DeviceState,
    /// The epoch that it serves.
    pub(crate) epoch: u32,
    pub(crate) alive: u32,
    pub(crate) progress: u32,
    pub(crate) wait: u32,
    pub(crate) doorbell: u32,
    pub(crate) refusal: Refusal,
    pub(crate) refusal_detail: [u32; 2],
}

impl WindowState {
    pub(crate) fn read(window: &Window<Shared>) -> Self {
        let word = |off| window.word(off).map_or(0, |word| word.observe());
        let bytes = window.read::<Preamble>(0);
        let split = bytes.map_or(Split::NONE, |preamble| Split::in_preamble(&preamble));
        Self {
            bytes,
            is_laid_out: word(0) == MAGIC,
            host: HostWords {
                state: HostState(word(word::HOST_STATE)),
                epoch: word(word::EPOCH),
                alive: word(word::HOST_ALIVE),
                open_queues: word(word::OPEN_QUEUES),
                wait: word(word::HOST_WAIT),
                doorbell: word(word::HOST_DOORBELL),
            },
            device: DeviceWords {
                state: DeviceState(word(word::DEVICE_STATE)),
                epoch: word(word::EPOCH_ACK),
                alive: word(word::DEVICE_ALIVE),
                progress: word(word::DEVICE_PROGRESS),
                wait: word(split.device_wait()),
                doorbell: word(word::DEVICE_DOORBELL),
                refusal: Refusal(word(word::REFUSAL)),
                refusal_detail: [word(word::REFUSAL_DETAIL), word(word::REFUSAL_DETAIL + 4)],
            },
            record: window.read(DEVICE_RECORD).unwrap_or_else(|_| DeviceRecord::new_zeroed()),
        }
    }

    /// The preamble, where a host has laid the window out.
    pub(crate) fn preamble(&self) -> Option<&Preamble> {
        self.bytes.as_ref().ok().filter(|_| self.is_laid_out)
    }
}

/// The epoch that the host has opened.
#[cfg(feature = "device-logs")]
pub(crate) fn epoch_of(window: &Window<Shared>) -> u32 {
    window.word(word::EPOCH).map_or(0, |word| word.observe())
}

/// The epoch of a window that its host has laid out. `None` while the host does that.
#[cfg(feature = "device-logs")]
pub(crate) fn laid_out_epoch(window: &Window<Shared>) -> Option<u32> {
    // The host takes the magic word away first and writes it last.
    let epoch = epoch_of(window);
    let is_laid_out = window.word(0).is_ok_and(|word| word.observe() == MAGIC);
    (is_laid_out && epoch_of(window) == epoch).then_some(epoch)
}
