//! Tasks that call handlers of another device, which the host passes on.

use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::abi::ids::NodeId;
use hamr_comm::handler::no_body;
use hamr_comm::{BufferPtr, Context, Fault, Handler, Migratable, Task, TaskCallError, Why, offload};
use heapless::{String, Vec};

/// An error of [`relayed()`].
#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
pub enum Odd {
    /// The number.
    Number(u64),
}

/// Returns its argument: an inline handler.
#[offload(instances(u8, [u8; 49], [u64; 40], String<64>, Vec<u32, 50>))]
pub fn there<T: Migratable>(_cx: &mut Context, value: T) -> T {
    value
}

/// A task: half of an even number.
#[offload(unordered)]
pub fn relayed(task: &mut Task, number: u64) -> Result<u64, Odd> {
    let _ = task.yield_now();
    if number.is_multiple_of(2) { Ok(number / 2) } else { Err(Odd::Number(number)) }
}

/// The sum of a buffer.
#[offload]
pub fn sum_there(cx: &mut Context, x: BufferPtr<u64>) -> Result<u64, Fault> {
    Ok(cx.view(x)?.iter().sum())
}

/// Waits for word 0 of `flag`.
#[offload(unordered)]
pub fn wait_there(task: &mut Task, flag: BufferPtr<u32>) -> Result<u32, Fault> {
    let flag = task.words(flag)?;
    let word = flag.get(0).ok_or_else(|| Fault::msg("no word"))?;
    task.wait_until(|| word.observe() != 0)?;
    Ok(word.load())
}

/// Fails, or panics.
#[offload]
pub fn fails_there(_cx: &mut Context, panics: bool) -> Result<u64, Fault> {
    assert!(!panics, "asked to");
    Err(Fault::msg("it is full"))
}

/// Calls [`there()`] on a device.
#[offload(unordered, instances(u8, [u8; 49], [u64; 40], String<64>, Vec<u32, 50>))]
pub fn pass<T: Migratable + 'static>(task: &mut Task, node: u16, value: T) -> Result<T, Fault> {
    Ok(task.sync(NodeId(node), there::with(value))?)
}

/// Calls [`relayed()`] so often, up to 8 calls at a time; the sum of the results.
#[offload(unordered)]
pub fn pass_many(task: &mut Task, node: u16, times: u32) -> Result<u64, Fault> {
    let mut sum = 0;
    for round in 0..times.div_ceil(8) {
        let first = u64::from(round) * 8;
        let mut calls = Vec::<_, 8>::new();
        for n in first..(first + 8).min(times.into()) {
            let _ = calls.push(task.offload(NodeId(node), relayed::with(2 * n))?);
        }
        for call in calls {
            sum += task.wait_for(call)?;
        }
    }
    Ok(sum)
}

/// Calls [`sum_there()`] with a buffer of that device, of which it has the words.
#[offload(unordered)]
pub fn pass_buffer(task: &mut Task, node: u16, words: [u64; 2]) -> Result<u64, Fault> {
    Ok(task.sync(NodeId(node), sum_there::with(BufferPtr::from_wire(WireBuffer::from_words(words))))?)
}

/// Calls [`wait_there()`], within so many microseconds.
#[offload(unordered)]
pub fn pass_wait(task: &mut Task, node: u16, flag: [u64; 2], within: u32) -> Result<u32, Fault> {
    let _within = task.within(core::time::Duration::from_micros(within.into()));
    let flag = BufferPtr::from_wire(WireBuffer::from_words(flag));
    Ok(task.sync(NodeId(node), wait_there::with(flag))?)
}

/// Calls itself on two devices in turn, so deep; how deep it went.
#[offload(unordered)]
pub fn bounce(task: &mut Task, here: u16, there: u16, depth: u32) -> Result<u32, Fault> {
    match depth {
        0 => Ok(0),
        _ => Ok(1 + task.sync(NodeId(there), bounce::with(there, here, depth - 1))?),
    }
}

/// A handler that no image has.
pub struct Missing;
/// [`sum_there()`] with other types.
pub struct Other;

macro_rules! not_there {
    ($handler:ty, $name:literal) => {
        impl Handler for $handler {
            const NAME: &'static str = $name;
            const FLAGS: u32 = 0;
            type Kind = Context<'static>;
            type Args = (u64,);
            type Output = u64;
            fn run(_: &mut Context<'_>, _: (u64,)) -> u64 {
                no_body()
            }
        }
    };
}
not_there!(Missing, "hamr_tests_kernels::relays::missing");
not_there!(Other, "hamr_tests_kernels::relays::sum_there");

/// What a call of [`pass_otherwise()`] asks for.
pub const OUTCOMES: [&str; 6] = ["an error", "a fault", "a panic", "a missing handler", "other types", "no device"];

/// Calls a device in one of the ways of [`OUTCOMES`]; an error that has the right reason becomes the task's fault.
#[offload(unordered)]
pub fn pass_otherwise(task: &mut Task, node: u16, way: u32) -> Result<String<32>, Fault> {
    use hamr_comm::abi::status::Status;
    let to = NodeId(node);
    let (outcome, why) = match way {
        0 => match task.sync(to, relayed::with(7)) {
            Err(TaskCallError::Handler(Odd::Number(7))) => return Ok("7 is odd".try_into().unwrap_or_default()),
            _ => return Err(Fault::msg("another outcome")),
        },
        1 => (reason(task.sync(to, fails_there::with(false))), Why::Fault(Status::FAILED)),
        2 => (reason(task.sync(to, fails_there::with(true))), Why::Fault(Status::PANIC)),
        3 => (reason(task.sync(to, hamr_comm::Call::<Missing>::new((1,)))), Why::NotThere),
        4 => (reason(task.sync(to, hamr_comm::Call::<Other>::new((1,)))), Why::OtherTypes),
        _ => (reason(task.sync(NodeId(node.wrapping_add(1000)), relayed::with(2))), Why::NoNode),
    };
    match outcome {
        Some((fault, got)) if got == Some(why) => Err(fault),
        _ => Err(Fault::msg("another reason")),
    }
}

fn reason<T, E>(outcome: Result<T, TaskCallError<E>>) -> Option<(Fault, Option<Why>)> {
    outcome.err().map(|error| {
        let why = error.why();
        (error.into(), why)
    })
}
