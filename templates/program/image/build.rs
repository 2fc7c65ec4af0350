fn main() {
    hamr_linker::image()
}
