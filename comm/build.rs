//! Sets `cfg(hamr_bare)` for builds without an operating system. `links` in the manifest asks for a build script, too.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    hamr_linker::bare();
}
