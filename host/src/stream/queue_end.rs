//! The host's end of one queue pair: which ring slot belongs to which entry, publishing a request,
//! and reading a reply.

use super::arguments::Encoded;
use super::epoch::SubmitterEpoch;
use super::reply::ReplyCopy;
use super::shape::{fits_chunk, is_inline};
use super::table::Name;
use super::uses::Uses;
use crate::device::{Device, EpochInfo, Fence, Running};
use crate::keys::Keys;
use crate::memory::Block;
use hamr_comm::Handler;
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::preamble::feature;
use hamr_comm::abi::slot::{self, Descriptor, INLINE_WORDS, RepHdr, ReqHdr, TWO_LINE_BYTES};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::{Queue, Shared, Slot};
use hamr_comm::am::Requester;
use hamr_comm::am::{SlotAccess, Slots};
use hamr_comm::migrate::MAX_MESSAGE;
use std::sync::atomic::{Ordering, fence};

/// Owner of the ring slot of a call without an entry: its position is its name.
pub(super) const PLAIN: u32 = u32::MAX;
/// Of such a call whose caller gave up the result.
pub(super) const ABANDONED: u32 = u32::MAX - 1;
/// Of a slot whose reply was read, behind one that is not released.
pub(super) const CONSUMED: u32 = u32::MAX - 2;
/// Of a one-way call without an entry.
pub(super) const ONE_WAY: u32 = u32::MAX - 3;

/// The host's end of one queue pair (see the module).
pub(super) struct QueueEnd {
    /// Number of the queue pair.
    number: u32,
    pub(super) req: Requester<Queue<Shared>>,
    epoch: SubmitterEpoch,
    /// Of the image that serves this epoch.
    pub(super) keys: Keys,
    image: u32,
    /// Bytes of the longest arguments that the device of this epoch takes.
    longest_message: usize,
    /// Bytes of stack that tasks of this epoch have.
    task_stack: u32,
    /// Entry of each ring slot, or what is above.
    owners: Box<[u32]>,
    /// Slots that are [`CONSUMED`].
    consumed: u32,
    /// Positions of earlier epochs: a call's number counts all positions of the stream.
    earlier: u64,
    /// The slots are those of an epoch that is over, and no thread wipes them.
    frozen: bool,
}

impl QueueEnd {
    pub(super) fn new(number: u32, queue: Queue<Shared>, epoch: u32, running: Running) -> Self {
        Self {
            number,
            keys: running.keys,
            image: running.number,
            longest_message: MAX_MESSAGE,
            task_stack: 0,
            owners: vec![PLAIN; queue.ring_len() as usize].into_boxed_slice(),
            consumed: 0,
            earlier: 0,
            // A queue end in no epoch submits nothing before it enters one.
            req: Requester::new(queue, if epoch == 0 { Epoch::FIRST } else { Epoch(epoch) }),
            epoch: SubmitterEpoch::of(epoch),
            frozen: false,
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// It is in place of one that has calls, of which it knows none: none of their names is at its first position.
    pub(super) fn know_no_names(&mut self) {
        self.earlier = Name::NUMBER / 2;
    }

    /// The epoch that it submits in.
    #[inline(always)]
    pub(super) fn epoch(&self) -> SubmitterEpoch {
        self.epoch
    }

    /// Goes on in the epoch `epoch`; 0: in none. Every slot is free.
    pub(super) fn enter(&mut self, epoch: u32) {
        self.owners.fill(PLAIN);
        self.consumed = 0;
        self.req.release_while(u32::MAX, |_, _| true);
        self.epoch = SubmitterEpoch::of(epoch);
        if epoch != 0 {
            self.earlier += self.req.next_position();
            self.req.enter(Epoch(epoch));
        }
    }

    /// Reads the slots as the epoch left them from now on: `slots`, or the live ones when there is
    /// no copy. The caller keeps every thread from wiping them until [`Self::thaw`].
    pub(super) fn freeze(&mut self, slots: Option<Queue<Shared>>) -> Frozen {
        self.frozen = true;
        Frozen { live: slots.map(|slots| self.req.replace_slots(slots)) }
    }

    /// Undoes [`Self::freeze`].
    pub(super) fn thaw(&mut self, frozen: Frozen) {
        frozen.live.map(|live| self.req.replace_slots(live));
        self.frozen = false;
    }

    /// May the bytes just read from the slots have been wiped meanwhile, for an epoch that another
    /// stream began? Then the caller must not use them: the end of the epoch gives the call its
    /// outcome.
    #[inline(always)]
    pub(super) fn is_wiped(&self, device: &Device) -> bool {
        // After the read: the thread that wipes has ended the epoch before.
        fence(Ordering::Acquire);
        !self.epoch.is(device.epoch.load(Ordering::Relaxed)) && !self.frozen
    }

    /// Takes over what the device of this epoch accepted and runs: keys, whether the hot slot has a
    /// second line, how long arguments may be, how much stack tasks have.
    pub(super) fn use_accepted(&mut self, device: &Device) {
        let EpochInfo { record, running, .. } = device.epoch_info();
        self.req.use_two_lines(self.number != 0 && record.features & feature::TWO_LINES != 0);
        self.longest_message = device.longest_message(&record);
        self.task_stack = record.task_stack;
        (self.keys, self.image) = (running.keys, running.number);
    }

    /// Bytes of the longest arguments that the device takes.
    pub(super) fn longest_message(&self) -> usize {
        self.longest_message
    }

    /// Bytes of stack that tasks of this epoch have.
    pub(super) fn task_stack(&self) -> u32 {
        self.task_stack
    }

    /// The number of the image that serves this epoch.
    pub(super) fn image(&self) -> u32 {
        self.image
    }

    // --- owners of ring slots ---

    /// Index in the ring of position `x`.
    #[inline(always)]
    fn index(&self, x: u64) -> usize {
        x as usize & (self.owners.len() - 1)
    }

    #[inline(always)]
    pub(super) fn owner(&self, x: u64) -> u32 {
        owner_in(&self.owners, x)
    }

    #[inline(always)]
    pub(super) fn set_owner(&mut self, x: u64, owner: u32) {
        let index = self.index(x);
        if let Some(slot) = self.owners.get_mut(index) {
            *slot = owner;
        }
    }

    /// The number of the call at `x`.
    #[inline(always)]
    pub(super) fn number_of(&self, x: u64) -> u64 {
        self.earlier + x
    }

    /// The whole number of a call that has one as its name.
    pub(super) fn number_of_name(&self, name: Name) -> u64 {
        self.number_of(self.req.next_position()).wrapping_sub(self.age(name))
    }

    /// How many calls ago the next one is from that with this name.
    #[inline(always)]
    fn age(&self, name: Name) -> u64 {
        self.number_of(self.req.next_position()).wrapping_sub(name.0) & Name::NUMBER
    }

    /// The position of a call that has a number as its name, if it is in the ring.
    #[inline(always)]
    pub(super) fn position(&self, name: Name) -> Option<u64> {
        let age = self.age(name);
        (age <= self.req.in_ring()).then(|| self.req.next_position().wrapping_sub(age))
    }

    /// The result at `x` was read: releases the slots at the front of which that is so.
    #[inline(always)]
    pub(super) fn consume(&mut self, x: u64) {
        if self.req.oldest() != Some(x) {
            self.consumed += 1;
            return self.set_owner(x, CONSUMED);
        }
        self.req.release_oldest();
        if self.consumed != 0 {
            self.release_consumed();
        }
    }

    /// Releases the slots at the front whose results were read.
    #[cold]
    #[inline(never)]
    fn release_consumed(&mut self) {
        let (owners, consumed) = (&self.owners, &mut self.consumed);
        self.req.release_while(u32::MAX, |_, x| {
            let is_consumed = owner_in(owners, x) == CONSUMED;
            *consumed -= u32::from(is_consumed);
            is_consumed
        });
    }

    /// The same, and those whose messages are one-way and have their replies, at most so many. Returns how many of
    /// these calls did not run.
    #[inline(always)]
    pub(super) fn release_done(&mut self, most: u32) -> u64 {
        let (owners, consumed) = (&self.owners, &mut self.consumed);
        let mut failures = 0;
        self.req.release_while(most, |req, x| match owner_in(owners, x) {
            ONE_WAY => {
                // A reply without payload came with its word, and a slot that was wiped has another.
                let reply = req.ring_reply(x);
                failures += u64::from(reply.is_some_and(|hdr| hdr != RepHdr::inline(Status::EXECUTED, 0)));
                reply.is_some()
            }
            CONSUMED => {
                *consumed -= 1;
                true
            }
            _ => false,
        });
        failures
    }

    // --- requests ---

    /// Publishes in the next ring slot, which is free.
    #[inline(always)]
    pub(super) fn push(&mut self, device: &Device, owner: u32, hdr: ReqHdr, words: &[u64]) {
        let x = self.req.submit_ring(hdr, words);
        self.set_owner(x, owner);
        device.notify(Fence::of_message(x));
    }

    /// Number, for its chunks, of the ring slot of position `x`.
    pub(super) fn slot_number(&self, x: u64) -> u32 {
        1 + self.index(x) as u32
    }

    /// Number, for its chunks, of ticket slot `ticket`.
    pub(super) fn ticket_slot_number(&self, ticket: u32) -> u32 {
        1 + self.owners.len() as u32 + ticket
    }

    /// The word of the reply that comes in a ticket slot.
    pub(super) fn ticket_seq(&self, count: u32) -> u32 {
        slot::seq(self.req.tag(), count, slot::COUNT_BITS)
    }

    /// The header of a call whose arguments, without buffers, go to a slot's chunk, whose result has room in the slot or
    /// its chunk, and whose key is found at once.
    #[inline(always)]
    pub(super) fn chunk_hdr<H: Handler>(&self, device: &Device, arguments: &Encoded<'_>) -> Option<ReqHdr> {
        let len = arguments.len();
        if const { is_inline::<H>() }
            && len > TWO_LINE_BYTES
            && len <= self.req.slots().req_chunk_len()
            && arguments.named().is_empty()
            && fits_chunk::<H>(|| self.req.slots().rep_chunk_len())
            && self.epoch.is(device.epoch.load(Ordering::Acquire))
        {
            return Some(ReqHdr::inline(self.keys.first_key::<H>()?, size_of::<Descriptor>()).in_chunk());
        }
        None
    }

    /// Copies the arguments of a message into the chunk of slot number `slot`, if they are to be there.
    pub(super) fn fill_chunk(&self, slot: u32, in_chunk: bool, arguments: &Encoded<'_>) {
        if in_chunk && let Some(pieces) = arguments.pieces() {
            // The length was checked against the chunk when the message was prepared.
            let _ = self.req.slots().write_request_chunk(slot, &pieces);
        }
    }

    // --- replies ---

    /// Copies a reply out of its slot, whatever its header claims.
    pub(super) fn read(
        &self,
        device: &Device,
        from: Slot<'_, Coherent>,
        slot: u32,
        hdr: RepHdr,
        block: Option<Block>,
    ) -> ReplyCopy {
        let mut words = [0; INLINE_WORDS];
        if !hdr.is_empty() {
            from.read_reply(&mut words);
        }
        let at = Descriptor { off: words[0], len: words[1] };
        let mut long = Vec::new();
        let fits = |off: u64, limit: u64| hdr.len() == size_of::<Descriptor>() && at.off == off && at.len <= limit;
        let is_read = match hdr.place() {
            slot::Place::Chunk if fits(0, self.req.slots().rep_chunk_len() as u64) => {
                long.resize(at.len as usize, 0);
                self.req.slots().read_reply_chunk(slot, &mut long).is_some()
            }
            slot::Place::Buffer => match block {
                Some(block) if fits(block.off, block.bytes) => {
                    long.resize(at.len as usize, 0);
                    let copied = device.memory.read_message(&block, &mut long);
                    copied.is_ok() && !device.heap_is_released()
                }
                _ => false,
            },
            _ => false,
        };
        if !is_read {
            long.clear();
        }
        ReplyCopy { hdr, words, long, place: None }
    }

    /// [`Self::read`] for the call in the hot slot.
    pub(super) fn read_hot(&self, device: &Device, hdr: RepHdr, uses: &Uses) -> ReplyCopy {
        self.read(device, self.req.slots().hot(), 0, hdr, uses.reply_block())
    }

    /// [`Self::read`] for the call at `x`.
    pub(super) fn read_ring(&self, device: &Device, x: u64, hdr: RepHdr, block: Option<Block>) -> ReplyCopy {
        self.read(device, self.req.slots().ring(x as u32), self.slot_number(x), hdr, block)
    }
}

/// The owner among `owners` of the ring slot of position `x`.
#[inline(always)]
fn owner_in(owners: &[u32], x: u64) -> u32 {
    owners.get(x as usize & (owners.len() - 1)).copied().unwrap_or(PLAIN)
}

/// The slots that a [`QueueEnd`] goes back to.
#[must_use]
pub(super) struct Frozen {
    live: Option<Queue<Shared>>,
}
