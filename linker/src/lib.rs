//! What an image needs of its linker: a build script of one line, `fn main() { hamr_linker::image() }`.
//!
//! Hosted images need only a build id, which ties logs and backtraces to the very file. Bare-metal images will get the
//! linker scripts of this folder (one shared body, one short script per instruction set).
//!
//! Who may depend on it: build scripts of images. It depends on nothing.

/// Emits the linker arguments of an image for the target that cargo is building.
pub fn image() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,--build-id=sha1");
}
