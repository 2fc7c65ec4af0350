//! Modules in a process over shared memory.

use hamr::{Image, Target};
use hamr_comm::abi::ids::Isa;
use hamr_comm::abi::image::ImageKind;
use hamr_tests::{devices, modules};

fn target() -> Target {
    Target { kind: ImageKind::HOSTED_MODULE, ..Target::hosted() }
}

#[test]
fn handlers_are_called_until_the_unload() {
    modules::calls("shm");
}

#[test]
fn every_load_is_a_new_one() {
    modules::again("shm");
}

#[test]
fn a_panic_fails_its_own_call() {
    modules::panics("shm");
}

#[test]
fn claims_of_tasks_are_kept() {
    modules::claims("shm");
}

#[test]
fn an_unload_waits_for_a_call_or_says_that_it_runs() {
    modules::waits("shm");
}

#[test]
fn a_late_unload_takes_no_other_module() {
    modules::late("shm");
}

#[test]
fn a_late_load_takes_no_place() {
    modules::late_loads("shm", 13);
}

#[test]
fn a_hook_cannot_unload_what_is_unloaded() {
    modules::hooks("shm");
}

#[test]
fn a_load_behind_a_crash_is_one_of_the_next_epoch() {
    modules::behind_a_crash("shm");
}

#[test]
fn calls_that_no_thread_waits_for_run_first() {
    modules::detached("shm");
}

#[test]
fn a_module_ends_with_its_epoch() {
    modules::restarts("shm");
}

#[test]
fn thirteen_fit_and_one_makes_room() {
    modules::room("shm", 13, "at most 13 modules");
}

#[test]
fn other_builds_are_refused_by_name() {
    modules::refusals("shm");
}

#[test]
fn a_module_for_another_device_is_refused_by_name() {
    let file = Image::module("hamr-tests-module").and_then(|module| module.resolve(&target())).expect("it builds");
    let other = Target { triple: "riscv64gc-unknown-none-elf".into(), kind: ImageKind::BARE_MODULE, isa: Isa::RISCV64 };
    let error = file.check(&other).expect_err("hosted").to_string();
    assert!(error.contains("expected a bare-metal module for this device, got a hosted one"), "{error}");
}

#[test]
fn an_image_without_the_feature_takes_none() {
    let image = Image::find("hamr-demo").expect("a name");
    let node = devices::runtime().open("shm", image).expect("a device");
    let error = node.load_module(&Image::module("hamr-tests-module").expect("a name")).expect_err("refused");
    assert!(error.to_string().contains("its image takes no modules"), "{error}");
}

#[test]
fn an_abandoned_call_poisons_what_it_used() {
    modules::poisons("shm");
}

#[test]
fn a_module_has_no_state_of_the_runtime() {
    modules::statics("shm");
}

#[test]
fn a_load_is_a_new_one_behind_destructors_of_the_thread() {
    modules::forgets("shm");
}

#[test]
fn another_module_is_not_taken_for_one_that_the_system_keeps() {
    modules::takes_no_other("shm");
}
