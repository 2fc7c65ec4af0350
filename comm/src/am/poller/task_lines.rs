//! What a device shows of its tasks, for people (abi §12.1): written when it looks at what they wait
//! for, every 64 rounds and before it sleeps, so a wait that ends at once costs nothing.

use super::super::TaskSlot;
use super::Poller;
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::task_line::TaskLine;
use hamr_shared_abi::window::Window;

/// A task is about to reply: behind that none is shown in its place, which lies at `lines`.
#[inline(always)]
pub(super) fn hide_task<K>(window: &Window<K>, lines: Option<u64>, index: usize, slot: &mut TaskSlot) {
    if core::mem::take(&mut slot.is_shown)
        && let Some(lines) = lines
    {
        TaskLine::free(&window.lend(), lines + (index * size_of::<TaskLine>()) as u64);
    }
}

impl<K: Clone, F: Order> Poller<'_, K, F> {
    /// Writes the lines of tasks that wait for something else than at the last look, and states in
    /// the others that they still do.
    #[inline(never)]
    pub(super) fn show_tasks(&mut self, now: u64) {
        let Some(lines) = self.task_lines else { return };
        let window = &self.window.lend();
        let tasks = &mut self.dispatcher.tasks;
        tasks.is_shown = false;
        // No place beyond the limit has a task, or a line.
        for (at, slot) in (lines..).step_by(size_of::<TaskLine>()).zip(tasks.slots.iter_mut().take(tasks.limit)) {
            let (Some(job), Some(reason)) = (&slot.job, slot.reason) else {
                if core::mem::take(&mut slot.is_shown) {
                    TaskLine::free(window, at);
                }
                continue;
            };
            (tasks.is_shown, slot.is_shown) = (true, true);
            if slot.since != 0 {
                TaskLine::see(window, at, now);
                continue;
            }
            slot.since = now;
            let line = TaskLine {
                state: TaskLine::WAITS,
                wait: reason.kind,
                key: job.hdr.key().0,
                queue: job.queue as u16,
                slot: job.found.slot as u16,
                of: reason.of,
                word: reason.word,
                line: reason.at.line(),
                since: now,
                seen: now,
                file: TaskLine::tail(reason.at.file()),
            };
            line.write(window, at);
        }
    }
}
