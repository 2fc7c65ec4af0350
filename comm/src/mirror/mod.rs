//! Two copies of a window, and what carries between them (docs/model.md, "Mirrors").
//!
//! ```text
//!  host                                                     device
//!  Requester ── H, its copy ── Side ══ Mirror ══ Side ── D, its copy ── Responder
//! ```
//!
//! Host and device each run the mapped protocol, unchanged, on memory of their own. A [`Side`] finds what is
//! published in its copy for the other one, and publishes there what the other one found: at H it is the responder,
//! at D the requester, in host queues the reverse. Rules 1 to 17 hold at each copy, and words are carried as they are,
//! so neither end knows of it. A slot at D is free again only when its reply is in H, so nothing waits for room.
//!
//! Crossing are offers, states, words of the host, requests, CANCEL and replies; log, trace and task lines when the host
//! [looks](Looks) at them. Each copy has wait words of its own: a side sleeps and notifies there as the other owner of a
//! window does, with a [`NotifyOwner`]. The heap is reached as its link says.

#![cfg_attr(hamr_bare, expect(dead_code, reason = "an image drives; what hosts use of a side is not in it"))]

mod asked;
mod asleep;
mod device_copy;
mod driver;
mod host_copy;
mod parts;
mod port;
mod port_copy;
mod queue;
mod shadow;
#[cfg_attr(hamr_bare, path = "bare.rs")]
mod threads;

pub use asked::MOST_LOOK;
pub use asleep::NotifyOwner;
pub use device_copy::DeviceCopy;
pub use driver::Driver;
pub use host_copy::HostCopy;
pub use port::HostPort;
pub use shadow::{DrivenMemory, Promises};
pub use threads::SharedLooks;
#[cfg(not(hamr_bare))]
pub use threads::{DrivenCopy, Looks, Turns};

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use hamr_shared_abi::slot::{INLINE_WORDS, SECOND_WORDS};

/// Why a side reaches its copy no more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost(pub String);

impl Lost {
    /// With this text, which an image has nobody to show to.
    fn of(text: core::fmt::Arguments<'_>) -> Self {
        Self(if cfg!(hamr_bare) { String::new() } else { alloc::fmt::format(text) })
    }
}

/// One of the two sides of a [`Mirror`].
pub trait Side {
    /// Moves the next message for the other side into `message`. False: there is none now.
    ///
    /// # Errors
    /// The copy is not reached any more, or not as a window of this protocol.
    fn take(&mut self, message: &mut Message) -> Result<bool, Lost>;

    /// Publishes a message of the other side. One that nothing waits for is dropped.
    ///
    /// # Errors
    /// As [`Self::take`]; and the message is none that this side's layout has room for.
    fn put(&mut self, message: &Message) -> Result<(), Lost>;

    /// May a message be put? False while what was put before is on its way still.
    fn has_room(&self) -> bool {
        true
    }

    /// Hands over what was put since, and notifies an owner of the copy that sleeps (rule 22).
    ///
    /// # Errors
    /// As [`Self::take`].
    fn flush(&mut self) -> Result<(), Lost>;

    /// From now on the owner of the copy notifies of what it publishes (rule 23); the caller looks once more, and then
    /// may sleep. False: it does not notify.
    fn prepare_wait(&mut self) -> bool;

    /// The caller looks again by itself.
    fn cancel_wait(&mut self);
}

/// A side at the device.
pub trait DeviceSide: Side {
    /// Do its operations wait for what is not in this program?
    const BLOCKS: bool = false;

    /// The device was started again; whatever it was in is over.
    fn renew(&mut self);

    /// The next look is one at everything, also where it would not be due.
    fn look_now(&mut self) {}

    /// How long nothing is to be looked at, of a side that asks its device.
    fn pause(&self) -> Option<Duration> {
        None
    }
}

/// What crosses. One is used again and again, so that its memory is.
#[derive(Default)]
pub struct Message {
    /// Its kind, and what has a fixed size.
    pub body: Body,
    /// Of a [`Half`] of a hot slot whose header names it, the second line; of others zero.
    pub second: [u64; SECOND_WORDS],
    /// The chunk of a [`Half`]; what an offer or a state has besides its words.
    pub bytes: Vec<u8>,
}

/// A message without its bytes.
#[derive(Clone, Copy, Default)]
pub enum Body {
    /// Nothing.
    #[default]
    None,
    /// To the device: a new epoch. The bytes are the window's front, and sections that the host writes.
    Offer,
    /// To the device: a word of the host at this offset.
    HostWord(u64, u32),
    /// To the device: the host looks at so many bytes from this offset.
    Look(u64, u32),
    /// To the host: the bytes from this offset that it looks at.
    Seen(u64),
    /// To the device: it is to be started again, after its end.
    Renew,
    /// To the host: it was. Or it was not, and the bytes say why.
    Renewed(bool),
    /// To the host: the device has ended. The bytes say how.
    Ended,
    /// To the host: EPOCH_ACK and DEVICE_STATE. The bytes are the front, and sections that the device has written.
    State(u32, u32),
    /// One half of a slot.
    Half(Half),
}

/// A published request or reply.
#[derive(Clone, Copy)]
pub struct Half {
    /// Number of the queue pair.
    pub queue: u16,
    /// It is a host queue (abi §12).
    pub of_host: bool,
    /// A request again, for the CANCEL in its header: nothing else of it is new.
    pub header_alone: bool,
    /// Number of the slot (abi §4.5).
    pub slot: u32,
    /// Header.
    pub hdr: u32,
    /// Published word.
    pub word: u32,
    /// Payload in the slot.
    pub payload: [u64; INLINE_WORDS],
}

// An image for x86_64 moves no more than this but by a string instruction, which an emulator runs byte by byte.
const _: () = assert!(size_of::<Body>() == 64);

/// Steps in a row, after which a caller looks at its own limits.
const ROUNDS: u32 = 64;

/// Carries between the host's side and the device's.
pub struct Mirror<H, D> {
    host: H,
    device: D,
    message: Message,
}

impl<H: Side, D: Side> Mirror<H, D> {
    /// Between these two.
    pub fn new(host: H, device: D) -> Self {
        Self { host, device, message: Message::default() }
    }

    /// Carries what is published, each way. True: something was, or there is more.
    ///
    /// # Errors
    /// Of either side.
    pub fn step(&mut self) -> Result<bool, Lost> {
        let there = self.to_device()?;
        Ok(self.to_host()? || there)
    }

    /// Carries what the device has published, and looks at nothing of the host.
    ///
    /// # Errors
    /// Of either side.
    pub fn to_host(&mut self) -> Result<bool, Lost> {
        let mut back = 0;
        while back < ROUNDS && self.host.has_room() && self.device.take(&mut self.message)? {
            self.host.put(&self.message)?;
            back += 1;
        }
        self.host.flush()?;
        Ok(back != 0)
    }

    /// Carries what the host has published, and looks at nothing of the device.
    ///
    /// # Errors
    /// Of either side.
    pub fn to_device(&mut self) -> Result<bool, Lost> {
        let mut there = 0;
        while there < ROUNDS && self.device.has_room() && self.host.take(&mut self.message)? {
            self.device.put(&self.message)?;
            there += 1;
        }
        self.device.flush()?;
        Ok(there != 0)
    }

    /// [`Side::prepare_wait`] of both. False: one of them is to be looked at from time to time.
    pub fn prepare_wait(&mut self) -> bool {
        let (host, device) = (self.host.prepare_wait(), self.device.prepare_wait());
        host && device
    }

    /// [`Side::cancel_wait`] of both.
    pub fn cancel_wait(&mut self) {
        self.host.cancel_wait();
        self.device.cancel_wait();
    }

    /// The sides.
    pub fn sides(&mut self) -> (&mut H, &mut D) {
        (&mut self.host, &mut self.device)
    }
}
