//! A write hits another element in each iteration.
use hamr_xacc::dist::Share;
use hamr_xacc::each;
use hamr_xacc::each::Rows;

fn one_variable_is_missing(share: Share<2>, p: &mut impl Rows<2, Element = f32>) {
    each!([i, k] in share => p[[0, k]] = 1.0);
}

fn shifted(share: Share<2>, p: &mut impl Rows<2, Element = f32>) {
    each!([i, k] in share => p[[i, k + 1]] = 1.0);
}

fn twice(share: Share<2>, p: &mut impl Rows<3, Element = f32>) {
    each!([i, k] in share => p[[i, i, k]] += 1.0);
}

fn another_order(share: Share<2>, p: &mut impl Rows<2, Element = f32>) {
    each!([i, k] in share => p[[k, i]] = 1.0);
}

fn by_reference(share: Share<1>, p: &mut impl Rows<1, Element = f32>) {
    each!([k] in share => core::mem::swap(&mut p[[k + 1]], &mut p[[k]]));
}

fn main() {}
