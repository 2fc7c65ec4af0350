//! A body assigns to arrays and to its own variables.
use hamr_xacc::dist::Share;
use hamr_xacc::each;
use hamr_xacc::each::Rows;

fn a_sum_by_hand(share: Share<1>, p: &impl Rows<1, Element = f32>) {
    let mut total = 0.0;
    each!([k] in share => total += p[[k]]);
}

fn a_field(share: Share<1>, p: &impl Rows<1, Element = f32>) {
    let mut state = (0.0, 0);
    each!([k] in share => {
        let own;
        own = p[[k]];
        if own > 1.0 {
            state.1 = 1;
        }
    });
}

fn the_loops_own(share: Share<1>) {
    each!([k] in share => k += 1);
}

fn bound_again(share: Share<2>) {
    each!([i, k] in share => {
        for k in 0..i {
            drop(k);
        }
    });
}

fn main() {}
