//! The conformance suite over shared memory: the image as a process of its own.

use hamr::{Node, Options};

fn open(options: Options) -> Node {
    hamr_tests::devices::open("shm", options)
}

hamr_tests::conformance!(open);
hamr_tests::crashes!("shm");
hamr_tests::logs!("shm");

/// A handler of this test that no image has.
#[hamr_comm::offload]
fn only_here(_cx: &mut hamr_comm::Context, value: u64) -> u64 {
    value
}

#[test]
fn handlers_that_the_image_lacks_are_named_and_the_others_work() {
    let node = open(hamr_tests::conformance::options());
    let name = <only_here as hamr_comm::Handler>::NAME;
    let warnings = node.warnings();
    let missing = hamr::Warning::MissingHandler { device: node.info().name, handler: name };
    assert!(warnings.contains(&missing) && missing.to_string().contains("has no handler"), "{warnings:?}");
    assert!(!warnings.iter().any(|w| w.to_string().contains("hamr_kernels::")), "the image is not stale: {warnings:?}");
    let error = hamr_tests::conformance::refusal(node.sync(only_here::with(1)).expect_err("not in the image"));
    assert!(matches!(error, hamr::SubmitError::MissingHandler { .. }) && error.to_string().contains(name), "{error}");
    assert_eq!(node.sync(hamr_tests_kernels::echo::with(7u64)).expect("the others work"), 7);
}

/// A fault outside of every call: no reply reports it, and the device is restarted all the same.
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

/// Replies of other streams outlive the epoch in which they were published.
#[test]
fn unread_replies_outlive_their_epoch() {
    hamr_tests::unread::unread_replies("shm");
}

#[test]
fn readers_have_a_value_or_the_end_of_an_epoch() {
    hamr_tests::unread::values_beside_ends("shm");
}

#[test]
fn unread_started_calls_outlive_several() {
    hamr_tests::unread::unread_started_calls("shm");
}

#[test]
fn log_lines_outlive_the_epoch_that_a_fault_ended() {
    hamr_tests::logs::outlive_their_epoch(&open(Options::default()));
}

#[test]
fn unanswered_calls_end_with_their_epoch() {
    hamr_tests::unread::unanswered_calls("shm");
}
