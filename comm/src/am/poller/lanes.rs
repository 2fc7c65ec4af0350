//! The poller's part of calls between ranks: it serves those of the others (abi §13.3).

use super::super::dispatcher::{BATCH, Endpoint};
use super::super::lane::Lane;
use super::{BUDGET, Poller, empty_at_front};
use crate::am::Responder;
use crate::handshake::Accepted;
use crate::world;
use hamr_shared_abi::ids::RankId;
use hamr_shared_abi::layout::LayoutError;
use hamr_shared_abi::preamble::feature;
use hamr_shared_abi::sync::Order;

impl<K: Clone, F: Order> Poller<'_, K, F> {
    /// Opens the lanes from and to all ranks, itself among them, if the device is one.
    #[inline(never)]
    pub(super) fn open_lanes(&mut self, accepted: &Accepted) -> Result<(), LayoutError> {
        self.first_lane = self.endpoints.len();
        let Some(lanes) = world::lanes().filter(|_| accepted.features & feature::WORLD != 0) else { return Ok(()) };
        self.has_lanes = true;
        let window = self.window.beside_leaked(lanes.window);
        for (rank, (from, to)) in (0..).map(RankId).zip(lanes.pairs) {
            let index = self.endpoints.len() as u32;
            let responder = Responder::new(window.queue_ordered(&from)?, accepted.epoch);
            // There is room for as many as a world has.
            let _ = self.endpoints.push(Endpoint::new(responder, index));
            let _ = self.calls.lanes.push(Lane::new(window.queue_ordered(&to)?, accepted.epoch, rank));
        }
        Ok(())
    }

    /// Serves what the ranks have sent.
    #[inline(never)]
    pub(super) fn poll_lanes(&mut self) -> u32 {
        let mut next = self.first_lane;
        let mut served = 0;
        while next < self.endpoints.len() {
            let skipped = self.endpoints.get(next..).map_or(0, empty_at_front);
            next += skipped;
            if next < self.endpoints.len() && skipped == 0 {
                served += self.poll_lane(next);
                next += 1;
            }
        }
        served
    }

    /// A caller that waits for each result sends its next call within nanoseconds, so this lane alone is
    /// polled for a while, the longer the more calls in a row came from it.
    #[inline(never)]
    fn poll_lane(&mut self, index: usize) -> u32 {
        if self.last_lane != index {
            (self.last_lane, self.lane_run) = (index, 0);
        }
        let mut served = 0;
        loop {
            served += self.poll_one(index, BATCH);
            self.notify_of_replies(index);
            self.lane_run = (self.lane_run + 1).min(self.extra_polls);
            if served >= BUDGET || !self.lane_has_next(index) {
                return served;
            }
        }
    }

    fn lane_has_next(&self, index: usize) -> bool {
        let Some(endpoint) = self.endpoints.get(index) else { return false };
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
        if let Some(rank) = queue.checked_sub(self.first_lane) {
            world::notify(RankId(rank as u32));
        }
    }
}
