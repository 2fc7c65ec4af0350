//! Handlers for the conformance suite (`tests/src/conformance.rs`): every kind of value there and
//! back, calls that record the order in which they ran, calls that last as long as the host wants;
//! and those of `hamr-bench`. They are in a package of their own, so that the demo image does not contain them.
//!
//! Who may depend on it: tests and their images.
#![no_std]

pub mod chains;
pub mod crashes;
#[cfg(feature = "gas")]
pub mod gas;
pub mod host_calls;
pub mod lanes;
pub mod long;
pub mod lost;
pub mod nested;
// Ranks have numbers of 64 bits where their processors have such atomics.
#[cfg(target_has_atomic = "64")]
pub mod peers;
pub mod policy;
pub mod relays;
pub mod resources;
pub mod slices;
pub mod task_crashes;
pub mod variants;
pub mod waits;
pub mod worlds;

use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::abi::sync::{Ordering, fence};
use hamr_comm::abi::window::Words;
use hamr_comm::{BufferPtr, Context, Fault, Migratable, Task, offload};
use hamr_comm::{debug, error, info, trace, warn};
use heapless::{String, Vec};

hamr_kernels::bench_handlers!();

/// Variants of different sizes.
#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
pub enum Shape {
    /// Nothing inside.
    Point,
    /// One number.
    Circle(f64),
    /// Named fields.
    Box {
        /// Metres.
        width: f32,
        /// Metres.
        height: f32,
        /// Is it filled?
        filled: bool,
    },
}

/// Every scalar, a tuple and an array inside a struct: 102 bytes, too long for a slot.
#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
pub struct Everything {
    /// Unsigned ones.
    pub unsigned: (u8, u16, u32, u64, u128),
    /// Signed ones.
    pub signed: (i8, i16, i32, i64, i128),
    /// Floating point.
    pub floats: (f32, f64),
    /// Validated ones.
    pub checked: (bool, char),
    /// Nested.
    pub pairs: [(u8, i16); 3],
    /// Fills the struct up.
    pub rest: [u8; 14],
}

/// Returns its argument.
#[offload(instances(
    u8, u64, f32, u128, bool, char, Shape, Everything,
    [u8; 48], [u8; 49], [u64; 128], [u64; 129], [u64; 2048],
    Option<u64>, Option<[u64; 8]>,
    String<64>, String<4096>, Vec<u32, 1000>, Vec<Shape, 8>
))]
pub fn echo<T: Migratable>(_cx: &mut Context, value: T) -> T {
    value
}

/// A hash of all bytes in their order (FNV-1a, 64 bits): arguments of every length, 8 bytes out.
#[offload(instances(
    [u8; 1], [u8; 2], [u8; 3], [u8; 47], [u8; 48], [u8; 49], [u8; 50], [u8; 55], [u8; 56], [u8; 57], [u8; 63], [u8; 64],
    [u8; 65], [u8; 104], [u8; 111], [u8; 112], [u8; 113], [u8; 200], Vec<u8, 200>
))]
pub fn digest<T: Migratable + AsRef<[u8]>>(_cx: &mut Context, bytes: T) -> u64 {
    digest_of(bytes.as_ref())
}

/// What [`digest()`] returns.
pub fn digest_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3))
}

/// The digest of a buffer, plus `salt`: 24 bytes of arguments.
#[offload]
pub fn digest_buffer(cx: &mut Context, data: BufferPtr<u8>, salt: u64) -> Result<u64, Fault> {
    Ok(digest_of(cx.view(data)?).wrapping_add(salt))
}

/// The same with 40 bytes of arguments.
#[offload]
pub fn digest_buffer_salted(cx: &mut Context, data: BufferPtr<u8>, salts: [u64; 3]) -> Result<u64, Fault> {
    Ok(salts.iter().fold(digest_of(cx.view(data)?), |sum, salt| sum.wrapping_add(*salt)))
}

/// The same as a task.
#[offload]
pub fn digest_buffer_task(task: &mut Task, data: BufferPtr<u8>, salt: u64) -> Result<u64, Fault> {
    Ok(digest_of(task.view(data)?).wrapping_add(salt))
}

/// The digest of five buffers, 80 bytes of arguments: the sum of each one's.
#[offload]
pub fn digest_five(
    cx: &mut Context,
    a: BufferPtr<u8>,
    b: BufferPtr<u8>,
    c: BufferPtr<u8>,
    d: BufferPtr<u8>,
    e: BufferPtr<u8>,
) -> Result<u64, Fault> {
    let mut sum = 0u64;
    for data in [a, b, c, d, e] {
        sum = sum.wrapping_add(digest_of(cx.view(data)?));
    }
    Ok(sum)
}

/// `len` letters: a result whose length only the handler knows.
#[offload]
pub fn letters(_cx: &mut Context, len: u32) -> String<4096> {
    let mut text = String::new();
    for i in 0..len {
        let _ = text.push(char::from(b'a' + (i % 26) as u8));
    }
    text
}

/// Fails with an error of its own that is longer than a slot.
#[offload]
pub fn refuse_at_length(_cx: &mut Context, why: String<64>) -> Result<u8, String<64>> {
    Err(why)
}

/// Fails with a text that is longer than a fault may be: `len` letters of two bytes, as an error or
/// as a panic.
#[offload]
pub fn fails_at_length(_cx: &mut Context, len: u32, panics: bool) -> Result<(), Fault> {
    let mut text = String::<4096>::new();
    for _ in 0..len {
        let _ = text.push('ö');
    }
    if panics {
        panic!("{text}");
    }
    Err(Fault::msg(&text))
}

/// Appends to a log: element 0 counts, the entries follow. Returns the entry's index.
///
/// The log comes as the two words of its pointer, so that the call does not use the buffer and
/// stays a short one. The caller must not change the buffer meanwhile.
#[offload]
pub fn append(cx: &mut Context, log: [u64; 2], value: u64) -> Result<u64, Fault> {
    push(cx, BufferPtr::from_wire(WireBuffer::from_words(log)), value)
}

/// The same with the buffer as an argument, which the call uses.
#[offload]
pub fn append_named(cx: &mut Context, log: BufferPtr<u64>, value: u64) -> Result<u64, Fault> {
    push(cx, log, value)
}

/// The same with so many arguments that they do not fit into the slot.
#[offload]
pub fn append_long(cx: &mut Context, log: [u64; 2], value: u64, _more: [u64; 20]) -> Result<u64, Fault> {
    push(cx, BufferPtr::from_wire(WireBuffer::from_words(log)), value)
}

/// The same as a task.
#[offload]
pub fn append_task(task: &mut Task, log: [u64; 2], value: u64) -> Result<u64, Fault> {
    task.inline(|cx| push(cx, BufferPtr::from_wire(WireBuffer::from_words(log)), value))
}

/// The same as a task that may be overtaken.
#[offload(unordered)]
pub fn append_whenever(task: &mut Task, log: [u64; 2], value: u64) -> Result<u64, Fault> {
    task.inline(|cx| push(cx, BufferPtr::from_wire(WireBuffer::from_words(log)), value))
}

fn push(cx: &mut Context, log: BufferPtr<u64>, value: u64) -> Result<u64, Fault> {
    let log = cx.view_mut(log)?;
    let (count, entries) = log.split_first_mut().ok_or_else(|| Fault::msg("an empty log"))?;
    let place = *count;
    *entries.get_mut(place as usize).ok_or_else(|| Fault::msg("a full log"))? = value;
    *count += 1;
    Ok(place)
}

/// Runs until the host opens the gate or cancels the call. Word 0 belongs to the host: a value
/// other than zero opens. Word 16 belongs to the device: it counts the calls that reached the gate.
/// Returns `value`.
#[offload]
pub fn wait_at(cx: &mut Context, gate: BufferPtr<u32>, value: u64) -> Result<u64, Fault> {
    stand_at(cx, gate, value)
}

/// The same as a task that never waits: it keeps the device's processor.
#[offload]
pub fn spin_at(task: &mut Task, gate: BufferPtr<u32>, value: u64) -> Result<u64, Fault> {
    task.inline(|cx| stand_at(cx, gate, value))
}

fn stand_at(cx: &mut Context, gate: BufferPtr<u32>, value: u64) -> Result<u64, Fault> {
    let words = cx.words(gate)?;
    let (Some(open), Some(waiting)) = (words.get(0), words.get(16)) else {
        return Err(Fault::msg("a gate of fewer than 17 words"));
    };
    waiting.publish(waiting.load() + 1);
    while open.observe() == 0 && !cx.cancelled() {
        core::hint::spin_loop();
    }
    Ok(value)
}

/// The time budget that the caller gave, in microseconds.
#[offload]
pub fn budget(cx: &mut Context) -> u32 {
    cx.deadline_us()
}

/// Takes two overlapping mutable views of one buffer, which is refused.
#[offload]
pub fn alias(cx: &mut Context, one: BufferPtr<u8>, other: BufferPtr<u8>) -> Result<(), Fault> {
    cx.views((one.write(), other.write())).map(|_| ())
}

/// Adds one to every element after waiting at the gate: the result shows whether the buffer was
/// changed meanwhile.
#[offload]
pub fn increment_after(cx: &mut Context, gate: BufferPtr<u32>, data: BufferPtr<u64>) -> Result<u64, Fault> {
    stand_at(cx, gate, 0)?;
    let data = cx.view_mut(data)?;
    data.iter_mut().for_each(|v| *v += 1);
    Ok(data.iter().fold(0, |sum, v| sum.wrapping_add(*v)))
}

/// Words for [`compete`], each in a cache line of its own.
pub const CELLS: usize = 64;
const LINE: usize = 16;
const TURN: usize = 2 * LINE;
const COUNTER: usize = 3 * LINE;

/// Adds 1 to a counter `rounds` times, each time under Peterson's lock (Peterson, "Myths about the
/// mutual exclusion problem", 1981), against a competitor with the other number of 0 and 1. The
/// lock consists of loads, stores and two full fences: with one fence missing or one store delayed,
/// both sides are inside at once and counts are lost. Returns the number of rounds that had to
/// wait; `None` when there are too few words.
pub fn compete(cells: Words<'_>, me: u32, rounds: u32) -> Option<u32> {
    let other = 1 - me.min(1);
    let (mine, theirs) = (cells.get(me.min(1) as usize * LINE)?, cells.get(other as usize * LINE)?);
    let (turn, counter) = (cells.get(TURN)?, cells.get(COUNTER)?);
    let mut waited = 0;
    for _ in 0..rounds {
        mine.store(1);
        turn.publish(other);
        fence(Ordering::SeqCst);
        let taken = || theirs.observe() == 1 && turn.observe() == other;
        waited += u32::from(taken());
        while taken() {}
        fence(Ordering::SeqCst);
        counter.store(counter.load().wrapping_add(1));
        mine.publish(0);
    }
    Some(waited)
}

/// The counter of [`compete`].
pub fn competed(cells: Words<'_>) -> Option<u32> {
    cells.get(COUNTER).map(|counter| counter.observe())
}

/// [`compete`] from the device's side, as competitor 1.
#[offload]
pub fn peterson(cx: &mut Context, cells: BufferPtr<u32>, rounds: u32) -> Result<(), Fault> {
    compete(cx.words(cells)?, 1, rounds).map(|_| ()).ok_or(Fault::msg("expected 64 words"))
}

/// Logs a line of each level; the line of level info has a value of many kinds.
#[offload]
pub fn say(_cx: &mut Context, n: u32, x: f32, text: String<64>) {
    trace!("trace {}", n);
    debug!("debug {}", n);
    info!(
        "info {} {} {} {:?} {:#x} {}",
        n,
        x,
        text.as_str(),
        [n as u16, 2, 3],
        u64::from(n) << 40,
        Some(x > 1.0).is_some()
    );
    warn!("warn {}", n);
    error!("error {}", n);
}

/// Logs numbered lines as fast as it can.
#[offload]
pub fn flood(_cx: &mut Context, lines: u32) {
    for line in 0..lines {
        info!("line {}", line);
    }
}
