//! `docs/tasks.md`.

use super::{Done, loopback};
use hamr_comm::{BufferPtr, Fault, HOST, Host, Task, offload};

/// Waits until the host sets word 0 of `flag`, then sums a buffer.
#[offload]
pub fn sum_when(task: &mut Task, flag: BufferPtr<u32>, x: BufferPtr<u64>) -> Result<u64, Fault> {
    let flag = task.words(flag)?;
    let ready = flag.get(0).ok_or_else(|| Fault::msg("no word"))?;
    task.wait_until(|| ready.observe() != 0)?;
    Ok(task.view(x)?.iter().sum())
}

#[offload]
pub fn refill(cx: &mut Host, x: BufferPtr<u64>) -> Result<(), Fault> {
    let _ = (cx.node(), x);
    Ok(())
}

#[offload]
pub fn copies(task: &mut Task, x: BufferPtr<u64>, y: BufferPtr<u64>) -> Result<u64, Fault> {
    let mine = task.claim((x.read(), y.write()))?;
    task.sync(HOST, refill::with(x))?;
    let (x, y) = task.views((x.read(), y.write()))?;
    y.copy_from_slice(x);
    let sum = y.iter().sum();
    drop(mine);
    Ok(sum)
}

#[offload]
pub fn add_up(_: &mut Host, to: u64) -> u64 {
    (1..=to).sum()
}

#[offload]
pub fn progress(_: &mut Host, percent: u32) {
    assert_eq!(percent, 50);
}

#[offload]
pub fn asks(task: &mut Task) -> Result<u64, Fault> {
    let total = task.sync(HOST, add_up::with(3))?;
    let a = task.offload(HOST, add_up::with(4))?;
    task.send(HOST, progress::with(50))?;
    let more = task.wait_for(a)?;
    Ok(100 * total + more)
}

#[test]
fn tasks_wait_claim_and_call_the_host() -> Done {
    let dev = loopback();
    let (flag, x, y) = (dev.buffer(&[0u32])?, dev.buffer(&[1u64, 2, 3])?, dev.buffer(&[0u64; 3])?);
    let sum = dev.offload(sum_when::with(flag.ptr(), x.ptr()))?;
    dev.ping()?;
    assert!(!sum.is_done());
    dev.words(flag.ptr())?.get(0).ok_or("a word")?.publish(1);
    assert_eq!(sum.wait()?, 6);
    assert_eq!((dev.sync(copies::with(x.ptr(), y.ptr()))?, y.read()?), (6, vec![1, 2, 3]));
    assert_eq!(dev.sync(asks::with())?, 610);
    Ok(())
}
