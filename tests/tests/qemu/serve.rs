//! Machines that another process keeps: hosts come and go, and a machine that ended comes back.

use hamr::{Image, Options};
use hamr_tests::conformance::{Log, options};
use hamr_tests::devices::{START_TIMEOUT, keep, runtime};
use hamr_tests_kernels::{append, echo};

#[test]
fn hosts_of_a_machine_come_and_go() {
    let options = Options { start_deadline: START_TIMEOUT, ..options() };
    let spec = keep("qemu:x86_64", &options);
    for epoch in 1..5 {
        let node = runtime()
            .open_with(&spec, Image::find("hamr-checks").expect("a name"), options.clone())
            .expect("it has no host");
        assert_eq!((node.info().epoch, node.info().link.as_str()), (epoch, "at-qemu"));
        for n in 0..100u64 {
            assert_eq!(node.sync(echo::with(n)).expect("runs"), n);
        }
        let log = Log::new(&node, 50);
        for n in 0..50 {
            drop(node.offload(append::with(log.words(), n)).expect("sent"));
        }
    }
}
