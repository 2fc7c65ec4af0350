//! The conformance suite on a bare-metal riscv64 machine behind PCI Express, under QEMU.

use hamr::{Node, Options};

fn open(options: Options) -> Node {
    hamr_tests::devices::open("qemu:riscv64", options)
}

hamr_tests::conformance!(open);
hamr_tests::crashes!("qemu:riscv64");
hamr_tests::resources!("qemu:riscv64");
hamr_tests::broken!("qemu:riscv64");
hamr_tests::logs!("qemu:riscv64");
hamr_tests::machine!(hamr::qemu::Machine::RISCV64);

/// Only the guard's width prevents that a frame steps over it (`linker/scripts/riscv64.x`), so
/// every frame of the images must be smaller.
#[test]
fn no_frame_is_as_large_as_the_guard() {
    use object::{Object, ObjectSection, ObjectSymbol};
    let target = hamr_tests::devices::runtime().target("qemu:riscv64").expect("known").expect("takes an image");
    for (name, least) in [("hamr-checks", 32 << 10), ("hamr-demo", 0)] {
        let image = hamr::Image::find(name).expect("a name").resolve(&target).expect("the image builds");
        let bytes = std::fs::read(&image.path).expect("readable");
        let file = object::File::parse(&*bytes).expect("an image");
        let address = |name| file.symbol_by_name(name).expect("in every image").address();
        let guard = address("__hamr_serve_stack") - address("__hamr_serve_guard");
        let text = file.section_by_name(".text").expect("code");
        let steps = hamr_tests::frames::steps(text.data().expect("in the file"), text.address());
        assert!(steps.len() > 50, "{name}: {} frames", steps.len());
        let largest = steps.iter().max_by_key(|step| step.bytes.unwrap_or(u64::MAX)).expect("some");
        println!("{name}: {} frames, the largest {largest:x?}", steps.len());
        let bytes = largest.bytes.expect("frames of known size");
        // `leaps` has large frames and is found, so larger ones would be. A prologue is two steps,
        // the first of at most 2 KiB.
        assert!(bytes >= least && bytes + 2048 <= guard, "{name}: {largest:x?}, guard {guard:#x}");
    }
}

#[test]
fn stacks_without_guards_are_not_used() {
    hamr_tests::machines::stacks_without_guards_are_not_used(&hamr::qemu::Machine::RISCV64);
}
