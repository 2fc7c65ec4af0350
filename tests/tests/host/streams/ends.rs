//! Calls where a thread or the program ends: each has a value or an error.

use hamr::{Image, Node};
use hamr_kernels::faults::background;
use hamr_tests::conformance::options;
use hamr_tests::{devices, foreign, processes};
use hamr_tests_kernels::echo;
use std::sync::{Arc, Mutex};

/// Runs an ignored test of this file in a process of its own.
fn child(name: &str) -> String {
    let output = processes::again(name).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{said}", output.status);
    said
}

#[test]
fn a_call_while_its_thread_ends_has_an_outcome() {
    let said = child("of_a_thread");
    assert!(said.contains("at the thread's end: Ok(1) Ok(1) Ok(1) Ok("), "{said}");
}

#[test]
#[ignore = "only the other test starts it"]
fn of_a_thread() {
    static NODE: Mutex<Option<Arc<Node>>> = Mutex::new(None);
    struct Calls;
    impl Drop for Calls {
        fn drop(&mut self) {
            let node = NODE.lock().expect("free").clone();
            if let Some(node) = node {
                let offloaded = node.offload(echo::with(1u64)).map_err(|e| e.to_string());
                let waited = offloaded.and_then(|pending| pending.wait().map_err(|e| e.to_string()));
                let local = node.local().map_err(|e| e.to_string());
                let local = local.and_then(|stream| stream.sync(echo::with(1u64)).map_err(|e| e.to_string()));
                let synced = node.sync(echo::with(1u64)).map_err(|e| e.to_string());
                let restarted = node.restart().map_err(|e| e.to_string());
                let again = restarted.and_then(|()| node.sync(background::with(1u64)).map_err(|e| e.to_string()));
                eprintln!("at the thread's end: {synced:?} {waited:?} {local:?} {again:?}");
            }
        }
    }
    std::thread_local! {
        static CALLS: Calls = const { Calls };
    }
    let node = Arc::new(
        devices::runtime()
            .open_with("loopback", Image::find(devices::IMAGE).expect("a name"), options())
            .expect("a device"),
    );
    *NODE.lock().expect("free") = Some(node.clone());
    let thread = std::thread::spawn(move || {
        CALLS.with(|_| ());
        node.sync(echo::with(2u64)).expect("runs")
    });
    assert_eq!(thread.join().expect("no panic"), 2);
}

/// A destructor of a static of another language, or a function that is registered for the end of the program, may
/// call: threads' own values are gone then.
#[test]
fn a_call_at_the_end_of_the_program_has_an_outcome() {
    let said = child("of_the_program");
    assert!(said.contains("at the end: Ok(2)"), "{said}");
}

static AT_END: Mutex<Option<Node>> = Mutex::new(None);

#[test]
#[ignore = "only the other test starts it"]
fn of_the_program() {
    extern "C" fn at_end() {
        let node = AT_END.lock().expect("free").take().expect("there");
        let outcome = node.sync(echo::with(2u64));
        eprintln!("at the end: {outcome:?}");
        drop(node);
    }
    let node = devices::runtime().open_with("shm", devices::image("shm"), options()).expect("a device");
    assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
    *AT_END.lock().expect("free") = Some(node);
    foreign::at_exit(at_end);
    // What the end of `main` does.
    std::process::exit(0);
}
