//! The submitter of one stream: the hot path, and where the other calls of the stream go.
//!
//! Nothing here locks or allocates on the path of a short call. A submitter outlives its
//! [`super::Stream`]: it stays with the queue pair, because the pair's counts go on, and the next
//! stream on it takes both over.

use super::CallOptions;
use super::arguments::{Encoded, Short};
use super::completion::{Calls, Progress};
use super::encode::{Limits, Message, prepare};
use super::epoch::{EpochEnd, SubmitterEpoch};
use super::epoch_end;
use super::hot::HotCall;
use super::moved::MovedResults;
use super::put_data::PutData;
use super::queue_end::QueueEnd;
use super::reply::{Answer, Outcome, ended_error};
use super::ring::{self, Sent};
use super::shape::{fits_chunk, fits_hot, needs_two_lines, plain_hdr, short_result, used_words};
use super::table::{Name, PendingTable};
use super::tickets::Tickets;
use super::uses::InlineUses;
use super::wait::{Stop, Wait, spins};
use crate::device::Device;
use crate::{CallError, SubmitError};
use hamr_comm::Handler;
use hamr_comm::abi::ids::HandlerKey;
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Queue, Shared};
use hamr_comm::am::{SlotAccess, Slots};
use hamr_comm::migrate::Migratable;
use std::sync::atomic::Ordering;
use std::time::Instant;

pub struct Submitter {
    pub(super) calls: Calls,
    pub(super) hot: HotCall,
}

/// The calls of a stream at one moment.
#[derive(Clone, Copy)]
pub(super) struct CallsSoFar {
    /// Those of the ring before this position.
    before: u64,
    /// The word of the one in the hot slot.
    hot: Option<u32>,
}

impl Submitter {
    pub(crate) fn new(number: u32, queue: Queue<Shared>, device: &Device) -> Self {
        let epoch = device.epoch.load(Ordering::Acquire);
        device.set_submitter_epoch(number, epoch);
        let mut end = QueueEnd::new(number, queue, epoch, device.running());
        // After the epoch: where this is of a later one, nothing is sent in this one.
        end.use_accepted(device);
        let calls = Calls {
            tickets: Tickets::new(end.req.slots().ticket_slots()),
            end,
            table: PendingTable::new(device.options.max_outstanding),
            // Room for a ring's calls.
            moved: MovedResults::with_capacity(device.options.max_outstanding.min(1024)),
            one_way_failures: 0,
            chained: false,
            task_stack: 0,
        };
        Self { calls, hot: HotCall::new() }
    }

    /// The epoch it submits in.
    pub(super) fn epoch(&self) -> SubmitterEpoch {
        self.calls.end.epoch()
    }

    /// Is anything in flight that the device must still poll for?
    pub(crate) fn has_work(&self) -> bool {
        self.calls.table.in_use() != 0 || self.calls.end.req.hot_is_busy() || self.calls.end.req.oldest().is_some()
    }

    /// One-way calls that ended in a fault or were refused.
    pub(crate) fn one_way_failures(&self) -> u64 {
        self.calls.one_way_failures
    }

    /// Calls in flight or unread.
    pub(crate) fn outstanding(&self) -> usize {
        self.calls.table.in_use()
    }

    /// Takes in every reply that is there, without waiting.
    pub(crate) fn poll(&mut self, device: &Device) {
        self.follow_epoch(device);
        self.poll_hot(device);
        self.calls.empty_ring(device);
        self.calls.poll_ticket_slots(device);
    }

    /// The calls that were submitted before now.
    pub(super) fn calls_so_far(&self) -> CallsSoFar {
        let req = &self.calls.end.req;
        CallsSoFar { before: req.next_position(), hot: req.hot_is_busy().then(|| req.hot_seq()) }
    }

    /// Have all of these calls run?
    pub(super) fn have_run(&mut self, device: &Device, calls: CallsSoFar) -> bool {
        let hot_is_done = calls.hot.is_none_or(|seq| self.hot_is_done(seq));
        // Behind that look: a reply that it found to an abandoned call ends the call's uses here.
        self.poll_hot(device);
        self.calls.empty_ring(device);
        self.calls.poll_ticket_slots(device);
        hot_is_done && self.calls.have_run(calls.before)
    }

    /// See [`epoch_end::follow`].
    #[inline]
    pub(super) fn follow_epoch(&mut self, device: &Device) {
        epoch_end::follow(&mut self.calls, &mut self.hot, device);
    }

    // --- the hot slot ---

    /// The word that the hot slot's current (or next) request carries.
    #[inline(always)]
    pub(super) fn hot_seq(&self) -> u32 {
        self.calls.end.req.hot_seq()
    }

    /// May the hot slot be used now?
    pub(super) fn hot_is_open(&mut self) -> bool {
        self.calls.end.req.hot_is_open()
    }

    /// Opens the hot slot to later calls, if the earlier ones have their replies by now.
    #[cold]
    #[inline(never)]
    pub(super) fn reopen_hot(&mut self, device: &Device) {
        self.poll_hot(device);
        self.hot_is_open();
    }

    /// Publishes a short call in the hot slot, when that is known to be open to it, and returns the
    /// word of its request; [`Self::finish`] ends its uses.
    #[inline(always)]
    pub(super) fn start<H: Handler>(&mut self, device: &Device, call: &Short) -> Option<u32> {
        let (hdr, uses) = self.open_hot::<H>(device, call, None)?;
        Some(self.start_open::<H>(device, hdr, uses, call))
    }

    /// [`Self::start`] where the slot is not known to be open, or the key is not found at once.
    pub(super) fn start_otherwise<H: Handler>(&mut self, device: &Device, call: &Short) -> Option<u32> {
        if !const { fits_hot::<H>() } || !self.hot_is_open() {
            return None;
        }
        let (hdr, uses) = self.open_hot_by::<H>(device, call, self.calls.end.keys.key::<H>()?, None)?;
        Some(self.start_open::<H>(device, hdr, uses, call))
    }

    #[inline(always)]
    fn start_open<H: Handler>(&mut self, device: &Device, hdr: ReqHdr, uses: InlineUses<'_>, call: &Short) -> u32 {
        if H::Args::HAS_BUFFERS {
            uses.keep_in::<H>(&device.memory, &mut self.hot.uses, self.calls.end.number());
        }
        let seq = self.hot_seq();
        self.calls.end.req.submit_hot(hdr, used_words::<H>(&call.words));
        seq
    }

    /// The header of a call that fits the hot slot and the buffers that it uses from here on, when
    /// the slot is open to it.
    #[inline(always)]
    pub(super) fn open_hot<'d, H: Handler>(
        &mut self,
        device: &'d Device,
        call: &Short,
        put: Option<PutData<'_>>,
    ) -> Option<(ReqHdr, InlineUses<'d>)> {
        if const { fits_hot::<H>() }
            && self.calls.end.req.hot_is_known_open()
            && let Some(key) = self.calls.end.keys.first_key::<H>()
        {
            return self.open_hot_by::<H>(device, call, key, put);
        }
        None
    }

    #[inline(always)]
    fn open_hot_by<'d, H: Handler>(
        &mut self,
        device: &'d Device,
        call: &Short,
        key: HandlerKey,
        put: Option<PutData<'_>>,
    ) -> Option<(ReqHdr, InlineUses<'d>)> {
        let slots = self.calls.end.req.slots();
        if (const { needs_two_lines::<H>() } || put.is_some()) && !slots.has_two_lines() {
            return None;
        }
        if !fits_chunk::<H>(|| slots.rep_chunk_len()) {
            return None;
        }
        if self.calls.end.epoch().is(device.epoch.load(Ordering::Acquire))
            && let Some(uses) = InlineUses::of::<H>(&device.memory, self.calls.end.number(), call, put)
        {
            let hdr = plain_hdr::<H>(key);
            return Some((if put.is_some() { hdr.with(ReqHdr::PUT) } else { hdr }, uses));
        }
        None
    }

    /// Publishes any call in the hot slot, which is open.
    pub(super) fn start_slow<H: Handler>(
        &mut self,
        device: &Device,
        arguments: &Encoded<'_>,
        options: &CallOptions,
    ) -> Result<(), SubmitError> {
        let two_lines = self.calls.end.req.slots().has_two_lines();
        let limits = Limits { two_lines, ..ring::limits(&self.calls) };
        let mut message = Message::of(limits.stream);
        prepare::<H>(&mut message, arguments, &self.calls.end, limits, device, options)?;
        self.calls.end.fill_chunk(0, message.in_chunk, arguments);
        self.calls.end.req.submit_hot(message.hdr, message.used());
        self.hot.uses = message.uses;
        Ok(())
    }

    /// Waits for the call in the hot slot.
    #[inline(always)]
    pub(super) fn finish<H: Handler>(&mut self, device: &Device) -> Outcome<H> {
        let mut polls = 0;
        loop {
            if let Some(hdr) = self.calls.end.req.hot_reply() {
                let outcome = self.take_hot::<H>(device, hdr);
                if H::Args::HAS_BUFFERS {
                    self.hot.uses.release(&device.memory);
                }
                return outcome;
            }
            // Rule 21: the first step of waiting notifies. Not before the first poll, because a
            // call whose reply is there should not pay for it.
            if polls == 0 && device.wait_queue.device_is_waiting() {
                break;
            }
            polls += 1;
            if polls >= spins() {
                break;
            }
            // Not a tight loop: its polls run ahead of each other and fetch the slot back before
            // the device has written its reply, which doubles a round trip between neighbouring
            // cores of some processors (docs/performance.md).
            std::hint::spin_loop();
        }
        self.wait_hot::<H>(device, None)
    }

    /// Waits for a call that was started earlier, and whose device may have begun another epoch
    /// since.
    #[inline(always)]
    pub(super) fn finish_started<H: Handler>(&mut self, device: &Device, seq: u32) -> Outcome<H> {
        if self.hot_seq() != seq || !self.calls.end.req.hot_is_busy() {
            return self.hot_after_end::<H>(device, seq);
        }
        self.finish::<H>(device)
    }

    /// The words of the short result of a call that was started ([`Answer::Short`]), when it comes within about
    /// a microsecond.
    #[inline(always)]
    pub(super) fn take_started<H: Handler>(&mut self, device: &Device, seq: u32) -> Option<[u64; INLINE_WORDS]> {
        let len = const { short_result::<H>() }?;
        if self.hot_seq() != seq || !self.calls.end.req.hot_is_busy() {
            return None;
        }
        let mut polls = 0;
        let hdr = loop {
            if let Some(hdr) = self.calls.end.req.hot_reply() {
                break hdr;
            }
            polls += 1;
            // As in `finish`.
            if polls == 1 && device.wait_queue.device_is_waiting() || polls >= spins() {
                return None;
            }
            std::hint::spin_loop();
        };
        if hdr != RepHdr::inline(Status::OK, len) {
            return None;
        }
        let mut words = [0u64; INLINE_WORDS];
        self.calls.end.req.slots().hot().read_reply(words.split_at_mut(len.div_ceil(8)).0);
        // A result without payload came with the word, and a slot that was wiped has another.
        if len != 0 && self.calls.end.is_wiped(device) {
            return None;
        }
        self.calls.end.req.release_hot();
        if H::Args::HAS_BUFFERS {
            self.hot.uses.release(&device.memory);
        }
        Some(words)
    }

    /// [`Self::finish_started`], until a moment of the caller's.
    #[cold]
    pub(super) fn finish_started_until<H: Handler>(&mut self, device: &Device, seq: u32, until: Instant) -> Outcome<H> {
        if self.hot_seq() != seq || !self.calls.end.req.hot_is_busy() {
            return self.hot_after_end::<H>(device, seq);
        }
        self.wait_hot::<H>(device, Some(until))
    }

    /// Has the call with the word `seq` in the hot slot an outcome, read or not? One that left the
    /// slot has been read, or ended with its epoch.
    pub(super) fn hot_is_done(&self, seq: u32) -> bool {
        let req = &self.calls.end.req;
        req.hot_seq() != seq || !req.hot_is_busy() || req.hot_reply().is_some()
    }

    /// The outcome of the call with the word `seq` in the hot slot, which has left the fast path,
    /// when it has one.
    pub(super) fn try_finish_hot<H: Handler>(&mut self, device: &Device, seq: u32) -> Option<Outcome<H>> {
        if self.hot_seq() != seq || !self.calls.end.req.hot_is_busy() {
            return Some(self.hot_after_end::<H>(device, seq));
        }
        let hdr = self.calls.end.req.hot_reply()?;
        Some(self.take_late::<H>(device, hdr))
    }

    /// The outcome of the call with the word `seq` in the hot slot, whose epoch is over.
    #[cold]
    #[inline(never)]
    fn hot_after_end<H: Handler>(&mut self, device: &Device, seq: u32) -> Outcome<H> {
        self.follow_epoch(device);
        match self.hot.take_unread(seq) {
            Some(reply) => Ok(Answer::Reply(reply)),
            None => Err(ended_error(device, device.site::<H>("waiting for the reply"), EpochEnd::of(device))),
        }
    }

    /// [`Self::take_hot`] of a call that may have left [`call_hot`](super::sync::call_hot), with a
    /// put.
    fn take_late<H: Handler>(&mut self, device: &Device, hdr: RepHdr) -> Outcome<H> {
        let outcome = self.take_hot::<H>(device, hdr);
        self.hot.uses.release(&device.memory);
        outcome
    }

    /// Reads the hot slot's reply and releases the slot. The uses are left to the caller, which
    /// knows whether there are any.
    #[inline(always)]
    fn take_hot<H: Handler>(&mut self, device: &Device, hdr: RepHdr) -> Outcome<H> {
        if let Some(len) = const { short_result::<H>() }
            && hdr == RepHdr::inline(Status::OK, len)
        {
            let mut words = [0u64; INLINE_WORDS];
            self.calls.end.req.slots().hot().read_reply(words.split_at_mut(len.div_ceil(8)).0);
            // A result without payload came with the word, and a slot that was wiped has another.
            if len != 0 && self.calls.end.is_wiped(device) {
                return self.hot_after_end::<H>(device, self.hot_seq());
            }
            self.calls.end.req.release_hot();
            return Ok(Answer::Short(words));
        }
        self.take_hot_slow::<H>(device, hdr)
    }

    #[cold]
    fn take_hot_slow<H: Handler>(&mut self, device: &Device, hdr: RepHdr) -> Outcome<H> {
        let reply = self.calls.end.read_hot(device, hdr, &self.hot.uses);
        if self.calls.end.is_wiped(device) {
            return self.hot_after_end::<H>(device, self.hot_seq());
        }
        self.hot.release(&mut self.calls.end, &device.memory);
        Ok(Answer::Reply(reply))
    }

    /// Waits for the hot slot beyond the first spin. After the deadline the call is abandoned.
    #[cold]
    pub(super) fn wait_hot<H: Handler>(&mut self, device: &Device, until: Option<Instant>) -> Outcome<H> {
        let mut wait = Wait::new(device, self.epoch(), until);
        loop {
            if let Some(hdr) = self.calls.end.req.hot_reply() {
                return self.take_late::<H>(device, hdr);
            }
            match wait.step() {
                Ok(()) => {}
                // A thread that is woken late finds the reply after the deadline.
                Err(Stop::Deadline) if self.calls.end.req.hot_reply().is_some() => {}
                Err(Stop::Deadline) => {
                    self.hot.is_abandoned = true;
                    return Err(CallError::Deadline(device.site::<H>("waiting for the reply")));
                }
                // Another stream may have begun the next epoch before this one polled again.
                Err(Stop::EpochEnded(_)) => return self.hot_after_end::<H>(device, self.hot_seq()),
            }
        }
    }

    /// The caller gives up the call with the word `seq` in the hot slot.
    pub(super) fn abandon_hot(&mut self, device: &Device, seq: u32) {
        if self.hot_seq() != seq || !self.calls.end.req.hot_is_busy() {
            // Its device began another epoch, and the slot is free or another call's.
            self.hot.take_unread(seq);
            return;
        }
        self.hot.is_abandoned = true;
        self.poll_hot(device);
    }

    /// The stream is dropped: a call in the hot slot that is not abandoned by now was forgotten by
    /// its owner.
    pub(crate) fn detach_hot(&mut self) {
        self.hot.is_abandoned = self.calls.end.req.hot_is_busy();
    }

    /// An abandoned call may have been answered meanwhile.
    pub(super) fn poll_hot(&mut self, device: &Device) {
        if self.hot.is_abandoned && self.calls.end.req.hot_reply().is_some() {
            self.hot.release(&mut self.calls.end, &device.memory);
        }
    }

    // --- the ring ---

    /// See [`ring::offload`].
    #[inline(always)]
    pub(super) fn offload<H: Handler>(&mut self, device: &Device, call: &Short) -> Option<Name> {
        ring::offload::<H>(&mut self.calls, device, call)
    }

    /// See [`ring::offload_in_chunk`].
    #[inline(always)]
    pub(super) fn offload_in_chunk<H: Handler>(&mut self, device: &Device, arguments: &Encoded<'_>) -> Option<Name> {
        ring::offload_in_chunk::<H>(&mut self.calls, device, arguments)
    }

    /// See [`ring::send`].
    #[inline(always)]
    pub(super) fn send<H: Handler>(&mut self, device: &Device, call: &Short) -> bool {
        ring::send::<H>(&mut self.calls, device, call)
    }

    /// See [`ring::try_offload`].
    pub(super) fn try_offload<H: Handler>(
        &mut self,
        device: &Device,
        arguments: &Encoded<'_>,
        options: &CallOptions,
    ) -> Result<Option<Name>, SubmitError> {
        ring::try_offload::<H>(&mut self.calls, device, arguments, options)
    }

    /// See [`ring::try_send`].
    pub(super) fn try_send<H: Handler>(
        &mut self,
        device: &Device,
        arguments: &Encoded<'_>,
    ) -> Result<Option<()>, SubmitError> {
        let Some(sent) = ring::try_send::<H>(&mut self.calls, device, arguments)? else { return Ok(None) };
        if let Sent::WithEntry(entry) = sent {
            self.abandon(device, Name::of_entry(entry));
        }
        Ok(Some(()))
    }

    #[cold]
    pub(super) fn cannot_submit<H: Handler>(&mut self, device: &Device, stop: Stop) -> SubmitError {
        let site = device.site::<H>("submitting");
        match stop {
            Stop::Deadline => SubmitError::Deadline { site },
            Stop::EpochEnded(EpochEnd::Lost) => SubmitError::DeviceLost { site, why: device.loss_reason() },
            Stop::EpochEnded(EpochEnd::Reset) => {
                self.follow_epoch(device);
                SubmitError::DeviceLost { site, why: "the device was restarted meanwhile; submit again".into() }
            }
        }
    }

    // --- results ---

    /// See [`Calls::until`].
    pub(super) fn until(&mut self, name: Name) -> Option<Instant> {
        self.calls.until(name)
    }

    /// See [`Calls::set_until`].
    pub(super) fn set_until(&mut self, name: Name, until: Instant) -> Name {
        self.calls.set_until(name, until)
    }

    /// See [`Calls::place`].
    pub(super) fn place(&mut self, name: Name) -> Option<u32> {
        self.calls.place(name)
    }

    /// Its calls are those of bodies from now on, or not: a task waits for them.
    pub(super) fn set_chained(&mut self, chained: bool) {
        self.calls.chained = chained;
    }

    /// Its tasks need so many bytes of stack from now on. An error has the bytes of the image that runs, which
    /// are fewer.
    pub(super) fn set_task_stack(&mut self, device: &Device, bytes: u32) -> Result<(), u32> {
        self.follow_epoch(device);
        let has = self.calls.end.task_stack();
        if bytes > has {
            return Err(has);
        }
        self.calls.task_stack = bytes;
        if self.calls.tickets.is_empty() {
            // An earlier stream needed more, and had none in all of this epoch.
            self.calls.renew_tickets();
        }
        Ok(())
    }

    /// See [`PendingTable::set_limit`].
    pub(super) fn set_max_outstanding(&mut self, limit: usize) {
        self.calls.table.set_limit(limit);
    }

    /// Does a task wait for its calls, through a body?
    pub(super) fn is_chained(&self) -> bool {
        self.calls.chained
    }

    /// Has the call its outcome, also when that is the end of its epoch? Brings its reply in, when it is there.
    pub(super) fn try_complete(&mut self, device: &Device, name: Name) -> bool {
        match self.calls.try_complete(device, name) {
            Progress::NotYet => false,
            Progress::Completed => true,
            Progress::EpochEnded => {
                self.follow_epoch(device);
                true
            }
        }
    }

    /// See [`Calls::take_short`].
    #[inline(always)]
    pub(super) fn take_short<H: Handler>(&mut self, device: &Device, name: Name) -> Option<[u64; INLINE_WORDS]> {
        self.calls.take_short::<H>(device, name)
    }

    /// See [`Calls::take`].
    pub(super) fn take<H: Handler>(&mut self, device: &Device, name: Name) -> Outcome<H> {
        if let Some(outcome) = self.calls.take::<H>(device, name) {
            return outcome;
        }
        self.follow_epoch(device);
        let none = |site| match device.is_here() {
            true => Err(CallError::Corrupt(site, "no result".into())),
            // Of a stream that another thread used when the process was copied.
            false => Err(ended_error(device, site, EpochEnd::Lost)),
        };
        self.calls.take::<H>(device, name).unwrap_or_else(|| none(device.site::<H>("reading the reply")))
    }

    /// See [`Calls::abandon`].
    pub(super) fn abandon(&mut self, device: &Device, name: Name) {
        if self.calls.abandon(device, name) == Progress::EpochEnded {
            self.follow_epoch(device);
        }
    }

    /// See [`Calls::cancel`].
    pub(super) fn cancel(&mut self, device: &Device, name: Name) {
        self.calls.cancel(device, name);
    }
}
