//! A poller begins over a window, and gives it back.

#[cfg(feature = "tasks")]
use super::calls;
use super::endpoints::Endpoints;
use super::{EXTRA_NS, Poller, SetupError};
use crate::am::dispatcher::Dispatcher;
use crate::am::{Activity, ControlHandoff, Notifier, Pauses};
use crate::frame::Frame;
use crate::handshake::Accepted;
use crate::migrate::MAX_MESSAGE;
use crate::registry::Table;
use hamr_shared_abi::layout::LayoutError;
use hamr_shared_abi::section::SectionKind;
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::DeviceWindow;

impl<'s, K: Clone> Poller<'s, K> {
    /// A poller over a window in coherent memory whose layout was checked. `scratch` has room for
    /// one long message: [`MAX_MESSAGE`] bytes.
    pub fn new(
        window: DeviceWindow<K>,
        accepted: &Accepted,
        table: Table,
        scratch: &'s mut [u8],
    ) -> Result<Self, (SetupError, DeviceWindow<K>, &'s mut [u8])> {
        Self::new_ordered(window, accepted, table, scratch)
    }
}

impl<'s, K: Clone, F: Order> Poller<'s, K, F> {
    /// [`Poller::new`] over another kind of memory.
    pub fn new_ordered(
        window: DeviceWindow<K>,
        accepted: &Accepted,
        table: Table,
        scratch: &'s mut [u8],
    ) -> Result<Self, (SetupError, DeviceWindow<K>, &'s mut [u8])> {
        debug_assert!(scratch.len() >= MAX_MESSAGE);
        let Accepted { layout, node, epoch, .. } = accepted;
        // The heap first: the rest of the window ends where views begin, so no slot or chunk can be
        // under a view.
        let section = match layout.section(SectionKind::HEAP) {
            Ok(section) => section,
            Err(e) => return Err((e.into(), window, scratch)),
        };
        let (window, heap) = match window.split(section.off, section.len, &layout.at_host()) {
            Ok(parts) => parts,
            Err((e, window)) => return Err((LayoutError::from(e).into(), window, scratch)),
        };
        let endpoints = match Endpoints::open(&window, accepted) {
            Ok(endpoints) => endpoints,
            Err(e) => return Err((e, heap.join(), scratch)),
        };
        #[cfg(feature = "side")]
        let side = crate::side::Side::open::<K, F>(&window, accepted);
        let dispatcher = Dispatcher {
            heap,
            table,
            node: *node,
            frame: Frame::new(scratch),
            #[cfg(feature = "tasks")]
            tasks: crate::am::Tasks::default(),
            #[cfg(feature = "tasks")]
            backlog: heapless::Deque::new(),
            activity: Activity::new(),
        };
        #[cfg_attr(not(feature = "tasks"), expect(unused_mut, reason = "host queues are opened in it"))]
        let mut poller = Self {
            window,
            endpoints,
            dispatcher,
            split: layout.split(),
            epoch: *epoch,
            rounds: 0,
            progress: 0,
            last_served: 0,
            budget: 0,
            run_length: 0,
            extra_polls: Pauses::ASSUMED.in_ns(EXTRA_NS),
            notifier: Notifier::new(),
            unfenced: 0,
            handoff: None,
            lent: false,
            #[cfg(feature = "tasks")]
            is_due: false,
            #[cfg(all(feature = "tasks", feature = "world"))]
            has_lanes: false,
            #[cfg(all(feature = "tasks", feature = "world"))]
            callers: None,
            #[cfg(all(feature = "tasks", feature = "world"))]
            last_lane: 0,
            #[cfg(all(feature = "tasks", feature = "world"))]
            lane_run: 0,
            #[cfg(feature = "tasks")]
            calls: calls::Calls::new(),
            #[cfg(all(feature = "tasks", feature = "world"))]
            near: super::direct::Nearness::default(),
            #[cfg(all(feature = "tasks", feature = "world"))]
            calls_left: 0,
            #[cfg(all(feature = "tasks", feature = "world"))]
            task_lines: None,
            #[cfg(feature = "tasks")]
            sent: 0,
            #[cfg(all(feature = "tasks", not(hamr_bare)))]
            outgoing: crate::outgoing::threads::Owned::default(),
            #[cfg(feature = "side")]
            side,
        };
        poller.enter_thread();
        #[cfg(feature = "tasks")]
        let opened = poller.open_host_queues(accepted);
        #[cfg(all(feature = "tasks", feature = "world"))]
        let opened = opened.and_then(|()| poller.open_lanes(accepted));
        #[cfg(feature = "tasks")]
        if let Err(e) = opened {
            let (window, scratch) = poller.into_parts();
            return Err((e.into(), window, scratch));
        }
        Ok(poller)
    }

    /// Leaves the control stream on `handoff` while tasks run. It is this poller's alone.
    pub fn use_handoff(&mut self, handoff: Option<&'s ControlHandoff<K, F>>) {
        self.handoff = handoff;
    }

    /// The calling thread polls the device from now on: that which made it at first.
    pub fn enter_thread(&self) {
        #[cfg(all(feature = "tasks", not(hamr_bare)))]
        self.outgoing.enter_thread();
        #[cfg(feature = "side")]
        if let Some(side) = self.side {
            side.enter_thread();
        }
    }

    /// What notifies the program that serves the section beside the host: where there is one.
    #[cfg_attr(not(feature = "side"), expect(unused_variables, reason = "there is none"))]
    #[inline(always)]
    pub fn use_side_doorbell(&self, notify: fn()) {
        #[cfg(feature = "side")]
        if let Some(side) = self.side {
            side.use_doorbell(notify);
        }
    }

    /// Sets how long a poll takes on this processor.
    pub fn use_pauses(&mut self, pauses: Pauses) {
        self.extra_polls = pauses.in_ns(EXTRA_NS);
    }

    /// Gives the window back, whole, and the scratch memory.
    pub fn into_parts(mut self) -> (DeviceWindow<K>, &'s mut [u8]) {
        self.recall_control();
        #[cfg(feature = "tasks")]
        self.end_tasks(&mut || 0);
        #[cfg(feature = "side")]
        if let Some(side) = self.side {
            side.close();
        }
        self.dispatcher.activity.keep_count();
        (self.dispatcher.heap.join(), self.dispatcher.frame.scratch)
    }
}
