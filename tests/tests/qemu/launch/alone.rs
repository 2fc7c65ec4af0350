//! Ends that every side must have noticed within a second.

use super::*;
use hamr_tests::times::within;

const SOON: Duration = Duration::from_secs(1);

#[test]
fn a_killed_machine_is_named_and_restarted() {
    within(SOON, || {
        let node = open(DEVICE, options());
        assert_eq!((node.info().link.as_str(), node.info().isa, node.info().pid), ("qemu", Isa::RISCV64, 0));
        assert!(node.info().start > Duration::ZERO);
        works(&node);
        let (gate, first) = (Gate::new(&node), the_machine());
        let (outcome, took) = std::thread::scope(|scope| {
            let caller = scope.spawn(|| (node.sync(wait_at::with(gate.ptr(), 1)), Instant::now()));
            gate.wait_for(1);
            let begin = Instant::now();
            kill(first);
            let (outcome, end) = caller.join().expect("returns");
            (outcome, end - begin)
        });
        match outcome {
            Err(e @ CallError::DeviceLost(..)) => contains_all(&e.to_string(), &[DEVICE, "wait_at", "signal: 9"]),
            other => panic!("expected a lost device, got {other:?}"),
        }
        node.restart().expect("starts again");
        assert_eq!(node.info().epoch, 2);
        works(&node);
        let second = the_machine();
        assert!(second != first);
        drop(gate);
        drop(node);
        assert!(has_ended(second) && machines().is_empty());
        took
    });
}

#[test]
fn a_killed_host_leaves_no_machine() {
    within(SOON, || {
        let (mut host, machine) = host_in_a_call("launch::host_to_be_killed", HELPER, "1");
        assert!(!has_ended(machine));
        let window = windows_of(Path::new(&format!("/proc/{machine}"))).pop().expect("the machine has it open");
        host.kill().expect("our child");
        let begin = Instant::now();
        host.wait().expect("our child");
        // The device runs a handler that would wait for ever.
        until("the machine has ended", || has_ended(machine));
        let took = begin.elapsed();
        assert!(!window.exists());
        took
    });
}
