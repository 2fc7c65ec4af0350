//! Tasks that wait.

use core::time::Duration;
use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::{BufferPtr, Fault, Interrupted, Resource, Task, offload};

/// Waits until the host opens the gate, as `wait_at` does, but suspended. Returns `value`.
#[offload]
pub fn wait_task_at(task: &mut Task, gate: BufferPtr<u32>, value: u64) -> Result<u64, Fault> {
    gather(task, gate)?;
    Ok(value)
}

/// The same, but may be overtaken.
#[offload(unordered)]
pub fn gather_at(task: &mut Task, gate: BufferPtr<u32>, value: u64) -> Result<u64, Fault> {
    // A frame of its own, which other tasks must not touch.
    let mine: [u64; 32] = core::array::from_fn(|i| value ^ i as u64);
    let mine = core::hint::black_box(mine);
    gather(task, gate)?;
    if mine.iter().enumerate().all(|(i, word)| *word == value ^ i as u64) {
        Ok(value)
    } else {
        Err(Fault::msg("another task wrote this task's stack"))
    }
}

/// The same, and panics behind the gate, or in a frame below it.
#[offload(unordered)]
pub fn panics_behind(task: &mut Task, gate: BufferPtr<u32>, value: u64) -> Result<u64, Fault> {
    gather(task, gate)?;
    assert!(value == u64::MAX, "asked to panic with {value}");
    Ok(value)
}

fn gather(task: &Task, gate: BufferPtr<u32>) -> Result<(), Fault> {
    let words = task.words(gate)?;
    let (Some(open), Some(waiting)) = (words.get(0), words.get(16)) else {
        return Err(Fault::msg("a gate of fewer than 17 words"));
    };
    waiting.publish(waiting.load() + 1);
    Ok(task.wait_until(|| open.observe() != 0)?)
}

/// Sleeps, and returns the microseconds that passed.
#[offload(unordered)]
pub fn sleeps(task: &mut Task, micros: u32) -> Result<u64, Fault> {
    let begin = task.micros();
    task.sleep(Duration::from_micros(micros.into()))?;
    Ok(task.micros() - begin)
}

/// Yields so often, and returns the microseconds that passed.
#[offload(unordered)]
pub fn yields(task: &mut Task, rounds: u32) -> Result<u64, Fault> {
    let begin = task.micros();
    for _ in 0..rounds {
        task.yield_now()?;
    }
    Ok(task.micros() - begin)
}

/// Waits of each kind.
pub const POLLS: u8 = 0;
/// See [`POLLS`].
pub const SLEEPS: u8 = 1;
/// See [`POLLS`].
pub const YIELDS: u8 = 2;

/// Counts in word 16 of `marks`, then waits for ever. When the wait is interrupted, another one must
/// be at once; word 0 is 1 then for a cancelled call, 2 for one whose time is over. `marks` comes as
/// two words, so that the host may read them meanwhile.
#[offload(unordered)]
pub fn waits_for_ever(task: &mut Task, marks: [u64; 2], kind: u8) -> Result<(), Fault> {
    let words = task.words(BufferPtr::from_wire(WireBuffer::from_words(marks)))?;
    let (Some(why), Some(waiting)) = (words.get(0), words.get(16)) else {
        return Err(Fault::msg("expected 17 words"));
    };
    waiting.publish(waiting.load() + 1);
    let forever = || match kind {
        POLLS => task.wait_until(|| false),
        SLEEPS => task.sleep(Duration::MAX),
        _ => loop {
            task.yield_now()?;
        },
    };
    let first = forever();
    let again = forever();
    if first != again {
        return Err(Fault::msg("the second wait ended in another way"));
    }
    why.publish(match first {
        Err(Interrupted::Cancelled) => 1,
        Err(Interrupted::Deadline) => 2,
        _ => 3,
    });
    Ok(first?)
}

/// Waits for `micros` at most, by each kind of wait; then goes on without that limit. Returns how
/// many of the waits were interrupted.
#[offload]
pub fn waits_within(task: &mut Task, micros: u32) -> Result<u32, Fault> {
    let limit = Duration::from_micros(micros.into());
    let mut ended = 0;
    {
        let _outer = task.within(Duration::from_secs(3600));
        let _limit = task.within(limit);
        ended += u32::from(task.wait_until(|| false) == Err(Interrupted::Deadline));
        ended += u32::from(task.sleep(Duration::MAX) == Err(Interrupted::Deadline));
    }
    task.sleep(Duration::from_micros(1))?;
    task.wait_until(|| true)?;
    task.yield_now()?;
    Ok(ended)
}

static SHARED: Resource<u64> = Resource::new(0);

/// Adds to a resource, with a wait between: no task has it across one.
#[offload(unordered)]
pub fn shares(task: &mut Task, rounds: u32) -> Result<u64, Fault> {
    let mut last = 0;
    for _ in 0..rounds {
        last = task.with(&SHARED, |sum| {
            *sum += 1;
            *sum
        })?;
        task.yield_now()?;
    }
    Ok(last)
}

/// Doubles each element of a buffer, with a wait between any two: the views are taken anew.
#[offload]
pub fn doubles(task: &mut Task, x: BufferPtr<u64>) -> Result<(), Fault> {
    for i in 0..x.len() {
        let view = task.view_mut(x)?;
        if let Some(element) = view.get_mut(i) {
            *element *= 2;
        }
        task.yield_now()?;
    }
    Ok(())
}

/// Arguments and result that are longer than a slot, with a wait between.
#[offload]
pub fn reverses(task: &mut Task, mut values: [u64; 100]) -> Result<[u64; 100], Fault> {
    task.sleep(Duration::from_micros(100))?;
    values.reverse();
    Ok(values)
}
