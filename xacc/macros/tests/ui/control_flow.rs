//! Nothing leaves a loop before its end.
use hamr_xacc::dist::Share;
use hamr_xacc::each;
use hamr_xacc::each::Rows;

fn leaves(share: Share<1>, p: &impl Rows<1, Element = f32>) -> Option<f32> {
    each!([k] in share => {
        if p[[k]] > 1.0 {
            break;
        }
    });
    each!([k] in share => {
        if p[[k]] > 1.0 {
            continue;
        }
    });
    each!([k] in share => {
        if p[[k]] > 1.0 {
            return None;
        }
    });
    each!([k] in share => drop(u32::try_from(k).ok()?));
    each!([k] in share => 'inner: loop {
        if p[[k]] > 1.0 {
            break;
        }
        let value = || Some(u32::try_from(k).ok()? + 1);
        match value() {
            Some(_) => break 'inner,
            None => break 'outer,
        }
    });
    None
}

fn main() {}
