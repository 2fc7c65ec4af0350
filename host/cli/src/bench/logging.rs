//! What a log line costs the handler that writes it, and what logging costs a call that writes none.

use super::calls::call_empty;
use super::floors::Gap;
use super::{BoxError, REPETITIONS, SAMPLES, Table, Unit, key};
use hamr::Node;
use hamr::Stream;
use hamr::logs::{LogLevel, Logs};
use hamr_kernels::bench::log_lines;
use std::time::Instant;

/// Lines of one sample: the call around them is lost among them.
const LINES: u32 = 1000;

/// Adds the rows `log_line`, whose floor is the same line below the level that is wanted, and `call_empty_logs`, whose floor is the
/// empty call while no line is wanted and nobody reads.
pub(crate) fn measure(node: &Node, table: &mut Table) -> Result<(), BoxError> {
    let quiet = match node.logs() {
        Ok(logs) => logs,
        Err(why) => {
            eprintln!("hamr: bench: log_line, call_empty_logs skipped: {why}");
            return Ok(());
        }
    };
    drop(quiet);
    let stream = node.stream()?;
    let gap = Gap::new(0);
    for _ in 0..REPETITIONS {
        node.set_log_level(LogLevel::ERROR);
        let muted = lines(&stream)?;
        let unlogged = call_empty(&stream, SAMPLES, gap)?;
        node.set_log_level(LogLevel::TRACE);
        table.add(key("log_line", None, None, Unit::Ns), &lines(&stream)?, Some(&muted));
        // Read, and full: the state in which the device has most to do for a line.
        let reader: Logs = node.logs()?;
        lines(&stream)?;
        let logged = call_empty(&stream, SAMPLES, gap)?;
        table.add(key("call_empty_logs", None, Some(0), Unit::Ns), &logged, Some(&unlogged));
        drop(reader);
    }
    node.set_log_level(LogLevel::INFO);
    Ok(())
}

/// Nanoseconds a line.
fn lines(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
    let one = |_| {
        let begin = Instant::now();
        stream.sync(log_lines::with(LINES))?;
        Ok(begin.elapsed().as_nanos() as f64 / f64::from(LINES))
    };
    (0..SAMPLES / 4).map(one).collect()
}
