//! Arrays that other nodes write are no arrays whose slices do not change.
use hamr_xacc::SharedArray;
use hamr_xacc::prelude::*;

fn with_a_shared_one(w: &mut Spmd, shared: &mut SharedArray<u64, 1>, array: &mut Array<u64, 1>) {
    core::mem::swap(shared.view_mut(w), array);
}

fn with_a_coarray<'c>(w: &mut Spmd, coarray: &mut Coarray<'c, u64, 1>, array: &mut Array<'c, u64, 1>) {
    core::mem::swap(&mut *coarray.view_mut(w), array);
}

fn with_that_of_a_section(array: &mut Array<u64, 1>, other: &mut Array<u64, 1>) {
    core::mem::swap(array.section_mut(s![..]).array, other);
}

fn main() {}
