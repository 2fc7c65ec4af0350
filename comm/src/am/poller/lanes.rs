//! The poller's part of calls between ranks: it serves those of the others (abi §13.3).

use super::super::dispatcher::{BATCH, Endpoint};
use super::super::lane::Lane;
use super::{BUDGET, Poller, empty_at_front};
use crate::am::Responder;
use crate::handshake::Accepted;
use crate::world::{self, RankSet, push};
use hamr_shared_abi::ids::RankId;
use hamr_shared_abi::layout::LayoutError;
use hamr_shared_abi::preamble::feature;
use hamr_shared_abi::sync::Order;

impl<K: Clone, F: Order> Poller<'_, K, F> {
    /// Opens the lanes from and to all ranks, itself among them, if the device is one.
    #[inline(never)]
    pub(super) fn open_lanes(&mut self, accepted: &Accepted) -> Result<(), LayoutError> {
        let Some(lanes) = world::lanes().filter(|_| accepted.features & feature::WORLD != 0) else { return Ok(()) };
        self.has_lanes = true;
        self.callers = lanes.are_announced.then_some(RankSet::EMPTY);
        let window = self.window.beside_leaked(lanes.window);
        let first = self.endpoints.queues.len() as u32;
        for (rank, (from, to)) in (0..).map(RankId).zip(lanes.pairs) {
            let responder = Responder::new(window.queue_ordered(&from)?, accepted.epoch);
            push(&mut self.endpoints.lanes, Endpoint::new(responder, first + rank.0));
            push(&mut self.calls.lanes, Lane::new(window.queue_ordered(&to)?, accepted.epoch, rank));
        }
        Ok(())
    }

    /// Serves what the ranks have sent.
    #[inline(never)]
    pub(super) fn poll_lanes(&mut self) -> u32 {
        if self.callers.is_some() {
            return self.poll_callers();
        }
        let mut next = 0;
        let mut served = 0;
        while next < self.endpoints.lanes.len() {
            let skipped = self.endpoints.lanes.get(next..).map_or(0, empty_at_front);
            next += skipped;
            if next < self.endpoints.lanes.len() && skipped == 0 {
                served += self.poll_lane(next);
                next += 1;
            }
        }
        served
    }

    /// The same where ranks announce their calls. A rank stays among the callers until its lane was seen
    /// empty: also when a handler is abandoned meanwhile.
    #[inline(always)]
    fn poll_callers(&mut self) -> u32 {
        let Some(callers) = &mut self.callers else { return 0 };
        world::collect_calls(callers);
        if callers.is_empty() { 0 } else { self.serve_callers() }
    }

    #[inline(never)]
    fn serve_callers(&mut self) -> u32 {
        let (mut from, mut served) = (0, 0);
        while let Some(rank) = self.callers.as_ref().and_then(|callers| callers.next(from)) {
            let lane = rank.0 as usize;
            served += self.poll_lane(lane);
            let has_more = self.endpoints.lanes.get(lane).is_some_and(|lane| lane.responder.has_next());
            if let Some(callers) = self.callers.as_mut().filter(|_| !has_more) {
                callers.remove(rank);
            }
            from = rank.0 + 1;
        }
        served
    }

    /// A caller that waits for each result sends its next call within nanoseconds, so this lane alone is
    /// polled for a while, the longer the more calls in a row came from it.
    #[inline(never)]
    fn poll_lane(&mut self, lane: usize) -> u32 {
        if self.last_lane != lane {
            (self.last_lane, self.lane_run) = (lane, 0);
        }
        let queue = self.endpoints.queues.len() + lane;
        let mut served = 0;
        loop {
            let here = self.poll_one(queue, BATCH);
            if here == 0 {
                // The look at this lane found something, but no message.
                if let Some(lane) = self.endpoints.lanes.get_mut(lane) {
                    lane.responder.remember_idle();
                }
                return served;
            }
            served += here;
            self.notify_of_replies(queue);
            self.lane_run = (self.lane_run + 1).min(self.extra_polls);
            if served >= BUDGET || !self.lane_has_next(lane) {
                return served;
            }
        }
    }

    fn lane_has_next(&self, lane: usize) -> bool {
        let Some(endpoint) = self.endpoints.lanes.get(lane) else { return false };
        for _ in 0..self.lane_run {
            if endpoint.responder.has_next() {
                return true;
            }
            core::hint::spin_loop();
        }
        false
    }

    /// Tells a launcher that has lost a rank when no task of this one is left.
    #[inline(never)]
    pub(super) fn note_no_task(&self) {
        if self.has_lanes && self.dispatcher.tasks.live == 0 {
            world::note_no_task();
        }
    }

    /// Notifies the rank whose calls are in this queue pair; none for those of the host.
    pub(super) fn notify_of_replies(&self, queue: usize) {
        if let Some(rank) = queue.checked_sub(self.endpoints.queues.len()) {
            world::notify(RankId(rank as u32));
        }
    }
}
