//! How a module runs its handlers on bare metal: a panic is the image's, which abandons the stack.

use super::{Arguments, Context, Entry, Frame, Reply};

pub(super) fn enter() {}

pub(super) fn run(entry: &'static Entry, cx: &mut Context<'_>, frame: &mut Frame<'_>, args: Arguments<'_>) -> Reply {
    (entry.run)(cx, frame, args)
}
