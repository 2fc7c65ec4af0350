//! Names one condition that many modules share: `hamr_machine`, a bare-metal image on an instruction set that `arch/` has.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(hamr_machine)");
    let set = |name| std::env::var_os(name).is_some();
    let is = |name: &str, values: &[&str]| std::env::var(name).is_ok_and(|value| values.contains(&&*value));
    let is_bare = is("CARGO_CFG_TARGET_OS", &["none"]) || set("CARGO_CFG_HAMR_BARE");
    if is_bare && set("CARGO_FEATURE_IMAGE") && is("CARGO_CFG_TARGET_ARCH", &["x86_64", "aarch64", "riscv64"]) {
        println!("cargo::rustc-cfg=hamr_machine");
    }
}
