//! The queue pairs of a device: which of them belong to streams.

use super::wait::measure_polls;
use super::{StreamInfo, StreamOptions, Submitter, User};
use crate::Error;
use crate::device::{Device, Fence};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::slot::seq_tag;
use hamr_comm::am::{SlotAccess, Slots};
use std::any::Any;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// Index 0 is the control stream's, which is not given to streams.
pub(crate) struct QueuePairs {
    pairs: Mutex<Pairs>,
    /// So many for the streams of the program, of bodies that the device calls, and that threads beyond share.
    limits: [u32; 3],
    /// The last: what a `SharedStream` is, which has these.
    pub(super) beyond: Mutex<Option<Weak<dyn Any + Send + Sync>>>,
}

struct Pairs {
    slots: Vec<QueueSlot>,
    /// How many of them the streams of each [`User`] have.
    used: [u32; 3],
}

/// What a queue pair is used for.
enum QueueSlot {
    /// Nothing yet.
    Fresh,
    /// A stream has it, with so many calls outstanding at most.
    InUse(User, usize),
    /// No stream has it, but its counts go on, and calls without a waiter may be in flight.
    Idle(Box<Submitter>),
}

impl QueuePairs {
    /// The queue pairs of a device with so many of them for streams of the program, and of bodies.
    pub(crate) fn new(streams: u32, bodies: u32) -> Self {
        measure_polls();
        // Where there are no bodies, the plan has one more.
        let slots = (0..=streams + bodies.max(1)).map(|_| QueueSlot::Fresh).collect();
        // Bodies keep one. Two: a stream that its last thread has just left is not closed at once.
        let beyond = if bodies == 0 { 1 } else { bodies.saturating_sub(1).min(2) };
        let limits = [streams, bodies, beyond];
        let pairs = Mutex::new(Pairs { slots, used: [0; 3] });
        Self { pairs, limits, beyond: Mutex::default() }
    }

    fn pairs(&self) -> MutexGuard<'_, Pairs> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins another epoch of a lost device, for a stream that is opened for itself. One that is opened for a call
    /// leaves that to the call, which has a deadline.
    pub(super) fn revive(device: &Device) -> Result<(), Error> {
        if device.is_lost() && !device.restart() {
            let why = device.loss_reason();
            return Err(Error::Lost { device: device.name.clone(), stage: "opening a stream", why });
        }
        Ok(())
    }

    /// Has a stream of this user a queue pair, or gives it back right now?
    pub(super) fn has(&self, user: User) -> bool {
        self.pairs().used[user as usize] != 0
    }

    /// Takes a queue pair that no stream has. Waits for nothing.
    pub(super) fn take(
        &self,
        device: &Device,
        user: User,
        options: &StreamOptions,
    ) -> Result<(u32, Box<Submitter>), Error> {
        device.check_open("opening a stream")?;
        let Pairs { slots, used } = &mut *self.pairs();
        let (limit, used) = (self.limits[user as usize], &mut used[user as usize]);
        let room = limit.saturating_sub(*used) as usize;
        let free = choose(user, room, slots.iter_mut().skip(1).map(|slot| slot.is_quiet(device)));
        let slot = free.and_then(|index| Some((index + 1, slots.get_mut(index + 1)?)));
        let Some((index, slot)) = slot else {
            let limit = self.limits[if user == User::Body { User::Body } else { User::Program } as usize];
            return Err(Error::TooManyStreams { device: device.name.clone(), limit });
        };
        let max_outstanding = options.max_outstanding.unwrap_or(device.options.max_outstanding);
        let mut submitter = match std::mem::replace(slot, QueueSlot::InUse(user, max_outstanding)) {
            QueueSlot::Idle(submitter) => submitter,
            QueueSlot::Fresh | QueueSlot::InUse(..) => match fresh_submitter(device, index as u32) {
                Ok(submitter) => Box::new(submitter),
                Err(e) => {
                    *slot = QueueSlot::Fresh;
                    return Err(e);
                }
            },
        };
        submitter.set_chained(user == User::Body);
        let task_stack = options.task_stack.unwrap_or(0);
        if let Err(has) = submitter.set_task_stack(device, task_stack) {
            *slot = QueueSlot::Idle(submitter);
            let expected = match has {
                0 => format!("an image with tasks; that of {} has none", device.name),
                _ => format!("at most {has} bytes, those of the image of {} (`image!(task_stack = …)`)", device.name),
            };
            let got = task_stack.to_string();
            return Err(Error::InvalidConfig { option: "StreamOptions::task_stack", expected, got });
        }
        submitter.set_max_outstanding(max_outstanding);
        *used += 1;
        device.open_queue(index as u32);
        Ok((index as u32, submitter))
    }

    /// Returns the queue pair of a stream that is dropped. The submitter stays with it: the counts
    /// go on, and calls in flight still use buffers.
    pub(super) fn detach(&self, device: &Device, index: u32, submitter: Option<Box<Submitter>>) {
        // In a copy of the process the lock may be taken for good, and the counts go on elsewhere.
        let Some(mut submitter) = submitter.filter(|_| device.is_here()) else { return };
        submitter.detach_hot();
        submitter.poll(device);
        let has_work = submitter.has_work();
        let mut pairs = self.pairs();
        let Pairs { slots, used } = &mut *pairs;
        let Some(slot) = slots.get_mut(index as usize) else { return };
        let QueueSlot::InUse(user, _) = std::mem::replace(slot, QueueSlot::Idle(submitter)) else { return };
        used[user as usize] -= 1;
        // A body's pair stays open, since the next body has it at once, as a rule; not those of many at a time.
        let stays = user == User::Body && (used[user as usize] != 0 || device.open_queues() == index + 1);
        if !stays {
            show_open(device, slots);
        }
        drop(pairs);
        if has_work {
            // No thread waits for these calls.
            device.notify(Fence::Full);
        }
    }
}

impl QueuePairs {
    /// Polls those that no stream has, and shows the device which it must poll.
    pub(super) fn poll(&self, device: &Device) {
        if !device.is_here() {
            return;
        }
        let Pairs { slots, .. } = &mut *self.pairs();
        for slot in slots.iter_mut() {
            if let QueueSlot::Idle(submitter) = slot {
                submitter.poll(device);
            }
        }
        show_open(device, slots);
    }

    /// Those that streams have.
    pub(crate) fn streams(&self, device: &Device) -> Vec<StreamInfo> {
        if !device.is_here() {
            return Vec::new();
        }
        let of = |(index, slot): (u32, &QueueSlot)| match slot {
            QueueSlot::InUse(user, max_outstanding) => Some(StreamInfo {
                queue: index as u16,
                is_of_body: *user == User::Body,
                max_outstanding: *max_outstanding,
                unanswered: unanswered(device, index),
            }),
            QueueSlot::Fresh | QueueSlot::Idle(_) => None,
        };
        (0..).zip(self.pairs().slots.iter()).filter_map(of).collect()
    }
}

/// Requests of this epoch without a reply.
fn unanswered(device: &Device, index: u32) -> u32 {
    let Some(queue) = device.queue_in(device.link.window(), index) else { return 0 };
    let tag = Epoch(device.epoch.load(Ordering::Acquire)).tag();
    let slots = (0..queue.ring_len()).map(|i| queue.ring(i)).chain([queue.hot()]);
    slots.filter(|slot| slot.req_seq() != slot.rep_seq() && seq_tag(slot.req_seq()) == tag).count() as u32
}

/// The queue pair for a user who may take `room` more, of those that [`QueueSlot::is_quiet`] says this of.
///
/// A body waits for one call, in front of which nothing is, so it needs a quiet one. The program takes quiet ones as long
/// as those that it has left with calls in flight fit into its share beside them; then it takes these, and bodies find
/// all of theirs. Threads beyond do the same with the few that they may have of those for bodies, of which one is left.
fn choose(user: User, room: usize, mut pairs: impl Iterator<Item = Option<bool>>) -> Option<usize> {
    if room == 0 {
        return None;
    }
    if user == User::Body {
        return pairs.position(|is_quiet| is_quiet == Some(true));
    }
    let (mut quiet, mut busy, mut busy_count) = (None, None, 0);
    for (index, is_quiet) in pairs.enumerate() {
        match is_quiet {
            Some(true) => quiet = quiet.or(Some(index)),
            Some(false) => (busy, busy_count) = (busy.or(Some(index)), busy_count + 1),
            None => {}
        }
    }
    if busy_count < room { quiet.or(busy) } else { busy.or(quiet) }
}

impl QueueSlot {
    /// Is nothing in flight in it? `None`: a stream has it.
    fn is_quiet(&mut self, device: &Device) -> Option<bool> {
        match self {
            Self::InUse(..) => None,
            Self::Fresh => Some(true),
            Self::Idle(submitter) => {
                submitter.poll(device);
                Some(!submitter.has_work())
            }
        }
    }
}

/// Publishes which queue pairs the device must poll: up to the last that a stream has or that still
/// has calls in flight. None of those behind the last open one is such.
fn show_open(device: &Device, slots: &[QueueSlot]) {
    let open = slots.get(..device.open_queues() as usize).unwrap_or(slots);
    let last = open.iter().rposition(|slot| match slot {
        QueueSlot::Fresh => false,
        QueueSlot::InUse(..) => true,
        QueueSlot::Idle(submitter) => submitter.has_work(),
    });
    device.set_open_queues(last.map_or(1, |last| last as u32 + 1));
}

/// The first submitter of a queue pair.
pub(crate) fn fresh_submitter(device: &Device, index: u32) -> Result<Submitter, Error> {
    let none = || Error::too_short(&device.name, &device.layout, device.link.window().len());
    let queue = device.queue_in(device.link.window(), index).ok_or_else(none)?;
    Ok(Submitter::new(index, queue, device))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each pair of `choose`: in use, by whom; else whether it is quiet.
    type Pair = Result<bool, User>;

    fn take(pairs: &mut [Pair], user: User, limit: usize) -> Option<usize> {
        let taken = pairs.iter().filter(|pair| **pair == Err(user)).count();
        let index = choose(user, limit - taken, pairs.iter().map(|pair| pair.ok()))?;
        pairs[index] = Err(user);
        Some(index)
    }

    #[test]
    fn bodies_find_their_pairs_whatever_the_program_has_left_behind() {
        for (streams, bodies) in [(1, 2), (2, 1), (3, 4), (8, 17)] {
            // How many of its streams the program drops with calls in flight, and in how many rounds.
            for dropped in 0..=streams {
                for rounds in 0..3 {
                    let mut pairs: Vec<Pair> = vec![Ok(true); streams + bodies];
                    let mut own: Vec<_> =
                        (0..streams).map_while(|_| take(&mut pairs, User::Program, streams)).collect();
                    assert_eq!(own.len(), streams);
                    for _ in 0..rounds {
                        own.drain(..dropped).for_each(|index| pairs[index] = Ok(false));
                        own.extend((0..dropped).map_while(|_| take(&mut pairs, User::Program, streams)));
                        assert_eq!(own.len(), streams, "{streams} {dropped} {rounds}");
                    }
                    assert_eq!(take(&mut pairs, User::Program, streams), None, "one more than the limit");
                    let found = (0..=bodies).filter(|_| take(&mut pairs, User::Body, bodies).is_some()).count();
                    assert_eq!(found, bodies, "{streams} {dropped} {rounds}");
                }
            }
        }
    }

    /// As the device's pairs are shared out (`QueuePairs::new`).
    #[test]
    fn bodies_keep_a_pair_whatever_threads_beyond_have_left_behind() {
        for (streams, bodies) in [(1, 1), (1, 2), (2, 3), (8, 17)] {
            let beyond = QueuePairs::new(streams, bodies).limits[User::Beyond as usize] as usize;
            let (streams, bodies) = (streams as usize, bodies as usize);
            for rounds in 0..=bodies + 1 {
                let mut pairs: Vec<Pair> = vec![Ok(true); streams + bodies];
                (0..streams).for_each(|_| _ = take(&mut pairs, User::Program, streams));
                for _ in 0..rounds {
                    // The last thread ends with a call in flight, and another one comes.
                    if let Some(index) = take(&mut pairs, User::Beyond, beyond) {
                        pairs[index] = Ok(false);
                    }
                }
                assert_eq!(
                    take(&mut pairs, User::Beyond, beyond).is_some(),
                    beyond != 0,
                    "{streams} {bodies} {rounds}"
                );
                let found = (0..=bodies).filter(|_| take(&mut pairs, User::Body, bodies).is_some()).count();
                assert!(found >= bodies - beyond && found >= 1, "{found} of {bodies}, {streams} {rounds}");
            }
        }
    }

    #[test]
    fn a_stream_is_behind_no_others_calls_while_there_is_room() {
        let mut pairs: Vec<Pair> = vec![Ok(false), Ok(true), Ok(true)];
        assert_eq!(take(&mut pairs, User::Program, 2), Some(1), "a quiet one");
        assert_eq!(take(&mut pairs, User::Program, 2), Some(0), "the other is a body's");
        assert_eq!(take(&mut pairs, User::Body, 1), Some(2));
    }
}
