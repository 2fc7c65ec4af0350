//! What has the same bits on any number of nodes, in any shape, on any processor: Himeno's field, sums without
//! rounding, arrays of this program.

use hamr::World;
use hamr_tests_xacc::HostArray;
use hamr_tests_xacc::fields::{exact, himeno_field, himeno_local_field, host_arrays};

const SIZE: [i64; 3] = [32, 32, 64];
/// Iterations, the hash of the field behind them, and the sum of squares of the last one.
const WANTED: [(u32, u64, f64); 2] =
    [(0, 0x99ca_08f8_ce2c_f926, 6.229_796_349e-3), (100, 0x9e72_6b81_e758_fcd0, 2.268_030_065e-3)];

/// Of the sum of [`exact()`].
const EXACT: u64 = 0x4255_9dd7_a45f_8611;

/// On all shapes of the nodes of the world: behind 3 iterations, and behind 103 if it is `long`.
pub fn check_himeno(world: &World, long: bool) {
    let n = world.size();
    for ni in (1..=n).filter(|ni| n.is_multiple_of(*ni)) {
        for (loops, hash, gosa) in WANTED.into_iter().take(1 + usize::from(long)) {
            let nodes = [ni, n / ni];
            let results = world.run_all(himeno_field::with(SIZE, nodes, loops)).expect("it runs");
            let local = world.run_all(himeno_local_field::with(SIZE, nodes, loops)).expect("it runs");
            let bits = |runs: &[hamr_programs::himeno::Run; 2]| runs.map(|run| run.gosa.to_bits());
            assert!(local.iter().all(|(runs, got)| *got == hash && bits(runs) == bits(&results[0].0)), "{local:?}");
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

/// A sum without rounding has the same bits on any nodes, which those of another sum do not.
pub fn check_exact(world: &World) {
    let n = world.size();
    for ni in (1..=n).filter(|ni| n.is_multiple_of(*ni)) {
        let sums = world.run_all(exact::with(41, [ni, n / ni])).expect("it runs");
        assert!(
            sums.iter().all(|sum| sum.to_bits() == EXACT),
            "{ni} rows: {:#x?}",
            sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>()
        );
    }
}

/// Arrays of this program, loaded and stored by all nodes in any distribution, on any rank.
pub fn check_host_arrays(world: &World) {
    let (n, size) = (world.size(), [13, 10]);
    for rank in [0, n - 1] {
        let values: Vec<i32> = (0..130).collect();
        let node = world.node(rank);
        let (from, to) = (node.buffer(&values).expect("room"), node.buffer(&[0; 130]).expect("room"));
        let arrays = [&from, &to].map(|buffer| HostArray::new(rank, buffer.ptr(), size));
        world.run(host_arrays::with(arrays[0], arrays[1])).expect("it runs");
        let expected: Vec<_> = values.iter().map(|value| value * 3).collect();
        assert_eq!(to.read().expect("its own"), expected);
        let short = HostArray::new(rank, to.ptr().slice(0..100).expect("a part"), size);
        let failed = world.run(host_arrays::with(arrays[0], short)).expect_err("too short").to_string();
        assert!(failed.contains("the host's array has 100 elements, its extents 130"), "{failed}");
    }
}
