//! Modules in machines without an operating system.

macro_rules! machines {
    ($($machine:ident)*) => {$(
        mod $machine {
            use hamr_tests::modules;

            const SPEC: &str = concat!("qemu:", stringify!($machine));

            #[test]
            fn handlers_are_called_until_the_unload() {
                modules::calls(SPEC);
            }

            #[test]
            fn every_load_is_a_new_one() {
                modules::again(SPEC);
            }

            #[test]
            fn an_abandoned_call_poisons_what_it_used() {
                modules::poisons(SPEC);
            }

            #[test]
            fn a_panic_fails_its_own_call() {
                modules::panics(SPEC);
            }

            #[test]
            fn claims_of_tasks_are_kept() {
                modules::claims(SPEC);
            }

            #[test]
            fn an_unload_waits_for_a_call_or_says_that_it_runs() {
                modules::waits(SPEC);
            }

            #[test]
            fn a_module_ends_with_its_epoch() {
                modules::restarts(SPEC);
            }

            #[test]
            fn a_module_has_no_state_of_the_runtime() {
                modules::statics(SPEC);
            }

            #[test]
            fn other_builds_are_refused_by_name() {
                modules::refusals(SPEC);
            }
        }
    )*};
}
machines! { aarch64 riscv64 x86_64 }
