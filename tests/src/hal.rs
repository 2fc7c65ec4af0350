//! Drivers of the embedded-hal ecosystem inside images, and the pins that a board gives them. Cases of [`crate::sleeping!`], whose
//! links can ring by hand.

use crate::sleeping::{Kind, Rig, deep};
use hamr::{Options, WaitMode};
use std::time::{Duration, Instant};

#[path = "../image/src/driver.rs"]
pub mod driver;

/// Nobody rings by himself, so that whoever rings is the test.
fn awake() -> Options {
    Options { wait: WaitMode::Spin, ..deep() }
}

/// A driver that knows nothing of us measures on a bus that we made, and is stopped when it does not wait as long as it should.
pub fn a_drivers_sensor(kind: Kind) {
    let rig = Rig::start(kind, awake());
    // Twice, because the bus is the image's and stays. -45 + 175 * raw / 2^16 degrees, 100 * raw / 2^16 percent.
    for (raw, degrees, percent) in [((0x6666, 0x8000), 24_998, 50_000), ((0, 0x4000), -45_000, 25_000)] {
        let measured = rig.node.sync(driver::climate::with(raw.0, raw.1, true)).expect("measures");
        assert_eq!(measured, (degrees, percent));
    }
    // A machine that stands still for as long as the measurement takes finds it done after all, which happens beside other programs.
    let impatient = || rig.node.sync(driver::climate::with(1, 2, false));
    let fault = (0..10).find_map(|_| impatient().err()).expect("too early").to_string();
    assert!(fault.contains("the sensor did not answer"), "{fault}");
}

/// The board's delay lasts at least as long as asked for, on its clock and on ours.
pub fn a_delay(kind: Kind) {
    let rig = Rig::start(kind, awake());
    for micros in [0, 1, 700, 30_000] {
        let begin = Instant::now();
        let there = Duration::from_nanos(rig.node.sync(driver::waits::with(micros)).expect("waits"));
        let (here, wanted) = (begin.elapsed(), Duration::from_micros(micros.into()));
        assert!(there >= wanted && here >= wanted.mul_f64(0.99), "{wanted:?}: {there:?} there, {here:?} here");
        assert!(there <= here.mul_f64(1.01) + Duration::from_micros(10), "{there:?} there, {here:?} here");
    }
}

/// The bell rings this program, once for two times high, and the line is heard by the image.
pub fn pins(kind: Kind) {
    let rig = Rig::start(kind, awake());
    // Nothing rings while both sides poll, so a wait lasts as long as it may: short where nobody rings, and longer than this
    // program can be held up where somebody does.
    let notified_within = |most: Duration| {
        let begin = Instant::now();
        rig.seen.link.wait(most.as_micros() as u32);
        begin.elapsed() < most.mul_f64(0.75)
    };
    let (short, long) = (Duration::from_millis(200), Duration::from_secs(20));
    assert!(!notified_within(short), "nobody rang");
    rig.node.sync(driver::rings::with()).expect("rings");
    assert!(notified_within(long), "the bell was not heard");
    assert!(!notified_within(short), "it rang twice");
    assert!(!rig.node.sync(driver::hears::with(20)).expect("listens"), "the line is high without a ring");
    let heard = rig.node.offload(driver::hears::with(5_000)).expect("sent");
    std::thread::sleep(Duration::from_millis(20));
    rig.seen.link.notify();
    assert!(heard.wait().expect("listens"), "the line stayed low");
}
