//! An image in the place of another, in a machine without an operating system: it goes on.

macro_rules! machines {
    ($($machine:ident $spec:literal)*) => {$(
        mod $machine {
            use hamr_tests::images;

            const SPEC: &str = $spec;

            #[test]
            fn an_image_replaces_another() {
                images::replaces(SPEC);
            }

            #[test]
            fn tasks_with_less_stack_are_refused() {
                images::less_stack(SPEC);
            }

            #[test]
            fn images_follow_each_other() {
                images::again(SPEC, 4);
            }

            #[test]
            fn a_call_in_flight_ends_first_or_is_named() {
                images::in_flight(SPEC);
            }

            #[test]
            fn threads_that_load_images_do_it_one_after_the_other() {
                images::by_threads(SPEC);
            }

            #[test]
            fn other_images_are_refused_by_name() {
                images::refusals(SPEC, "shm");
            }
        }
    )*};
}
machines! { aarch64 "qemu:aarch64" riscv64 "qemu:riscv64" x86_64 "qemu:x86_64" }

#[test]
fn a_processor_that_protects_its_image_until_reset_keeps_it() {
    hamr_tests::images::is_protected("machine-mode");
}
