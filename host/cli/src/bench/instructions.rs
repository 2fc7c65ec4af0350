//! Instructions of one empty call: submit and take on the host, one poll on the device, in one thread, counted by
//! callgrind. The one figure that noise cannot touch.
//!
//! The program runs itself under callgrind twice, with two numbers of calls; the difference is free of start-up.

use super::BoxError;
use hamr::comm::abi::window::{DeviceWindow, Shared, Window};
use hamr::comm::am::{MAX_QUEUES, Poller};
use hamr::comm::handshake::{DeviceHandshake, DeviceProfile};
use hamr::comm::link::{Capabilities, Link, Peer};
use hamr::comm::migrate::MAX_MESSAGE;
use hamr::comm::registry::Table;
use hamr::{Options, Runtime, Started, Stream};
use hamr_kernels::bench::empty;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// Limit of each side; CI enforces it.
pub(crate) const LIMIT: u64 = 60;
const FEW: u64 = 1000;
const MANY: u64 = 2000;
/// Set by this program for its own run under callgrind.
const VARIABLE: &str = "HAMR_COUNT_CALLS";

/// Host and device instructions of one empty call.
pub(crate) struct Counts {
    /// Submit and take.
    pub(crate) host: f64,
    /// One poll that finds the call and answers it.
    pub(crate) device: f64,
}

/// A device in this thread, which only [`device_poll`] polls once it serves.
#[derive(Clone)]
struct ManualLink {
    window: Arc<Window<Shared>>,
    device: Arc<Mutex<Device>>,
}

enum Device {
    Greeting(Option<DeviceWindow<Shared>>, Box<DeviceHandshake>),
    Serving(Box<Poller<'static, Shared>>),
}

impl Link for ManualLink {
    fn kind(&self) -> &str {
        "manual"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { host_maps_device: true, coherent: true, ..Capabilities::default() }
    }
    fn window(&self) -> &Window<Shared> {
        &self.window
    }
    fn ring(&self) {}
    fn wait(&self, _max_us: u32) {
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        let Device::Greeting(window, handshake) = &mut *device else { return };
        let Some(own) = window.take() else { return };
        let table = Table::of_this_image();
        let profile = DeviceProfile {
            features: u32::MAX,
            board: "manual",
            memory: 0,
            pid: 0,
            build_id: [0; 20],
            max_queues: MAX_QUEUES as u32,
            max_chunk: u32::MAX,
        };
        **handshake = handshake.step(&own, table, &profile);
        let DeviceHandshake::Serving(a) = **handshake else {
            *window = Some(own);
            return;
        };
        if let Ok(poller) = Poller::new(own, &a.layout, table, a.node, a.epoch, vec![0; MAX_MESSAGE].leak()) {
            DeviceHandshake::announce(poller.window());
            *device = Device::Serving(Box::new(poller));
        }
    }
    fn peer(&self) -> Peer {
        Peer::Alive
    }
    fn stop(&self) {}
}

type Flight<'s, 'n> = Started<'s, 'n, empty>;

#[inline(never)]
fn host_submit<'s, 'n>(stream: &'s Stream<'n>) -> Option<Flight<'s, 'n>> {
    stream.start(empty::with()).ok()
}

#[inline(never)]
fn device_poll(poller: &mut Poller<'static, Shared>) {
    std::hint::black_box(poller.poll());
}

#[inline(never)]
fn host_take(flight: Flight<'_, '_>) -> bool {
    flight.get().is_ok()
}

/// When this process was started to be counted: makes that many calls and says true.
pub(crate) fn counted_run() -> Result<bool, BoxError> {
    let Ok(calls) = std::env::var(VARIABLE) else { return Ok(false) };
    let calls: u64 = calls.parse()?;
    // A device that misses a call in its one poll would leave the host waiting: not for long.
    let deadline = Some(std::time::Duration::from_secs(5));
    let options = Options { heap: 1 << 16, streams: 1, deadline, ..Options::default() };
    let (host, device) = Window::private_pair(1 << 21);
    let device = Arc::new(Mutex::new(Device::Greeting(Some(device), Box::new(DeviceHandshake::Waiting))));
    let link = ManualLink { window: Arc::new(host), device: device.clone() };
    let node = Runtime::new()?.attach("manual", Box::new(link), options)?;
    let stream = node.stream()?;
    let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
    let Device::Serving(poller) = &mut *device else { return Err("the device does not serve".into()) };
    for _ in 0..calls {
        let flight = host_submit(&stream).ok_or("not submitted")?;
        device_poll(poller);
        if !host_take(flight) {
            return Err("a call failed".into());
        }
    }
    Ok(true)
}

/// Counts; `None` with the reason when callgrind is not there.
pub(crate) fn count() -> Result<Result<Counts, String>, BoxError> {
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        return Ok(Err("valgrind is not installed (`apt-get install valgrind`)".into()));
    }
    let per_call = |function: &str| -> Result<f64, BoxError> {
        let counts = [FEW, MANY].map(|calls| inside(function, calls));
        let [few, many] = counts;
        Ok((many? - few?) as f64 / (MANY - FEW) as f64)
    };
    let host = per_call("host_submit")? + per_call("host_take")?;
    Ok(Ok(Counts { host, device: per_call("device_poll")? }))
}

/// Instructions inside `function`, all calls together.
fn inside(function: &str, calls: u64) -> Result<u64, BoxError> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg(format!("--toggle-collect=*instructions::{function}*"))
        .arg(std::env::current_exe()?)
        .env(VARIABLE, calls.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    // "==123== Collected : 4567"
    let collected = text.lines().rev().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    collected.ok_or_else(|| format!("callgrind gave no count for {function}: {text}").into())
}
