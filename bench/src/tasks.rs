//! Rows of calls that nest, and of calls beside tasks that have not ended.

use super::floors::Gap;
use super::stats::{Spell, median};
use super::table::{Beside, Key, Table, Unit};
use super::{BoxError, REPETITIONS, SAMPLES, calls, ways};
use hamr::{CallError, Node, Stream};
use hamr_comm::{Call, Fault, Handler};
use hamr_kernels::bench::{Nested, call_host, call_nested, empty, send_nested, yields};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rounds of a task that does not end.
const FOR_EVER: u32 = u32::MAX;
/// Messages of one sample of `host_call_send`.
const SENDS: u32 = 20_000;

/// Adds the rows of this module.
pub(super) fn measure(node: &Node, table: &mut Table) -> Result<(), BoxError> {
    if !table.wants_any(&["host_call_nested", "host_call_send", "task_call_beside", "call_empty_beside"]) {
        return Ok(());
    }
    let stream = node.stream()?;
    let places = node.info().tasks;
    // A task each: a stream has few tickets.
    let others = (0..places).map(|_| node.stream()).collect::<Result<Vec<_>, _>>()?;
    if table.wants("host_call_nested") {
        let body: Nested =
            Box::new(|cx| cx.service::<Node>()?.sync(empty::with()).map_err(|error| Fault::msg(&error.to_string())));
        node.provide(body);
        for _ in 0..REPETITIONS {
            let parts = [ways::task(&stream)?, ways::from_device(&stream)?, calls::call_empty(&stream, Gap::NONE)?];
            let apart = parts.iter().map(|ns| median(ns)).sum();
            let once = |_| Gap::NONE.sample(|| Ok(stream.sync(call_nested::with())?));
            let ns = (0..SAMPLES / 5).map(once).collect::<Result<Vec<_>, BoxError>>()?;
            let key = Key::new("host_call_nested").spell(Spell::of(median(&parts[2])));
            table.add(key, &ns, Some(Beside { what: "the three apart", ns: &[apart] }));
        }
    }
    if table.wants("host_call_send") {
        let sent = Sent::serve(node);
        for _ in 0..REPETITIONS {
            let (spell, floor) = (spell(&stream)?, calls::one_way(&stream)?);
            let key = Key::new("host_call_send").unit(Unit::Rate).spell(spell);
            table.add(key, &[sent.each(&stream)?], Some(Beside { what: "one_way", ns: &floor }));
        }
    }
    if table.wants("task_call_beside") {
        for _ in 0..REPETITIONS {
            let (spell, alone) = (spell(&stream)?, ways::task(&stream)?);
            let waiting = places - 1;
            let ns = beside(&others, waiting, || call_host::with(1, FOR_EVER), || ways::task(&stream))?;
            let key = Key::new("task_call_beside").vary("tasks", waiting).spell(spell);
            table.add(key, &ns, Some(Beside { what: "task_call", ns: &alone }));
        }
    }
    if table.wants("call_empty_beside") {
        for _ in 0..REPETITIONS {
            let (spell, alone) = (spell(&stream)?, calls::call_empty(&stream, Gap::NONE)?);
            let ns = beside(&others, places, || yields::with(FOR_EVER), || calls::call_empty(&stream, Gap::NONE))?;
            let key = Key::new("call_empty_beside").vary("tasks", places).spell(spell);
            table.add(key, &ns, Some(Beside { what: "call_empty", ns: &alone }));
        }
    }
    Ok(())
}

/// Messages that a device sends to this program, whose worker counts them.
struct Sent {
    begin: Instant,
    count: Arc<AtomicU32>,
    /// When the last came, in nanoseconds from `begin`.
    last: Arc<AtomicU64>,
}

impl Sent {
    fn serve(node: &Node) -> Self {
        let sent = Self { begin: Instant::now(), count: Arc::default(), last: Arc::default() };
        let (begin, count, last) = (sent.begin, Arc::clone(&sent.count), Arc::clone(&sent.last));
        let body: Nested = Box::new(move |_| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 == SENDS {
                last.store(begin.elapsed().as_nanos() as u64, Ordering::Release);
            }
            Ok(())
        });
        node.provide(body);
        sent
    }

    /// Nanoseconds of each of [`SENDS`]. This thread sleeps meanwhile: its processor is the worker's.
    fn each(&self, stream: &Stream<'_>) -> Result<f64, BoxError> {
        self.count.store(0, Ordering::Relaxed);
        self.last.store(0, Ordering::Release);
        let begin = self.begin.elapsed().as_nanos() as u64;
        let sends = stream.offload(send_nested::with(SENDS))?;
        while !sends.is_done() {
            std::thread::sleep(Duration::from_millis(1));
        }
        sends.wait()?;
        while self.last.load(Ordering::Acquire) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok((self.last.load(Ordering::Acquire) - begin) as f64 / f64::from(SENDS))
    }
}

fn spell(stream: &Stream<'_>) -> Result<Spell, BoxError> {
    Ok(Spell::of(median(&calls::call_empty(stream, Gap::NONE)?)))
}

/// Runs `f` while so many tasks have not ended, which are cancelled behind it.
fn beside<H: Handler<Output = Result<u64, Fault>>>(
    streams: &[Stream<'_>],
    tasks: u32,
    call: impl Fn() -> Call<H>,
    f: impl FnOnce() -> Result<Vec<f64>, BoxError>,
) -> Result<Vec<f64>, BoxError> {
    let streams = streams.iter().take(tasks as usize);
    let running = streams.clone().map(|stream| stream.offload(call())).collect::<Result<Vec<_>, _>>()?;
    for stream in streams {
        // Behind its task, which has begun then or has a turn soon.
        stream.sync(empty::with())?;
    }
    let ns = f();
    running.iter().for_each(|call| call.cancel());
    for call in running {
        match call.wait() {
            Err(CallError::Cancelled(_)) => {}
            other => return Err(format!("a task that was to wait: {other:?}").into()),
        }
    }
    ns
}
