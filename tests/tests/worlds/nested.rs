//! Trees of nested calls between ranks and to the host: `cargo xtask soak` makes a million of them.

use hamr::{Node, World};
use hamr_comm::Fault;
use hamr_tests::conformance::Random;
use hamr_tests::devices;
use hamr_tests_kernels::host_calls::Callback;
use hamr_tests_kernels::nested::{Place, nest};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// `HAMR_SOAK_CALLS` is set by `cargo xtask soak`.
fn calls() -> u64 {
    std::env::var("HAMR_SOAK_CALLS").ok().and_then(|calls| calls.parse().ok()).unwrap_or(20_000)
}

/// Threads that begin trees. A tree has one task per level at a time, and all of them may be on one
/// rank, which has 16 places.
const THREADS: u32 = 4;
const DEPTH: u32 = 3;

/// A body that the host's side of a tree runs: it calls the device that called it.
fn serve(node: &Node) {
    let body: Callback = Box::new(|cx, number| {
        let Place { seed, depth } = Place::of_number(number);
        let sum = cx.service::<Node>()?.sync(nest::with(seed, depth));
        Ok(sum.map_err(|e| Fault::msg(&e.to_string()))?.number())
    });
    node.provide(body);
}

/// Makes so many calls, and checks what each tree comes to.
fn check(world: &World, wanted: u64) {
    world.nodes().iter().for_each(serve);
    let (made, size) = (AtomicU64::new(0), world.size());
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let made = &made;
            scope.spawn(move || {
                let mut random = Random(thread.into());
                while made.load(Ordering::Relaxed) < wanted {
                    let place = Place { seed: random.number() as u32, depth: DEPTH };
                    let node = world.node(random.number() as u32 % size);
                    let sum = node.sync(nest::with(place.seed, place.depth)).expect("it ends");
                    assert_eq!(sum, place.expected(size), "{place:?}");
                    // Of the trees, too.
                    made.fetch_add(u64::from(sum.calls), Ordering::Relaxed);
                }
            });
        }
    });
    println!("{size} ranks: {} nested calls in {:?}", made.load(Ordering::Relaxed), begin.elapsed());
}

#[test]
fn nested_calls_all_end() {
    for ranks in [1, 3] {
        let world = devices::world(ranks, hamr::WaitMode::Adaptive);
        check(&world, calls() / 2);
        assert_eq!(world.outcome(), None);
        assert!(world.stalls().is_empty(), "{:?}", world.stalls());
    }
}
