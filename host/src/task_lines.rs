//! Reads what a device shows of its tasks in its window (abi §12.1). It may have written anything
//! there: each value is looked up or shown, none is trusted.

use crate::keys::read_table;
use crate::{HandlerInfo, TaskInfo, TaskWait};
use hamr_comm::abi::ids::RankId;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::section::{Section, SectionKind};
use hamr_comm::abi::task_line::{TaskLine, WaitKind};
use hamr_comm::abi::tasks::TasksLayout;
use hamr_comm::abi::window::{Shared, Window};
use std::time::Duration;

/// The tasks that a window shows.
pub(crate) fn tasks(window: &Window<Shared>, layout: &Layout, handlers: &[HandlerInfo]) -> Vec<TaskInfo> {
    let Ok(tasks) = TasksLayout::read(layout, window) else { return Vec::new() };
    let host = || host_handlers(window, &tasks);
    let waits = |place| line(window, &tasks, place).filter(|line| line.state == TaskLine::WAITS);
    (0..tasks.tasks()).filter_map(|place| Some(task(waits(place)?, place, handlers, host))).collect()
}

/// The task of this handler that is or was last in a place.
pub(crate) fn last_task(
    window: &Window<Shared>,
    layout: &Layout,
    handlers: &[HandlerInfo],
    place: u32,
    handler: &str,
) -> Option<TaskInfo> {
    let tasks = TasksLayout::read(layout, window).ok().filter(|tasks| place < tasks.tasks())?;
    // Of a free line without a wait before it the source line is 0.
    let line = line(window, &tasks, place).filter(|line| line.line != 0)?;
    Some(task(line, place, handlers, || host_handlers(window, &tasks))).filter(|task| task.handler == handler)
}

fn line(window: &Window<Shared>, tasks: &TasksLayout, place: u32) -> Option<TaskLine> {
    TaskLine::read(window, tasks.line(place)).ok()
}

fn host_handlers(window: &Window<Shared>, tasks: &TasksLayout) -> Vec<HandlerInfo> {
    let (off, len) = tasks.table();
    let section = Section { kind: SectionKind::TABLE, reserved: 0, off, len, reserved2: 0 };
    read_table(window, section).unwrap_or_default()
}

fn task(line: TaskLine, place: u32, handlers: &[HandlerInfo], host: impl Fn() -> Vec<HandlerInfo>) -> TaskInfo {
    let wait = match line.wait {
        WaitKind::TURN => TaskWait::Turn,
        WaitKind::CONDITION => TaskWait::Condition,
        WaitKind::TIME => TaskWait::Time,
        WaitKind::HOST => TaskWait::Host { handler: name_of(&host(), line.of) },
        WaitKind::SIGNAL => TaskWait::Signal { rank: RankId(line.of.into()), word: line.word },
        WaitKind::BARRIER => TaskWait::Barrier { rank: RankId(line.of.into()) },
        // A rank calls those that have its own table.
        WaitKind::RANK => TaskWait::Rank { rank: RankId(line.word.into()), handler: name_of(handlers, line.of) },
        WaitKind::RANKS => TaskWait::Ranks { first: RankId(line.of.into()), last: RankId(line.word.into()) },
        WaitKind(kind) => TaskWait::Unknown { kind },
    };
    TaskInfo {
        place,
        handler: name_of(handlers, line.key),
        queue: line.queue,
        slot: line.slot,
        wait,
        waited: Duration::from_micros(line.seen.saturating_sub(line.since)),
        file: file(&line.file),
        line: line.line,
    }
}

fn name_of(handlers: &[HandlerInfo], key: u16) -> String {
    handlers.get(usize::from(key)).map_or_else(|| format!("key {key:#06x}"), |handler| handler.name.clone())
}

/// A path, of which the front may be cut off: then it begins behind the first separator.
fn file(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default());
    match text.split_once('/') {
        Some((_, end)) if !bytes.contains(&0) => format!("…/{end}"),
        _ => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::layout::Plan;
    use proptest::prelude::*;

    const PLAN: Plan = Plan { tasks: 3, host_chunk: 128, host_table: 512, heap: 4096, ..Plan::NO_TASKS };

    fn window() -> (Window<Shared>, Layout, TasksLayout) {
        let layout = Layout::plan(&PLAN).expect("allowed");
        let host = Window::private(layout.window_len()).share();
        layout.write(&PLAN, &host).expect("it fits");
        let tasks = TasksLayout::read(&layout, &host).expect("its own");
        (host, layout, tasks)
    }

    fn handlers() -> Vec<HandlerInfo> {
        vec![HandlerInfo { name: "a::b".into(), key: 0, id: 1, signature: 2, body: 3, flags: 0 }]
    }

    fn waits(wait: WaitKind, of: u16) -> TaskLine {
        TaskLine {
            state: TaskLine::WAITS,
            wait,
            key: 0,
            queue: 1,
            slot: 2,
            of,
            word: 6,
            line: 24,
            since: 1_000_000,
            seen: 4_104_000,
            file: TaskLine::tail("src/lib.rs"),
        }
    }

    #[test]
    fn a_line_becomes_a_sentence() {
        let (window, layout, lines) = window();
        for (kind, of, text) in [
            (WaitKind::TURN, 0, "its turn"),
            (WaitKind::CONDITION, 0, "a condition"),
            (WaitKind::TIME, 0, "a time"),
            (WaitKind::HOST, 9, "the host's key 0x0009"),
            (WaitKind::SIGNAL, 1, "signal 6 of rank 1"),
            (WaitKind::BARRIER, 63, "rank 63 at a barrier"),
            (WaitKind::RANK, 0, "rank 6's a::b"),
            (WaitKind::RANKS, 6, "rank 6"),
            (WaitKind::RANKS, 2, "any of ranks 2 to 6"),
            (WaitKind(200), 0, "what has the number 200"),
        ] {
            waits(kind, of).write(&window.lend(), lines.line(1));
            let found = tasks(&window, &layout, &handlers());
            let said: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(said, [format!("task 1 a::b waits 3.104 s for {text} at src/lib.rs:24")]);
            serde_json::to_string(&found).expect("plain data");
        }
        TaskLine::free(&window.lend(), lines.line(1));
        assert_eq!(tasks(&window, &layout, &handlers()), []);
        let last = last_task(&window, &layout, &handlers(), 1, "a::b").expect("it was there");
        assert_eq!(last.wait, TaskWait::Unknown { kind: 200 });
        assert_eq!(last_task(&window, &layout, &handlers(), 1, "a::c"), None);
        assert_eq!(last_task(&window, &layout, &handlers(), 3, "a::b"), None);
    }

    #[test]
    fn a_path_that_was_cut_says_so() {
        assert_eq!(
            file(&TaskLine::tail("/root/.cargo/registry/src/some-crate-1.0.0/src/lib.rs")),
            "…/src/some-crate-1.0.0/src/lib.rs"
        );
        assert_eq!(file(&TaskLine::tail("kernels/src/lib.rs")), "kernels/src/lib.rs");
        assert_eq!(file(&[b'x'; 32]), "x".repeat(32));
        assert_eq!(file(&[0; 32]), "");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_give_a_text(bytes in proptest::array::uniform32(any::<u8>()), file in proptest::array::uniform32(any::<u8>())) {
            let (window, layout, lines) = window();
            window.write_bytes(lines.line(0), &bytes).expect("inside");
            window.write_bytes(lines.line(0) + 32, &file).expect("inside");
            window.write_bytes(lines.line(0), &[TaskLine::WAITS]).expect("inside");
            let found = tasks(&window, &layout, &handlers());
            prop_assert_eq!(found.len(), 1);
            prop_assert!(!found[0].to_string().chars().any(char::is_control));
        }
    }
}
