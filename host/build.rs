//! Tells the library which target it is built for: hosted images are built for the same one.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Ok(target) = std::env::var("TARGET") {
        println!("cargo::rustc-env=HAMR_HOST_TARGET={target}");
    }
}
