//! Chains: calls that run one behind the other in one message.

use super::{Open, options};
use hamr::{CallError, SubmitError, chain};
use hamr_comm::abi::status::Status;
use hamr_comm::chain::{MAX_CHAIN, MAX_LINK, Stop};
use hamr_tests_kernels::chains::{add, add_to_all, even, first_of, huge, narrow, small_and_even, text, widen};

/// Results travel from call to call, whatever their length.
pub fn results_travel(open: Open) {
    let node = open(options());
    assert_eq!(node.sync_chain(chain(add::with(1, 2))).expect("one call"), 3);
    assert_eq!(node.sync_chain(chain(add::with(1, 2)).then(add::after(10)).then(add::after(100))).expect("runs"), 113);
    let wide: u64 = (0..20).map(|i| 5 + i).sum();
    let chained = chain(add::with(2, 3)).then(widen::after()).then(narrow::after(7)).then(add::after(1));
    assert_eq!(node.sync_chain(chained).expect("runs"), wide * 7 + 1);
    assert_eq!(node.sync_chain(chain(add::with(2, 3)).then(widen::after())).expect("a long value").values[19], 24);
    assert_eq!(&*node.sync_chain(chain(add::with(40, 2)).then(text::after())).expect("of variable size"), "42");
    // A call that does not want the result; many calls; several chains in flight.
    assert_eq!(node.sync_chain(chain(widen::with(1)).then_call(add::with(1, 1))).expect("runs"), 2);
    let many = (1..40).fold(chain(add::with(0, 0)), |so_far, i| so_far.then(add::after(i)));
    assert_eq!(node.sync_chain(many).expect("runs"), 780);
    let pending = (0..10u64).map(|i| node.offload_chain(chain(add::with(i, i)).then(add::after(1))).expect("sent"));
    let sums: Vec<u64> = pending.collect::<Vec<_>>().into_iter().map(|sum| sum.wait().expect("runs")).collect();
    assert_eq!(sums, (0..10).map(|i| 2 * i + 1).collect::<Vec<_>>());
}

/// Buffers of all calls are in use while the chain runs.
pub fn buffers(open: Open) {
    let node = open(options());
    let (all, one) = (node.buffer(&[1u64, 2, 3]).expect("room"), node.buffer(&[9u64]).expect("room"));
    let chained = chain(add::with(4, 6)).then(add_to_all::after(all.ptr())).then(first_of::after(all.ptr()));
    assert_eq!(node.sync_chain(chained).expect("runs"), 11);
    assert_eq!(all.read().expect("reads"), [11, 12, 13]);
    let gone = one.ptr();
    drop(one);
    let refused = node.sync_chain(chain(add::with(1, 1)).then(first_of::after(gone))).expect_err("it was freed");
    assert!(matches!(&refused, CallError::Submit(why) if matches!(**why, SubmitError::Buffer { .. })), "{refused}");
}

/// The first call without a value ends the chain, and says which it was and why.
pub fn ends(open: Open) {
    let node = open(options());
    let kept = node.buffer(&[0u64]).expect("room");
    let stopped = |link, status: Status, text: &str| Stop {
        link,
        status: status.0,
        text: heapless::String::try_from(text).expect("short"),
    };
    let outcome = |first: u64| {
        let chained = chain(even::with(first)).then(small_and_even::after()).then(add_to_all::after(kept.ptr()));
        node.sync_chain(chained)
    };
    assert_eq!(outcome(8).expect("even and small"), 8);
    for (first, stop) in
        [(7, stopped(0, Status::HANDLER_ERROR, "")), (102, stopped(1, Status::FAILED, "more than a hundred"))]
    {
        let error = outcome(first).expect_err("refused");
        assert!(matches!(&error, CallError::Handler(got) if *got == stop), "{error:?}");
    }
    let error = outcome(1000).expect_err("panics");
    assert!(matches!(&error, CallError::Fault(report) if report.to_string().contains("a thousand")), "{error}");
    assert_eq!(kept.read().expect("reads"), [8], "nothing behind the end ran");

    let error = node.sync_chain(chain(huge::with(1))).expect_err("no room between calls");
    assert!(matches!(&error, CallError::Handler(got) if *got == stopped(0, Status::RESULT_TOO_LONG, "")), "{error:?}");
    let long = (0..MAX_CHAIN as u64 / 9).fold(chain(add::with(0, 0)), |so_far, i| so_far.then(add::after(i)));
    let error = node.sync_chain(long).expect_err("too many");
    assert!(error.to_string().contains("a message takes 1024"), "{error}");
    let wide = hamr_tests_kernels::chains::Wide { values: [0; 20] };
    assert!(size_of_val(&wide) < MAX_LINK);
    assert_eq!(node.sync_chain(chain(narrow::with(wide, 1))).expect("the next one runs"), 0);
}
