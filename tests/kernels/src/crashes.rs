//! Handlers that break the rules: each ends its own call with a fault, and the device serves the
//! next one.

#![expect(unsafe_code)]
// UNSAFETY: undefined behaviour on purpose: the ways in which a broken handler fails that a
// processor notices.

use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_comm::{BufferPtr, Context, Fault, offload};

/// Reads from a null pointer.
#[offload]
pub fn null(_cx: &mut Context) -> u64 {
    read_null()
}

/// The same for code outside of handlers.
#[inline(always)]
pub fn read_null() -> u64 {
    let nothing: *const u64 = black_box(core::ptr::null());
    // SAFETY: none: the read is meant to trap. Volatile, so that it is done.
    unsafe { nothing.read_volatile() }
}

/// The same in another function, at an address that no other test has looked up.
#[offload]
pub fn null_twice(_cx: &mut Context) -> u64 {
    let nothing: *const u64 = black_box(core::ptr::null());
    // SAFETY: none, as above.
    let first = unsafe { nothing.wrapping_add(1).read_volatile() };
    // SAFETY: none, as above.
    first ^ unsafe { nothing.read_volatile() }
}

/// Logs a text at a bad address, which the logger reads.
#[offload]
pub fn logs_nothing(_cx: &mut Context) -> u64 {
    let nowhere: *const u8 = black_box(core::ptr::without_provenance(16));
    // SAFETY: none: reading them is meant to trap.
    let bytes = unsafe { core::slice::from_raw_parts(nowhere, 24) };
    // SAFETY: none, as above.
    let text = unsafe { core::str::from_utf8_unchecked(bytes) };
    hamr_comm::info!("nowhere: {}", text);
    text.len() as u64
}

/// Writes to an address without writable memory.
#[offload]
pub fn bad_address(_cx: &mut Context, address: u64) -> u64 {
    let nowhere = core::ptr::with_exposed_provenance_mut::<u64>(black_box(address as usize));
    // SAFETY: none, as above.
    unsafe { nowhere.write_volatile(1) };
    address
}

/// Writes to its own code.
#[offload]
pub fn writes_code(_cx: &mut Context) -> u64 {
    let code: fn(u64) -> u64 = black_box(deeper);
    let code = core::ptr::with_exposed_provenance_mut::<u8>(code as usize);
    // SAFETY: none, as above.
    unsafe { code.write_volatile(0) };
    0
}

/// Calls itself until no stack is left.
#[offload]
pub fn overflows(_cx: &mut Context, depth: u64) -> u64 {
    deeper(depth)
}

#[inline(never)]
fn deeper(depth: u64) -> u64 {
    let block = black_box([depth; 64]);
    if depth == 0 { 0 } else { block.iter().sum::<u64>() ^ deeper(depth - 1) }
}

/// Calls itself until no stack is left. Each frame has this many KiB, and only both ends of it are
/// written.
#[offload]
pub fn leaps(_cx: &mut Context, kib: u32) -> u64 {
    match kib {
        0..16 => leap::<{ 12 << 10 }>(u64::MAX),
        16..20 => leap::<{ 16 << 10 }>(u64::MAX),
        20..24 => leap::<{ 20 << 10 }>(u64::MAX),
        24..28 => leap::<{ 24 << 10 }>(u64::MAX),
        28..32 => leap::<{ 28 << 10 }>(u64::MAX),
        _ => leap::<{ 32 << 10 }>(u64::MAX),
    }
}

#[inline(never)]
fn leap<const BYTES: usize>(depth: u64) -> u64 {
    let mut block = core::mem::MaybeUninit::<[u8; BYTES]>::uninit();
    let far = black_box(&mut block).as_mut_ptr().cast::<u8>();
    // SAFETY: the first byte of the block. Only its frame may be too large.
    unsafe { far.write_volatile(depth as u8) };
    let deeper = if depth == 0 { 0 } else { leap::<BYTES>(depth - 1) };
    // SAFETY: as above; written before.
    deeper ^ u64::from(unsafe { far.read_volatile() })
}

/// Runs an invalid instruction: the first word is UD2 on x86_64 and permanently undefined on
/// aarch64; on riscv64 it is a fence, and the second word is undefined.
#[offload]
pub fn illegal(_cx: &mut Context) -> u64 {
    // SAFETY: none: it is meant to trap.
    #[cfg(not(target_arch = "arm"))]
    unsafe {
        core::arch::asm!(".4byte 0x00000B0F", ".4byte 0")
    };
    // SAFETY: as above.
    #[cfg(target_arch = "arm")]
    unsafe {
        core::arch::asm!("udf #0")
    };
    0
}

/// Ends with interrupts masked, on a microcontroller.
#[offload]
pub fn masks_interrupts(_cx: &mut Context) {
    #[cfg(all(target_os = "none", target_arch = "arm"))]
    // SAFETY: none: what needs interrupts does not get them.
    unsafe {
        core::arch::asm!("cpsid i", "cpsid f", "msr basepri, {}", in(reg) 0x20)
    };
}

/// Loops for ever.
#[offload]
pub fn loops(_cx: &mut Context) -> u64 {
    static ROUNDS: AtomicU32 = AtomicU32::new(0);
    while black_box(true) {
        ROUNDS.store(ROUNDS.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
    0
}

/// `a * b + c`, in a loop of its own so that interrupts find it with floating point in registers.
#[offload]
pub fn fma(_cx: &mut Context, a: f64, b: f64, c: f64) -> f64 {
    (0..1000).fold(0.0, |_, _| black_box(a) * black_box(b) + black_box(c))
}

/// Divides as the processor does, without Rust's check: it traps, or returns the result that the
/// instruction set defines.
#[offload]
pub fn divides(_cx: &mut Context, dividend: u64, divisor: u64) -> u64 {
    if divisor == 0 {
        // SAFETY: none: this removes the check of the division.
        unsafe { core::hint::unreachable_unchecked() };
    }
    black_box(dividend) / divisor
}

/// Reads eight bytes from an odd address: it traps, or returns the bytes.
#[offload]
pub fn misaligned(_cx: &mut Context) -> u64 {
    let bytes = black_box([1_u8, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    let odd = (&raw const bytes).cast::<u8>().wrapping_add(1 + (&raw const bytes).addr() % 2);
    // SAFETY: the bytes are inside of the array; the test shows whether the address is allowed.
    unsafe { black_box(odd).cast::<u64>().read_volatile() }
}

/// Overwrites pointers that only the runtime uses. Of the words at the addresses `words`, it
/// changes each one that points to one of the bytes `bytes` of a card's memory. `card` is the
/// card's size, `data` a buffer in it. Returns the number of changed words.
#[offload]
pub fn misleads(
    cx: &mut Context,
    data: BufferPtr<u64>,
    card: u64,
    bytes: (u64, u64),
    words: (u64, u64),
) -> Result<u64, Fault> {
    /// An address without memory on every machine, also after the runtime adds any offset.
    const NOWHERE: u64 = 1 << 45;
    // As every base address register, it is aligned to the card's size.
    let base = cx.view(data)?.as_ptr().addr() as u64 & !(card - 1);
    let mut found = 0;
    for address in (words.0..words.1).step_by(8) {
        let word = core::ptr::with_exposed_provenance_mut::<u64>(black_box(address as usize));
        // SAFETY: none. The caller passes addresses of the runtime's memory, which is meant to
        // break.
        let value = unsafe { word.read_volatile() };
        if (base + bytes.0..base + bytes.1).contains(&value) {
            // SAFETY: none, as above.
            unsafe { word.write_volatile(NOWHERE) };
            found += 1;
        }
    }
    Ok(found)
}
