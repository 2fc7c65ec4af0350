//! What stands in `each!`.
use hamr_xacc::dist::Share;
use hamr_xacc::each;

fn kinds(share: Share<1>, plane: Share<2>) {
    let _ = each!([k] in share => average { k });
    let _ = each!([k] in share => { k });
    let _ = each!([k, k] in share => sum { k });
    each!([k] in plane => drop(k));
    each!([] in share => ());
    each!([k] share => ());
}

fn main() {}
