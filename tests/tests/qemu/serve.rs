//! Machines that another process keeps: hosts come and go, and a machine that ended comes back.

use hamr::{Image, Options};
use hamr_tests::conformance::{Log, options};
use hamr_tests::devices::{self, START_TIMEOUT, keep, runtime};
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

/// Deleted, or another one in its place: what was checked is what is started again.
#[test]
fn a_device_starts_again_from_the_file_that_was_checked() {
    for spec in ["shm", "qemu:riscv64"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, built) = (folder.path().join("image"), devices::built(spec).1);
        std::fs::copy(built.splitn(3, ' ').nth(2).expect("a path"), &path).expect("a copy");
        let options = Options { start_deadline: START_TIMEOUT, ..options() };
        let node = runtime().open_with(spec, Image::file(&path).expect("an image"), options).expect("a device");
        for other in [None, Some("no image")] {
            match other {
                None => std::fs::remove_file(&path).expect("it is there"),
                Some(other) => std::fs::write(&path, other).expect("written"),
            }
            node.restart().expect("it starts again");
            assert_eq!(node.sync(echo::with(7u64)).map_err(|e| e.to_string()), Ok(7), "{spec}");
        }
    }
}
