//! The assembly behind `memcpy`, `memset` and similar functions in x86_64 images, compared with
//! Rust's own: every short length, distance and alignment, random long ones, and buffers that begin
//! or end at an inaccessible page.

#![expect(unsafe_code)]
// UNSAFETY: calls the assembly under test, which takes raw pointers.

use hamr_tests::conformance::Random;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
use std::arch::global_asm;

global_asm!(include_str!("../../../device-fw/src/arch/x86_64/mem.s"), options(att_syntax));

unsafe extern "C" {
    fn __hamr_move(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn __hamr_set(to: *mut u8, value: i32, bytes: usize) -> *mut u8;
    fn __hamr_compare(a: *const u8, b: *const u8, bytes: usize) -> i32;
    fn __hamr_length(text: *const u8) -> usize;
}

/// Moves inside one buffer; the slice is the memory that may be accessed.
fn move_within(buffer: &mut [u8], from: usize, to: usize, bytes: usize) {
    assert!(from + bytes <= buffer.len() && to + bytes <= buffer.len());
    let at = buffer.as_mut_ptr();
    let (source, target) = (at.wrapping_add(from), at.wrapping_add(to));
    // SAFETY: both ranges are in the buffer (asserted), and the function allows overlap.
    let returned = unsafe { __hamr_move(target, source, bytes) };
    assert_eq!(returned, target);
}

fn set(to: &mut [u8], value: i32) {
    // SAFETY: the slice is writable.
    let returned = unsafe { __hamr_set(to.as_mut_ptr(), value, to.len()) };
    assert_eq!(returned, to.as_mut_ptr());
}

fn compare(a: &[u8], b: &[u8]) -> i32 {
    assert_eq!(a.len(), b.len());
    // SAFETY: both are readable to their lengths.
    unsafe { __hamr_compare(a.as_ptr(), b.as_ptr(), a.len()) }.signum()
}

fn noise(len: usize) -> Vec<u8> {
    let mut random = Random(17);
    (0..len).map(|_| random.number() as u8).collect()
}

#[test]
fn moves_of_every_length_distance_and_alignment() {
    let before = noise(1200);
    let check = |from: usize, to: usize, bytes: usize| {
        let (mut expected, mut got) = (before.clone(), before.clone());
        expected.copy_within(from..from + bytes, to);
        move_within(&mut got, from, to, bytes);
        assert!(expected == got, "{bytes} bytes from {from} to {to}");
    };
    for bytes in (0..=80).chain([95, 96, 97, 127, 128, 129, 130, 255, 256, 257]) {
        for distance in -140i64..=140 {
            for from in [400, 401, 407, 413] {
                check(from, (from as i64 + distance) as usize, bytes);
            }
        }
    }
    let mut random = Random(19);
    for _ in 0..20_000 {
        let bytes = random.below(600) as usize;
        check(random.below(600) as usize, random.below(600) as usize, bytes);
    }
}

#[test]
fn fills_of_every_length_and_alignment() {
    let before = noise(400);
    for bytes in 0..300 {
        for at in 50..67 {
            for value in [0, 0xA5, 0x1FF, -1] {
                let (mut expected, mut got) = (before.clone(), before.clone());
                expected[at..at + bytes].fill(value as u8);
                set(&mut got[at..at + bytes], value);
                assert!(expected == got, "{bytes} bytes at {at}");
            }
        }
    }
}

#[test]
fn the_first_difference_decides() {
    let noise = noise(300);
    let mut random = Random(23);
    for bytes in 0..140 {
        for at in 0..9 {
            let a = &noise[at..at + bytes];
            assert_eq!(compare(a, a), 0);
            for first in 0..bytes {
                let mut b = a.to_vec();
                b[first] = b[first].wrapping_add(1 + random.below(255) as u8);
                // A later byte differs in the other direction.
                let later = first + random.below((bytes - first) as u64) as usize;
                if later != first {
                    b[later] = !b[later];
                }
                assert_eq!(compare(a, &b), a.cmp(&b[..]) as i32, "{bytes} bytes, at {first}");
            }
        }
    }
}

#[test]
fn lengths_of_texts() {
    for len in 0..100 {
        let mut text = vec![b'x'; len];
        text.extend([0, b'y']);
        // SAFETY: the text ends in a zero.
        assert_eq!(unsafe { __hamr_length(text.as_ptr()) }, len);
    }
}

/// A page between two that fault when they are touched.
fn island() -> &'static mut [u8] {
    const PAGE: usize = 4096;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address that the kernel chooses.
    let base = unsafe { mmap_anonymous(std::ptr::null_mut(), 3 * PAGE, access, MapFlags::PRIVATE) }.expect("memory");
    for page in [0, 2] {
        // SAFETY: three pages were mapped.
        let at = unsafe { base.byte_add(page * PAGE) };
        // SAFETY: no value is in this page.
        unsafe { mprotect(at, PAGE, MprotectFlags::empty()) }.expect("protects");
    }
    // SAFETY: three pages were mapped.
    let middle = unsafe { base.byte_add(PAGE) };
    // SAFETY: readable, writable, zeroed, never unmapped, given out once.
    unsafe { std::slice::from_raw_parts_mut(middle.cast(), PAGE) }
}

#[test]
fn the_assembly_touches_nothing_outside() {
    let (a, b) = (island(), island());
    for bytes in 0..=400 {
        let end = a.len() - bytes;
        for (at, from) in [(0, 0), (end, end), (end, 0), (0, end)] {
            let (to, source) = (a[at..].as_mut_ptr(), b[from..].as_ptr());
            // SAFETY: both ranges lie in their pages, as the slices that were cut there show.
            unsafe { __hamr_move(to, source, bytes) };
            set(&mut a[at..at + bytes], 3);
            set(&mut b[from..from + bytes], 3);
            assert_eq!(compare(&a[at..at + bytes], &b[from..from + bytes]), 0);
        }
    }
}
