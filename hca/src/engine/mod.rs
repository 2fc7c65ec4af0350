//! The adapter of one device, without input and output. One thread steps it; nothing here waits.
//!
//! What the device writes is copied once, checked, and used from the copy. A device that breaks the rules stops its own queue
//! pairs and garbles its own memory: every range is checked against a region, every region against the section when it is made.

mod copy;
mod objects;
mod remote;
mod respond;
mod send;

pub use copy::SLICE;
pub use send::MOST_REQUESTS;

use hamr_comm::abi::window::Window;
use hamr_verbs::wire::{Command, Reply, Verb};
use objects::{CompletionQueue, QueuePair, Region};

/// The adapter over a section (see the module).
pub struct Engine<K> {
    window: Window<K>,
    regions: Vec<Option<Region>>,
    completion_queues: Vec<Option<CompletionQueue>>,
    queue_pairs: Vec<Option<QueuePair>>,
    /// The queue pair that may send the next packet.
    turn: usize,
}

impl<K> Engine<K> {
    /// An adapter without objects, over the section alone.
    pub fn new(window: Window<K>) -> Self {
        Self { window, regions: Vec::new(), completion_queues: Vec::new(), queue_pairs: Vec::new(), turn: 0 }
    }

    /// Does what the host asks for. What is refused has changed nothing.
    pub fn command(&mut self, command: &Command) -> Reply {
        let done = match command.verb {
            Verb::CREATE => self.create(&command.object),
            Verb::CONNECT => self.connect(command.object.index, command.peer),
            Verb::CONNECT_REMOTE => self.connect_remote(command.object.index, &command.remote),
            _ => Err(Reply::MALFORMED),
        };
        done.err().unwrap_or(Reply::DONE)
    }

    /// A round over all queue pairs: of each so many requests, or bytes, as it may have at once. How many steps were made.
    pub fn round(&mut self) -> u32 {
        (0..self.queue_pairs.len()).map(|qp| self.serve(qp)).sum()
    }
}
