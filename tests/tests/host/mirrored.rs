//! Cases of the conformance suite over threads of this program that share no memory with their host. Left out are those
//! for which such a device is too simple: it replies to no ping beside a handler, and knows no place of a panic.

use hamr::{CallError, CallOptions, Image, Node, Options, Runtime};
use hamr_kernels::bench::empty;
use hamr_tests::mirrored::{CarelessLauncher, Far, MirroredLauncher};
use hamr_tests::streamed::StreamedLauncher;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

fn open(kind: &str, options: Options) -> Node {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut runtime = Runtime::new().expect("a runtime");
        runtime.register("polls", MirroredLauncher(Far::Thread));
        runtime.register("sleeps", MirroredLauncher(Far::Sleeper));
        runtime.register("careless", CarelessLauncher(Far::Sleeper, Arc::default()));
        runtime.register("streamed", StreamedLauncher(Far::Sleeper));
        runtime
    });
    let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
    runtime.open_with(kind, image, options).expect("a device behind a mirror")
}

fn polls(options: Options) -> Node {
    open("polls", options)
}

fn sleeps(options: Options) -> Node {
    open("sleeps", options)
}

macro_rules! cases {
    ($open:path) => {
        hamr_tests::__conformance! { $open;
            values { inline, every_length, many_buffers, of_any_length }
            outcomes { own_errors, many_panics, ping_and_info }
            order { every_path_in_submission_order, queued_calls_keep_order }
            tasks {
                all_places_wait_at_once, a_deadline_ends_each_wait, a_sleep_lasts_its_time, a_panic_beside_waiting_tasks,
                a_restart_with_waiting_tasks
            }
            host_calls { every_place, many_calls, a_restart_beside_bodies }
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
}

mod polling {
    use super::polls;
    cases!(polls);
}

mod sleeping {
    use super::sleeps;
    cases!(sleeps);
}

/// The same behind frames over pairs of sockets.
mod streamed {
    use hamr::{Node, Options};

    fn streamed(options: Options) -> Node {
        super::open("streamed", options)
    }

    cases!(streamed);
}

/// The same where the host reads and writes the device's memory, and an access promises nothing.
mod careless {
    use hamr::{Node, Options};

    fn careless(options: Options) -> Node {
        super::open("careless", options)
    }

    cases!(careless);
}

/// An access that takes longer than a call's limit holds nobody but the thread that makes it.
#[test]
fn a_slow_access_is_no_callers() {
    let takes = Arc::new(Mutex::new(Duration::ZERO));
    let mut runtime = Runtime::new().expect("a runtime");
    runtime.register("slow", CarelessLauncher(Far::Sleeper, takes.clone()));
    let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
    let node = runtime.open_with("slow", image, Options::default()).expect("a device");
    let stream = node.stream().expect("a stream is free");
    stream.sync(empty::with()).expect("in time");
    *takes.lock().expect("nobody panics") = Duration::from_secs(2);
    let (begin, limit) = (Instant::now(), Duration::from_millis(100));
    let late = stream.sync_with(empty::with(), CallOptions { deadline: Some(limit), ..CallOptions::default() });
    assert!(matches!(late, Err(CallError::Deadline(_))), "{late:?}");
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    *takes.lock().expect("nobody panics") = Duration::ZERO;
    stream.sync(empty::with()).expect("it goes on");
}
