//! Failing tests of the second round, part A.

use super::*;

/// An hour that a task gives a call is 35 minutes for the handler of the host.
#[test]
fn h4_a_long_time_goes_with_a_call_or_none_does() {
    let mut bench = Bench::new();
    let hour = Duration::from_secs(3600);
    let (.., ticket) = bench.start(move |task| {
        let _limit = task.within(hour);
        Ok(task.sync(HOST, plus::with(1, 2))?)
    });
    let request = bench.expect(1);
    let given = request.ext.map_or(0, |ext| ext.micros());
    // The host keeps to what it was told: at 36 minutes it ends the body, at 40 the task should go on with it.
    bench.now += 36 * 60 * 1_000_000;
    if given != 0 {
        bench.reply(1, &request, RepHdr::inline(Status::DEADLINE, 0), &[]);
    }
    bench.rounds();
    bench.now += 4 * 60 * 1_000_000;
    if given == 0 {
        bench.value(1, &request, 3);
    }
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 3)), "it was given {given} us of an hour");
}
