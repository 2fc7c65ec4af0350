//! The cost of a log line for the handler that writes it, and the cost of logging for a call that
//! writes none.

use super::calls::call_empty;
use super::floors::Gap;
use super::stats::{Spell, median};
use super::table::{Beside, Key, Table};
use super::{BoxError, REPETITIONS, SAMPLES};
use hamr::Node;
use hamr::Stream;
use hamr::logs::{LogLevel, Logs};
use hamr_kernels::bench::log_lines;
use std::time::Instant;

/// Lines per sample: so many that the cost of the call around them does not matter.
const LINES: u32 = 1000;

/// Adds the rows `log_line`, whose floor is the same line below the wanted level, and
/// `call_empty_logs`, whose floor is the empty call while no line is wanted and no reader exists.
pub(crate) fn measure(node: &Node, table: &mut Table) -> Result<(), BoxError> {
    let quiet = match node.logs() {
        Ok(logs) => logs,
        Err(why) => {
            hamr::cli::note(format_args!("hamr-bench: log_line, call_empty_logs skipped: {why}"));
            return Ok(());
        }
    };
    drop(quiet);
    let stream = node.stream()?;
    for _ in 0..REPETITIONS {
        node.set_log_level(LogLevel::ERROR);
        let muted = lines(&stream)?;
        let unlogged = call_empty(&stream, Gap::NONE)?;
        node.set_log_level(LogLevel::TRACE);
        table.add(Key::new("log_line"), &lines(&stream)?, Some(Beside { what: "below the level", ns: &muted }));
        // With a reader and a full ring: the state in which a line costs the device most.
        let reader: Logs = node.logs()?;
        lines(&stream)?;
        let logged = call_empty(&stream, Gap::NONE)?;
        let key = Key::new("call_empty_logs").gap(0).spell(Spell::of(median(&unlogged)));
        table.add(key, &logged, Some(Beside { what: "without logs", ns: &unlogged }));
        drop(reader);
    }
    node.set_log_level(LogLevel::INFO);
    Ok(())
}

/// Nanoseconds per line.
fn lines(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
    let one = |_| {
        let begin = Instant::now();
        stream.sync(log_lines::with(LINES))?;
        Ok(begin.elapsed().as_nanos() as f64 / f64::from(LINES))
    };
    (0..SAMPLES / 4).map(one).collect()
}
