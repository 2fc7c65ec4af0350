//! Calls through the host from and to a device inside of this process, and ranks of worlds.

mod loopback_to_shm {
    hamr_tests::relays!(
        "loopback", "shm";
        every_value, many_at_once, buffers, outcomes, a_wait_that_ends, a_device_that_ends, a_caller_that_ends
    );
}

mod shm_to_loopback {
    hamr_tests::relays!(
        "shm", "loopback";
        every_value, many_at_once, nested_to_the_last_place, a_wait_that_ends, a_device_that_ends, a_caller_that_ends
    );
}

mod loopback_to_loopback {
    hamr_tests::relays!("loopback", "loopback"; every_value, outcomes, a_wait_that_ends);
}

mod rank_to_shm {
    hamr_tests::relays!("rank", "shm");
}

mod shm_to_rank {
    hamr_tests::relays!(
        "shm", "rank";
        every_value, many_at_once, buffers, a_wait_that_ends, a_device_that_ends, a_caller_that_ends
    );
}

mod rank_to_its_peer {
    hamr_tests::relays!("rank", "its peer"; every_value, buffers, outcomes, nested_to_the_last_place, a_wait_that_ends);
}
