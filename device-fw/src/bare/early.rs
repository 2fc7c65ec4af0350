//! Faults while no host is served: of boot code, of a board's start, of the handshake. With a
//! window the host reads what happened in its crash record; always on the console. Either way the
//! image ends: another try would fail in the same way.

use super::record::Fault;
use super::{BROKEN, console, memory};
use crate::crash;
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::preamble::{HostState, feature, word};
use hamr_comm::abi::queue::QueueDescriptor;
use hamr_comm::abi::window::Window;
use hamr_comm::am::MAX_QUEUES;
use hamr_comm::handshake::{DeviceHandshake, DeviceProfile};
use hamr_comm::registry::Table;

/// Polls for a host's offer: a few seconds. A host that starts a machine makes its offer meanwhile.
const MAX_POLLS: u32 = 1 << 24;

/// Reports the fault on the console and, with a window, in the crash record; then ends the image.
pub(super) fn end(fault: &Fault) -> ! {
    fault.report();
    // Taken, so that a fault in here ends the image at once.
    if let Some(window) = crash::WINDOW.try_lock().and_then(|mut known| known.take()) {
        record(&window, fault);
    }
    console::exit(BROKEN)
}

/// Accepts the offer that is there or comes soon, so that the host knows the build, and writes the
/// crash record into it.
fn record(window: &Window<()>, fault: &Fault) {
    let profile = DeviceProfile {
        features: feature::TICKETS
            | feature::DEADLINES
            | feature::CONTAIN
            | feature::LOGS
            | feature::DOORBELL
            | if cfg!(feature = "world") { feature::WORLD } else { 0 }
            | if cfg!(feature = "driven") { feature::DRIVEN } else { 0 },
        board: "",
        memory: memory::ram(),
        pid: 0,
        build_id: memory::build_id(),
        max_queues: MAX_QUEUES as u32,
        max_chunk: QueueDescriptor::MAX_CHUNK,
        tasks: 0,
        task_stack: 0,
        longest_message: 0,
    };
    let load = |off| window.word(off).map_or(0, |word| word.observe());
    // The offer may have been accepted before the fault.
    let is_ready = || load(word::HOST_STATE) == HostState::READY.0;
    let mut handshake = DeviceHandshake::Waiting;
    for _ in 0..MAX_POLLS {
        handshake.step(window, Table::of_this_image(), &profile);
        #[cfg(feature = "driven")]
        super::driven::carry();
        if matches!(handshake, DeviceHandshake::Accepted(_)) || is_ready() {
            break;
        }
    }
    let layout = Layout::of_window(window).ok();
    let epoch = Epoch(load(word::EPOCH));
    if let Some(at) = layout.as_ref().and_then(crash::section)
        && load(word::EPOCH_ACK) == epoch.0
    {
        crash::record(window, at, epoch, fault.text(), fault.trace());
        DeviceHandshake::crash(window);
        #[cfg(feature = "driven")]
        super::driven::carry();
    }
}
