//! What a handler needs to call the host: where each host handler is in the host's table, and room
//! for messages without a result, which the poller sends when the handler has returned or waits.
//!
//! A handler may be abandoned at any instruction, so it changes nothing else here than by one store,
//! behind all bytes that the store stands for.

#![cfg_attr(not(feature = "tasks"), expect(dead_code, reason = "only images with tasks call the host"))]

use crate::migrate::Encoder;
use crate::task::wait::{Callee, Message, Target};
use crate::why::NotSent;
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_shared_abi::ids::HandlerKey;

#[cfg(not(hamr_bare))]
pub(crate) mod threads;

#[cfg(all(feature = "tasks", not(hamr_bare)))]
pub use threads::as_another;
#[cfg(not(hamr_bare))]
pub(crate) use threads::here;

/// Handlers of the host that a device finds: the first of its table.
const MOST_HANDLERS: usize = 128;
/// Words of messages that wait to be sent.
const WORDS: usize = 512;
/// The longest arguments of a message without a result.
pub(crate) const LONGEST_SEND: usize = 512;

/// Words in front of the arguments of a message.
const HEAD: usize = 2;

/// Words alone, which only the thread uses that runs the device's handlers.
pub(crate) struct Outgoing {
    /// Handlers that the host has, and one; 0: it serves no calls.
    count: AtomicU32,
    /// Id and signature of each, in two words each.
    handlers: [[AtomicU32; 4]; MOST_HANDLERS],
    /// The longest arguments of a call.
    longest: AtomicU32,
    /// Messages one behind the other: the target and whether the handler is a task, key and length,
    /// the arguments.
    words: [AtomicU32; WORDS],
    /// Words in use.
    used: AtomicU32,
}

#[cfg(hamr_bare)]
static HERE: Outgoing = Outgoing::new();

/// That of the device whose handlers run.
#[cfg(hamr_bare)]
pub(crate) fn here<R>(f: impl FnOnce(&Outgoing) -> R) -> R {
    f(&HERE)
}

fn load(word: &AtomicU32) -> u32 {
    word.load(Ordering::Relaxed)
}

impl Outgoing {
    const fn new() -> Self {
        Self {
            count: AtomicU32::new(0),
            handlers: [const { [const { AtomicU32::new(0) }; 4] }; MOST_HANDLERS],
            longest: AtomicU32::new(0),
            words: [const { AtomicU32::new(0) }; WORDS],
            used: AtomicU32::new(0),
        }
    }

    /// No message, and no host that serves calls.
    pub(crate) fn close(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.used.store(0, Ordering::Relaxed);
    }

    /// The host serves calls whose arguments are this long at most.
    pub(crate) fn open(&self, longest: u32) {
        self.longest.store(longest, Ordering::Relaxed);
        self.count.store(1, Ordering::Relaxed);
    }

    /// The next handler of the host's table: the words of its id and of its signature. False: no more
    /// are known.
    pub(crate) fn add(&self, handler: [u32; 4]) -> bool {
        let count = load(&self.count);
        let Some(known) = self.handlers.get(count as usize - 1) else { return false };
        known.iter().zip(handler).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        self.count.store(count + 1, Ordering::Relaxed);
        true
    }

    /// The key of a handler where it is called, and the longest arguments of a call there.
    #[inline(never)]
    pub(crate) fn key(&self, to: &Callee) -> Result<(HandlerKey, usize), NotSent> {
        let key = match to.target.rank() {
            None => self.host_key(to.id, to.signature),
            Some(rank) => crate::world::handler_key(rank, to),
        };
        Ok((key?, self.longest(to.target)))
    }

    fn host_key(&self, id: u64, signature: u64) -> Result<HandlerKey, NotSent> {
        let count = load(&self.count).checked_sub(1).ok_or(NotSent::NoHost)?;
        let pair = |low, high| u64::from(load(low)) | u64::from(load(high)) << 32;
        for (at, [id_low, id_high, low, high]) in self.handlers.iter().take(count as usize).enumerate() {
            if pair(id_low, id_high) == id {
                return if pair(low, high) == signature { Ok(HandlerKey(at as u16)) } else { Err(NotSent::OtherTypes) };
            }
        }
        Err(NotSent::NotThere)
    }

    /// The longest arguments and results of calls to this target.
    pub(crate) fn longest(&self, target: Target) -> usize {
        if let Some(longest) = crate::world::longest(target) {
            return longest;
        }
        load(&self.longest) as usize
    }

    /// Leaves a message of `wanted` bytes, which are the first of `bytes`, for the poller.
    fn leave(&self, to: &Callee, key: HandlerKey, bytes: &[u8; LONGEST_SEND], wanted: usize) -> Result<(), NotSent> {
        let begin = load(&self.used) as usize;
        let end = begin + HEAD + wanted.div_ceil(4);
        let room = self.words.get(begin..end).ok_or(NotSent::Full)?;
        let ([target, head], args) = room.split_first_chunk().ok_or(NotSent::Full)?;
        target.store(to.target.number() << 1 | u32::from(to.is_task), Ordering::Relaxed);
        head.store(u32::from(key.0) << 16 | wanted as u32, Ordering::Relaxed);
        let words = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
        args.iter().zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        // Release: an abandoned handler has not left half of a message.
        self.used.store(end as u32, Ordering::Release);
        Ok(())
    }

    /// Are there messages to send?
    pub(crate) fn has_messages(&self) -> bool {
        load(&self.used) != 0
    }

    /// The message at word `at`, its arguments in `bytes`, and where the next one is.
    #[inline(never)]
    pub(crate) fn message(&self, at: usize, bytes: &mut [u8; LONGEST_SEND]) -> Option<(Message, usize)> {
        let end = self.used.load(Ordering::Acquire) as usize;
        let ([target, key], words) = self.words.get(at..end)?.split_first_chunk()?;
        let (target, key) = (load(target), load(key));
        let len = key as u16;
        let args = words.iter().take(usize::from(len).div_ceil(4));
        bytes.as_chunks_mut().0.iter_mut().zip(args).for_each(|(to, word)| *to = load(word).to_le_bytes());
        let message = Message {
            target: Target::of_number(target >> 1),
            is_task: target & 1 != 0,
            key: HandlerKey((key >> 16) as u16),
            len,
        };
        Some((message, at + HEAD + usize::from(len).div_ceil(4)))
    }

    /// All messages were sent.
    pub(crate) fn sent(&self) {
        self.used.store(0, Ordering::Relaxed);
    }
}

/// Leaves a message for the poller, whose `key` is that of [`Outgoing::key`]. `encode` is the program's, so it runs while
/// nothing is borrowed.
#[inline(never)]
pub(crate) fn send(
    to: &Callee,
    key: Result<(HandlerKey, usize), NotSent>,
    encode: &dyn Fn(&mut Encoder<'_>),
) -> Result<(), NotSent> {
    let (key, longest) = key?;
    let mut bytes = [0; LONGEST_SEND];
    let mut out = Encoder::new(&mut bytes);
    encode(&mut out);
    let (wanted, max) = (out.needed(), LONGEST_SEND.min(longest));
    if wanted > max {
        return Err(NotSent::TooLong { wanted, max });
    }
    here(|outgoing| outgoing.leave(to, key, &bytes, wanted))
}
