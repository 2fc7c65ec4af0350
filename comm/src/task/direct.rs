//! What a task does itself before the serve loop does it: looks at what another rank publishes, and calls.

use super::wait::{Message, NEVER, Wait};
use super::{Answer, Task};

/// Makes a call without the serve loop.
pub(crate) trait DirectCalls {
    /// Publishes the message whose arguments are at the front of `scratch`, and looks for its reply for a while: the
    /// answer, or the call's handle. `None`: the serve loop makes this call.
    fn call(&mut self, message: &Message, scratch: &mut [u8]) -> Option<Result<Answer, u32>>;
}

impl Task<'_> {
    /// How often a task looks before it suspends itself for what another rank does.
    pub(crate) fn looks(&self) -> u32 {
        self.suspender.with(|slice| slice.looks)
    }

    /// Is it ready within [`Self::looks`]?
    pub(crate) fn comes_soon(&self, mut ready: impl FnMut() -> bool) -> bool {
        for _ in 0..self.looks() {
            if ready() {
                return true;
            }
            core::hint::spin_loop();
        }
        false
    }

    /// The answer to a call that needs no serve loop, or what the task waits for. What it has said of its other calls, or
    /// left to be sent, comes first.
    #[inline(always)]
    pub(crate) fn call_directly(&self, wait: Wait) -> Result<Answer, Wait> {
        let Wait::Call { message, until: NEVER } = wait else { return Err(wait) };
        if cfg!(hamr_bare) || self.marks().get().any() {
            return Err(wait);
        }
        let called = self.lent(|slice| {
            let direct = slice.direct.as_mut().filter(|_| !slice.cx.effects().sent())?;
            direct.call(&message, slice.frame.scratch)
        });
        match called {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(call)) => Err(Wait::Reply { call, until: NEVER }),
            None => Err(wait),
        }
    }
}
