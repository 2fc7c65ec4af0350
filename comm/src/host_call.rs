//! Calls that a task makes: to handlers of the host, of ranks, and of other devices.
//!
//! The task encodes the arguments and suspends; the serve loop publishes the message, and resumes the task with a copy of
//! the reply. So on bare metal no code of the task changes what the device knows of a queue, and a task may be abandoned at
//! any instruction. A hosted task that is alone publishes short calls itself, and looks for the reply for a while, before
//! it suspends (`am/poller/direct.rs`).

use crate::context::Context;
use crate::fault::Fault;
use crate::handler::{Call, ErrorOf, Handler, HandlerResult, ValueOf};
use crate::migrate::{Decoder, Encoder, Malformed, Migratable};
use crate::outgoing;
use crate::relay::{CallTarget, addressed};
use crate::task::wait::{Callee, Interrupted, Message, Target, Wait};
use crate::task::{Answer, Marks, Place, Reason, Task};
use crate::why::{NotSent, Why, detail};
use core::cell::Cell;
use core::marker::PhantomData;
use hamr_shared_abi::ids::HandlerKey;
use hamr_shared_abi::slot::RepHdr;
use hamr_shared_abi::status::Status;
use hamr_shared_abi::task_line::WaitKind;

/// The host program, which runs handlers whose first parameter is `&mut Host`.
pub const HOST: Target = Target::HOST;

/// Microseconds for which `sync` tries again while the target has no place for the call.
const TRY_AGAIN_US: u64 = 1_000_000;
/// Microseconds between two tries.
const PAUSE_US: u64 = 100;

/// A call that a task made has no value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskCallError<E> {
    /// The handler returned its own error.
    Handler(E),
    /// Anything else, as the fault REMOTE, whose text has the handler's name, or INTERRUPTED; see
    /// [`Self::why`].
    Failed(Fault),
}

impl<E> TaskCallError<E> {
    /// Why it failed; `None` where the handler returned its own error.
    pub fn why(&self) -> Option<Why> {
        match self {
            Self::Handler(_) => None,
            Self::Failed(fault) => Why::of(fault.status, fault.numbers),
        }
    }
}

impl<E> core::fmt::Display for TaskCallError<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Handler(_) => f.write_str("the handler returned an error"),
            Self::Failed(fault) => fault.fmt(f),
        }
    }
}
impl<E: core::fmt::Debug> core::error::Error for TaskCallError<E> {}

/// The call that failed, and why; of an interrupted wait, that it was.
impl<E> From<TaskCallError<E>> for Fault {
    fn from(e: TaskCallError<E>) -> Self {
        match e {
            TaskCallError::Handler(_) => remote(HOST, "", Status::HANDLER_ERROR, 0),
            TaskCallError::Failed(fault) => fault,
        }
    }
}

/// The host makes a sentence of the numbers.
#[cold]
#[inline(never)]
fn remote(target: Target, handler: &str, status: Status, detail: u64) -> Fault {
    Fault { numbers: [target.number().into(), status.0.into(), detail], ..Fault::with_text(Status::REMOTE, handler) }
}

/// How a call ended, without its types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    /// By a reply, so many bytes of which are at the front of scratch memory.
    Reply(RepHdr, usize),
    NotSent(NotSent),
    Interrupted(Interrupted),
    Corrupt,
}

impl From<NotSent> for Ended {
    fn from(why: NotSent) -> Self {
        Self::NotSent(why)
    }
}

impl Ended {
    /// Had the target no place for the call, or the lane that all tasks of the rank share?
    fn may_find_place(self, target: Target) -> bool {
        match self {
            Self::Reply(hdr, _) => hdr.status() == Status::QUEUE_FULL,
            Self::NotSent(NotSent::Full) => target != HOST,
            _ => false,
        }
    }

    /// Why a call of this handler has no value; `bytes` are the reply's.
    #[cold]
    #[inline(never)]
    fn fault(self, target: Target, handler: &str, bytes: &[u8]) -> Fault {
        let too_long = |wanted, max| (Status::RESULT_TOO_LONG, (wanted as u64) << 32 | max as u64);
        let (status, detail) = match self {
            Self::Interrupted(why) => return why.into(),
            Self::Reply(hdr, _) => match hdr.status() {
                Status::OK | Status::HANDLER_ERROR => (Status::BAD_REQUEST, detail::HERE),
                Status::RESULT_TOO_LONG => {
                    too_long(number(bytes, 0) as usize, outgoing::here(|outgoing| outgoing.longest(target)))
                }
                // Of a relayed call the host says more.
                Status::NO_BODY | Status::NO_HANDLER => (Status::NO_HANDLER, number(bytes, 0)),
                status => (status, 0),
            },
            Self::NotSent(NotSent::Full) => (Status::QUEUE_FULL, detail::HERE),
            Self::NotSent(NotSent::TooLong { wanted, max }) => too_long(wanted, max),
            Self::NotSent(NotSent::NotThere) => (Status::NO_HANDLER, 0),
            Self::NotSent(NotSent::OtherTypes) => (Status::NO_HANDLER, detail::OTHER_TYPES),
            Self::NotSent(NotSent::NoHost) => (Status::NO_HANDLER, detail::NO_HOST),
            Self::Corrupt => (Status::BAD_REQUEST, detail::HERE),
        };
        let mut fault = remote(target, handler, status, detail);
        if matches!(self, Self::Reply(hdr, _) if hdr.has(RepHdr::FAULT)) {
            let mut text = bytes.get(24..).unwrap_or_default();
            if let (true, Some((len, rest))) = (status.has_trace(), text.split_first_chunk()) {
                text = rest.get(..u32::from_le_bytes(*len) as usize).unwrap_or(rest);
            }
            fault.append(": ");
            fault.append(text.utf8_chunks().next().map_or("", |chunk| chunk.valid()));
        }
        fault
    }
}

/// A wait for the reply of a handler of the host, which may relay the call, or of a rank.
fn reply_of(target: Target, key: HandlerKey, at: Place) -> Reason {
    match target.rank() {
        None => Reason::of(WaitKind::HOST, key.0, 0, at),
        Some(rank) => Reason::of(WaitKind::RANK, key.0, rank.0 as u16, at),
    }
}

/// Eight bytes of a reply's payload, or zero.
fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |number| u64::from_le_bytes(*number))
}

/// A call that a task has made and not waited for. Dropped, it is cancelled, and its result thrown
/// away.
#[must_use = "dropped, the call is cancelled; `Task::send` calls without a result"]
pub struct Pending<'t, H> {
    handle: u32,
    key: HandlerKey,
    marks: &'t Cell<Marks>,
    target: Target,
    _handler: PhantomData<fn() -> H>,
}

impl<H> Pending<'_, H> {
    fn mark(&self) -> u32 {
        1 << self.handle
    }
}

impl<H> Drop for Pending<'_, H> {
    fn drop(&mut self) {
        let marks = self.marks.get();
        self.marks.set(Marks { dropped: marks.dropped | self.mark(), ..marks });
    }
}

impl<'t> Task<'t> {
    /// Calls a handler and waits for its result. While the target has no place for the call, it is
    /// tried again for up to a second. A wait that ends early cancels the call.
    #[track_caller]
    pub fn sync<H: Handler>(
        &self,
        target: impl CallTarget,
        call: Call<H>,
    ) -> Result<ValueOf<H>, TaskCallError<ErrorOf<H>>> {
        let at = Place::caller();
        let ended = addressed::<H, _, _>(target, &call.args, |to, encode| self.exchange(to, at, encode));
        self.outcome::<H>(target.target(), ended)
    }

    /// Begins a call. Others run until the task waits for the result ([`Self::wait_for`]).
    #[track_caller]
    pub fn offload<H: Handler>(
        &self,
        target: impl CallTarget,
        call: Call<H>,
    ) -> Result<Pending<'t, H>, TaskCallError<ErrorOf<H>>> {
        let at = Place::caller();
        let begun = addressed::<H, _, _>(target, &call.args, |to, encode| self.begin(to, at, encode));
        let target = target.target();
        let pending = match begun {
            Ok((handle, key)) => Ok(Pending { handle, key, marks: self.marks(), target, _handler: PhantomData }),
            Err(ended) => Err(TaskCallError::Failed(ended.fault(target, H::NAME, &[]))),
        };
        // Its arguments' destructors may panic: a value that is returned already would not be dropped then.
        drop(call);
        pending
    }

    /// Waits for the result of a call.
    #[track_caller]
    pub fn wait_for<H: Handler>(&self, pending: Pending<'t, H>) -> Result<ValueOf<H>, TaskCallError<ErrorOf<H>>> {
        let Pending { handle, key, target, .. } = pending;
        let wait = Wait::Reply { call: handle, until: self.until() };
        self.outcome::<H>(target, self.ended(wait, reply_of(target, key, Place::caller())))
    }

    /// Was the reply there when the task went on last? It does not wait.
    pub fn is_done<H>(&self, pending: &Pending<'t, H>) -> bool {
        self.marks().get().done & pending.mark() != 0
    }

    /// Asks for an end of the call, at the next wait. Its outcome is that of a cancelled call, or the
    /// handler's.
    pub fn cancel<H>(&self, pending: &Pending<'t, H>) {
        let marks = self.marks().get();
        self.marks().set(Marks { cancelled: marks.cancelled | pending.mark(), ..marks });
    }

    /// [`Context::send`]; the message leaves at the next wait.
    pub fn send<H: Handler>(&self, target: impl CallTarget, call: Call<H>) -> Result<(), TaskCallError<ErrorOf<H>>> {
        let sent = leave(target, call, |to| self.key(to));
        self.lent(|slice| slice.cx.note_sent());
        sent
    }

    #[inline(never)]
    fn exchange(&self, to: &Callee, at: Place, encode: &dyn Fn(&mut Encoder<'_>)) -> Ended {
        let mut begun = None;
        loop {
            let ended = match self.message(to, encode) {
                Ok(message) => {
                    let wait = Wait::Call { message, until: self.until() };
                    self.ended(wait, reply_of(to.target, message.key, at))
                }
                Err(why) => return why.into(),
            };
            if !ended.may_find_place(to.target) {
                return ended;
            }
            let now = self.micros();
            if now - *begun.get_or_insert(now) >= TRY_AGAIN_US {
                return ended;
            }
            let pause = Wait::Time(self.until().min(now + PAUSE_US));
            if let Err(why) = self.wait(pause, Reason::new(WaitKind::TIME, at)) {
                return Ended::Interrupted(why);
            }
        }
    }

    #[inline(never)]
    fn begin(&self, to: &Callee, at: Place, encode: &dyn Fn(&mut Encoder<'_>)) -> Result<(u32, HandlerKey), Ended> {
        let message = self.message(to, encode)?;
        match self.ask(Wait::Post { message }, Reason::new(WaitKind::TURN, at)) {
            Ok(Answer::Submitted(handle)) => Ok((handle, message.key)),
            Ok(_) => Err(NotSent::Full.into()),
            Err(why) => Err(Ended::Interrupted(why)),
        }
    }

    /// Leaves the arguments in scratch memory for the serve loop.
    #[cfg_attr(hamr_bare, inline(never))]
    #[cfg_attr(not(hamr_bare), inline(always))]
    fn message(&self, to: &Callee, encode: &dyn Fn(&mut Encoder<'_>)) -> Result<Message, NotSent> {
        let (key, longest) = self.key(to)?;
        self.with_scratch(|scratch| {
            let max = longest.min(scratch.len());
            let mut out = Encoder::new(scratch);
            encode(&mut out);
            let wanted = out.needed();
            if wanted > max {
                return Err(NotSent::TooLong { wanted, max });
            }
            let Callee { target, is_task, .. } = *to;
            Ok(Message { target, is_task, key, len: wanted as u16 })
        })
    }

    /// The key of a handler where it is called, and the longest arguments of a call there. Looked up once for calls one
    /// behind the other.
    #[inline(always)]
    fn key(&self, to: &Callee) -> Result<(HandlerKey, usize), NotSent> {
        #[cfg(all(feature = "tasks", not(hamr_bare)))]
        if let Some((last, key, longest)) = self.callee.get()
            && last == *to
        {
            return Ok((key, longest));
        }
        let (key, longest) = outgoing::here(|outgoing| outgoing.key(to))?;
        #[cfg(all(feature = "tasks", not(hamr_bare)))]
        self.callee.set(Some((*to, key, longest)));
        Ok((key, longest))
    }

    fn ended(&self, mut wait: Wait, reason: Reason) -> Ended {
        loop {
            return match self.ask(wait, reason) {
                // The time that went with the call is that of this wait, which ends by its own clock.
                Ok(Answer::Reply(hdr, _)) if hdr == RepHdr::inline(Status::DEADLINE, 0) => {
                    wait = Wait::Time(self.until());
                    continue;
                }
                Ok(Answer::Reply(hdr, len)) => Ended::Reply(hdr, len),
                Ok(Answer::Full) => NotSent::Full.into(),
                Ok(_) => Ended::Corrupt,
                Err(why) => Ended::Interrupted(why),
            };
        }
    }

    fn outcome<H: Handler>(&self, target: Target, ended: Ended) -> Result<ValueOf<H>, TaskCallError<ErrorOf<H>>> {
        self.with_scratch(|scratch| {
            let mut bytes: &[u8] = &[];
            let mut decoded = Err(Malformed);
            if let Ended::Reply(hdr, len) = ended {
                bytes = scratch.get(..len).unwrap_or_default();
                let mut from = Decoder::new(bytes);
                decoded = match hdr.status() {
                    Status::OK if !hdr.has(RepHdr::FAULT) => Migratable::decode(&mut from).map(Ok),
                    Status::HANDLER_ERROR if !hdr.has(RepHdr::FAULT) => H::Output::decode_error(&mut from).map(Err),
                    _ => Err(Malformed),
                };
                if !from.is_done() {
                    decoded = Err(Malformed);
                }
            }
            match decoded {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(e)) => Err(TaskCallError::Handler(e)),
                Err(Malformed) => Err(TaskCallError::Failed(ended.fault(target, H::NAME, bytes))),
            }
        })
    }
}

impl Context<'_> {
    /// Calls a handler without waiting for it, and without a result. The message leaves when this
    /// handler returns. `Full` after some 500 words of messages.
    pub fn send<H: Handler>(&self, target: impl CallTarget, call: Call<H>) -> Result<(), TaskCallError<ErrorOf<H>>> {
        let sent = leave(target, call, |to| outgoing::here(|outgoing| outgoing.key(to)));
        self.note_sent();
        sent
    }
}

/// Leaves a message for the poller.
#[inline(always)]
fn leave<H: Handler>(
    target: impl CallTarget,
    call: Call<H>,
    key: impl FnOnce(&Callee) -> Result<(HandlerKey, usize), NotSent>,
) -> Result<(), TaskCallError<ErrorOf<H>>> {
    let sent = addressed::<H, _, _>(target, &call.args, |to, encode| outgoing::send(to, key(to), encode));
    sent.map_err(|why| TaskCallError::Failed(Ended::from(why).fault(target.target(), H::NAME, &[])))
}
