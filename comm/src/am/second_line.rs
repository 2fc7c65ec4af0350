//! Messages in the two lines of a hot slot (abi §4.7): the first of its header. Those that follow with
//! the same header are served as plain ones are.

use super::dispatcher::{Beside, Dispatcher, Endpoint, Known, spill_state};
use super::long::refuse;
use super::request::ReplyMode;
use super::responder::take_data;
use super::{Found, Slots};
use crate::context::{CallState, Context};
use crate::frame::Arguments;
use hamr_shared_abi::slot::ReqHdr;
use hamr_shared_abi::status::Status;
use hamr_shared_abi::sync::Order;

impl<K: Clone> Dispatcher<'_, K> {
    /// Checks a message whose header names a second line, and serves it.
    #[cold]
    #[inline(never)]
    pub(super) fn serve_two_lines<F: Order>(&mut self, endpoint: &mut Endpoint<K, F>, found: Found, hdr: ReqHdr) {
        let slots = endpoint.responder.slots();
        let form = ReqHdr(hdr.0 & !ReqHdr::CANCEL);
        if found.slot != 0 || !slots.has_two_lines() || !form.is_two_line_form() {
            return refuse(endpoint, found, Status::BAD_REQUEST);
        }
        if form != hdr {
            return refuse(endpoint, found, Status::CANCELLED);
        }
        let Some(entry) = self.table.get(hdr.key().0 as usize) else {
            return refuse(endpoint, found, Status::NO_HANDLER);
        };
        let beside = if hdr.has(ReqHdr::PUT) { Beside::Data } else { Beside::Line };
        if beside == Beside::Data && !take_data(&self.heap.lend(), slots) {
            return refuse(endpoint, found, Status::BAD_REQUEST);
        }
        endpoint.known = Known { hdr, run: entry.run, beside };
        spill_state(endpoint);
        self.activity.begin(endpoint.queue, found);
        let (slots, slot) = (endpoint.responder.slots(), endpoint.responder.slots().hot());
        let args = beside.payload(slots, hdr);
        let mut cx = Context::of_call(self.heap.lend(), slot.req_hdr_word(), CallState::new(self.node, 0));
        let reply = (entry.run)(&mut cx, &mut self.frame, Arguments::new(args));
        let effects = cx.effects();
        self.finish(endpoint, found, ReplyMode::TWO_WAY, reply, effects);
    }
}
