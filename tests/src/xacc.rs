//! What programs of `hamr-xacc` do, checked on any world.

mod claims;
mod coarrays;
mod collectives;
mod himeno;
mod kept;
mod shadows;
mod solvers;

pub use claims::check_claims;
pub use coarrays::{check_coarrays, check_misused};
pub use collectives::{check_collectives, check_mismatches, pairs};
pub use himeno::{check_exact, check_himeno, check_host_arrays};
pub use kept::{check_failed_starts, check_kept, check_kept_coarrays, check_unsent_starts};
pub use shadows::{check_refused, check_shadows};
pub use solvers::{check_cg, check_loops, check_progress};

/// A test of each of these on a kind of world: `world` makes one of so many ranks, and each list is of
/// the numbers of ranks.
#[macro_export]
macro_rules! xacc_cases {
    (
        $world:ident, collectives: $collectives:expr, himeno: $himeno:expr, shadows: $shadows:expr,
        loops: $loops:expr, coarrays: $coarrays:expr $(,)?
    ) => {
        #[test]
        fn a_claim_ends_with_its_task() {
            $crate::xacc::check_claims($world(2).node(1));
        }

        #[test]
        fn collectives_are_in_the_order_of_the_nodes() {
            for ranks in $collectives {
                $crate::xacc::check_collectives(&$world(ranks), 1);
            }
        }

        #[test]
        fn himenos_field_has_the_same_bits_on_any_nodes() {
            for ranks in $himeno {
                $crate::xacc::check_himeno(&$world(ranks), ranks == 3);
            }
        }

        #[test]
        fn runs_are_started_over_arrays_that_are_kept() {
            for ranks in $loops {
                let world = $world(ranks);
                $crate::xacc::check_kept(&world);
                $crate::xacc::check_kept_coarrays(&world);
                $crate::xacc::check_failed_starts(&world);
            }
        }

        #[test]
        fn exact_sums_and_arrays_of_the_host_do_not_depend_on_the_nodes() {
            for ranks in $shadows {
                let world = $world(ranks);
                $crate::xacc::check_exact(&world);
                $crate::xacc::check_host_arrays(&world);
            }
        }

        #[test]
        fn shadows_are_copies_of_their_owners_elements() {
            for ranks in $shadows {
                $crate::xacc::check_shadows(&$world(ranks));
            }
        }

        #[test]
        fn wrong_uses_end_the_run_with_their_reason() {
            let world = $world(2);
            $crate::xacc::check_refused(&world);
            $crate::xacc::check_misused(&world);
        }

        #[test]
        fn loops_over_arrays_are_those_of_one_node() {
            for ranks in $loops {
                $crate::xacc::check_loops(&$world(ranks));
            }
        }

        #[test]
        fn images_read_and_write_each_others_coarrays() {
            for ranks in $coarrays {
                $crate::xacc::check_coarrays(&$world(ranks));
            }
        }
    };
}
