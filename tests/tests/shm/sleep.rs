//! Shared memory with doorbells: the tests of sleeping, and the conformance suite over sides that
//! sleep at once and without a limit, and so find nothing without a notification.

use hamr::{Node, Options, WaitMode};

fn open(options: Options) -> Node {
    hamr_tests::devices::open("shm", Options { wait: WaitMode::Sleep, longest_sleep: None, ..options })
}

hamr_tests::conformance!(open);
hamr_tests::sleeping!("shm", || Box::new(hamr::ShmLauncher), 1_000_000);

/// The device notifies of its replies before it begins a queued handler, also when it found both in
/// one round and the host sleeps.
#[test]
fn a_queued_handler_does_not_delay_notifications_for_others() {
    use hamr_tests::conformance::{Gate, options, until};
    use hamr_tests_kernels::{echo, spin_at, wait_at};
    let node = open(options());
    let (first, second) = (Gate::new(&node), Gate::new(&node));
    // All are open, so that the round in which the first handler ends finds the other two calls.
    let (holds, long) = (node.stream().expect("free"), node.stream().expect("free"));
    let short = node.shared_stream().expect("free");
    let waits = holds.offload(wait_at::with(first.ptr(), 1)).expect("sent");
    first.wait_for(1);
    let queued = long.offload(spin_at::with(second.ptr(), 2)).expect("sent");
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| short.sync(echo::with(3u64)).expect("answered"));
        let path = hamr_tests::logs::window(&node).path;
        let read = |at| {
            let mut bytes = [0; 4];
            let file = std::fs::File::open(&path).expect("our own window");
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, at).expect("in the window");
            u32::from_le_bytes(bytes)
        };
        until("the host sleeps", || read(hamr_comm::abi::preamble::word::HOST_WAIT) % 2 == 1);
        first.open();
        second.wait_for(1);
        until("it is woken beside the handler", || beside.is_finished());
        assert!(!queued.is_done(), "the gate is shut");
        second.open();
        assert_eq!(beside.join().expect("it has ended"), 3);
    });
    assert_eq!((waits.wait().expect("runs"), queued.wait().expect("runs")), (1, 2));
}
