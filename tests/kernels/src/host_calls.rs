//! Handlers on the host, and tasks that call them.

use hamr_comm::{BufferPtr, Context, Fault, HOST, Host, Migratable, Task, TaskCallError, Why, offload};
use heapless::{String, Vec};

hamr_comm::on_host! {
    extern crate std;
    use core::sync::atomic::{AtomicU64, Ordering};

    /// What [`callback()`] runs: the test says what.
    pub type Callback = std::boxed::Box<dyn Fn(&Host<'_>, u64) -> Result<u64, Fault> + Send + Sync>;

    /// A service: counts.
    #[derive(Default)]
    pub struct Counter(pub AtomicU64);
}

/// A service that no test serves.
pub struct Unserved;

/// An error of a host handler.
#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
pub enum Refusal {
    /// With a number.
    Because(u64),
}

/// Returns its argument.
#[offload(instances(((),), u8, [u8; 47], [u8; 48], [u8; 49], [u64; 64], [u8; 513], Option<u64>, String<64>, Vec<u32, 100>))]
pub fn host_echo<T: Migratable>(_cx: &mut Host, value: T) -> T {
    value
}

/// `count` bytes: a result whose length only the body knows.
#[offload]
pub fn host_bytes(_cx: &mut Host, count: u32) -> Vec<u8, 4096> {
    (0..count).map(|n| n as u8).collect()
}

/// Adds to the service [`Counter`].
#[offload]
pub fn add(cx: &mut Host, by: u64) -> Result<u64, Fault> {
    Ok(cx.service::<Counter>()?.0.fetch_add(by, Ordering::Relaxed) + by)
}

/// Asks for a service that is not there.
#[offload]
pub fn ask_unserved(cx: &mut Host) -> Result<u32, Fault> {
    cx.service::<Unserved>().map(|_| 1)
}

/// Fails with an error of its own.
#[offload]
pub fn host_refuses(_cx: &mut Host, because: u64) -> Result<u64, Refusal> {
    Err(Refusal::Because(because))
}

/// Panics.
#[offload]
pub fn host_panics(_cx: &mut Host, value: u64) -> u64 {
    assert!(value == u64::MAX, "asked to panic with {value}");
    value
}

/// Doubles the words of a buffer that the device has lent; their sum before.
#[offload]
pub fn host_doubles(cx: &mut Host, words: BufferPtr<u64>) -> Result<u64, Fault> {
    let mut copy = [0; 8];
    cx.read(words, &mut copy)?;
    let sum = copy.iter().sum();
    cx.write(&copy.map(|word| 2 * word), words)?;
    Ok(sum)
}

/// Runs the test's [`Callback`].
#[offload]
pub fn callback(cx: &mut Host, value: u64) -> Result<u64, Fault> {
    (cx.service::<Callback>()?)(cx, value)
}

/// Where its caller's task is; what is sent has none.
#[offload]
pub fn who_calls(cx: &mut Host) -> (u16, Option<u32>) {
    (cx.node().0, cx.caller().place)
}

/// A handler of another type on the host than in images.
#[offload(name = "hamr_tests_kernels::changed")]
#[cfg(not(any(hamr_bare, hamr_image)))]
pub fn changed(_cx: &mut Host, value: u32) -> u32 {
    value
}

/// See the host's.
#[offload(name = "hamr_tests_kernels::changed")]
#[cfg(any(hamr_bare, hamr_image))]
pub fn changed(_cx: &mut Host, value: u64) -> u64 {
    value
}

/// A handler that only images know.
#[offload(name = "hamr_tests_kernels::vanished")]
#[cfg(any(hamr_bare, hamr_image))]
pub fn vanished(_cx: &mut Host, value: u64) -> u64 {
    value
}

/// Calls [`host_echo()`].
#[offload(unordered, instances(((),), u8, [u8; 47], [u8; 48], [u8; 49], [u64; 64], Option<u64>, String<64>, Vec<u32, 100>))]
pub fn ask_echo<T: Migratable + 'static>(task: &mut Task, value: T) -> Result<T, Fault> {
    Ok(task.sync(HOST, host_echo::with(value))?)
}

/// Calls [`callback()`].
#[offload(unordered)]
pub fn call_back(task: &mut Task, value: u64) -> Result<u64, Fault> {
    Ok(task.sync(HOST, callback::with(value))?)
}

/// The same in its stream's order.
#[offload]
pub fn call_back_in_order(task: &mut Task, value: u64) -> Result<u64, Fault> {
    Ok(task.sync(HOST, callback::with(value))?)
}

/// Calls [`add()`] so often, one after the other; the last result.
#[offload(unordered)]
pub fn count_up(task: &mut Task, times: u32) -> Result<u64, Fault> {
    let mut last = 0;
    for _ in 0..times {
        last = task.sync(HOST, add::with(1))?;
    }
    Ok(last)
}

/// Calls [`host_doubles()`] on a buffer that the host has named in this call.
#[offload]
pub fn lend(task: &mut Task, words: BufferPtr<u64>) -> Result<u64, Fault> {
    Ok(task.sync(HOST, host_doubles::with(words))?)
}

/// What a call of [`ask_otherwise()`] asks for.
pub const OUTCOMES: [&str; 8] =
    ["refuses", "panics", "unserved", "too long", "a longer result", "vanished", "changed", "who"];

/// Calls the host in one of the ways of [`OUTCOMES`], and says what came of it.
#[offload(unordered)]
pub fn ask_otherwise(task: &mut Task, way: u32) -> Result<String<200>, Fault> {
    let outcome: Result<u64, Fault> = match way {
        0 => match task.sync(HOST, host_refuses::with(7)) {
            Err(TaskCallError::Handler(Refusal::Because(7))) => return said("because 7"),
            other => other.map_err(Fault::from),
        },
        1 => task.sync(HOST, host_panics::with(12)).map_err(Fault::from),
        2 => task.sync(HOST, ask_unserved::with()).map(u64::from).map_err(Fault::from),
        3 => match task.sync(HOST, host_echo::with([7u8; 513])) {
            Err(e) if e.why() == Some(Why::TooLong { wanted: 513, max: 512 }) => return said("513 of 512 bytes"),
            other => other.map(|_| 0).map_err(Fault::from),
        },
        4 => match task.sync(HOST, host_bytes::with(513)) {
            Err(e) if e.why() == Some(Why::TooLong { wanted: 517, max: 512 }) => return said("517 of 512 bytes"),
            other => other.map(|_| 0).map_err(Fault::from),
        },
        #[cfg(any(hamr_bare, hamr_image))]
        5 => task.sync(HOST, vanished::with(1)).map_err(Fault::from),
        #[cfg(any(hamr_bare, hamr_image))]
        6 => task.sync(HOST, changed::with(1)).map_err(Fault::from),
        7 => match task.sync(HOST, who_calls::with())? {
            (node, Some(_)) if node == task.node().0 => return said("it does"),
            _ => return Err(Fault::msg("another caller")),
        },
        _ => return Err(Fault::msg("no such way")),
    };
    outcome.and_then(|_| Err(Fault::msg("an unexpected value")))
}

fn said(text: &str) -> Result<String<200>, Fault> {
    text.try_into().map_err(|_| Fault::msg("too long"))
}

/// Sends [`add()`] so often, from an inline handler; how many were sent.
#[offload]
pub fn send_counts(cx: &mut Context, times: u32) -> u32 {
    (0..times).filter(|_| cx.send(HOST, add::with(1)).is_ok()).count() as u32
}
