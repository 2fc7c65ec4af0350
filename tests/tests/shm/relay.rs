//! Calls between two processes that share no memory, through the host.

hamr_tests::relays!("shm", "shm");
