//! Loads modules: bytes that the host has made for their address become code.
//!
//! A module has whole pages, in one piece: first code and constants, then data. The former can be
//! written while they are copied and not run then, and run behind that and not written
//! (`<isa>/code.rs`). On riscv64 only this file keeps that order, because a hart has no entry of physical
//! memory protection left for it.

#![expect(unsafe_code)]
// UNSAFETY: bytes become code (contract "bare modules").
//
// Contract "bare modules". Pages are `image!`'s own section, each of one slot, and are written while
// only the serve loop runs; boot code made the tables that map them. Code appears behind a pointer
// with exposed provenance, and is called after the instructions that make it visible. Calls end as in
// contract "hosted modules", a panic or trap as in the image.

use super::fault;
use super::isa::code;
use super::module_memory::{MODULES, PAGE};
use super::next_image;
use core::ptr::with_exposed_provenance_mut;
use hamr_comm::module::{ImagePlace, Loader, MOST, ModuleHeader, ModuleImage, Refusal, use_loader};
use spin::Mutex;

/// Pages of a module.
#[derive(Clone, Copy)]
struct Pages {
    first: usize,
    bytes: usize,
    /// Of code and constants.
    code: usize,
}

/// Those of each slot. As all locks of the runtime, this one is tried.
struct Taken(Mutex<[Option<Pages>; MOST]>);

static TAKEN: Taken = Taken(Mutex::new([None; MOST]));

/// Has the image take modules.
pub(super) fn take() {
    use_loader(&TAKEN);
}

impl Taken {
    fn of(&self, slot: usize) -> Option<Pages> {
        *self.0.try_lock()?.get(slot)?
    }
}

/// The first piece of memory that is long enough, between those that are taken; or the length of the
/// longest.
fn find(taken: &[Option<Pages>], wanted: usize) -> Result<usize, usize> {
    let (mut first, mut longest) = (MODULES.first, 0);
    loop {
        let next = taken.iter().flatten().filter(|pages| pages.first >= first).min_by_key(|pages| pages.first);
        let free = next.map_or(MODULES.first + MODULES.bytes, |pages| pages.first) - first;
        if free >= wanted {
            return Ok(first);
        }
        longest = longest.max(free);
        first = next.map(|pages| pages.first + pages.bytes).ok_or(longest)?;
    }
}

impl Loader for Taken {
    fn reserve(&self, slot: usize, bytes: u64, code: u64) -> Result<u64, Refusal> {
        #[cfg(feature = "world")]
        if super::world::is_rank() {
            // Memory that programs of a rank claim is known to the image's copy of `hamr-comm` alone.
            return Err(Refusal::NotHere);
        }
        let whole = |bytes: u64| usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_next_multiple_of(PAGE));
        let wanted = whole(bytes.max(1)).unwrap_or(usize::MAX);
        let code = whole(code).filter(|code| *code <= wanted).ok_or(Refusal::NoModule)?;
        let mut all = self.0.try_lock().ok_or(Refusal::NotHere)?;
        let first = find(&*all, wanted).map_err(|free| Refusal::NoRoom { wanted: bytes, free: free as u64 })?;
        if let Some(place) = all.get_mut(slot) {
            *place = Some(Pages { first, bytes: wanted, code });
        }
        Ok(first as u64)
    }

    fn load(&self, slot: usize, image: &[u8], header: u64) -> Result<&'static ModuleHeader, Refusal> {
        let pages = self.of(slot).filter(|pages| image.len() <= pages.bytes).ok_or(Refusal::NoModule)?;
        let header = usize::try_from(header).map_err(|_| Refusal::NoModule)?;
        let end = header.checked_add(size_of::<ModuleHeader>()).ok_or(Refusal::NoModule)?;
        if end > pages.code || !header.is_multiple_of(align_of::<ModuleHeader>()) {
            return Err(Refusal::NoModule);
        }
        let to = with_exposed_provenance_mut::<u8>(pages.first);
        // SAFETY: memory that only `image!` reserves, in pages that only this slot has; they are
        // writable, since no code of them is loaded. The bytes are in the window, elsewhere.
        unsafe { to.copy_from_nonoverlapping(image.as_ptr(), image.len()) };
        // SAFETY: as above; the rest of the pages, which may have an older module's bytes.
        let rest = unsafe { to.add(image.len()) };
        // SAFETY: as above.
        unsafe { rest.write_bytes(0, pages.bytes - image.len()) };
        // SAFETY: whole pages of this slot, in memory of modules. Nothing refers to them yet.
        unsafe { code::make(pages.first, pages.code) };
        // SAFETY: in these pages by the check above.
        let header = unsafe { to.add(header) }.cast_const().cast::<ModuleHeader>();
        // SAFETY: aligned, inside, and initialised. The first fields have C's layout, so that what is no
        // header of this build is refused by them before a function of it is called. The pages do not
        // change before `unload`, behind which no caller uses the header.
        let header = unsafe { &*header };
        header.check()?;
        (header.enter)(ModuleImage::this(fault::panicked));
        Ok(header)
    }

    fn keep_image(&self, image: &[u8], place: ImagePlace) -> Result<(), Refusal> {
        #[cfg(feature = "world")]
        if super::world::is_rank() {
            return Err(Refusal::NotHere);
        }
        next_image::keep(image, place)
    }

    fn unload(&self, slot: usize) {
        if let Some(mut all) = self.0.try_lock()
            && let Some(pages) = all.get_mut(slot).and_then(Option::take)
        {
            // SAFETY: whole pages of this slot, in memory of modules. No code of them runs: the serve
            // loop, which alone runs handlers, is in this function.
            unsafe { code::unmake(pages.first, pages.code) };
        }
    }
}
