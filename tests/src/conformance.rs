//! The conformance suite: one function per case, for every way to open a device. A transport is
//! done when it passes.
//!
//! ```no_run
//! # use hamr::{Image, Node, Options, Runtime};
//! # use std::sync::LazyLock;
//! static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
//! fn open(options: Options) -> Node {
//!     RUNTIME.open_with("shm", Image::find("hamr-checks").unwrap(), options).unwrap()
//! }
//! hamr_tests::conformance!(open);
//! # fn main() {}
//! ```
//!
//! makes one `#[test]` per case. Device and host must both have the handlers of `hamr-kernels`.
//! Each case opens devices of its own and asserts what a user observes; none depends on the speed
//! of either side.

pub mod chains;
pub mod claims;
pub mod ending;
pub mod host_calls;
pub mod host_functions;
pub mod memory;
pub mod one_way;
pub mod order;
pub mod outcomes;
pub mod pings;
pub mod puts;
pub mod restart;
pub mod streams;
pub mod tasks;
pub mod transfers;
pub mod values;

use hamr::{Buffer, BufferError, CallError, Error, Node, Options, SubmitError, Words};
use hamr_comm::BufferPtr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Opens a device with these options.
pub type Open = fn(Options) -> Node;

/// The list of cases. `$open` is a path to a function of type [`Open`]. With `without_claims:` all but those of
/// the feature `claims`. With `smoke:` a quarter of them: start, sleep, crash,
/// restart and long values, for a board whose image has the code of another one that passes all.
#[macro_export]
macro_rules! conformance {
    (smoke: $open:path) => {
        $crate::__conformance! { $open;
            values { inline, every_length, many_buffers, of_any_length }
            outcomes { own_errors, a_panic, many_panics, ping_and_info }
            order { every_path_in_submission_order, queued_calls_keep_order }
            tasks {
                all_places_wait_at_once, a_deadline_ends_each_wait, a_sleep_lasts_its_time, a_panic_beside_waiting_tasks,
                a_restart_with_waiting_tasks
            }
            host_calls { every_place, many_calls, a_restart_beside_bodies }
            pings { beside_a_runaway }
            ending { deadline_of_a_sync_call, the_device_knows_the_deadline, cancel_while_it_runs }
            streams { shared_by_threads }
            puts { every_length }
            memory { there_and_back, copies }
            transfers { come_in_submission_order }
            chains { results_travel }
            one_way { sent_calls_run }
            restart { outstanding_calls_end_once, streams_and_buffers_go_on, again_and_again, waited_for }
        }
    };
    ($open:path) => {
        $crate::conformance!(without_claims: $open);
        $crate::__conformance! { $open;
            claims { others_are_refused, end_with_their_tasks, as_many_as_the_image_chooses, of_resources }
        }
    };
    (without_claims: $open:path) => {
        $crate::__conformance! { $open;
            values { inline, every_length, many_buffers, chunks_and_buffers, owning, validated_and_composite, result_too_long, too_long_to_send, of_any_length }
            outcomes {
                own_errors, calls_by_name, bad_buffers, a_panic, a_long_message, many_panics, panics_everywhere, poisoned_resource, body_on_one_side,
                ping_and_info
            }
            order {
                sync_after_many_offloads, every_path_in_submission_order, queued_calls_keep_order, unordered_calls_all_run,
                a_waiting_stream_does_not_delay_others, fewer_tickets_than_calls, more_queued_calls_than_the_device_queues,
                plain_calls_leave_tickets_alone, more_offloads_than_slots, unread_in_reverse, too_many_outstanding,
                a_refused_call_keeps_no_ticket
            }
            tasks {
                all_places_wait_at_once, a_waiting_task_keeps_its_stream, calls_beyond_the_places_wait_or_are_refused,
                cancel_ends_each_wait, a_deadline_ends_each_wait, a_sleep_lasts_its_time, tasks_take_turns, a_policy_of_ones_own,
                values_outlive_waits, a_panic_beside_waiting_tasks, a_restart_with_waiting_tasks, a_waiting_task_is_shown
            }
            host_calls {
                every_place, many_calls, services_by_type, outcomes, a_panic_names_its_place, nested_to_the_last_place,
                bodies_have_streams_of_their_own, sent_messages_arrive, a_lock_held_over_a_wait, workers_serve_when_asked,
                a_deadline_ends_the_wait, a_restart_beside_bodies, a_body_is_called_by_devices_only
            }
            pings { beside_a_queued_call, while_queued_calls_come_and_go, beside_a_runaway }
            ending {
                dropped_results_are_discarded, deadline_of_a_pending, deadline_of_a_sync_call, deadline_while_submitting,
                wait_timeout, the_device_knows_the_deadline, cancel_before_it_runs, cancel_while_it_runs,
                cancel_a_queued_call, cancel_after_it_ran, cancel_hits_one_call_only, futures, futures_join,
                futures_have_deadlines, a_result_is_taken_once, flush_runs_a_started_call,
                wait_timeout_of_a_started_call
            }
            streams {
                receivers_are_alike, shared_by_threads, shared_results_move, one_for_each_thread, too_many, opened_a_thousand_times,
                threads_without_streams_of_their_own, dropped_with_calls_in_flight, blocks_keep_together, attributes_and_states, are_listed
            }
            host_functions { run_in_stream_order, leave_later_calls_alone, may_call, have_an_end }
            puts { every_length, receivers_are_alike, refusals, busy_targets, faults_leave_the_data }
            memory {
                there_and_back, buffers_read_and_write, slices, copies, overruns, freed_pointers, foreign_pointers, busy_buffers,
                ordered_transfers, dropped_while_named, out_of_memory, too_many_buffers, scopes, records_are_reused, hooks, staged_slices, slice_arguments, slice_results,
                unified, portions
            }
            transfers { come_in_submission_order, between_nodes, use_their_buffers, are_futures, refusals, end_with_their_node }
            chains { results_travel, buffers, ends, forged_links_end }
            one_way { sent_calls_run, failures_are_counted, sent_calls_with_buffers }
            restart {
                outstanding_calls_end_once, streams_and_buffers_go_on, a_stopped_device_refuses, again_and_again,
                a_started_call_ends_with_its_epoch, waited_for
            }
        }
    };
}

/// The tests of [`conformance!`].
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance {
    ($open:path; $($module:ident { $($case:ident),* })*) => {$(
        mod $module {
            #[allow(unused_imports, reason = "the path may be absolute")]
            use super::*;
            $(
                #[test]
                fn $case() {
                    $crate::conformance::$module::$case($open);
                }
            )*
        }
    )*};
}

/// Sizes for which opening is fast, and a deadline that no call of a healthy device reaches.
pub fn options() -> Options {
    Options { heap: 8 << 20, deadline: Some(Duration::from_secs(30)), print_warnings: false, ..Options::default() }
}

/// Waits until `condition` is true; `what` describes it.
///
/// # Panics
/// After twenty seconds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(20), "waited too long: {what}");
        poll_interval(begin);
    }
}

/// The pause between two checks of another side's progress, which began at `begin`. It spins for as
/// long as a normal reply takes, and then sleeps, so that other programs get the processor. A
/// thread that yields instead would be queued behind every other program of the machine.
pub(crate) fn poll_interval(begin: Instant) {
    if begin.elapsed() < Duration::from_micros(50) {
        std::hint::spin_loop();
    } else {
        std::thread::sleep(Duration::from_micros(20));
    }
}

/// Is it a loopback device? Such a device runs only while a thread waits for it.
pub fn is_loopback(node: &Node) -> bool {
    node.info().link == "loopback"
}

/// Does the image show what its tasks wait for? The microvm's and the microcontroller's have no feature `world`.
pub fn shows_tasks(node: &Node) -> bool {
    !["microvm", "qemu:arm"].contains(&&*node.info().name)
}

/// Stops a thread of the same scope when dropped. Without it, a panic of this thread would make the
/// scope wait for ever.
pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs `f` while the device makes progress by itself. A loopback device needs a thread that waits
/// for it all the time. Cases in which this thread acts *while* a handler runs use it.
pub fn driven<R>(node: &Node, f: impl FnOnce() -> R) -> R {
    if !is_loopback(node) {
        return f();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) && node.ping().is_ok() {
                std::thread::yield_now();
            }
        });
        let _stop = Stop(&stop);
        f()
    })
}

/// The reason why a call was not sent.
///
/// # Panics
/// When it ended otherwise.
pub fn refusal<E: std::fmt::Debug>(error: CallError<E>) -> SubmitError {
    match error {
        CallError::Submit(why) => *why,
        other => panic!("expected a call that was not sent, got {other}"),
    }
}

/// Pseudo-random numbers, the same in every run.
pub struct Random(pub u64);

impl Random {
    /// Any number (splitmix64).
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }
}

/// Does the device drive this program's memory?
pub fn is_driven(node: &Node) -> bool {
    node.info().protocol == hamr::link::Protocol::DeviceDriven
}

/// A buffer in which the device records the order of its calls (`tests_kernels::append`).
pub struct Log {
    buffer: Buffer<u64>,
}

impl Log {
    /// An empty log with room for `entries`.
    pub fn new(node: &Node, entries: usize) -> Self {
        let buffer = node.buffer(&vec![0; entries + 1]).expect("the heap has room");
        Self { buffer }
    }

    /// The pointer as a value that names no buffer.
    pub fn words(&self) -> [u64; 2] {
        self.ptr().wire().words()
    }

    /// The pointer.
    pub fn ptr(&self) -> BufferPtr<u64> {
        self.buffer.ptr()
    }

    /// The recorded values, in order. Only valid when nothing is in flight.
    pub fn entries(&self, node: &Node) -> Vec<u64> {
        let all = node.read(self.buffer.ptr()).expect("nothing is in flight");
        all[1..=all[0] as usize].to_vec()
    }
}

/// A gate at which handlers wait (`tests_kernels::wait_at`). It opens when dropped, so that a
/// failed assertion does not leave a handler waiting.
pub struct Gate<'n> {
    node: &'n Node,
    buffer: Buffer<u32>,
}

impl<'n> Gate<'n> {
    /// A closed gate.
    pub fn new(node: &'n Node) -> Self {
        Self { node, buffer: node.buffer(&[0; 32]).expect("the heap has room") }
    }

    /// The argument for the handler.
    pub fn ptr(&self) -> BufferPtr<u32> {
        self.buffer.ptr()
    }

    /// The pointer as a value that names no buffer.
    pub fn words(&self) -> [u64; 2] {
        self.ptr().wire().words()
    }

    /// Is the device's memory reached by copies? Then the gate opens beside what is on its way to the device.
    pub fn is_far(&self) -> bool {
        matches!(self.node.words(self.ptr()), Err(Error::Buffer { why: BufferError::NotMapped, .. }))
    }

    /// Its words, also of a device whose memory no node maps.
    fn gate(&self) -> Result<Words<'_>, Error> {
        let far = if self.is_far() { crate::mirrored::words(self.node, self.ptr()) } else { None };
        far.map_or_else(|| self.node.words(self.ptr()), Ok)
    }

    /// The word that opens it.
    pub fn word(&self) -> u32 {
        let words = self.gate().expect("the gate exists");
        words.get(0).expect("it has 32 words").observe()
    }

    /// Lets every call through, also later ones.
    pub fn open(&self) {
        if let Ok(words) = self.gate()
            && let Some(word) = words.get(0)
        {
            word.publish(1);
        }
    }

    /// Waits until `count` calls have reached the gate.
    pub fn wait_for(&self, count: u32) {
        until("a handler arrives at the gate", || {
            let words = self.gate().expect("the gate exists");
            words.get(16).is_some_and(|word| word.observe() >= count)
        });
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.open();
    }
}
