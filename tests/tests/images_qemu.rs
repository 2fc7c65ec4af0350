//! An image in the place of another, in a machine without an operating system: it goes on.

macro_rules! machines {
    ($($machine:ident)*) => {$(
        mod $machine {
            use hamr_tests::images;

            const SPEC: &str = concat!("qemu:", stringify!($machine));

            #[test]
            fn an_image_replaces_another() {
                images::replaces(SPEC);
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
            fn other_images_are_refused_by_name() {
                images::refusals(SPEC, "shm");
            }
        }
    )*};
}
machines! { aarch64 riscv64 x86_64 }
