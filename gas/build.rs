//! Sets `cfg(hamr_bare)` for builds without an operating system.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    hamr_linker::bare();
}
