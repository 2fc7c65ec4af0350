//! Windows for tests and fuzzing: one in use, and that with any bytes in it.

use super::Dump;
use crate::link::{Link, Loopback};
use crate::mapping::map_window;
use crate::window::copied;
use hamr_comm::abi::ids::{Epoch, HandlerKey, NodeId};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::slot::{ReqHdr, seq};
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::am::{SlotAccess, Slots};
use hamr_comm::handshake::{HostHandshake, Offer};
use hamr_comm::registry::Table;
use std::sync::OnceLock;

pub(super) fn view(bytes: &[u8]) -> Window<Shared> {
    let copy = copied(bytes, bytes.len() as u64).expect("a memfd");
    map_window(&copy, bytes.len() as u64, false).expect("it maps")
}

fn image_of(window: &Window<Shared>) -> Vec<u8> {
    let mut bytes = vec![0; window.len() as usize];
    window.read_bytes(0, &mut bytes).expect("all of it");
    bytes
}

/// A window in use: offered, accepted, ready, one request in the hot slot of queue 1 and one
/// answered in its ring.
pub(super) fn used() -> Vec<u8> {
    let plan = Plan { streams: 2, ring: 4, tickets: 2, chunk: 64, heap: 4096, log: 128, trace: 128, ..Plan::default() };
    let layout = Layout::plan(&plan).expect("a sound plan");
    let link = Loopback::new(layout.heap(), Table::of_this_image());
    let window = link.window();
    let offer = Offer { features: 3, required: 1, fingerprint: 7, pid: 42, ..Offer::new(plan, NodeId(1)) };
    let (handshake, layout) = HostHandshake::offer(window, &offer, Epoch::FIRST).expect("it fits");
    for _ in 0..8 {
        link.wait(0);
    }
    handshake.ready(window);
    let descriptor = layout.queue(window, 1).expect("its own descriptor");
    let queue = window.queue(&descriptor).expect("it lies in the window");
    let hdr = ReqHdr::inline(HandlerKey(0), 8).0;
    queue.hot().write_request(&[0xAB, 0, 0, 0, 0, 0]);
    queue.hot().publish_request(hdr, seq(1, 1, 24));
    queue.ring(0).publish_request(hdr, seq(1, 1, 24));
    queue.ring(0).publish_reply(0, seq(1, 1, 24));
    queue.ring(1).publish_request(hdr, seq(9, 1, 24));
    // Behind the link's window is the heap.
    let mut bytes = image_of(window);
    bytes.resize(layout.window_len() as usize, 0);
    bytes
}

/// The report of any bytes, or of a window in use with bytes that are other ones: an offset of 16 bits and a byte for each.
/// Its magic word stays in half of them, since without it a report is short.
#[cfg(feature = "testing")]
pub fn any_window(bytes: &[u8]) {
    static USED: OnceLock<Vec<u8>> = OnceLock::new();
    let Some((how, bytes)) = bytes.split_first() else { return };
    let mut window = if how & 1 == 0 { vec![0; 4096] } else { USED.get_or_init(used).clone() };
    if how & 1 == 0 {
        window.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    } else {
        for [low, high, value] in bytes.as_chunks().0 {
            let at = usize::from(u16::from_le_bytes([*low, *high]));
            window.iter_mut().skip(at).take(1).for_each(|byte| *byte = *value);
        }
    }
    if how & 2 != 0 {
        window.iter_mut().zip(b"HAMR").for_each(|(to, from)| *to = *from);
    }
    let dump = Dump::of(&view(&window), "");
    assert!(!dump.to_string().is_empty() && serde_json::to_string(&dump).is_ok());
}
