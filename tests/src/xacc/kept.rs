//! Runs that are started and waited for later, over arrays that stay on the ranks.

use hamr::World;
use hamr_kernels::demo::axpy;
use hamr_tests_xacc::HostArray;
use hamr_tests_xacc::kept::{
    COARRAY_REASONS, REASONS, fails_at, keep, keep_coarray, kept_is, misused, misused_coarray, step, step_coarray,
};

/// More than are in flight at a time.
const STEPS: u32 = 30;

/// Steps that are started without a wait between them are each behind the one before, on arrays that the
/// first program has made.
pub fn check_kept(world: &World) {
    let (field, line) = world.run(keep::with()).expect("room");
    let runs: Vec<_> = (0..STEPS).map(|nth| world.start(step::with(field, line, nth)).expect("sent")).collect();
    let last = world.size() - 1;
    let here = world.node(last).buffer(&[0.0; 13 * 9]).expect("room");
    // Behind all that was started.
    let to = HostArray::new(last, here.ptr(), [13, 9]);
    world.run(kept_is::with(field, STEPS, to)).expect("the field of the last step");
    let expected: Vec<_> = (0..13 * 9).map(|at| f64::from(STEPS * at)).collect();
    assert_eq!(here.read().expect("its own"), expected);
    assert!(runs.iter().all(|run| run.is_done()));
    for (nth, run) in (0..).zip(runs) {
        assert_eq!(run.wait_all().expect("all ranks"), vec![nth; world.size() as usize]);
    }
    for (how, reason) in REASONS.iter().enumerate().take(REASONS.len() - 1) {
        let error = world.run(misused::with(line, how as u32)).expect_err(reason).to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
    let how = REASONS.len() as u32 - 1;
    world.run(misused::with(line, how)).expect("it is kept");
    let error = world.run(misused::with(line, how)).expect_err("it is free").to_string();
    assert!(error.contains(REASONS[how as usize]), "{error}");
}

/// A coarray that the first program has made goes through later ones.
pub fn check_kept_coarrays(world: &World) {
    let ring = world.run(keep_coarray::with()).expect("room");
    let steps: Vec<_> =
        (0..STEPS).map(|nth| world.start(step_coarray::with(ring, nth.into())).expect("sent")).collect();
    assert!(steps.into_iter().all(|step| step.wait_all().is_ok()), "a step has failed");
    for (how, reason) in COARRAY_REASONS.iter().enumerate().filter(|_| world.size() > 1) {
        let error = world.run(misused_coarray::with(ring, how as u32)).expect_err(reason).to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
    world.run(step_coarray::with(ring, STEPS.into())).expect("what has failed has changed nothing");
}

/// A run that fails cancels those behind it, and one later run fails with its reason, unless a wait has said it.
pub fn check_failed_starts(world: &World) {
    let last = i64::from(world.size()) - 1;
    let reason = |error: &str| error.contains("this step fails") && error.contains(&format!("rank {last}"));
    for is_waited_for in [true, false] {
        let good = world.start(fails_at::with(i64::MAX)).expect("sent");
        let bad = world.start(fails_at::with(last)).expect("sent");
        let behind = world.start(fails_at::with(i64::MAX));
        // Where the failure was seen before this one was sent, it says so, and the next run does not.
        let is_told = behind.as_ref().is_err_and(|error| reason(&error.to_string()));
        assert_eq!(good.wait_all().expect("it is before"), (0..=last).collect::<Vec<_>>());
        if is_waited_for {
            let error = bad.wait().expect_err("it fails").to_string();
            assert!(reason(&error), "{error}");
        } else {
            drop(bad);
            let next = world.run(fails_at::with(i64::MAX));
            assert_eq!(is_told, next.is_ok(), "{next:?}");
            assert!(next.err().is_none_or(|error| reason(&error.to_string())));
        }
        let behind = behind.and_then(|run| run.wait()).expect_err("it is behind").to_string();
        assert!(is_told || behind.contains("behind a run that has failed"), "{behind}");
        assert_eq!(world.run(fails_at::with(i64::MAX)).expect("the next run"), 0);
    }
}

/// A start whose calls cannot be sent leaves the failure of a run before it for the next one to say.
pub fn check_unsent_starts(world: &World) {
    let last = i64::from(world.size()) - 1;
    let freed = world.node(0).buffer(&[0.0]).expect("room").ptr();
    for _ in 0..20 {
        let before: Vec<_> = (0..4).map(|_| world.start(fails_at::with(i64::MAX)).expect("sent")).collect();
        drop(world.start(fails_at::with(last)).expect("sent"));
        let unsent = world.start(axpy::with(1.0, freed, freed)).expect_err("a buffer that is gone").to_string();
        let next = world.run(fails_at::with(i64::MAX));
        // Where the failure was seen before, the start has said so.
        assert_eq!(unsent.contains("this step fails"), next.is_ok(), "{unsent}, {next:?}");
        assert!(next.err().is_none_or(|error| error.to_string().contains("this step fails")));
        assert!(before.into_iter().all(|run| run.wait().is_ok()));
        assert_eq!(world.run(fails_at::with(i64::MAX)).expect("the next run"), 0);
    }
}
