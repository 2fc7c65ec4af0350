//! What a handler is, its first parameter says: `&mut Context` runs inline and cannot wait,
//! `&mut Task` runs on a stack of its own and may wait, `&mut Host` is a body on the host.
//! A [`Program`] is a task that begins with a type of an upper layer.

use crate::context::Context;
use crate::fault::Fault;
use crate::frame::{Arguments, Frame, Reply};
use crate::handler::{Enter, Handler, HandlerResult};
use crate::host::Host;
use crate::migrate::Malformed;
use crate::task::Task;
use hamr_shared_abi::status::Status;
use hamr_shared_abi::table::record_flag;

/// A type of an upper layer that a task can begin with: its handlers take `&mut` of it.
#[diagnostic::on_unimplemented(
    message = "`&mut {Self}` cannot be the first parameter of a handler",
    note = "`&mut Context` runs inline and cannot wait, `&mut Task` runs on its own stack and may wait, `&mut Host` is a body on the host",
    note = "a type of your own implements `hamr_comm::Program`: a handler with it is a task"
)]
pub trait Program: Sized + 'static {
    /// The type with the lifetime of a call.
    type This<'c>;
    /// Makes the first parameter of a task and runs `f` with it. The error is the call's reply.
    fn enter<R: HandlerResult>(task: &mut Task<'_>, f: impl FnOnce(&mut Self::This<'_>) -> R) -> Result<R, Fault>;
}

impl Enter for Context<'static> {
    type This<'c> = Context<'c>;
    const FLAGS: u32 = 0;
    fn thunk<H: Handler<Kind = Self>>(cx: &mut Context<'_>, frame: &mut Frame<'_>, args: Arguments<'_>) -> Reply {
        match frame.arguments::<H::Args>(args) {
            Ok(args) => H::run(cx, args).reply(frame),
            Err(Malformed) => frame.status(Status::BAD_ARGUMENTS),
        }
    }
    fn start<H: Handler<Kind = Self>>(task: &mut Task<'_>) -> Reply {
        task.frame().status(Status::BAD_REQUEST)
    }
}

impl Enter for Host<'static> {
    type This<'c> = Host<'c>;
    const FLAGS: u32 = record_flag::HOST;
    fn thunk<H: Handler<Kind = Self>>(_: &mut Context<'_>, frame: &mut Frame<'_>, _: Arguments<'_>) -> Reply {
        frame.status(Status::NO_BODY)
    }
    fn start<H: Handler<Kind = Self>>(task: &mut Task<'_>) -> Reply {
        task.frame().status(Status::NO_BODY)
    }
    #[cfg(not(hamr_bare))]
    fn serve<H: Handler<Kind = Self>>(host: &mut Host<'_>, frame: &mut Frame<'_>, args: Arguments<'_>) -> Reply {
        match frame.arguments::<H::Args>(args) {
            Ok(args) => H::run(host, args).reply(frame),
            Err(Malformed) => frame.status(Status::BAD_ARGUMENTS),
        }
    }
}

impl<P: Program> Enter for P {
    type This<'c> = P::This<'c>;
    const FLAGS: u32 = record_flag::TASK;
    // A task has a ticket: without one its reply would have no place to come to.
    fn thunk<H: Handler<Kind = Self>>(_: &mut Context<'_>, frame: &mut Frame<'_>, _: Arguments<'_>) -> Reply {
        frame.status(Status::BAD_REQUEST)
    }
    fn start<H: Handler<Kind = Self>>(task: &mut Task<'_>) -> Reply {
        match task.arguments::<H::Args>() {
            Ok(args) => match P::enter(task, |this| H::run(this, args)) {
                Ok(output) => output.reply(task.frame()),
                Err(fault) => task.frame().fault(&fault),
            },
            Err(Malformed) => task.frame().status(Status::BAD_ARGUMENTS),
        }
    }
}

impl Program for Task<'static> {
    type This<'c> = Task<'c>;
    fn enter<R: HandlerResult>(task: &mut Task<'_>, f: impl FnOnce(&mut Task<'_>) -> R) -> Result<R, Fault> {
        Ok(f(task))
    }
}
