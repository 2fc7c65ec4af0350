//! The linker arguments of an image.
fn main() {
    hamr_linker::image();
}
