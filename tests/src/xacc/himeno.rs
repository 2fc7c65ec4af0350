//! Himeno's field, which has the same bits on any number of nodes, in any shape, on any processor.

use hamr::World;
use hamr_tests_xacc::fields::himeno_field;

const SIZE: [i64; 3] = [32, 32, 64];
/// Iterations, the hash of the field behind them, and the sum of squares of the last one.
const WANTED: [(u32, u64, f64); 2] =
    [(0, 0x99ca_08f8_ce2c_f926, 6.229_796_349e-3), (100, 0x9e72_6b81_e758_fcd0, 2.268_030_065e-3)];

/// On all shapes of the nodes of the world: behind 3 iterations, and behind 103 if it is `long`.
pub fn check_himeno(world: &World, long: bool) {
    let n = world.size();
    for ni in (1..=n).filter(|ni| n.is_multiple_of(*ni)) {
        for (loops, hash, gosa) in WANTED.into_iter().take(1 + usize::from(long)) {
            let nodes = [ni, n / ni];
            let results = world.run_all(himeno_field::with(SIZE, nodes, loops)).expect("it runs");
            for (runs, got) in &results {
                assert_eq!(*got, hash, "{nodes:?}, {loops} loops: {got:#x}");
                let got = if loops == 0 { runs[0].gosa } else { runs[1].gosa };
                assert!((got / gosa - 1.0).abs() < 1e-9, "{nodes:?}, {loops} loops: {got:e}");
                assert_eq!(runs[0].gosa.to_bits(), results[0].0[0].gosa.to_bits());
                assert_eq!(runs[1].gosa.to_bits(), results[0].0[1].gosa.to_bits());
            }
        }
    }
}
