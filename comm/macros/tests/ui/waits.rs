//! What a task borrowed before a wait it cannot use behind it; inline handlers cannot wait.
use hamr_comm::{BufferPtr, Context, Fault, Resource, Task, offload};

#[offload]
fn a_view_across_a_wait(task: &mut Task, x: BufferPtr<u64>) -> Result<u64, Fault> {
    let view = task.view(x)?;
    task.sleep(core::time::Duration::from_micros(10))?;
    Ok(view.len() as u64)
}

static COUNTER: Resource<u64> = Resource::new(0);

#[offload]
fn a_wait_inside_of_a_resource(task: &mut Task) -> Result<(), Fault> {
    task.with(&COUNTER, |counter| {
        *counter += 1;
        let _ = task.yield_now();
    })
}

#[offload]
fn a_wait_inside_of_inline(task: &mut Task) {
    task.inline(|_cx| {
        let _ = task.yield_now();
    });
}

#[offload]
fn a_context_that_is_kept(task: &mut Task) {
    let mut kept = None;
    task.inline(|cx| kept = Some(cx));
}

#[offload]
fn an_inline_handler_that_waits(cx: &mut Context) -> Result<(), Fault> {
    Ok(cx.sleep(core::time::Duration::from_micros(10))?)
}

fn main() {}
