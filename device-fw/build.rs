//! Names two conditions that many modules share: `hamr_bare`, a build without an operating system,
//! and `hamr_machine`, a bare-metal image on an instruction set that `arch/` has.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(hamr_machine)");
    let set = |name| std::env::var_os(name).is_some();
    let is = |name: &str, values: &[&str]| std::env::var(name).is_ok_and(|value| values.contains(&&*value));
    if hamr_linker::bare()
        && set("CARGO_FEATURE_IMAGE")
        && is("CARGO_CFG_TARGET_ARCH", &["x86_64", "aarch64", "riscv64", "arm"])
    {
        println!("cargo::rustc-cfg=hamr_machine");
    }
}
