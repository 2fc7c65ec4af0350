//! Any bytes where a host reads what others have written: the cases that `fuzz/` runs, too.

use hamr_tests::cases::{each_case, frames};

#[test]
fn a_file_is_an_image_or_refused() {
    each_case("image", hamr::cases::image);
}

#[test]
fn any_window_has_a_report() {
    each_case("window", hamr::cases::window);
}

#[test]
fn any_ring_of_a_log_has_events() {
    each_case("log_ring", hamr::cases::log_ring);
}

#[test]
fn values_of_a_call_are_read_or_refused() {
    each_case("call", hamr::cases::call);
}

#[test]
fn a_frame_is_refused_or_says_what_it_is_again() {
    each_case("frames", frames);
}
