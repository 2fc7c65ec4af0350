//! Epochs of both copies, of which one ends without the other.

use super::*;

/// A host that follows one that has not left begins with what that has left.
#[test]
fn a_new_host_ends_the_epoch_of_an_earlier_one() {
    let far = Window::private(WINDOW).share();
    let all = |of: &Window<Shared>| of.part(0, WINDOW).expect("all of it");
    offer(&far, Epoch(7));
    set(&far, word::EPOCH_ACK, 7);
    set(&far, word::DEVICE_STATE, DeviceState::SERVING.0);
    let near = Window::private(WINDOW).share();
    let mut host = HostCopy::new(all(&near));
    let mut front = [0; PREAMBLE_BYTES as usize];
    far.read_bytes(0, &mut front).expect("inside");
    host.follow(&front).expect("its length");
    assert!(host.follow(&front[1..]).is_err());
    let mut mirror = Mirror::new(host, DeviceCopy::new(all(&far)));
    let takeover = Takeover::begin(&near);
    mirror.step().expect("both are there");
    assert_eq!((takeover.step(&near), get(&far, word::HOST_STATE)), (None, HostState::CLOSING.0));
    set(&far, word::DEVICE_STATE, DeviceState::STOPPED.0);
    mirror.step().expect("both are there");
    assert_eq!(takeover.step(&near), Some(Epoch(8)));
    offer(&near, Epoch(8));
    mirror.step().expect("both are there");
    assert_eq!((get(&far, word::EPOCH), get(&far, 0)), (8, MAGIC));
}

/// A device that was started again has acknowledged nothing.
#[test]
fn a_new_start_ends_the_epoch_of_a_device_that_has_not_left() {
    let mut rig = Rig::new(Epoch(1));
    rig.mirror.sides().1.renew();
    offer(&rig.near, Epoch(2));
    rig.step();
    assert_eq!(get(&rig.far, word::EPOCH), 2);
}
