//! Rows of calls that nest, and of calls beside tasks that have not ended.

use super::floors::Gap;
use super::stats::{Spell, median};
use super::table::{Beside, Key, Table};
use super::{BoxError, REPETITIONS, SAMPLES, calls, ways};
use hamr::{CallError, Node, Stream};
use hamr_comm::{Call, Fault, Handler};
use hamr_kernels::bench::{Nested, call_host, call_nested, empty, yields};

/// Rounds of a task that does not end.
const FOR_EVER: u32 = u32::MAX;

/// Adds the rows of this module.
pub(super) fn measure(node: &Node, table: &mut Table, wanted: &impl Fn(&str) -> bool) -> Result<(), BoxError> {
    if !["host_call_nested", "task_call_beside", "call_empty_beside"].iter().any(|row| wanted(row)) {
        return Ok(());
    }
    let stream = node.stream()?;
    let places = node.info().tasks;
    // A task each: a stream has few tickets.
    let others = (0..places).map(|_| node.stream()).collect::<Result<Vec<_>, _>>()?;
    if wanted("host_call_nested") {
        let body: Nested =
            Box::new(|cx| cx.service::<Node>()?.sync(empty::with()).map_err(|error| Fault::msg(&error.to_string())));
        node.serve(body);
        for _ in 0..REPETITIONS {
            let parts = [ways::task(&stream)?, ways::from_device(&stream)?, calls::call_empty(&stream, Gap::NONE)?];
            let apart = parts.iter().map(|ns| median(ns)).sum();
            let once = |_| Gap::NONE.sample(|| Ok(stream.sync(call_nested::with())?));
            let ns = (0..SAMPLES / 5).map(once).collect::<Result<Vec<_>, BoxError>>()?;
            let key = Key::new("host_call_nested").spell(Spell::of(median(&parts[2])));
            table.add(key, &ns, Some(Beside { what: "the three apart", ns: &[apart] }));
        }
    }
    if wanted("task_call_beside") {
        for _ in 0..REPETITIONS {
            let (spell, alone) = (spell(&stream)?, ways::task(&stream)?);
            let waiting = places - 1;
            let ns = beside(&others, waiting, || call_host::with(1, FOR_EVER), || ways::task(&stream))?;
            let key = Key::new("task_call_beside").vary("tasks", waiting).spell(spell);
            table.add(key, &ns, Some(Beside { what: "task_call", ns: &alone }));
        }
    }
    if wanted("call_empty_beside") {
        for _ in 0..REPETITIONS {
            let (spell, alone) = (spell(&stream)?, calls::call_empty(&stream, Gap::NONE)?);
            let ns = beside(&others, places, || yields::with(FOR_EVER), || calls::call_empty(&stream, Gap::NONE))?;
            let key = Key::new("call_empty_beside").vary("tasks", places).spell(spell);
            table.add(key, &ns, Some(Beside { what: "call_empty", ns: &alone }));
        }
    }
    Ok(())
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
