//! Drivers of the embedded-hal ecosystem inside images, and the pins of a board. Cases of
//! [`crate::sleeping!`], whose links can notify by hand.

use crate::sleeping::{Kind, Rig, deep};
use hamr::{Options, WaitMode};
use std::time::{Duration, Instant};

#[path = "../image/src/driver.rs"]
pub mod driver;

/// Both sides poll, so only the test notifies.
fn awake() -> Options {
    Options { wait: WaitMode::Spin, ..deep() }
}

/// An unchanged driver measures on a simulated bus. If it does not wait long enough for the sensor,
/// it gets an error.
pub fn a_drivers_sensor(kind: Kind) {
    let rig = Rig::start(kind, awake());
    // Twice, because the bus belongs to the image and stays. -45 + 175 * raw / 2^16 degrees, 100 *
    // raw / 2^16 percent.
    for (raw, degrees, percent) in [((0x6666, 0x8000), 24_998, 50_000), ((0, 0x4000), -45_000, 25_000)] {
        let measured = rig.node.sync(driver::climate::with(raw.0, raw.1, true)).expect("measures");
        assert_eq!(measured, (degrees, percent));
    }
    // If the machine itself stands still for the time of the measurement, the sensor is ready after
    // all. That happens beside other programs, so the test tries again.
    let impatient = || rig.node.sync(driver::climate::with(1, 2, false));
    let fault = (0..10).find_map(|_| impatient().err()).expect("too early").to_string();
    assert!(fault.contains("the sensor did not acknowledge"), "{fault}");
}

/// The board's delay lasts at least as long as requested, on its clock and on the host's.
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

/// The output pin notifies this program once when it is set high twice. The image reads this
/// program's notification at the input pin.
pub fn pins(kind: Kind) {
    // No thread waits for calls to the host, which would take the notification.
    let rig = Rig::start(kind, Options { tasks: 0, ..awake() });
    // While both sides poll, no other notification arrives. So a wait lasts its full time: a short
    // one where none is expected, and where one is expected, longer than this program can be
    // delayed.
    let notified_within = |most: Duration| {
        let begin = Instant::now();
        rig.seen.link.wait(most.as_micros() as u32);
        begin.elapsed() < most.mul_f64(0.75)
    };
    let (short, long) = (Duration::from_millis(200), Duration::from_secs(20));
    assert!(!notified_within(short), "no notification was expected");
    rig.node.sync(driver::notifies::with()).expect("it notifies");
    assert!(notified_within(long), "the notification did not arrive");
    assert!(!notified_within(short), "it rang twice");
    assert!(!rig.node.sync(driver::hears::with(20)).expect("listens"), "the pin is high without a notification");
    let heard = rig.node.offload(driver::hears::with(5_000)).expect("sent");
    std::thread::sleep(Duration::from_millis(20));
    rig.seen.link.notify();
    assert!(heard.wait().expect("listens"), "the pin stayed low");
}
