//! Shared memory with doorbells: what sleeping must keep, and the conformance suite over sides that sleep at once, for good,
//! and so find nothing that nobody rang for.

use hamr::{Node, Options, WaitMode};

fn open(options: Options) -> Node {
    hamr_tests::devices::open("shm", Options { wait: WaitMode::Sleep, longest_sleep: None, ..options })
}

hamr_tests::conformance!(open);
hamr_tests::sleeping!("shm", || Box::new(hamr::ShmLauncher), 1_000_000);
