//! A claim of the segment gives out references that last across waits: nothing else reaches the bytes meanwhile, from
//! safe code, and the claim ends with its task.

use super::*;
use hamr_comm::abi::buffer::{BufferParts, WireBuffer};
use hamr_comm::testing::Heap;
use hamr_comm::world::{AtomicOp, SegAddr, Strided};
use hamr_comm::{BufferPtr, Context, offload};

/// Where claims begin in the segment; in front of it nothing is claimed.
const FROM: u64 = 4096;

/// Bytes of this rank's segment, 64 from `off` on.
fn part<T: hamr_comm::Element>(segment: BufferPtr<u8>, off: u64) -> BufferPtr<T> {
    let p = segment.parts();
    BufferPtr::from_wire(WireBuffer::pack(BufferParts { off: p.off + off, len: 64 / size_of::<T>() as u64, ..p }))
}

fn segment(task: &Task<'_>) -> Result<BufferPtr<u8>, Fault> {
    Ok(task.world().ok_or_else(|| Fault::msg("no rank"))?.segment())
}

/// Runs a program on one rank; its code, or why it failed.
fn run(program: impl Fn(&mut Task<'_>) -> Result<u8, Fault> + Send + Sync + 'static) -> String {
    world(1).run_program(program).map_or_else(|e| e.to_string(), |code| format!("code {code}"))
}

fn check(is_right: bool, what: &str) -> Result<(), Fault> {
    if is_right { Ok(()) } else { Err(Fault::msg(what)) }
}

/// Ways to write bytes of a rank's own segment from a task that has a reference to them.
fn writes_of_task(task: &Task<'_>, off: u64) -> Result<[(&'static str, bool); 9], Fault> {
    let world = task.world().ok_or_else(|| Fault::msg("no rank"))?;
    let (me, own) = (world.me(), world.segment());
    let shape = Strided { run: 4, counts: &[2], here: &[4], there: &[8] };
    let front = SegAddr { rank: me, off: 0 };
    Ok([
        ("copy_in", task.copy_in(&[7u8], part(own, off)).is_ok()),
        ("words", task.words(part(own, off)).is_ok()),
        ("claim to write", task.claim((part::<u8>(own, off).write(),)).is_ok()),
        ("put", world.put(me, off, &[7; 5]).is_ok()),
        ("put_value", world.put_value(me, off, 7u32).is_ok()),
        ("atomic", world.atomic(SegAddr { rank: me, off }, AtomicOp::Store(7u32)).is_ok()),
        ("copy", world.copy(front, SegAddr { rank: me, off }, 8).is_ok()),
        ("put_strided", world.put_strided(me, off, &[7; 8], &shape).is_ok()),
        ("claim_segment", task.claim_segment(off).is_ok()),
    ])
}

/// The same from handlers of others, by number.
#[offload]
fn writes(cx: &mut Context, off: u64, way: u32) -> Result<(), Fault> {
    let world = cx.world().ok_or_else(|| Fault::msg("no rank"))?;
    let (me, own) = (world.me(), world.segment());
    match way {
        0 => cx.view_mut(part::<u8>(own, off)).map(|x| x.fill(7)),
        1 => cx.views((part::<u8>(own, 0).read(), part::<u8>(own, off).write())).map(|(_, x)| x.fill(7)),
        2 => cx.copy_in(&[7u8], part(own, off)),
        3 => cx.words(part(own, off)).map(|words| words.get(0).into_iter().for_each(|word| word.store(7))),
        4 => Ok(world.put(me, off, &[7; 5])?),
        5 => Ok(world.put_value(me, off, 7u32)?),
        _ => Ok(world.atomic(SegAddr { rank: me, off }, AtomicOp::Store(7u32)).map(drop)?),
    }
}
const WRITES: u32 = 7;

/// Claims the segment, and waits with a reference to it until word 0 of `gate` is not zero; word 1 says that it waits.
#[offload(unordered)]
fn refers(task: &mut Task, gate: BufferPtr<u32>) -> Result<bool, Fault> {
    let gate = task.words(gate)?;
    let (Some(open), Some(waits)) = (gate.get(0), gate.get(1)) else { return Err(Fault::msg("no gate")) };
    let mut claim = task.claim_segment(FROM)?;
    let elements = claim.memory().piece::<u32>().into_mut_slice();
    elements.fill(1);
    waits.publish(1);
    task.wait_until(|| open.observe() != 0)?;
    Ok(elements.iter().all(|x| *x == 1))
}

/// Claims the segment, for good if its task did not end.
#[offload(unordered)]
fn forgets(task: &mut Task, panics: bool) -> Result<(), Fault> {
    std::mem::forget(task.claim_segment(0)?);
    assert!(!panics, "with a claim");
    Ok(())
}

#[test]
fn nothing_of_the_same_task_writes_below_a_reference() {
    let program = |task: &mut Task<'_>| {
        let mut claim = task.claim_segment(FROM)?;
        let mut piece = claim.memory().piece::<u32>();
        let first = piece.part_mut(0..16).ok_or_else(|| Fault::msg("no elements"))?;
        first.fill(1);
        for (way, wrote) in writes_of_task(task, FROM)? {
            check(!wrote, way)?;
        }
        task.yield_now()?;
        check(first.iter().all(|x| *x == 1), "what a `&mut [u32]` refers to has changed")?;
        let front = writes_of_task(task, 0)?;
        check(
            front.iter().filter(|(_, wrote)| !*wrote).all(|(way, _)| *way == "claim_segment"),
            "what is not claimed is free",
        )?;
        Ok(0)
    };
    assert_eq!(run(program), "code 0");
}

#[test]
fn words_that_are_refused_keep_no_claim_away() {
    let program = |task: &mut Task<'_>| {
        let own = segment(task)?.parts();
        let parts =
            BufferParts { node: hamr_comm::abi::ids::NodeId(own.node.0 + 1), off: own.off + FROM, len: 16, ..own };
        check(task.words(BufferPtr::from_wire(WireBuffer::pack(parts))).is_err(), "words of another node")?;
        drop(task.claim_segment(FROM)?);
        Ok(0)
    };
    assert_eq!(run(program), "code 0");
}

#[test]
fn nothing_of_another_handler_writes_below_a_reference() {
    let world = world(1);
    let node = world.node(0);
    let gate = node.buffer(&[0u32; 16]).expect("room");
    let held = node.offload(refers::with(gate.ptr())).expect("sent");
    let word = |at| node.words(gate.ptr()).expect("its own").get(at).expect("a word");
    until("it has its reference", || word(1).observe() == 1);
    for way in 0..WRITES {
        let refused = node.sync(writes::with(FROM, way)).expect_err("claimed").to_string();
        // Buffers of the rank's heap say what has them; copies by the world, what is left of the segment.
        let why = if way < 4 { "a program has the segment" } else { "it may use" };
        assert!(refused.contains(why), "{way}: {refused}");
        node.sync(writes::with(64, way)).expect("it is not claimed");
    }
    word(0).publish(1);
    assert!(held.wait().expect("goes on"), "what a `&mut [u32]` refers to has changed");
    for way in 0..WRITES {
        node.sync(writes::with(FROM, way)).expect("released");
    }
}

/// Words last as long as their task and ask nobody: a task that has some of the segment keeps it from claims.
#[test]
fn words_that_a_task_had_before_refuse_a_claim() {
    let program = |task: &mut Task<'_>| {
        let own = segment(task)?;
        // In front of the claim they do not matter.
        let front = task.words(part(own, FROM - 64))?;
        drop(task.claim_segment(FROM)?);
        let words = task.words(part(own, FROM))?;
        let refused = task.claim_segment(FROM).map(drop).map_err(|fault| fault.to_string());
        check(refused.is_err_and(|why| why.contains("has words of the segment")), "claimed below words")?;
        words.get(0).into_iter().chain(front.get(0)).for_each(|word| word.store(7));
        drop(task.claim_segment(FROM + 64)?);
        Ok(0)
    };
    let world = world(1);
    assert_eq!(world.run_program(program).expect("a code"), 0);
    // They ended with their task.
    assert_eq!(world.run_program(|task| task.claim_segment(0).map(|_| 0)).expect("a code"), 0);
}

/// The same, of another task that waits.
#[test]
fn words_of_another_task_refuse_a_claim() {
    let (step, world) = (Arc::new(AtomicU32::new(0)), world(1));
    let theirs = step.clone();
    let has_words = move |task: &mut Task<'_>| {
        let words = task.words(part(segment(task)?, FROM))?;
        theirs.store(1, Ordering::Release);
        task.wait_until(|| theirs.load(Ordering::Acquire) == 2)?;
        words.get(0).into_iter().for_each(|word| word.store(7));
        Ok(0)
    };
    let node = world.node(0);
    let gate = node.buffer(&[1u32; 16]).expect("room");
    std::thread::scope(|scope| {
        let run = scope.spawn(|| world.run_program(has_words));
        until("it has words", || step.load(Ordering::Acquire) == 1);
        let refused = node.sync(refers::with(gate.ptr())).expect_err("it has words").to_string();
        assert!(refused.contains("has words of the segment"), "{refused}");
        step.store(2, Ordering::Release);
        assert_eq!(run.join().expect("no panic").expect("a code"), 0);
    });
    assert!(node.sync(refers::with(gate.ptr())).expect("they ended with their task"));
}

/// A buffer's claim makes no reference, but its task relies on the bytes.
#[test]
fn claims_of_parts_refuse_a_claim_of_the_segment() {
    let program = |task: &mut Task<'_>| {
        let own = segment(task)?;
        for writes in [false, true] {
            let x = part::<u64>(own, FROM);
            let claim = if writes { task.claim((x.write(),))? } else { task.claim((x.read(),))? };
            check(task.claim_segment(FROM).is_err(), "claimed twice")?;
            drop(task.claim_segment(FROM + 64)?);
            drop(claim);
            drop(task.claim_segment(FROM)?);
        }
        Ok(0)
    };
    assert_eq!(run(program), "code 0");
}

#[test]
fn a_claim_that_was_forgotten_ends_with_its_task() {
    let world = world(1);
    let node = world.node(0);
    for _ in 0..3 {
        node.sync(forgets::with(false)).expect("nobody has it");
        let why = node.sync(forgets::with(true)).expect_err("it panics").to_string();
        assert!(why.contains("with a claim"), "{why}");
    }
    node.sync(writes::with(FROM, 0)).expect("nobody has it");
}

/// A handler may put another context, one that lasts for good, where its own is. No heap is longer for it, nor a
/// claim shorter.
#[test]
fn an_exchanged_context_changes_no_heap() {
    fn other(task: &mut Task<'_>) {
        let other: &'static mut Heap = Box::leak(Box::new(Heap::new(64 << 20)));
        task.inline(|cx| *cx = other.context());
    }
    let is_whole = |task: &mut Task<'_>, len: u64| {
        let parts = BufferParts { off: len, index: 0, len: 64, generation: 0, node: task.node() };
        let behind = BufferPtr::<u8>::from_wire(WireBuffer::pack(parts));
        task.inline(|cx| cx.heap_len()) == len && task.view_mut(behind).is_err()
    };
    // Exchanged before the claim.
    let before = move |task: &mut Task<'_>| {
        let len = task.inline(|cx| cx.heap_len());
        other(task);
        let claim = task.claim_segment(0);
        task.yield_now()?;
        drop(claim);
        check(is_whole(task, len), "a view of memory behind the heap")?;
        let own = segment(task)?;
        check(task.view_mut(part::<u8>(own, 0)).is_ok(), "nobody has claimed it")?;
        Ok(0)
    };
    // And behind it: the claim was forgotten, so the task may be borrowed mutably.
    let after = move |task: &mut Task<'_>| {
        let len = task.inline(|cx| cx.heap_len());
        std::mem::forget(task.claim_segment(0)?);
        other(task);
        check(task.claim_segment(0).is_ok(), "it is another heap")?;
        task.yield_now()?;
        check(is_whole(task, len), "a view of memory behind the heap")?;
        let own = segment(task)?;
        check(task.view_mut(part::<u8>(own, 0)).is_err(), "it is claimed until the task ends")?;
        Ok(0)
    };
    let world = world(1);
    assert_eq!(world.run_program(before).expect("a code"), 0);
    assert_eq!(world.run_program(after).expect("a code"), 0);
    assert_eq!(world.run_program(|task| task.claim_segment(0).map(|_| 0)).expect("a code"), 0);
}
