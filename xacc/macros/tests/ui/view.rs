//! Views of coarrays across communication, and communication where there is none.
use hamr_xacc::prelude::*;

fn across_a_sync(w: &mut Spmd, p: &mut Coarray<f32, 1>) -> Result<(), Fault> {
    let view = p.view(w);
    w.sync_all()?;
    drop(view[[0]]);
    Ok(())
}

fn across_a_put(w: &mut Spmd, p: &mut Coarray<f32, 1>) -> Result<(), Fault> {
    let mut view = p.view_mut(w);
    p.put(1, s![0], 1.0, w)?;
    view[[0]] = 1.0;
    Ok(())
}

fn across_a_nonblock(w: &mut Spmd, p: &mut Coarray<f32, 1>, q: &mut Coarray<f32, 1>) -> Result<(), Fault> {
    let view = p.view(w);
    w.nonblock(|w| q.get(s![0], 1, s![1], w))?;
    drop(view[[0]]);
    Ok(())
}

fn in_a_task_without_communication(w: &mut Spmd, p: &mut Coarray<f32, 1>) -> Result<(), Fault> {
    w.task_nocomm(NodeSet::one(0), || p.put(1, s![0], 1.0, w))?;
    Ok(())
}

fn main() {}
