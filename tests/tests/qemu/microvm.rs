//! A part of the conformance suite on a board that is part of neither the runtime nor the host library: the
//! image of `tests/microvm`, in a machine that is a row of this file. `docs/porting.md` describes
//! how to make such a board.

use hamr::qemu::{Machine, QemuLauncher};
use hamr::{Image, Node, Options, Runtime};
use std::sync::LazyLock;
use std::time::Duration;

const IMAGE: &str = "hamr-microvm";

/// Half of the usual memory, as in the image's own `memory.x`.
const MICROVM: Machine = Machine { name: "microvm", machine: "microvm,pcie=on", memory: 32, ..Machine::X86_64 };

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = Runtime::new().expect("a runtime");
    runtime.register(MICROVM.name, QemuLauncher::machine(MICROVM));
    runtime
});

/// Searched once, because each search asks cargo whether the image is fresh.
static FILE: LazyLock<Image> = LazyLock::new(|| {
    let target = RUNTIME.target(MICROVM.name).expect("a known device").expect("it takes an image");
    let file = Image::find(IMAGE).expect("a name").resolve(&target).expect("the image builds");
    Image::file(file.path).expect("an image")
});

fn open(options: Options) -> Node {
    let options = Options { start_deadline: Duration::from_secs(60), ..options };
    RUNTIME.open_with(MICROVM.name, FILE.clone(), options).expect("a device")
}

// But for its board the image is that of `qemu:x86_64`.
hamr_tests::conformance!(smoke: open);

#[test]
fn device_record_names_the_board() {
    let node = open(hamr_tests::conformance::options());
    let info = node.info();
    assert_eq!((info.board.as_str(), info.isa.name(), info.link.as_str()), ("qemu-microvm", "x86_64", "qemu"));
}

#[test]
fn crashes_of_tasks() {
    hamr_tests::machines::crashes_beside_suspended_tasks(&open(hamr_tests::conformance::options()));
}
