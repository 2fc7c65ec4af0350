//! Handlers that use a [`Resource`] when they are ended.

use core::sync::atomic::{AtomicU32, Ordering};
use hamr_comm::abi::status::Status;
use hamr_comm::{Context, Fault, Resource, offload};

/// The number of resources for [`polls_resource()`].
pub const RESOURCES: u32 = 128;

static POLLED: [Resource<u64>; RESOURCES as usize] = [const { Resource::new(0) }; RESOURCES as usize];

fn polled(which: u32) -> Result<&'static Resource<u64>, Fault> {
    POLLED.get(which as usize).ok_or_else(|| Fault::msg("no such resource"))
}

/// Takes a resource again and again until it is ended, as a driver that polls a register for a bit
/// which is never set.
#[offload]
pub fn polls_resource(cx: &mut Context, which: u32) -> Result<u64, Fault> {
    let resource = polled(which)?;
    loop {
        let is_ready = cx.with(resource, |v| {
            *v = v.wrapping_add(1);
            *v == u64::MAX
        })?;
        if is_ready {
            return Ok(0);
        }
    }
}

/// For one of those: the status of taking it, whether it is poisoned, and the status of taking it
/// after it was cleared.
#[offload]
pub fn clears_resource(cx: &mut Context, which: u32) -> Result<(u16, bool, u16), Fault> {
    let resource = polled(which)?;
    let take = |cx: &mut Context| cx.with(resource, |_| ()).map_or_else(|fault| fault.status.0, |()| Status::OK.0);
    let (before, is_poisoned) = (take(cx), resource.is_poisoned());
    cx.clear_poison(resource, 0);
    Ok((before, is_poisoned, take(cx)))
}

/// A value in a board's state that must be returned once.
pub struct Owned(u32);

static MADE: AtomicU32 = AtomicU32::new(0);
static GIVEN_BACK_TWICE: AtomicU32 = AtomicU32::new(0);
/// The number of the last returned value, of those that share an element.
static GIVEN_BACK: [AtomicU32; 1024] = [const { AtomicU32::new(0) }; 1024];

impl Owned {
    const NONE: Self = Self(0);

    fn new() -> Self {
        Self(MADE.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.0 == 0 {
            return;
        }
        let place = &GIVEN_BACK[self.0 as usize % GIVEN_BACK.len()];
        if place.swap(self.0, Ordering::Relaxed) == self.0 {
            GIVEN_BACK_TWICE.fetch_add(1, Ordering::Relaxed);
        }
        // So long that a call is likely to be ended here.
        for _ in 0..64 {
            core::hint::spin_loop();
        }
    }
}

static OWNER: Resource<Owned> = Resource::new(Owned::NONE);

/// Replaces the value in a resource again and again until it is ended.
#[offload]
pub fn replaces_owned(cx: &mut Context) -> Result<u64, Fault> {
    cx.with(&OWNER, |owned| {
        loop {
            *owned = Owned::new();
        }
    })
}

/// Clears that resource. Returns how many values were returned twice so far.
#[offload]
pub fn clears_owned(cx: &mut Context) -> Result<u32, Fault> {
    cx.clear_poison(&OWNER, Owned::NONE);
    cx.with(&OWNER, |_| ())?;
    Ok(GIVEN_BACK_TWICE.load(Ordering::Relaxed))
}
