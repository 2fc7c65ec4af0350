//! The conformance suite over MPI: each case is a job of two ranks, of which rank 0 runs the case and rank 1 serves devices.
//!
//! `cargo nextest run` starts a case in a process of its own, which starts itself again under `mpirun`.

mod common;

use common::{RANK, mpirun};
use hamr::link::Link;
use hamr::serve::Keeper;
use hamr::{CallOptions, Error, LaunchRequest, Launcher, Node, Options, Target};
use hamr_mpi::{Job, Membership, MpiLauncher, serve};
use hamr_tests::devices;
use hamr_tests::mirrored::keep_named;
use hamr_tests_kernels::echo;
use std::cell::RefCell;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::time::{Duration, Instant};

hamr_tests::conformance!(open);

static JOB: OnceLock<Arc<Job>> = OnceLock::new();

thread_local! {
    /// Dropped by the end of the thread that has joined the job.
    static MEMBERSHIP: RefCell<Option<Membership>> = const { RefCell::new(None) };
}

fn open(options: Options) -> Node {
    open_within(devices::START_TIMEOUT, options)
}

/// A device of its own at rank 1. In that rank it serves, and does not return.
fn open_within(start_deadline: Duration, options: Options) -> Node {
    static JOINED: Once = Once::new();
    if std::env::var_os(RANK).is_none() {
        again_as_ranks();
    }
    JOINED.call_once(|| {
        let membership = Job::join().expect("a job");
        if membership.job().rank() != 0 {
            keep(membership);
        }
        JOB.get_or_init(|| membership.job().clone());
        MEMBERSHIP.set(Some(membership));
        devices::register(|runtime| runtime.register("mpi", Fresh(MpiLauncher::new(JOB.get().expect("joined")))));
    });
    let options = Options { start_deadline, ..options };
    devices::runtime().open_with("mpi:1", devices::image("shm"), options).expect("a device at rank 1")
}

/// Whose limit is over goes on, whatever the other rank does not do; and comes back to it.
#[test]
fn a_stopped_rank_holds_up_no_caller() {
    const LIMIT: Duration = Duration::from_secs(3);
    let node = open_within(LIMIT, Options { heap: 64 << 20, ..Options::default() });
    let stat = format!("/proc/{}/stat", node.info().pid);
    let stat = std::fs::read_to_string(stat).expect("it runs");
    // Behind the name, which may have anything in it: the state, and whose child it is.
    let rank = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)).expect("a number").to_owned();
    let signal =
        |name: &str| assert!(Command::new("kill").args([name, rank.as_str()]).status().expect("a program").success());
    let bytes = vec![1u8; 4 << 20];
    let buffer = node.buffer(&bytes).expect("room");
    signal("-STOP");
    let begin = Instant::now();
    let call = node.offload_with(echo::with(1u64), CallOptions::deadline(Duration::from_millis(100))).expect("sent");
    call.wait().expect_err("nobody answers");
    assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
    let begin = Instant::now();
    node.put(&bytes, buffer.ptr()).expect_err("nobody takes it");
    let most = LIMIT + Duration::from_micros(bytes.len() as u64) + LIMIT;
    assert!(begin.elapsed() < most, "{:?}", begin.elapsed());
    signal("-CONT");
    let begin = Instant::now();
    while node.sync(echo::with(2u64)).is_err() {
        assert!(begin.elapsed() < devices::START_TIMEOUT, "it comes back");
        // An error means that it is not there yet.
        let _ = node.wait_until_back(LIMIT);
    }
    node.put(&bytes, buffer.ptr()).expect("it takes it");
    assert_eq!(node.read(buffer.ptr()).expect("it has it"), bytes);
}

/// Runs this test in a job, and ends as that does.
fn again_as_ranks() -> ! {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    assert!(arguments.iter().any(|argument| argument == "--exact"), "expected a test by its name: cargo nextest run");
    let ((name, images), (mut command, folder)) = (devices::built("shm"), mpirun(2));
    command.arg(std::env::current_exe().expect("this program")).args(arguments).env(name, images);
    let status = command.status().expect("mpirun, of a package such as openmpi-bin");
    drop(folder);
    std::process::exit(status.code().unwrap_or(1));
}

/// What rank 1 does.
fn keep(membership: Membership) -> ! {
    let start = |name: &str, window| {
        let options = Options { heap: window, start_deadline: devices::START_TIMEOUT, ..Options::default() };
        Keeper::start(devices::runtime(), "shm", devices::image("shm"), &options, name).map_err(|e| e.to_string())
    };
    serve(membership.job(), start, |what| println!("rank 1: {what}"));
    drop(membership);
    std::process::exit(0);
}

/// A device of its own for each launch.
struct Fresh(MpiLauncher);

impl Launcher for Fresh {
    fn describe(&self) -> String {
        self.0.describe()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        self.0.target(argument)
    }
    fn has_window(&self) -> bool {
        self.0.has_window()
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("mpi-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let link = self.0.link(&name, request)?;
        // For cases that signal a handler while it runs.
        keep_named(request, &format!("at:{name}"));
        Ok(link)
    }
}
