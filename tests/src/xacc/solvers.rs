//! Laplace's equation, STREAM and NPB's CG.

use hamr::World;
use hamr_programs::cg::{Class, cg};
use hamr_programs::cg_local::cg_local;
use hamr_programs::laplace::laplace;
use hamr_programs::progress::Watcher;
use hamr_programs::stream::stream;
use hamr_tests_xacc::solvers::laplace_is_plain;
use std::sync::{Arc, Mutex};

/// Laplace on all shapes of the nodes of the world, and STREAM.
pub fn check_loops(world: &World) {
    let n = world.size();
    for ni in (1..=n).filter(|ni| n.is_multiple_of(*ni)) {
        for size in [5, 37] {
            world.run_all(laplace_is_plain::with(size, [ni, n / ni], 20)).expect("the same field");
        }
    }
    let times = world.run(stream::with(1_003, 3)).expect("it runs");
    assert_eq!(times.error, 0.0);
    assert!(
        [times.copy, times.scale, times.add, times.triad].iter().all(|time| (0.0..1.0).contains(time)),
        "{times:?}"
    );
}

hamr_programs::watched!();

/// A run that takes longer than a second reports how far it is, more and more.
pub fn check_progress(world: &World) {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let theirs = reports.clone();
    let watcher = Watcher(Box::new(move |done, of| theirs.lock().expect("no panic").push((of, done))));
    world.node(0).provide(watcher);
    // Any number of steps is too few for some processor.
    let mut steps = 1000;
    while reports.lock().expect("no panic").is_empty() {
        assert!(steps < 1 << 30, "nothing was reported");
        steps *= 2;
        world.run(laplace::with(200, [world.size(), 1], steps)).expect("it runs");
    }
    // The body of a message may run behind its program.
    let reports = reports.lock().expect("no panic");
    assert!(reports.iter().all(|(of, done)| *of <= steps && *done < *of && *done > 0), "{reports:?}");
    assert!(reports.is_sorted(), "{reports:?}");
}

/// The eigenvalue of class S on all shapes of the nodes of the world, and of one of them in local view.
pub fn check_cg(world: &World) {
    let (n, (class, zeta)) = (world.size(), Class::of("S").expect("a class"));
    for ni in (1..=n).filter(|ni| n.is_multiple_of(*ni)) {
        let outcomes = world.run_all(cg::with(class, [ni, n / ni])).expect("it runs");
        for outcome in &outcomes {
            assert!((outcome.zeta / zeta - 1.0).abs() < 1e-10, "{ni} rows of nodes: {outcome:?}");
            assert_eq!(outcome.zeta.to_bits(), outcomes[0].zeta.to_bits());
        }
        if ni != n.min(2) {
            continue;
        }
        for local in &world.run_all(cg_local::with(class, [ni, n / ni])).expect("it runs") {
            assert_eq!(local.zeta.to_bits(), outcomes[0].zeta.to_bits(), "{ni} rows of nodes: {local:?}");
            assert_eq!(local.rnorm.to_bits(), outcomes[0].rnorm.to_bits());
        }
    }
}
