//! STREAM: the memory bandwidth of all devices of a world together.
use hamr_xacc::prelude::*;

const SCALAR: f64 = 3.0;

/// Shortest times of a kernel on the slowest device, in seconds, and how far the arrays are from what
/// they should be.
#[derive(Clone, Copy, Default, PartialEq, Debug, Migratable)]
pub struct Times {
    /// `c = a`
    pub copy: f64,
    /// `b = s c`
    pub scale: f64,
    /// `c = a + b`
    pub add: f64,
    /// `a = b + s c`
    pub triad: f64,
    /// The largest difference of an element.
    pub error: f64,
}

/// Each kernel `times` times on three arrays of `n` elements.
#[offload(unlisted)]
pub fn stream(w: &mut Spmd, n: i64, times: u32) -> Result<Times, Fault> {
    let line = w.nodes([w.size()])?.template([n]).distribute([Block])?;
    let here = line.all();
    let [mut a, mut b, mut c] = line.fulls([1.0f64, 2.0, 0.0], w)?;
    let mut best = [f64::INFINITY; 4];
    let mut wanted = [1.0, 2.0, 0.0];
    for _ in 0..times {
        for (kernel, best) in best.iter_mut().enumerate() {
            w.barrier()?;
            let start = w.seconds();
            match kernel {
                0 => each!([i] in here => c[[i]] = a[[i]]),
                1 => each!([i] in here => b[[i]] = SCALAR * c[[i]]),
                2 => each!([i] in here => c[[i]] = a[[i]] + b[[i]]),
                _ => each!([i] in here => a[[i]] = b[[i]] + SCALAR * c[[i]]),
            }
            *best = best.min(w.reduce(Max, w.seconds() - start)?);
        }
        wanted[2] = wanted[0];
        wanted[1] = SCALAR * wanted[2];
        wanted[2] = wanted[0] + wanted[1];
        wanted[0] = wanted[1] + SCALAR * wanted[2];
    }
    let error = each!([i] in here => max {
        (a[[i]] - wanted[0]).abs().max((b[[i]] - wanted[1]).abs()).max((c[[i]] - wanted[2]).abs())
    });
    let error = w.reduce(Max, error)?;
    let [copy, scale, add, triad] = best;
    Ok(Times { copy, scale, add, triad, error })
}
