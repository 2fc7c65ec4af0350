//! Decodes a reply to a value, behind the use of the stream (see [`super::arguments`]).

use super::epoch::EpochEnd;
use super::shape::short_result;
use crate::device::Device;
use crate::{CallError, FaultReport, SubmitError};
use hamr_comm::abi::slot::{INLINE_BYTES, INLINE_WORDS, Place, RepHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::migrate::{Decoder, Migratable};
use hamr_comm::{ErrorOf, Handler, HandlerResult, ValueOf};

/// A reply, copied out of its slot.
pub(crate) struct ReplyCopy {
    pub(super) hdr: RepHdr,
    pub(super) words: [u64; INLINE_WORDS],
    /// The bytes that the slot's descriptor names; empty where it names none that the slot has.
    pub(super) long: Vec<u8>,
    /// Where the device keeps the task of the call, once it has said so.
    pub(super) place: Option<u32>,
}

/// A reply that no code of the program has seen.
pub(crate) enum Answer {
    /// A value in the words of a slot, with the bytes that all values of the type have
    /// ([`short_result`]).
    Short([u64; INLINE_WORDS]),
    /// Any other.
    Reply(ReplyCopy),
}

/// How a call of `H` ended, not decoded.
pub(crate) type Outcome<H> = Result<Answer, CallError<ErrorOf<H>>>;

/// Is it a value, as far as it says itself?
pub(crate) fn is_value<E>(outcome: &Result<Answer, CallError<E>>) -> bool {
    match outcome {
        Ok(Answer::Short(_)) => true,
        Ok(Answer::Reply(reply)) => {
            reply.broken().is_none() && !reply.hdr.has(RepHdr::FAULT) && reply.hdr.status() == Status::OK
        }
        Err(_) => false,
    }
}

/// Was the call's device lost?
pub(super) fn is_lost<E>(device: &Device, outcome: &Result<Answer, CallError<E>>) -> bool {
    match outcome {
        // As `decode` has it.
        Ok(Answer::Reply(reply)) if reply.broken().is_some() => device.is_unreached(reply.hdr.place()),
        Ok(Answer::Reply(reply)) => {
            !reply.hdr.has(RepHdr::FAULT) && reply.hdr.status() == Status::CANCELLED && device.is_lost()
        }
        Ok(Answer::Short(_)) => false,
        Err(why) => matches!(why, CallError::DeviceLost(..)),
    }
}

/// What the caller gets.
#[inline(always)]
pub(super) fn decoded<H: Handler>(device: &Device, outcome: Outcome<H>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    match outcome? {
        Answer::Short(words) => short_value::<H>(device, &words),
        Answer::Reply(reply) => decode::<H>(device, &reply),
    }
}

/// The value of [`Answer::Short`].
#[inline(always)]
pub(super) fn short_value<H: Handler>(
    device: &Device,
    words: &[u64; INLINE_WORDS],
) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    let len = const { short_result::<H>() }.unwrap_or_default();
    let bytes: &[u8] = bytemuck::cast_slice(words);
    Migratable::decode(&mut Decoder::new(bytes.split_at(len).0)).map_err(|_| corrupt::<H>(device))
}

impl ReplyCopy {
    /// What about it breaks abi §4.3. Not called for the reply that only reports that a call was
    /// queued.
    pub(super) fn broken(&self) -> Option<&'static str> {
        let hdr = self.hdr;
        if hdr.has(RepHdr::RESERVED) {
            return Some("reserved bits");
        }
        if hdr.has(RepHdr::AM_REPLY) {
            return Some("the number of a reply handler");
        }
        if hdr.has(RepHdr::TAKEN) {
            return Some("a second slot, of a call that has none");
        }
        match hdr.place() {
            Place::Inline => (hdr.len() > INLINE_BYTES).then_some("a length past the slot"),
            Place::Chunk | Place::Buffer => self.long.is_empty().then_some("a result where none can be"),
            Place::TwoLines => Some("a place that does not exist"),
        }
    }
}

/// The error of a call whose result does not decode.
#[cold]
#[inline(never)]
fn corrupt<H: Handler>(device: &Device) -> CallError<ErrorOf<H>> {
    CallError::Corrupt(device.site::<H>("reading the reply"), "a result that does not decode".into())
}

/// Makes the caller's result of a reply.
#[cold]
fn decode<H: Handler>(device: &Device, reply: &ReplyCopy) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    let site = || device.site::<H>("reading the reply");
    let corrupt = |what: &str| CallError::Corrupt(site(), format!("{what} ({:?})", reply.hdr).into());
    match reply.broken() {
        None => {}
        Some(_) if device.is_unreached(reply.hdr.place()) => {
            let why = Some(device.loss_reason()).filter(|why| !why.is_empty());
            return Err(CallError::DeviceLost(
                site(),
                why.unwrap_or_else(|| "its memory is not reached any more".into()).into(),
            ));
        }
        Some(what) => return Err(corrupt(what)),
    }
    let inline: &[u8] = bytemuck::cast_slice(&reply.words);
    let bytes = match reply.hdr.place() {
        Place::Inline => inline.split_at(reply.hdr.len()).0,
        _ => &*reply.long,
    };
    let mut from = Decoder::new(bytes);
    let status = reply.hdr.status();
    if reply.hdr.has(RepHdr::FAULT) {
        if status.has_trace() {
            device.check_after_fault();
        }
        let report = FaultReport::read(*site(), status, bytes, device.symbols());
        return Err(CallError::Fault(Box::new(report)));
    }
    match status {
        Status::OK => match Migratable::decode(&mut from) {
            Ok(value) if from.is_done() => Ok(value),
            _ => Err(corrupt(from.refused().unwrap_or("a result that does not decode"))),
        },
        Status::HANDLER_ERROR => match <H::Output as HandlerResult>::decode_error(&mut from) {
            Ok(error) => Err(CallError::Handler(error)),
            Err(_) => Err(corrupt(from.refused().unwrap_or("an error that does not decode"))),
        },
        // The end of the device's epoch cancelled it: see `Calls::complete`.
        Status::CANCELLED if device.is_lost() => Err(CallError::DeviceLost(site(), device.loss_reason().into())),
        Status::CANCELLED => Err(CallError::Cancelled(site())),
        Status::DEADLINE => Err(CallError::Deadline(device.late_site::<H>(reply.place))),
        Status::RESULT_TOO_LONG => {
            let needed = Migratable::decode(&mut from).unwrap_or(0);
            let limit = device.longest_message(&device.epoch_info().record);
            Err(CallError::ResultTooLong { site: site(), needed, limit })
        }
        Status::NO_BODY => Err(SubmitError::NoBody { site: site() }.into()),
        Status::NO_HANDLER => Err(SubmitError::MissingHandler { site: site() }.into()),
        Status::NO_TASKS => Err(SubmitError::NoTasks { site: site() }.into()),
        Status::QUEUE_FULL => Err(SubmitError::QueueFull { site: site() }.into()),
        other => Err(CallError::Corrupt(site(), format!("status {other}").into())),
    }
}

/// The error of a call whose epoch left no reply to it.
pub(super) fn ended_error<E>(device: &Device, site: Box<crate::Site>, ended: EpochEnd) -> CallError<E> {
    match ended {
        EpochEnd::Lost => CallError::DeviceLost(site, device.loss_reason().into()),
        EpochEnd::Reset => CallError::PeerReset(site),
    }
}
