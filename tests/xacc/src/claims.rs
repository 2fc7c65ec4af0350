//! Handlers that claim their rank's segment, buffers, or a resource.

use hamr_comm::{BufferPtr, Context, Fault, Resource, Task, offload};

/// How [`claim()`] ends.
pub mod end {
    /// When word 0 of `gate` is not zero, or when it is cancelled.
    pub const RETURN: u32 = 0;
    /// It panics with the claim.
    pub const PANIC: u32 = 1;
}

/// Claims the segment from byte `from`, and returns how many bytes that are.
#[offload(unordered)]
pub fn claim(task: &mut Task, from: u64, end: u32, gate: BufferPtr<u32>) -> Result<u64, Fault> {
    let mut claim = task.claim_segment(from)?;
    assert!(end != end::PANIC, "it panics with a claim");
    let mut memory = claim.memory();
    let len = memory.len() as u64;
    let pieces = (memory.take_front(4096), memory.take_end(4096));
    let (Some(front), Some(back)) = pieces else { return Err(Fault::msg("no room")) };
    let (mut front, back) = (front.piece::<u64>(), back.piece::<u32>());
    front.as_mut_slice().iter_mut().zip(0..).for_each(|(x, i)| *x = i);
    let back = back.into_mut_slice();
    back.fill(7);
    let gate = task.words(gate)?;
    let gate = gate.get(0).ok_or_else(|| Fault::msg("no word"))?;
    task.wait_until(|| gate.observe() != 0)?;
    let is_kept = front.as_slice().iter().zip(0..).all(|(x, i)| *x == i) && back.iter().all(|x| *x == 7);
    if is_kept { Ok(len) } else { Err(Fault::msg("claimed bytes have changed")) }
}

/// What [`keeps()`] does with its claim: a set of these.
pub mod keep {
    /// The claim is for writing.
    pub const WRITES: u32 = 1;
    /// It panics with the claim behind the gate.
    pub const PANICS: u32 = 2;
    /// It ends without having dropped the claim.
    pub const FORGETS: u32 = 4;
    /// It drops the claim before the gate.
    pub const RELEASES: u32 = 8;
    /// It fills the buffer with 9 at its end, also when it is unwound.
    pub const FILLS: u32 = 16;
}

/// Claims a buffer, changes it if it may, and waits until word 0 of `gate` is not zero; word 16 counts
/// tasks that wait. Returns the sum of the buffer behind the wait.
#[offload(unordered)]
pub fn keeps(task: &mut Task, x: BufferPtr<u64>, gate: BufferPtr<u32>, how: u32) -> Result<u64, Fault> {
    let claim = match how & keep::WRITES {
        0 => task.claim((x.read(),))?,
        _ => task.claim((x.write(),))?,
    };
    if how & keep::WRITES != 0 {
        task.view_mut(x)?.fill(7);
    }
    // An empty claim keeps nothing, to its end.
    let empty = x.slice(8..8).ok_or_else(|| Fault::msg("a short buffer"))?;
    let _empty = task.claim((empty.write(),))?;
    // Its own claims are no obstacle; this one ends here.
    drop(task.claim((x.read(), x.write()))?);
    let claim = (how & keep::RELEASES == 0).then_some(claim);
    let fills = Fills { task, x: (how & keep::FILLS != 0).then_some(x) };
    let task = &mut *fills.task;
    arrive(task, gate)?;
    assert!(how & keep::PANICS == 0, "it panics with a claim");
    let sum = task.view(x)?.iter().sum();
    if how & keep::FORGETS != 0 {
        core::mem::forget(claim);
    }
    Ok(sum)
}

/// Claims so many elements of a buffer, each for itself, and waits as [`keeps()`].
#[offload(unordered)]
pub fn keeps_many(task: &mut Task, x: BufferPtr<u64>, gate: BufferPtr<u32>, count: u32) -> Result<u64, Fault> {
    let mut claims = [const { None }; 40];
    for (i, claim) in claims.iter_mut().enumerate().take(count as usize) {
        let element = x.slice(i..i + 1).ok_or_else(|| Fault::msg("a short buffer"))?;
        *claim = Some(task.claim((element.write(),))?);
    }
    arrive(task, gate)?;
    Ok(claims.iter().flatten().count() as u64)
}

/// Fills a buffer when it is dropped.
struct Fills<'a, 't> {
    task: &'a mut Task<'t>,
    x: Option<BufferPtr<u64>>,
}

impl Drop for Fills<'_, '_> {
    fn drop(&mut self) {
        if let Some(Ok(x)) = self.x.map(|x| self.task.view_mut(x)) {
            x.fill(9);
        }
    }
}

fn arrive(task: &Task, gate: BufferPtr<u32>) -> Result<(), Fault> {
    let words = task.words(gate)?;
    let (Some(open), Some(waiting)) = (words.get(0), words.get(16)) else { return Err(Fault::msg("no gate")) };
    waiting.publish(waiting.load() + 1);
    Ok(task.wait_until(|| open.observe() != 0)?)
}

/// The ways of [`uses()`]; the first [`READS`] of them only read.
pub const WAYS: [&str; 7] = ["view", "copy_out", "claim to read", "view_mut", "copy_in", "words", "claim to write"];
/// See [`WAYS`].
pub const READS: u32 = 3;

/// Uses a buffer in one of the [`WAYS`].
#[offload(unordered)]
pub fn uses(task: &mut Task, x: BufferPtr<u64>, way: u32) -> Result<(), Fault> {
    match way {
        2 => task.claim((x.read(),)).map(drop),
        6 => task.claim((x.write(),)).map(drop),
        _ => task.inline(|cx| use_inline(cx, x, way)),
    }
}

/// The same in an inline handler, which cannot claim.
#[offload]
pub fn uses_inline(cx: &mut Context, x: BufferPtr<u64>, way: u32) -> Result<(), Fault> {
    use_inline(cx, x, way)
}

fn use_inline(cx: &mut Context, x: BufferPtr<u64>, way: u32) -> Result<(), Fault> {
    match way {
        0 => cx.view(x).map(|_| ()),
        1 => cx.copy_out(x, &mut [0]),
        3 => cx.view_mut(x).map(|_| ()),
        4 => cx.copy_in(&[7], x),
        5 => cx.words(BufferPtr::from_wire(x.wire())).map(|_| ()),
        _ => Ok(()),
    }
}

/// Two numbers that are the same where no handler is between its two changes.
static LEVELS: Resource<[u64; 2]> = Resource::new([0; 2]);

/// Claims a resource for what it does on both sides of a wait, and waits and ends as [`keeps()`]. Returns
/// the first number.
#[offload(unordered)]
pub fn keeps_resource(task: &mut Task, gate: BufferPtr<u32>, how: u32) -> Result<u64, Fault> {
    let claim = task.claim_resource(&LEVELS)?;
    task.with(&LEVELS, |levels| levels[0] += 1)?;
    if task.claim_resource(&LEVELS).is_ok() || LEVELS.is_poisoned() {
        return Err(Fault::msg("it was claimed twice"));
    }
    // Nothing that is claimed is cleared.
    task.clear_poison(&LEVELS, [9; 2]);
    let claim = (how & keep::RELEASES == 0).then_some(claim);
    arrive(task, gate)?;
    assert!(how & keep::PANICS == 0, "it panics with a claim");
    if how & keep::FORGETS != 0 {
        core::mem::forget(claim);
    }
    task.inline(|cx| {
        cx.with(&LEVELS, |levels| {
            levels[1] += 1;
            levels[0]
        })
    })
}

/// Are both numbers the same?
#[offload]
pub fn uses_resource(cx: &mut Context) -> Result<bool, Fault> {
    cx.with(&LEVELS, |levels| levels[0] == levels[1])
}

/// Was the resource poisoned, before it was cleared?
#[offload]
pub fn clears_levels(cx: &mut Context) -> bool {
    let was_poisoned = LEVELS.is_poisoned();
    cx.clear_poison(&LEVELS, [0; 2]);
    was_poisoned
}

/// Claims a buffer and gives it back, until it is ended.
#[offload(unordered)]
pub fn claims_until_ended(task: &mut Task, x: BufferPtr<u64>) -> Result<u64, Fault> {
    loop {
        drop(task.claim((x.write(),))?);
    }
}

/// Claims the segment and gives it back, until it is ended.
#[offload(unordered)]
pub fn claims_segment_until_ended(task: &mut Task) -> Result<u64, Fault> {
    loop {
        drop(task.claim_segment(0)?);
    }
}

/// Where this rank's segment begins in its heap, and bytes of the heap.
#[offload]
pub fn own_segment(cx: &mut Context) -> Result<(u64, u64), Fault> {
    let segment = cx.world().ok_or_else(|| Fault::msg("no rank"))?.segment();
    Ok((segment.parts().off, cx.heap_len()))
}

/// Stores a byte at the start of this rank's segment, as its own puts do.
#[offload]
pub fn puts_first(cx: &mut Context, value: u8) -> Result<(), Fault> {
    let world = cx.world().ok_or_else(|| Fault::msg("no rank"))?;
    Ok(world.put(world.me(), 0, &[value])?)
}

/// Views a buffer to write.
#[offload]
pub fn takes(cx: &mut Context, x: BufferPtr<u64>) -> Result<u64, Fault> {
    Ok(cx.view_mut(x)?.len() as u64)
}
