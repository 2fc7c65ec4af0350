//! Kernels that `cargo xtask kernels` counts the instructions of, beside the same loops in C
//! (`kernels.c`): `kernels jacobi|axpy|dot|bytes REPETITIONS EXTENT...` prints seconds and a checksum.

#![forbid(unsafe_code)]

#[path = "../tests/pure/field/mod.rs"]
mod field;

use field::{block, grid};
use hamr_xacc::dist::{Dist, Share};
use hamr_xacc::each;

/// The block of this node.
type Values<T, const N: usize> = each::Field<'static, 'static, T, N>;

#[inline(never)]
fn axpy(share: Share<1>, a: f64, x: &Values<f64, 1>, y: &mut Values<f64, 1>) {
    each!([i] in share => y[[i]] += a * x[[i]]);
}

#[inline(never)]
fn dot(share: Share<1>, x: &Values<f64, 1>, y: &Values<f64, 1>) -> f64 {
    each!([i] in share => sum { x[[i]] * y[[i]] })
}

#[inline(never)]
fn bytes(share: Share<2>, from: &Values<u8, 2>, to: &mut Values<u8, 2>) {
    each!([i, j] in share => {
        let [above, below] = [from[[i - 1, j]], from[[i + 1, j]]].map(u16::from);
        let [left, right] = [from[[i, j - 1]], from[[i, j + 1]]].map(u16::from);
        to[[i, j]] = ((above + below + left + right) / 4) as u8;
    });
}

struct Himeno {
    p: Values<f32, 3>,
    wrk2: Values<f32, 3>,
    wrk1: Values<f32, 3>,
    bnd: Values<f32, 3>,
    a: [Values<f32, 3>; 4],
    b: [Values<f32, 3>; 3],
    c: [Values<f32, 3>; 3],
}

#[inline(never)]
fn jacobi(share: Share<3>, arrays: &mut Himeno) -> f64 {
    let Himeno { p, wrk2, wrk1, bnd, a, b, c } = arrays;
    each!([i, j, k] in share => sum {
        let s0 = a[0][[i, j, k]] * p[[i + 1, j, k]]
            + a[1][[i, j, k]] * p[[i, j + 1, k]]
            + a[2][[i, j, k]] * p[[i, j, k + 1]]
            + b[0][[i, j, k]] * (p[[i + 1, j + 1, k]] - p[[i + 1, j - 1, k]]
                - p[[i - 1, j + 1, k]] + p[[i - 1, j - 1, k]])
            + b[1][[i, j, k]] * (p[[i, j + 1, k + 1]] - p[[i, j - 1, k + 1]]
                - p[[i, j + 1, k - 1]] + p[[i, j - 1, k - 1]])
            + b[2][[i, j, k]] * (p[[i + 1, j, k + 1]] - p[[i - 1, j, k + 1]]
                - p[[i + 1, j, k - 1]] + p[[i - 1, j, k - 1]])
            + c[0][[i, j, k]] * p[[i - 1, j, k]]
            + c[1][[i, j, k]] * p[[i, j - 1, k]]
            + c[2][[i, j, k]] * p[[i, j, k - 1]]
            + wrk1[[i, j, k]];
        let ss = (s0 * a[3][[i, j, k]] - p[[i, j, k]]) * bnd[[i, j, k]];
        wrk2[[i, j, k]] = p[[i, j, k]] + 0.8 * ss;
        f64::from(ss * ss)
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.len() < 3 || arguments.iter().any(|argument| argument == "--help") {
        println!("usage: kernels jacobi|axpy|dot|bytes REPETITIONS EXTENT...");
        return;
    }
    let number = |at: usize| -> i64 { arguments[at].parse().expect("a number") };
    let (kernel, repetitions) = (arguments[0].as_str(), number(1));
    let mut checksum = 0.0;
    let start = match kernel {
        "jacobi" => {
            let n = [number(2), number(3), number(4)];
            let shape = grid([1], 0, n, [Dist::Block, Dist::Whole, Dist::Whole]);
            let full = |v: f32| block(shape, |_| v);
            let (p, [wrk1, wrk2]) = (full(1.0), [0.0; 2].map(full));
            let (a, b, c) = ([1.0, 1.0, 1.0, 1.0 / 6.0].map(full), [0.0; 3].map(full), [1.0; 3].map(full));
            let mut arrays = Himeno { p, wrk2, wrk1, bnd: full(1.0), a, b, c };
            let start = std::time::Instant::now();
            (0..repetitions).for_each(|_| checksum += jacobi(shape.on(n.map(|n| 1..n - 1)), &mut arrays));
            start
        }
        "bytes" => {
            let n = [number(2), number(3)];
            let shape = grid([1], 0, n, [Dist::Block, Dist::Whole]);
            let from = block(shape, |[i, j]| (7 * i + 13 * j) as u8);
            let mut to = block(shape, |_| 0);
            let start = std::time::Instant::now();
            (0..repetitions).for_each(|_| bytes(shape.on(n.map(|n| 1..n - 1)), &from, &mut to));
            checksum = f64::from(to[[n[0] / 2, n[1] / 2]]);
            start
        }
        _ => {
            let n = number(2);
            let shape = grid([1], 0, [n], [Dist::Block]);
            let (x, mut y) = (block(shape, |_| 1.0), block(shape, |_| 1.0));
            let start = std::time::Instant::now();
            for _ in 0..repetitions {
                match kernel {
                    "axpy" => axpy(shape.all(), 0.5, &x, &mut y),
                    _ => checksum += dot(shape.all(), &x, &y),
                }
            }
            checksum += y[[0]];
            start
        }
    };
    println!("{} {checksum}", start.elapsed().as_secs_f64());
}
