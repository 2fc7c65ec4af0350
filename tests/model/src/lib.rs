//! Every interleaving of small slot-protocol scenarios, with every value that the memory order lets a load return.
//!
//! The code under test is the production `Requester` and `Responder`; only the slots are the checker's (`slots`).
//! `docs/model.md` says what is covered and what is not. Each rule that a model relies on has a twin
//! that breaks it and must be caught, with the message of our own assertion, so that no model passes for want of teeth.
//!
//! May use: `comm`, `shared-abi`, `loom`. Used by: nothing. A package of its own, because each dependency is compiled with the
//! checker's `cfg`, and without that `cfg` it is empty.
#![cfg(all(loom, test))]

mod cancel;
mod copies;
mod ends;
mod epochs;
mod host_queues;
mod host_workers;
mod lanes;
mod messages;
mod order;
mod sleep;
mod slots;
mod turns;
mod verbs;
mod worlds;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A set of small scenarios, each explored through all its executions.
struct Model<T: 'static> {
    name: &'static str,
    /// The scenarios.
    cases: Vec<T>,
    run: fn(T),
    /// Forced switches per execution, `None` for no limit. The environment's `LOOM_MAX_PREEMPTIONS` does not count: it
    /// would weaken every model silently.
    preemptions: Option<usize>,
}

impl<T: Clone + Send + Sync + 'static> Model<T> {
    fn new(name: &'static str, cases: Vec<T>, run: fn(T)) -> Self {
        Self { name, cases, run, preemptions: None }
    }

    /// Only executions with at most `n` forced switches: for models that would not end in a minute without.
    fn preempted_at_most(self, n: usize) -> Self {
        Self { preemptions: Some(n), ..self }
    }

    /// Explores every case and prints how many executions those were.
    fn holds(self) {
        let Self { name, cases, run, preemptions } = self;
        let executions = Arc::new(AtomicU64::new(0));
        let began = Instant::now();
        let count = cases.len();
        for case in cases {
            let mut builder = loom::model::Builder::new();
            builder.max_branches = 10_000;
            builder.preemption_bound = preemptions;
            (builder.max_permutations, builder.max_duration) = (None, None);
            let executions = executions.clone();
            builder.check(move || {
                // The standard library's atomic: a checker's would be one more thing to interleave.
                executions.fetch_add(1, Ordering::Relaxed);
                run(case.clone());
            });
        }
        let executions = executions.load(Ordering::Relaxed);
        println!("{name}: {count} cases, {executions} executions, {:.1} s", began.elapsed().as_secs_f64());
    }

    /// Explores a weakened protocol, which must reach an assertion of ours with `expected` in its message.
    fn breaks(self, expected: &str) {
        let name = self.name;
        let caught = catch_unwind(AssertUnwindSafe(|| self.holds()));
        let Err(cause) = caught else { panic!("{name}: no execution broke the rule, so the model has no teeth") };
        let text = cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("a panic without a message");
        assert!(text.contains(expected), "{name}: broke, but not with {expected:?}: {text}");
        println!("{name}: caught: {text}");
    }
}
