//! Calls between devices of different processors, through the host.

mod shm_to_riscv64 {
    hamr_tests::relays!("shm", "qemu:riscv64");
}

mod x86_64_to_aarch64 {
    hamr_tests::relays!(
        "qemu:x86_64", "qemu:aarch64";
        every_value, outcomes, nested_to_the_last_place, a_device_that_ends
    );
}
