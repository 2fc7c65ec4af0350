//! An array that is written is accessed at the written element only.
use hamr_xacc::dist::Share;
use hamr_xacc::each;
use hamr_xacc::each::Rows;

fn shifted(share: Share<2>, p: &mut impl Rows<2, Element = f32>) {
    each!([i, k] in share => p[[i, k]] = p[[i - 1, k]]);
}

fn along_the_row(share: Share<2>, p: &mut impl Rows<2, Element = f32>, q: &impl Rows<2, Element = f32>) {
    each!([i, k] in share => {
        p[[i, k]] += q[[i, k + 1]];
        p[[i, k]] += 2.0 * p[[i, k + 1]];
    });
}

fn by_an_index_that_is_read(share: Share<1>, p: &mut impl Rows<1, Element = i64>, q: &impl Rows<1, Element = i64>) {
    each!([k] in share => p[[k]] = p[[q[[k]]]]);
}

fn main() {}
