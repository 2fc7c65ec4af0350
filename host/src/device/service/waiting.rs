//! A thread that waits for a task serves what that task calls.

use super::super::{Device, Fence};
use super::body::depth;
use super::{Held, Service};
use hamr_comm::abi::sync::Coherent;

/// A thread that is in so many bodies serves no more: its stack has an end.
const DEEPEST: u16 = 8;

/// A thread that waits for the task in one place.
pub(crate) struct Waiting<'d> {
    device: &'d Device,
    index: usize,
    held: Option<Held<'d>>,
}

impl<'d> Waiting<'d> {
    /// For the task in place `place`, which is a device's word. `None`: this thread serves nothing.
    pub(crate) fn new(device: &'d Device, place: u32) -> Option<Self> {
        let index = place as usize + 1;
        let Service { queues, .. } = &device.service;
        let serves = device.options.serve_in_wait && index < queues.len() && depth() < DEEPEST;
        serves.then_some(Self { device, index, held: None })
    }

    /// Looks up to so many times, with a pause behind each vain look, and runs a body if one is there.
    /// `is_answered` looks for the reply that this thread waits for. True: a body ran.
    pub(crate) fn pass(&mut self, looks: &mut u32, mut is_answered: impl FnMut() -> bool) -> bool {
        let service = &self.device.service;
        if self.held.is_none() {
            self.held = service.queues.get(self.index).and_then(|queue| queue.hold());
            if let Some(held) = &mut self.held {
                held.poll();
            }
        }
        let Some(held) = &mut self.held else { return false };
        loop {
            if held.has_next() {
                let ran = held.has_next_of_task(is_answered) && service.run_next(self.device, self.index, held);
                if ran {
                    self.device.notify(Fence::Full);
                }
                return ran;
            }
            if *looks == 0 || is_answered() {
                return false;
            }
            *looks -= 1;
            std::hint::spin_loop();
        }
    }

    /// The thread is about to sleep. True: it must look again instead.
    pub(crate) fn pause(&mut self) -> bool {
        self.held.take().is_some_and(Held::leave::<Coherent>)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.pause() {
            // The message is another task's by now, or comes behind the end of this wait.
            self.device.service.workers.wake();
        }
    }
}
