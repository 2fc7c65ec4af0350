//! An image in the place of another, as a process over shared memory.

use hamr::Image;
use hamr_tests::{devices, images};
use std::time::Duration;

#[test]
fn an_image_replaces_another() {
    images::replaces("shm");
}

#[test]
fn tasks_with_less_stack_are_refused() {
    images::less_stack("shm");
}

#[test]
fn twenty_images_follow_each_other() {
    images::again("shm", 20);
}

#[test]
fn a_call_in_flight_ends_first_or_is_named() {
    images::in_flight("shm");
}

#[test]
fn calls_of_other_threads_have_an_end() {
    images::beside_calls("shm");
}

#[test]
fn refused_calls_that_nobody_has_read_delay_none() {
    images::refused_and_unread("shm");
}

#[test]
fn a_lost_device_restarts_first_or_says_why() {
    images::after_a_loss("shm");
}

#[test]
fn threads_that_load_images_do_it_one_after_the_other() {
    images::by_threads("shm");
}

#[test]
fn other_images_are_refused_by_name() {
    images::refusals("shm", "qemu:riscv64");
}

#[test]
fn a_device_that_no_image_is_loaded_into_says_so() {
    let image = Image::find("hamr-demo").expect("a name");
    let node = devices::runtime().open("loopback", image.clone()).expect("a device");
    let error = node.load_image_within(&image, Duration::ZERO).expect_err("refused").to_string();
    assert!(error.contains("a loopback link did not load the image that runs"), "{error}");
}
