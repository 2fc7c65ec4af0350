//! Status codes of a reply (abi §6): what a request came to. Open, so that a newer peer's code
//! survives.

use crate::open::open_enum;

open_enum! {
    /// The outcome of one request, 16 bits on the wire.
    Status(u16),
    /// A short description.
    text or "unknown status",
    /// The constant's name, for dumps.
    name {
        /// The handler returned its value.
        OK = 0 => "ok",
        /// The handler returned its own error; the payload is that error.
        HANDLER_ERROR = 1 => "the handler returned an error",
        /// A one-way request was executed; no payload.
        EXECUTED = 2 => "executed",
        /// The request moved to its ticket slot (RepHdr::TAKEN); the result is published there.
        TAKEN = 3 => "taken into a ticket slot",
        /// Cancelled before it ran, or by a handler that noticed.
        CANCELLED = 4 => "cancelled",
        /// Its deadline had passed before it ran, or a handler noticed.
        DEADLINE = 5 => "deadline passed",
        /// The result does not fit the reserved space; the payload is the length needed (u64).
        RESULT_TOO_LONG = 6 => "result longer than the reserved reply space",
        /// No handler has this key.
        NO_HANDLER = 7 => "no such handler",
        /// The image has only the signature of this handler.
        NO_BODY = 8 => "the handler has no body on this side",
        /// The argument bytes do not decode as the handler's arguments.
        BAD_ARGUMENTS = 9 => "arguments do not decode",
        /// The request header or descriptor is malformed.
        BAD_REQUEST = 10 => "malformed request",
        /// A call from a handler went past the deepest stream (abi §5, rule 19).
        TOO_DEEP = 11 => "nested too deep",
        /// All places for tasks and their backlog are taken; nothing ran.
        QUEUE_FULL = 12 => "no place for another task",
        /// The image runs no tasks.
        NO_TASKS = 13 => "the image runs no tasks",
        /// Fault: the handler panicked; the payload is the message.
        PANIC = 64 => "panic",
        /// Fault: a buffer argument is outside the heap, misaligned, or overlaps a writable one.
        BAD_BUFFER = 65 => "bad buffer",
        /// Fault: a handler-made error with text.
        FAILED = 66 => "failed",
        /// Fault: the processor trapped.
        TRAP = 67 => "trap",
        /// Fault: a resource was left half-changed by an earlier fault.
        POISONED = 68 => "resource poisoned by an earlier fault",
        /// Fault: a caller further out already has the resource.
        RESOURCE_BUSY = 69 => "resource already in use",
        /// Fault: the handler ran longer than it may, and was ended.
        RUNAWAY = 70 => "runaway past its deadline",
        /// Fault: another task has claimed the memory.
        BUFFER_BUSY = 71 => "another task has claimed the buffer",
        /// Fault: a task's wait ended without what it waited for.
        INTERRUPTED = 72 => "a wait was interrupted",
        /// Fault: a call that the handler made to the host or to another node failed.
        REMOTE = 73 => "a call of the handler failed",
        /// Fault: the device has no host channel adapter in this epoch.
        NO_FABRIC = 74 => "no host channel adapter",
        /// Fault: a verb of the handler failed; the numbers say which way.
        VERBS = 75 => "a verb failed",
    }
}

impl Status {
    /// Codes from here on describe faults; the reply also carries RepHdr's FAULT bit.
    pub const FIRST_FAULT: u16 = 64;

    /// Does the fault carry where the abandoned handler was (abi §6)?
    pub const fn has_trace(self) -> bool {
        matches!(self, Self::PANIC | Self::TRAP | Self::RUNAWAY)
    }
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} (status {})", self.text(), self.0)
    }
}
