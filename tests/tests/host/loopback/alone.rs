//! An end that is noticed within a second.

use super::*;
use hamr_tests::times::within;

#[test]
fn every_call_of_a_killed_device_ends_once() {
    within(Duration::from_secs(1), || {
        let (node, _, faults) = breakable(Options { ring: 16, ..options() }, Table::of_this_image());
        let stream = node.stream().expect("a stream is free");
        let shared = node.shared_stream().expect("a stream is free");
        let log = Log::new(&node, 10);
        let answered: Vec<_> = (0..30u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
        stream.flush().expect("all ran");
        let plain: Vec<_> = (0..5u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
        let named: Vec<_> = (0..5).map(|n| stream.offload(append_named::with(log.ptr(), n)).expect("sent")).collect();
        let long = stream.offload(make_many::with(1)).expect("sent");
        let queued = shared.offload(background::with(1)).expect("sent");
        let awaited = shared.offload(echo::with(1u64)).expect("sent");
        faults.kill();
        let begin = Instant::now();
        is_lost(stream.sync(echo::with(9u64)), echo::<u64>::NAME);
        plain.into_iter().for_each(|p| is_lost(p.wait(), echo::<u64>::NAME));
        named.into_iter().for_each(|p| is_lost(p.wait(), append_named::NAME));
        is_lost(long.wait(), make_many::NAME);
        is_lost(queued.wait(), background::NAME);
        is_lost(pollster::block_on(awaited), echo::<u64>::NAME);
        let took = begin.elapsed();
        for (n, answered) in (0..).zip(answered) {
            assert_eq!(answered.wait().expect("answered before the end"), n);
        }
        // Nothing more is sent, and nothing stays in use.
        assert!(!node.is_alive());
        assert!(matches!(stream.offload(echo::with(1u64)).err(), Some(SubmitError::DeviceLost { .. })));
        assert!(matches!(stream.send(empty::with()).err(), Some(SubmitError::DeviceLost { .. })));
        assert!(matches!(stream.flush().err(), None | Some(hamr::Error::Lost { .. })));
        assert!(matches!(node.stream().err(), Some(hamr::Error::Lost { .. })));
        assert_eq!(stream.outstanding(), 0);
        assert_eq!(node.live_buffers(), 1);
        node.restart().expect("loopback starts again");
        assert_eq!(stream.sync(append_named::with(log.ptr(), 7)).expect("runs"), 0);
        assert_eq!(shared.sync(background::with(2)).expect("runs"), 6);
        assert_eq!(log.entries(&node), [7]);
        took
    });
}
