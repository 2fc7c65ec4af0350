//! How a module runs its handlers on bare metal: a panic is the image's, which abandons the stack.

use super::{Arguments, Context, Entry, Frame, Panic, Reply};

pub(super) static PANIC: spin::Once<Panic> = spin::Once::new();

pub(super) fn enter(panic: Panic) {
    PANIC.call_once(|| panic);
}

pub(super) fn run(entry: &'static Entry, cx: &mut Context<'_>, frame: &mut Frame<'_>, args: Arguments<'_>) -> Reply {
    (entry.run)(cx, frame, args)
}
