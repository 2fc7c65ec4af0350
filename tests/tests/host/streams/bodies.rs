//! Bodies that devices call: what they find, whose buffers they write, which thread runs them.

use hamr::{CallError, Image, Node, Options, Runtime};
use hamr_comm::relay::NodeName;
use hamr_comm::{Context, Fault, HOST, Host, NodeId, Task, offload};
use hamr_tests::conformance::{driven, options, until};
use hamr_tests::{devices, processes};
use hamr_tests_kernels::host_calls::{Callback, call_back};
use hamr_tests_kernels::variants::NO_TASKS;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn loopback(runtime: &Runtime, options: Options) -> Node {
    runtime.open_with("loopback", Image::find(devices::IMAGE).expect("a name"), options).expect("a device")
}

#[offload]
fn which_device(cx: &mut Context) -> u16 {
    cx.node().0
}

#[offload(unordered)]
fn ask_which(task: &mut Task, node: u16) -> Result<u16, Fault> {
    Ok(task.sync(NodeId(node), which_device::with())?)
}

/// A node that is a service of another one is called in its place.
#[test]
fn a_relayed_call_comes_to_the_device_that_it_names() {
    let runtime = Runtime::new().expect("a runtime");
    let options = Options { relay: true, ..options() };
    let (a, b, c) =
        (loopback(&runtime, options.clone()), loopback(&runtime, options.clone()), loopback(&runtime, options));
    let (b_number, c_number) = (b.info().node, c.info().node);
    let asked = || driven(&a, || driven(&b, || a.sync(ask_which::with(b_number))));
    assert_eq!(asked().expect("runs"), b_number);
    // Bodies that `b` calls are to reach `c`.
    b.provide(c);
    let numbers: Vec<u16> = runtime.nodes().iter().map(|node| node.info().node).collect();
    let answered = asked().map_err(|e| e.to_string());
    assert_eq!(answered, Ok(b_number), "device {c_number} was called");
    assert!(numbers.contains(&b_number), "it is missing in {numbers:?}");
}

#[offload(unordered)]
fn names(task: &mut Task) -> Result<heapless::Vec<(NodeId, NodeName), 8>, Fault> {
    let (mut found, mut from) = (heapless::Vec::new(), NodeId(1));
    while let Some(next) = task.next_node(from)? {
        from = NodeId(next.0.0 + 1);
        found.push(next).map_err(|_| Fault::msg("too many devices"))?;
    }
    let own = task.node_name(task.node())?;
    if own != found.iter().find(|(node, _)| *node == task.node()).map(|(_, name)| name.clone()) {
        return Err(Fault::msg("its own name is another"));
    }
    Ok(found)
}

/// The program lists its devices as ones to call, and a task learns their names.
#[test]
fn the_devices_of_a_runtime_are_listed_with_names() {
    let runtime = Runtime::new().expect("a runtime");
    let options = Options { relay: true, ..options() };
    let nodes = [(); 3].map(|()| loopback(&runtime, options.clone()));
    let numbers = nodes.each_ref().map(|node| node.info().node);
    let named = |numbers: &[u16]| -> Vec<_> {
        let name = NodeName::try_from("loopback").expect("short");
        numbers.iter().map(|number| (NodeId(*number), name.clone())).collect()
    };
    let [a, b, c] = nodes;
    let asked = || driven(&a, || a.sync(names::with()).map(Vec::from_iter).map_err(|e| e.to_string()));
    assert_eq!(asked(), Ok(named(&numbers)));
    let handles = runtime.nodes();
    for (handle, number) in handles.iter().zip(numbers) {
        assert_eq!(driven(handle, || handle.sync(which_device::with())).expect("runs"), number);
    }
    // A device ends with its own node, not with a handle.
    drop(runtime.nodes());
    assert_eq!(driven(&b, || b.sync(which_device::with())).expect("runs"), numbers[1]);
    drop(c);
    let ended = handles[2].sync(which_device::with()).expect_err("the device has ended");
    assert!(matches!(&ended, CallError::DeviceLost(..) | CallError::Submit(_)), "{ended}");
    assert_eq!(asked(), Ok(named(&numbers[..2])));
    assert_eq!(runtime.nodes().len(), 2);
}

/// A device that bodies find by `Runtime::provide` ends with the runtime.
#[test]
fn a_device_that_the_runtime_serves_ends_with_it() {
    struct Told(#[expect(dead_code)] Node, Arc<AtomicBool>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.1.store(true, Ordering::Release);
        }
    }
    let runtime = Runtime::new().expect("a runtime");
    let node = loopback(&runtime, options());
    let dropped = Arc::new(AtomicBool::new(false));
    runtime.provide(Told(node, dropped.clone()));
    drop(runtime);
    assert!(dropped.load(Ordering::Acquire), "it and its device are there for good");
}

/// The first body of a process may run on a thread that unwinds, which must not change the panic hook.
#[test]
fn a_body_runs_on_a_thread_that_unwinds() {
    let output = processes::again("unwinds").output().expect("it starts");
    assert!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
}

#[offload]
fn answer(_: &mut Host, value: u64) -> u64 {
    value + 1
}

#[offload(unordered)]
fn ask_answer(task: &mut Task, value: u64) -> Result<u64, Fault> {
    Ok(task.sync(HOST, answer::with(value))?)
}

#[test]
#[ignore = "only the other test starts it"]
fn unwinds() {
    struct Saves(Node);
    impl Drop for Saves {
        fn drop(&mut self) {
            assert_eq!(self.0.sync(ask_answer::with(1)).map_err(|e| e.to_string()), Ok(2));
        }
    }
    let runtime = Runtime::new().expect("a runtime");
    let node = loopback(&runtime, options());
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _saves = Saves(node);
        std::panic::resume_unwind(Box::new("asked to"));
    }));
    assert!(outcome.is_err());
}

#[offload]
fn catches_a_panic(_: &mut Host, value: u64) -> u64 {
    let caught = std::panic::catch_unwind(|| panic!("caught"));
    value + u64::from(caught.is_err())
}

/// No hook runs for this panic.
#[offload]
fn resumes_a_panic(_: &mut Host, catches: bool) -> u64 {
    let _ = catches.then(|| std::panic::catch_unwind(|| panic!("caught")));
    std::panic::resume_unwind(Box::new("resumed"))
}

#[offload(unordered)]
fn ask_catches(task: &mut Task, value: u64) -> Result<u64, Fault> {
    Ok(task.sync(HOST, catches_a_panic::with(value))?)
}

#[offload(unordered)]
fn ask_resumes(task: &mut Task, catches: bool) -> Result<u64, Fault> {
    Ok(task.sync(HOST, resumes_a_panic::with(catches))?)
}

#[test]
fn a_panic_in_a_body_has_no_text_of_an_earlier_one() {
    let runtime = Runtime::new().expect("a runtime");
    let node = loopback(&runtime, options());
    for catches in [false, true] {
        assert_eq!(node.sync(ask_catches::with(1)).map_err(|e| e.to_string()), Ok(2));
        let why = node.sync(ask_resumes::with(catches)).expect_err("a panic").to_string();
        assert!(why.contains("resumed") && !why.contains("caught"), "{why}");
    }
}

/// "A body of the last epoch may run on; it writes nothing into the next": through its buffers it does.
#[test]
fn a_body_of_an_epoch_that_is_over_writes_nothing() {
    let node = Arc::new(devices::open("shm", options()));
    let buffer = node.buffer(&[1u64; 8]).expect("room");
    let (begun, open, wrote) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (ptr, theirs) = (buffer.ptr(), (begun.clone(), open.clone(), wrote.clone()));
    let body: Callback = Box::new(move |host, value| {
        theirs.0.store(true, Ordering::Release);
        while !theirs.1.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let outcome = host.write(&[9u64; 8], ptr);
        theirs.2.store(if outcome.is_ok() { 1 } else { 2 }, Ordering::Release);
        Ok(value)
    });
    node.provide(body);
    let call = node.offload(call_back::with(1)).expect("sent");
    until("the body runs", || begun.load(Ordering::Acquire));
    node.restart().expect("it starts again");
    assert!(call.wait().is_err(), "its epoch is over");
    node.put(&[5u64; 8], buffer.ptr()).expect("free");
    open.store(true, Ordering::Release);
    until("the body has written", || wrote.load(Ordering::Acquire) != 0);
    let seen = buffer.read().expect("there");
    assert_eq!((seen[0], wrote.load(Ordering::Acquire)), (5, 2), "a body of epoch 1 wrote in epoch 2");
}

/// The first image has no tasks. What those of the next one call on the host is served, also where no thread waits.
#[test]
fn calls_of_the_next_image_are_served() {
    let node = devices::runtime().open_with("shm", devices::variant("shm", NO_TASKS), options()).expect("a device");
    assert_eq!(node.info().tasks, 0);
    node.load_image(&devices::image("shm")).expect("loaded");
    let body: Callback = Box::new(|_, value| Ok(value + 1));
    node.provide(body);
    assert_eq!(node.sync(call_back::with(1)).expect("its thread serves it"), 2);
    let call = node.offload(call_back::with(2)).expect("sent");
    let begin = Instant::now();
    while !call.is_done() && begin.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(call.is_done(), "nobody has served it within {:?}", begin.elapsed());
}
