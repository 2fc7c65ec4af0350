//! `with` takes the handler's own argument types.
use hamr_comm::{Context, offload};

#[offload]
fn scale(_cx: &mut Context, factor: f64, count: u32) -> f64 {
    factor * f64::from(count)
}

fn main() {
    let _ = scale::with(1, 2);
    let _ = scale::with(1.0);
}
