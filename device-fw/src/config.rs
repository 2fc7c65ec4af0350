//! The options that an image gives its runtime: the words in `image!`.

/// Set by `image!(on_fault = reset, longest_call_ms = 100)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// After a fault of a handler.
    pub on_fault: OnFault,
    /// The time limit, in milliseconds, of a call without a deadline of its own; 0: none.
    pub longest_call_ms: u32,
}

impl Config {
    /// What `image!()` means.
    pub const DEFAULT: Self = Self { on_fault: OnFault::Continue, longest_call_ms: 0 };
}

/// What an image does after a handler was ended by a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFault {
    /// Serves the next call.
    Continue,
    /// Stops, and waits for the host to begin a new epoch: nothing that the handler may have broken
    /// is used again but statics.
    Reset,
}

/// The words that `image!` takes.
#[doc(hidden)]
#[expect(non_upper_case_globals, reason = "they read as words")]
pub mod words {
    use super::OnFault;
    pub const reset: OnFault = OnFault::Reset;
}
