//! The responding ends of a device.

use super::super::dispatcher::Endpoint;
use super::super::{Activity, Responder};
use super::MAX_QUEUES;
use crate::handshake::Accepted;
use hamr_shared_abi::layout::LayoutError;
use hamr_shared_abi::preamble::feature;
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::Window;

const _: () = assert!(MAX_QUEUES + hamr_shared_abi::world::MAX_RANKS <= Activity::QUEUES);

/// Why a poller cannot be set up over a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetupError {
    /// A descriptor or section fails the checks of the layout.
    Layout(LayoutError),
    /// More queue pairs than [`MAX_QUEUES`].
    TooManyQueues(u32),
}

impl From<LayoutError> for SetupError {
    fn from(e: LayoutError) -> Self {
        Self::Layout(e)
    }
}

/// The responding ends, by number: of queue pairs of the host, then of lanes from the ranks.
pub(super) struct Endpoints<K, F> {
    pub(super) queues: heapless::Vec<Endpoint<K, F>, MAX_QUEUES>,
    /// In the order of the ranks; none outside of a world.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(super) lanes: crate::world::PerRank<Endpoint<K, F>>,
}

impl<K, F> Endpoints<K, F> {
    #[cfg(feature = "tasks")]
    #[inline(always)]
    pub(super) fn get(&self, number: usize) -> Option<&Endpoint<K, F>> {
        #[cfg(feature = "world")]
        if number >= self.queues.len() {
            return self.lane(number);
        }
        self.queues.get(number)
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Endpoint<K, F>> {
        #[cfg(all(feature = "tasks", feature = "world"))]
        if number >= self.queues.len() {
            return self.lane_mut(number);
        }
        self.queues.get_mut(number)
    }

    // Not inlined: streams are polled more often.
    #[cfg(all(feature = "tasks", feature = "world"))]
    #[cold]
    #[inline(never)]
    fn lane(&self, number: usize) -> Option<&Endpoint<K, F>> {
        self.lanes.get(number - self.queues.len())
    }

    #[cfg(all(feature = "tasks", feature = "world"))]
    #[cold]
    #[inline(never)]
    fn lane_mut(&mut self, number: usize) -> Option<&mut Endpoint<K, F>> {
        self.lanes.get_mut(number - self.queues.len())
    }
}

impl<K: Clone, F: Order> Endpoints<K, F> {
    /// The responding end of every queue pair, its reply words cleared.
    pub(super) fn open(window: &Window<K>, accepted: &Accepted) -> Result<Self, SetupError> {
        let Accepted { layout, epoch, features, .. } = accepted;
        let mut endpoints = Self {
            queues: heapless::Vec::new(),
            #[cfg(all(feature = "tasks", feature = "world"))]
            lanes: crate::world::PerRank::new(),
        };
        for queue in 0..layout.queues() {
            // Read again from the window, so checked again.
            let descriptor = layout.queue(window, queue)?;
            let mut slots = window.queue_ordered(&descriptor).map_err(LayoutError::from)?;
            // The control stream has one line. Where the handshake found the second one among the slots
            // and it is not there any more, other bytes before the heap are read for it.
            slots.use_two_lines(queue != 0 && features & feature::TWO_LINES != 0);
            // In its place at once, since it is long.
            if endpoints.queues.push(Endpoint::new(Responder::new(slots, *epoch), queue)).is_err() {
                return Err(SetupError::TooManyQueues(layout.queues()));
            }
        }
        endpoints.queues.iter().for_each(|endpoint| endpoint.responder.clear());
        Ok(endpoints)
    }
}
