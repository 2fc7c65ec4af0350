//! The conformance suite on a bare-metal x86_64 machine behind PCI Express, under QEMU.

use hamr::{Node, Options};

fn open(options: Options) -> Node {
    hamr_tests::devices::open("qemu:x86_64", options)
}

hamr_tests::conformance!(open);
hamr_tests::crashes!("qemu:x86_64");
hamr_tests::resources!("qemu:x86_64");
hamr_tests::broken!("qemu:x86_64");
hamr_tests::logs!("qemu:x86_64");
hamr_tests::machine!(hamr::qemu::Machine::X86_64);

/// Emulators run string instructions byte by byte, so no copy in the image may use them. Boot code
/// fills `.bss` with one, once.
#[test]
fn no_copy_is_a_string_instruction() {
    let target = hamr_tests::devices::runtime().target("qemu:x86_64").expect("known").expect("takes an image");
    let image = hamr_tests::devices::image("qemu:x86_64").resolve(&target).expect("an image");
    let output =
        std::process::Command::new("objdump").arg("-d").arg(&image.path).output().expect("binutils has objdump");
    let code = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && code.lines().count() > 5000, "a disassembly");
    let strings: Vec<&str> = code.lines().filter(|line| line.contains("\trep")).collect();
    assert!(strings.iter().all(|line| line.contains("rep stos")) && strings.len() <= 1, "{strings:#?}");
}
