//! Where a call was going, for messages.

use crate::TaskInfo;
use crate::task_info::Waited;
use std::borrow::Cow;
use std::fmt;

/// Where a call was going.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Device name.
    pub device: String,
    /// Handler path.
    pub handler: Cow<'static, str>,
    /// How far it got: `submitting`, `waiting for the answer`, `reading the answer`.
    pub stage: &'static str,
    /// Of a task whose deadline has passed: what it waited for.
    pub task: Option<Box<TaskInfo>>,
}

impl Site {
    /// What its task waited for, to be said behind a deadline.
    pub(crate) fn waited(&self) -> String {
        self.task.as_deref().map_or_else(String::new, |task| format!("; the task waited {}", Waited(task)))
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call of `{}` on device {}, {}", self.handler, self.device, self.stage)
    }
}
