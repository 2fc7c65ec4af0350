//! The adapter of one device, without input and output. One thread steps it; nothing here waits.
//!
//! What the device writes is copied once, checked, and used from the copy. A device that breaks the rules stops its own
//! queue pairs and garbles its own memory: every range is checked against a region, every region against the section
//! when it is made.

mod apply;
#[cfg(test)]
mod apply_tests;
mod datagram;
mod objects;
mod outcome;
mod remote;
mod respond;
mod send;

pub use apply::SLICE;
pub use send::MOST_REQUESTS;

use hamr_comm::abi::window::Window;
use hamr_verbs::wire::QpState;
use hamr_verbs::wire::{Command, Reply, Verb};
use objects::{AddressHandle, CompletionQueue, QueuePair, Region, SharedReceiveQueue};
use remote::Remote;
use send::Progress;

/// Queue pairs of a round between two looks at the one that had work last.
const GROUP: usize = 16;

/// The adapter over a section (see the module).
pub struct Engine<K> {
    window: Window<K>,
    regions: Vec<Option<Region>>,
    completion_queues: Vec<Option<CompletionQueue>>,
    queue_pairs: Vec<Option<QueuePair>>,
    shared_receive_queues: Vec<Option<SharedReceiveQueue>>,
    address_handles: Vec<Option<AddressHandle>>,
    /// The time of this round, in nanoseconds.
    now: u64,
    /// The queue pair that may send the next packet.
    turn: usize,
    /// Bytes of payload of the longest packet.
    mtu: u64,
    /// The queue pair that had work last.
    hot: usize,
    /// Room for the next request.
    spare: Option<Box<Progress>>,
    /// See [`Self::told`].
    has_told: bool,
}

impl<K> Engine<K> {
    /// An adapter without objects, over the section alone.
    pub fn new(window: Window<K>) -> Self {
        Self {
            window,
            regions: Vec::new(),
            completion_queues: Vec::new(),
            queue_pairs: Vec::new(),
            shared_receive_queues: Vec::new(),
            address_handles: Vec::new(),
            now: 0,
            turn: 0,
            mtu: 0,
            hot: 0,
            spare: None,
            has_told: false,
        }
    }

    /// It has a wire to others, whose longest packet has so many bytes of payload.
    pub fn use_wire(&mut self, mtu: u32) {
        self.mtu = mtu.into();
    }

    /// Does what the host asks for. What is refused has changed nothing.
    pub fn command(&mut self, command: &Command) -> Reply {
        let done = match command.verb {
            Verb::CREATE => self.create(&command.object),
            Verb::CONNECT => self.connect(command.object.index, command.peer),
            Verb::CONNECT_REMOTE => self.connect_remote(command.object.index, &command.remote),
            Verb::RESET => self.reset(&command.object),
            Verb::FAIL => self.set_error(command.object.index.into()),
            Verb::DESTROY => self.destroy(command.object.kind, command.object.index),
            _ => Err(Reply::MALFORMED),
        };
        done.err().unwrap_or(Reply::DONE)
    }

    /// A round over all queue pairs: of each so many requests, or bytes, as it may have at once. The one that had work
    /// last is looked at again behind each group without work. How many steps were made. `now` is in nanoseconds of any
    /// clock that does not go back.
    pub fn round(&mut self, now: u64) -> u32 {
        self.now = now;
        let (mut all, mut group) = (0, 0);
        for qp in 0..self.queue_pairs.len() {
            let steps = self.serve(qp);
            if steps != 0 {
                self.hot = qp;
            }
            group += steps;
            if qp % GROUP == GROUP - 1 {
                if group == 0 {
                    group = self.serve(self.hot);
                }
                (all, group) = (all + group, 0);
            }
        }
        all + group
    }

    /// 1: the state of a queue pair was published since this was asked, and the completions with which it has ended. Commands, and
    /// requests that are wrong before they are packets, are no steps of a round.
    pub fn told(&mut self) -> u32 {
        std::mem::take(&mut self.has_told).into()
    }

    /// When something ends by itself, on the clock of [`Self::round`]: a round is due then.
    pub fn next_timer(&self) -> Option<u64> {
        let give_up = |qp: &QueuePair| qp.progress.as_ref()?.give_up;
        let timer = |qp: &QueuePair| qp.remote.as_deref().and_then(Remote::timer).or_else(|| give_up(qp));
        let ready = self.queue_pairs.iter().flatten().filter(|qp| qp.state == QpState::RTS);
        ready.filter_map(timer).min()
    }
}
