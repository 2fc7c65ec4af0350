//! What a program can know of streams that are open elsewhere in it.

/// An open stream, as [`Node::streams`](crate::Node::streams) lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfo {
    /// Its queue pair, as in [`TaskInfo::queue`](crate::TaskInfo::queue): the tasks with this number wait
    /// in its calls.
    pub queue: u16,
    /// A body that the device called has it, for a call of its own.
    pub is_of_body: bool,
    /// Calls in flight or unread at a time, at most.
    pub max_outstanding: usize,
    /// Requests that the device has neither replied to nor taken as a task.
    pub unanswered: u32,
}
