//! The handlers that `hamr-bench` calls: empty calls of every size, and the raw ping-pongs that
//! calls are compared with.
//!
//! They are in the table of an image, or of a program of the tests, that says
//! [`bench_handlers!`](crate::bench_handlers). The table of the program `hamr` does not have them:
//! a host expects the handlers of its table of every image, and a call needs no entry there.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::abi::ids::NodeId;
use hamr_comm::world::{AtomicOp, RankId, SegAddr, WorldRef};
use hamr_comm::{BufferPtr, Context, Fault, HOST, Host, Migratable, Task, Why, info, offload};

#[doc(hidden)]
pub use hamr_comm::{__entry, chains};

/// Puts the handlers of [`bench`](crate::bench) into the table of this program or image.
#[macro_export]
macro_rules! bench_handlers {
    () => {
        $crate::bench::chains!();
        $crate::bench_handlers!(
            call_host call_nested call_other count empty empty_task log_lines notice pointers pong rank_adds rank_barriers rank_calls rank_copies
            rank_flags rank_puts rank_signals send_nested spend sum_14 sum_4 sum_6 sum_8 sum_many yields
        );
    };
    ($($name:ident)*) => {
        $($crate::bench::__entry!($crate::bench::$name, concat!("hamr_kernels::bench::", stringify!($name)));)*
    };
}

/// Does nothing.
#[offload(unlisted)]
pub fn empty(_cx: &mut Context) {}

/// Does nothing, as a task.
#[offload(unordered, unlisted)]
pub fn empty_task(_task: &mut Task) {}

/// Does nothing, on the host.
#[offload]
pub fn empty_on_host(_cx: &mut Host) {}

hamr_comm::on_host! {
    extern crate std;

    /// What [`nested_on_host()`] runs: the benchmark says what.
    pub type Nested = std::boxed::Box<dyn Fn(&Host<'_>) -> Result<(), Fault> + Send + Sync>;
}

/// Calls the device that called it.
#[offload]
pub fn nested_on_host(cx: &mut Host) -> Result<(), Fault> {
    (cx.service::<Nested>()?)(cx)
}

/// Calls [`nested_on_host()`].
#[offload(unordered, unlisted)]
pub fn call_nested(task: &mut Task) -> Result<(), Fault> {
    Ok(task.sync(HOST, nested_on_host::with())?)
}

/// Sends so many calls of [`nested_on_host()`], without their results.
#[offload(unordered, unlisted)]
pub fn send_nested(task: &mut Task, times: u32) -> Result<(), Fault> {
    let mut sent = 0;
    while sent < times {
        match task.send(HOST, nested_on_host::with()) {
            Ok(()) => sent += 1,
            // They leave at a wait.
            Err(full) if full.why() == Some(Why::Full) => task.yield_now()?,
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}

/// Calls [`empty()`] of the device with this number so often, `pause` microseconds apart, by way of the
/// host; the microseconds that the calls took.
#[offload(unordered, unlisted)]
pub fn call_other(task: &mut Task, node: u16, times: u32, pause: u32) -> Result<u64, Fault> {
    let mut micros = 0;
    for _ in 0..times {
        task.sleep(Duration::from_micros(pause.into()))?;
        let begin = task.micros();
        task.sync(NodeId(node), empty::with())?;
        micros += task.micros() - begin;
    }
    Ok(micros)
}

/// Calls [`empty_on_host()`] so often, `pause` microseconds apart; the microseconds that the calls
/// took. Without a pause the clock is not read between calls, and the result is 0.
#[offload(unordered, unlisted)]
pub fn call_host(task: &mut Task, times: u32, pause: u32) -> Result<u64, Fault> {
    let mut micros = 0;
    for _ in 0..times {
        if pause == 0 {
            task.sync(HOST, empty_on_host::with())?;
            continue;
        }
        task.sleep(Duration::from_micros(pause.into()))?;
        let begin = task.micros();
        task.sync(HOST, empty_on_host::with())?;
        micros += task.micros() - begin;
    }
    Ok(micros)
}

/// Lets the others have a turn so often; the microseconds that this took.
#[offload(unordered, unlisted)]
pub fn yields(task: &mut Task, times: u32) -> Result<u64, Fault> {
    let begin = task.micros();
    for _ in 0..times {
        task.yield_now()?;
    }
    Ok(task.micros() - begin)
}

/// Calls [`empty()`] of rank 1 so often; the microseconds that the calls took.
#[offload(unordered, unlisted)]
pub fn rank_calls(task: &mut Task, times: u32) -> Result<u64, Fault> {
    let begin = task.micros();
    for _ in 0..times {
        task.sync(RankId(1), empty::with())?;
    }
    Ok(task.micros() - begin)
}

/// Ranks 0 and 1 exchange so many signals; the microseconds that this took. At least 2.
#[offload(unordered, unlisted)]
pub fn rank_signals(task: &mut Task, times: u32) -> Result<u64, Fault> {
    let (me, peer) = pair(task)?;
    task.barrier()?;
    let begin = task.micros();
    for i in 1..=times {
        if me == 0 {
            world(task)?.signal(peer, 0, i)?;
        }
        task.wait_signal(peer, 0, |value| value == i)?;
        if me == 1 {
            world(task)?.signal(peer, 0, i)?;
        }
    }
    Ok(task.micros() - begin)
}

/// All ranks meet so often; the microseconds that this took.
#[offload(unordered, unlisted)]
pub fn rank_barriers(task: &mut Task, times: u32) -> Result<u64, Fault> {
    task.barrier()?;
    let begin = task.micros();
    for _ in 0..times {
        task.barrier()?;
    }
    Ok(task.micros() - begin)
}

/// What signals and calls are compared with: ranks 0 and 1 store so many flags for each other, in one
/// cache line or each in its own; the microseconds that this took.
#[offload(unordered, unlisted)]
pub fn rank_flags(task: &mut Task, times: u32, one_line: bool, paused: bool) -> Result<u64, Fault> {
    let (me, _) = pair(task)?;
    // Both in the segment of rank 1, or the flag for each rank in its own.
    let mine = if one_line { [(RankId(1), 0), (RankId(1), 4)] } else { [(RankId(1), 0), (RankId(0), 0)] };
    let [to, from] = if me == 0 { mine } else { [mine[1], mine[0]] };
    world(task)?.put_value(from.0, from.1, 0u32)?;
    task.barrier()?;
    let begin = task.micros();
    {
        let world = world(task)?;
        let await_flag = |i: u32| -> Result<(), Fault> {
            let mut loads = 0u32;
            while world.get_value::<u32>(from.0, from.1)? != i {
                if paused {
                    core::hint::spin_loop();
                }
                loads = loads.wrapping_add(1);
                if loads.is_multiple_of(LOADS) && task.cancelled() {
                    return Err(Fault::msg("cancelled"));
                }
            }
            Ok(())
        };
        for i in 1..=times {
            if me == 0 {
                world.put_value(to.0, to.1, i)?;
            }
            await_flag(i)?;
            if me == 1 {
                world.put_value(to.0, to.1, i)?;
            }
        }
    }
    Ok(task.micros() - begin)
}

/// Puts 8 bytes into the segment of rank 1 so often, or copies `bytes` there; the microseconds that
/// this took.
#[offload(unordered, unlisted)]
pub fn rank_puts(task: &mut Task, times: u32, bytes: u32) -> Result<u64, Fault> {
    let (begin, world) = (task.micros(), world(task)?);
    for i in 0..times {
        match bytes {
            #[cfg(target_has_atomic = "64")]
            8 => world.put_value(RankId(1), 4096, u64::from(i))?,
            #[cfg(not(target_has_atomic = "64"))]
            8 => world.put_value(RankId(1), 4096, i)?,
            _ => {
                let [from, to] = [0, 1].map(|rank| SegAddr { rank: RankId(rank), off: 1 << 16 });
                world.copy(from, to, bytes.into())?;
            }
        }
    }
    Ok(task.micros() - begin)
}

/// Adds 1 to a word in the segment of rank 1 so often, or, `raw`, to one of its own by the instruction; the
/// microseconds that this took.
#[offload(unordered, unlisted)]
pub fn rank_adds(task: &mut Task, times: u32, raw: bool) -> Result<u64, Fault> {
    let (begin, world, own) = (task.micros(), world(task)?, AtomicU32::new(0));
    for _ in 0..times {
        if raw {
            core::hint::black_box(&own).fetch_add(1, Ordering::AcqRel);
        } else {
            world.atomic(SegAddr { rank: RankId(1), off: 8192 }, AtomicOp::Add(1u32))?;
        }
    }
    Ok(task.micros() - begin)
}

/// What copies are compared with: so many of them inside of the segment, by `memcpy`.
#[offload(unordered, unlisted)]
pub fn rank_copies(task: &mut Task, times: u32, bytes: u32) -> Result<u64, Fault> {
    let (begin, segment) = (task.micros(), world(task)?.segment());
    let view = task.view_mut(segment)?;
    let (from, to) = view.split_at_mut_checked(1 << 17).ok_or_else(|| Fault::msg("a short segment"))?;
    let from = from.get(1 << 16..(1 << 16) + bytes as usize);
    let to = to.get_mut(..bytes as usize);
    let (Some(from), Some(to)) = (from, to) else { return Err(Fault::msg("more than there is room for")) };
    for _ in 0..times {
        core::hint::black_box(&mut *to).copy_from_slice(core::hint::black_box(from));
    }
    Ok(task.micros() - begin)
}

fn world<'t>(task: &'t Task<'_>) -> Result<WorldRef<'t>, Fault> {
    task.world().ok_or_else(|| Fault::msg("this device is no rank"))
}

/// This rank's number, and the other of two.
fn pair(task: &Task<'_>) -> Result<(u32, RankId), Fault> {
    let world = world(task)?;
    match (world.me().0, world.size()) {
        (me, 2) => Ok((me, RankId(1 - me))),
        _ => Err(Fault::msg("expected a world of two ranks")),
    }
}

/// Logs numbered lines of level info, as fast as it can.
#[offload(unlisted)]
pub fn log_lines(_cx: &mut Context, lines: u32) {
    for line in 0..lines {
        info!("line {}", line);
    }
}

/// 32 bytes in, 8 out.
#[offload(unlisted)]
pub fn sum_4(_cx: &mut Context, a: u64, b: u64, c: u64, d: u64) -> u64 {
    a.wrapping_add(b).wrapping_add(c).wrapping_add(d)
}

/// 48 bytes in, 8 out: the most that one line carries.
#[offload(unlisted)]
pub fn sum_6(_cx: &mut Context, a: [u64; 6]) -> u64 {
    sum(&a)
}

/// Counts its calls: for one-way calls, whose effect a test must observe.
#[offload(unlisted)]
pub fn count(cx: &mut Context, counter: BufferPtr<u64>) -> Result<(), Fault> {
    if let Some(n) = cx.view_mut(counter)?.first_mut() {
        *n += 1;
    }
    Ok(())
}

/// 64 bytes in, 8 out: two lines.
#[offload(unlisted)]
pub fn sum_8(_cx: &mut Context, a: [u64; 8]) -> u64 {
    sum(&a)
}

/// 112 bytes in, 8 out: the most that two lines carry.
#[offload(unlisted)]
pub fn sum_14(_cx: &mut Context, a: [u64; 14]) -> u64 {
    sum(&a)
}

/// As many words in as there are, 8 bytes out: long arguments.
#[offload(unlisted)]
pub fn sum_many(_cx: &mut Context, words: heapless::Vec<u64, 128>) -> u64 {
    sum(&words)
}

fn sum(a: &[u64]) -> u64 {
    a.iter().fold(0, |sum, v| sum.wrapping_add(*v))
}

/// Runs for a time that is proportional to `turns`.
#[offload(unlisted)]
pub fn spend(_cx: &mut Context, turns: u32) {
    work(turns);
}

#[inline(always)]
fn work(turns: u32) {
    for turn in 0..turns {
        core::hint::black_box(turn);
    }
}

/// Loads between two questions whether the call was cancelled: the question is itself a load.
const LOADS: u32 = 1024;

/// What the other end of raw ping-pongs does.
#[derive(Clone, Copy, Debug, Migratable)]
pub struct Pongs {
    /// Messages.
    pub rounds: u32,
    /// Words from one message to the next, from the front again at the end.
    pub stride: u32,
    /// Words from a message to its reply.
    pub reply_at: u32,
    /// Between the two: the work of [`spend()`].
    pub turns: u32,
    /// A pause behind each load that finds nothing.
    pub paused: bool,
}

/// The other end of raw ping-pongs: awaits an odd number, from 1, in a word of `lines`, and stores the
/// next even one in that of the reply. Between the two, the last word of `data` is read, unless that is
/// empty; it comes as the two words of its pointer, so that the call does not use the buffer and the
/// host may write into it meanwhile.
#[offload(unlisted)]
pub fn pong(cx: &mut Context, lines: BufferPtr<u32>, data: [u64; 2], how: Pongs) -> Result<(), Fault> {
    let Pongs { rounds, stride, reply_at, turns, paused } = how;
    let data = BufferPtr::from_wire(WireBuffer::from_words(data));
    let (lines, data) = (cx.words(lines)?, cx.words(data)?);
    let last = data.get(data.len().wrapping_sub(1));
    let mut at = 0;
    for i in 0..rounds {
        let (Some(request), Some(reply)) = (lines.get(at), lines.get(at.wrapping_add(reply_at as usize))) else {
            return Err(Fault::msg("a buffer that is too short"));
        };
        let ping = i.wrapping_mul(2).wrapping_add(1);
        let mut loads = 0u32;
        while request.observe() != ping {
            if paused {
                core::hint::spin_loop();
            }
            loads = loads.wrapping_add(1);
            if loads.is_multiple_of(LOADS) && cx.cancelled() {
                return Ok(());
            }
        }
        if let Some(last) = last {
            core::hint::black_box(last.load());
        }
        work(turns);
        reply.publish(ping.wrapping_add(1));
        at = at.wrapping_add(stride as usize);
        if at >= lines.len() {
            at = 0;
        }
    }
    Ok(())
}

/// Returns the last word of what was put, which shows that the device reads it.
#[offload(unlisted)]
pub fn notice(cx: &mut Context, data: BufferPtr<u32>) -> Result<u32, Fault> {
    let data = cx.words(data)?;
    let last = data.get(data.len().wrapping_sub(1)).ok_or_else(|| Fault::msg("an empty buffer"))?;
    Ok(last.load())
}

/// Adds `factor` times the first element of `x` to that of `y`: a scalar and two buffers, as handlers of vectors take them.
#[offload(unlisted)]
pub fn pointers(cx: &mut Context, factor: f32, x: BufferPtr<f32>, y: BufferPtr<f32>) -> Result<(), Fault> {
    let (x, y) = cx.views((x.read(), y.write()))?;
    if let (Some(x), Some(y)) = (x.first(), y.first_mut()) {
        *y += factor * *x;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hamr_comm::registry::Table;

    bench_handlers!();

    #[test]
    fn the_table_has_each_handler_of_this_file() {
        let defined = include_str!("bench.rs").lines().filter(|line| line.starts_with("#[offload(")).count();
        let listed = Table::of_this_image().iter().filter(|entry| entry.name.starts_with("hamr_kernels::bench::"));
        assert!(defined > 0);
        // And the two bodies on the host, which the table of `hamr` has, too.
        assert_eq!(listed.count(), defined + 2);
    }
}
