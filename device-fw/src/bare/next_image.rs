//! Another image in the place of this one, on the same machine: its bytes wait near the end of RAM, and at
//! the end of the epoch a few instructions in RAM's last page move them to their place and enter them, with
//! the processor as it was when this image was entered.
//!
//! ```text
//!  RAM  | this image, or the next | …free… | the next image's bytes | mover |
//! ```
//!
//! One processor runs. Others are off, or (riscv64) wait in the first bytes of the image, which are the same
//! in each.

#![expect(unsafe_code)]
// UNSAFETY: memory outside of the image, code that is moved, and the end of this image (contract
// "next image").
//
// Contract "next image". RAM behind the image's end holds no variable of it nor the window. Assembly
// alone reads what is put there, when no code of the image runs any more: the epoch is over,
// interrupts are masked, other processors are off or (riscv64) in the first bytes of the image, the
// same in each. The addresses were checked against RAM and both images; what the bytes do is the
// host's choice.

use super::isa::next_image::{MOVER, can_leave, leave};
use super::mover::NextImage;
use super::{isa, memory};
use core::ptr::with_exposed_provenance_mut;
use hamr_comm::module::{ImagePlace, Refusal};
use spin::Mutex;

const PAGE: usize = 4096;
/// Bytes of the words that are moved at a time.
const WORD: usize = 8;

/// As all locks of the runtime, this one is tried.
static NEXT: Mutex<Option<NextImage>> = Mutex::new(None);

/// Keeps the bytes of an image, in the place of one that waits.
pub(super) fn keep(image: &[u8], place: ImagePlace) -> Result<(), Refusal> {
    *NEXT.try_lock().ok_or(Refusal::NotHere)? = None;
    if !can_leave() {
        return Err(Refusal::Protected);
    }
    let ram = memory::ram_addresses();
    let mover = ram.end - PAGE;
    let refused = || {
        let ImagePlace { start, end, .. } = place;
        Refusal::ImagePlace { start, end, from: ram.start as u64, to: ram.end as u64 }
    };
    let address = |at: u64| usize::try_from(at).ok().filter(|at| ram.contains(at)).ok_or_else(refused);
    let (to, end, entry) = (address(place.start)?, address(place.end)?, address(place.entry)?);
    let end = end.max(memory::image_end());
    let from = mover.checked_sub(image.len()).map(|from| from & !(PAGE - 1));
    let from = from.filter(|from| *from >= end).ok_or_else(refused)?;
    let in_image = |at: usize| (to..to.saturating_add(image.len())).contains(&at);
    if image.is_empty() || !image.len().is_multiple_of(WORD) || !to.is_multiple_of(PAGE) || !in_image(entry) {
        return Err(refused());
    }
    if to.saturating_add(image.len()) > end {
        return Err(refused());
    }
    let kept = with_exposed_provenance_mut::<u8>(from);
    // SAFETY: RAM of the board behind this image's end and before the mover's page: no variable is there, and the window, where
    // `image` is, is a card's or before that end.
    unsafe { kept.copy_from_nonoverlapping(image.as_ptr(), image.len()) };
    let code = with_exposed_provenance_mut::<u8>(mover);
    // SAFETY: the last page of RAM, as above; the mover is a constant of this image, shorter than a page.
    unsafe { code.copy_from_nonoverlapping(MOVER.start().cast(), MOVER.len()) };
    *NEXT.try_lock().ok_or(Refusal::NotHere)? = Some(NextImage { from, to: to..end, bytes: image.len(), entry, mover });
    Ok(())
}

/// At the end of an epoch: enters the image that waits, if one does.
pub(super) fn enter() {
    let Some(next) = NEXT.try_lock().and_then(|mut next| next.take()) else { return };
    // Masks interrupts.
    isa::tick::pause();
    // SAFETY: `keep` has made it. The epoch is over, so that no host uses the window, and no code of this
    // image runs behind this: there is one processor, and interrupts are masked.
    unsafe { leave(&next) }
}
