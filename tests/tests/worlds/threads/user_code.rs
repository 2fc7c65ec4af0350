//! Code of the program in runs: conversions of arguments, results and errors that panic, or use the world; what a
//! program owns.

use super::*;
use hamr::Runtime;
use hamr_comm::migrate::{Decoder, Encoder, Malformed, Migratable};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Encode,
    Decode,
    Drop,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    Panics,
    /// Runs something on the same world.
    Runs,
    /// Waits for another thread that does.
    Waits,
}

thread_local! {
    /// What a conversion of this thread does next, where, and behind how many others.
    static NEXT: Cell<Option<(At, Does, u32)>> = const { Cell::new(None) };
    static WORLD: Cell<Option<&'static World>> = const { Cell::new(None) };
}

fn act(here: At) {
    let Some((at, does, left)) = NEXT.get() else { return };
    if at != here {
        return;
    }
    NEXT.set((left != 0).then(|| (at, does, left.saturating_sub(1))));
    if left != 0 {
        return;
    }
    let world = WORLD.get().expect("set by the test");
    let runs = move || assert_eq!(world.run(echo::with(5u64)).expect("a run"), 5);
    match does {
        Does::Panics => panic!("asked to"),
        Does::Runs => runs(),
        Does::Waits => std::thread::spawn(runs).join().expect("no panic"),
    }
}

#[derive(Debug)]
struct Acts(u32);

impl Clone for Acts {
    fn clone(&self) -> Self {
        act(At::Encode);
        Self(self.0)
    }
}

impl Drop for Acts {
    fn drop(&mut self) {
        act(At::Drop);
    }
}

impl Migratable for Acts {
    const SIZE: Option<usize> = Some(4);
    const SHAPE: u64 = 0x6163_7473;
    const TYPE_NAME: &'static str = "Acts";
    fn encode(&self, out: &mut Encoder<'_>) {
        act(At::Encode);
        self.0.encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        act(At::Decode);
        u32::decode(from).map(Self)
    }
}

/// Each rank needs the others.
#[offload]
fn meet(task: &mut Task<'_>, x: Acts) -> Result<Acts, Fault> {
    task.barrier()?;
    Ok(Acts(x.0 + 1))
}

#[offload]
fn meet_and_refuse(task: &mut Task<'_>, x: Acts) -> Result<u32, Acts> {
    task.barrier().map_err(|_| Acts(0))?;
    Err(Acts(x.0))
}

/// In each way to run, at each place, and at the first and the second rank: the run ends as that code does, and the
/// world stays usable.
#[test]
fn a_conversion_in_a_run_leaves_the_world_usable() {
    type Way = fn(&World);
    let ways: [(&str, Way); 4] = [
        ("run", |world| drop(world.run_all(meet::with(Acts(7))))),
        ("run_within", |world| drop(world.run_within(meet::with(Acts(7)), Duration::from_secs(20)))),
        ("start", |world| drop(world.start(meet::with(Acts(7))).map(|run| run.wait_all()))),
        ("an error", |world| drop(world.run(meet_and_refuse::with(Acts(7))))),
    ];
    // A thread that waits for itself would wait for good.
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime: &Runtime = devices::runtime();
        let world: &'static World = Box::leak(Box::new(runtime.world_of_threads(2).expect("a world")));
        WORLD.set(Some(world));
        for (name, way) in ways {
            for at in [At::Encode, At::Decode, At::Drop] {
                for does in [Does::Panics, Does::Runs, Does::Waits] {
                    for behind in [0, 1] {
                        NEXT.set(Some((at, does, behind)));
                        // It ends as that code does.
                        let _ = catch_unwind(AssertUnwindSafe(|| way(world)));
                        NEXT.set(None);
                        let next = [(); 2].map(|()| world.run_within(meet::with(Acts(9)), Duration::from_secs(10)));
                        let next = next.map(|run| run.map(|acts| acts.0).map_err(|e| e.to_string()));
                        assert_eq!(next, [Ok(10), Ok(10)], "{name}, {at:?}, {does:?}, {behind}");
                    }
                }
            }
        }
        let _ = tell.send(());
    });
    assert_eq!(told.recv_timeout(Duration::from_secs(300)), Ok(()), "it returns, and says nothing else");
}

/// Dropped when a program has run, it runs another.
struct Last(Arc<World>, mpsc::Sender<bool>);

impl Drop for Last {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.run_program(|_| Ok(0)).is_ok());
    }
}

#[test]
fn what_a_program_owns_is_dropped_without_a_lock() {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let [first, second] = [(); 2].map(|()| Arc::new(world(1)));
        let last = Last(second, tell);
        let program = move |_: &mut Task<'_>| {
            let _ = &last;
            Ok(0)
        };
        first.run_program(program).expect("a code");
    });
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(true), "the thread waits for a lock that it has");
}
