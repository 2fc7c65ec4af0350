//! The conformance suite over shared memory: the image as a process of its own.

use hamr::{Node, Options};

fn open(options: Options) -> Node {
    hamr_tests::devices::open("shm", options)
}

hamr_tests::conformance!(open);
hamr_tests::crashes!("shm");
hamr_tests::logs!("shm");

/// Stands in this test only: no image holds it.
#[hamr_comm::offload]
fn only_here(_cx: &mut hamr_comm::Context, value: u64) -> u64 {
    value
}

#[test]
fn handlers_that_the_image_lacks_are_named_and_the_others_work() {
    let node = open(hamr_tests::conformance::options());
    let name = <only_here as hamr_comm::Handler>::NAME;
    let warnings = node.warnings();
    assert!(warnings.iter().any(|w| w.contains(name) && w.contains("has no handler")), "{warnings:?}");
    assert!(!warnings.iter().any(|w| w.contains("hamr_kernels::")), "the image is not stale: {warnings:?}");
    let error = hamr_tests::conformance::refusal(node.sync(only_here::with(1)).expect_err("not in the image"));
    assert!(matches!(error, hamr::SubmitError::MissingHandler { .. }) && error.to_string().contains(name), "{error}");
    assert_eq!(node.sync(hamr_tests_kernels::echo::with(7u64)).expect("the others work"), 7);
}

/// A fault outside of every call: no answer says so, and the device is started anew all the same.
#[test]
fn a_fault_of_the_runtime_itself_begins_a_new_epoch() {
    let node = open(hamr_tests::conformance::options());
    assert_eq!(node.sync(hamr_tests_kernels::echo::with(7u64)).expect("works"), 7);
    for epoch in 2..5 {
        let pid = node.info().pid;
        let process = rustix::process::Pid::from_raw(pid as i32).expect("a process");
        rustix::process::kill_process(process, rustix::process::Signal::SEGV).expect("sent");
        hamr_tests::conformance::until("the device's end is noticed", || !node.is_alive());
        assert_eq!(node.sync(hamr_tests_kernels::echo::with(8u64)).expect("works again"), 8);
        let info = node.info();
        assert!(info.pid != pid && info.epoch == epoch, "{info:?}");
    }
}

/// Other streams' answers outlive the life that gave them.
#[test]
fn unread_answers_outlive_their_epoch() {
    hamr_tests::unread::unread_answers("shm");
}

#[test]
fn unanswered_calls_end_with_their_epoch() {
    hamr_tests::unread::unanswered_calls("shm");
}
