//! The conformance suite over an image whose memory the host reads and writes, and does not map.

use hamr::link::Protocol;
use hamr::{Node, Options};
use hamr_tests::devices;

fn open(options: Options) -> Node {
    let options = Options { protocol: Some(Protocol::HostDriven), ..options };
    devices::runtime().open_with("seen:shm", devices::image("shm"), options).expect("a device")
}

hamr_tests::conformance!(open);

/// The state that a fault has left is known before the fault is: the next call begins an epoch.
#[test]
fn each_fault_names_its_location_and_the_next_call_works() {
    hamr_tests::crashes::each_fault_names_its_location("driven:shm");
}
