//! The other end of stock RDMA tools (`ibv_*_pingpong`, perftest), as a device that has an adapter: handlers on the
//! device post and poll, this program only tells the tools what its queue pairs are. `cargo xtask guest --rdma --own`
//! runs it against the tools in a Linux guest.
//!
//! ```console
//! $ stock_peer --frames SOCKET --guest SOCKET --mac MAC --address IPV4 --listen ADDRESS:PORT --connect ADDRESS:PORT \
//!       --tools NAME:COUNT:BYTES:MTU,... --roles server,client [--device DEVICE] \
//!       [--faults SEED,LOSS,REPEAT,DAMAGE,REORDER]
//! ```

mod exchange;

use exchange::{Behind, DONE, Failed, Keys, Meeting, Perftest};
use hamr::{CallError, Image, Node, Options, Runtime};
use hamr_comm::{Call, ErrorOf, Handler, ValueOf};
use hamr_hca::exchange::Role;
use hamr_verbs::host::{Endpoint, Fabric, Path, QpPlan, Region, Wire};
use hamr_verbs::tools::{Load, SHARING, Target, ping_pong, shared_ping_pong, stream, write_ping_pong};
use hamr_verbs::wire::{Access, Opcode};
use hamr_verbs::{AhId, CqId, QpId, SrqId};
use std::net::TcpListener;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The section of the device, and the region of it that all tools use.
const SECTION: u64 = 1 << 20;
const REGION: u64 = 1 << 18;
/// A handler's time. The tools' is 30 s.
const LIMIT: Duration = Duration::from_secs(25);
/// Requests at once, where a tool has many.
const AT_ONCE: u64 = 16;
/// How many queue pairs `ibv_srq_pingpong` says, most of them zeros.
const SRQ_QUEUE_PAIRS: usize = 256;
/// The key of `ibv_ud_pingpong`.
const QKEY: u32 = 0x1111_1111;
/// READ and atomic requests at once.
const READS: u16 = 16;
/// How long an acknowledgement is waited for: 1 s, because a machine that stalls for half a second is no end of a
/// connection; with loss 0.27 s, because what is lost costs that.
const TIMEOUT: u8 = 18;
const TIMEOUT_OF_FAULTS: u8 = 16;

fn main() -> ExitCode {
    let arguments = hamr_hca::command::of(std::env::args_os().skip(1).collect());
    match arguments.and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            hamr::io::note(format_args!("stock_peer: {why}"));
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<bool, Failed> {
    let find = |name: &str| {
        let mut pairs = arguments.chunks_exact(2);
        pairs.find_map(|pair| match pair {
            [key, value] if key == name => Some(value.as_str()),
            _ => None,
        })
    };
    let get = |name: &str| find(name).ok_or_else(|| format!("expected {name} VALUE"));
    let mac: Result<Vec<u8>, _> = get("--mac")?.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
    let faults = find("--faults").map(str::to_owned);
    let path = Path { timeout: if faults.is_some() { TIMEOUT_OF_FAULTS } else { TIMEOUT }, ..Path::default() };
    let wire = Wire::Ethernet {
        socket: get("--frames")?.into(),
        other: get("--guest")?.into(),
        mac: mac?.try_into().map_err(|_| "expected a MAC of six bytes")?,
        address: get("--address")?.parse()?,
        mtu: 4096,
        faults,
    };
    let options = Options { verbs: SECTION, start_deadline: Duration::from_secs(60), ..Options::default() };
    let device = find("--device").unwrap_or("shm");
    let node = Runtime::new()?.open_with(device, Image::find("hamr-verbs-image")?, options)?;
    let fabric = Fabric::open_with(&node, &wire)?;
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let region = fabric.region(REGION, access)?;
    let meeting = Meeting { listener: TcpListener::bind(get("--listen")?)?, connect: get("--connect")?.to_owned() };
    let mut peer = Peer { node: &node, fabric: &fabric, region: &region, path, meeting, last: None };
    println!("{device} listens");
    let mut all = true;
    for role in get("--roles")?.split(',') {
        let role = [Role::Client, Role::Server].into_iter().find(|known| exchange::name(*known) == role);
        let role = role.ok_or("expected the roles client and server")?;
        for tool in get("--tools")?.split(',') {
            let [name, count, bytes, mtu] = tool.split(':').collect::<Vec<_>>()[..] else {
                return Err(format!("expected NAME:COUNT:BYTES:MTU, got {tool:?}").into());
            };
            let size = Size { count: count.parse()?, bytes: bytes.parse()?, mtu: mtu.parse()? };
            match peer.play(name, role, size) {
                Ok((said, took)) => {
                    let each = took.map(|took| took.as_secs_f64() * 1e6 / size.count.max(1) as f64);
                    let each = each.map(|each| format!(", {each:.0} us each")).unwrap_or_default();
                    println!("{name} {mtu} {}: {count} of {bytes} bytes{each}; {said}", exchange::name(role));
                }
                Err(why) => {
                    all = false;
                    println!("{name} {mtu} {}: FAILED: {why}", exchange::name(role));
                }
            }
        }
    }
    peer.meeting.end();
    Ok(all)
}

#[derive(Clone, Copy)]
struct Size {
    count: u64,
    bytes: u32,
    /// Of a packet at most.
    mtu: u16,
}

/// A device with its adapter, as the end of tools.
struct Peer<'a> {
    node: &'a Node,
    fabric: &'a Fabric,
    region: &'a Region,
    path: Path,
    meeting: Meeting,
    /// The former tool's, which may need answers until the next tool is there.
    last: Option<Queues>,
}

/// The queues of one tool.
struct Queues {
    cq: CqId,
    srq: Option<SrqId>,
    /// Where datagrams go.
    to: Option<AhId>,
    qps: Vec<QpId>,
}

/// What a run has shown, and how long the device's part took, if it has one.
type Shown = (String, Option<Duration>);

impl Peer<'_> {
    fn play(&mut self, name: &str, role: Role, size: Size) -> Result<Shown, Failed> {
        let cq = self.fabric.completion_queue(300)?;
        let srq = if name == "ibv_srq_pingpong" { Some(self.fabric.shared_receive_queue(64)?) } else { None };
        let qkey = (name == "ibv_ud_pingpong").then_some(QKEY);
        let plan = QpPlan { srq, qkey, ..QpPlan::new(cq) };
        let count = if srq.is_some() { SHARING } else { 1 };
        let qps: Result<Vec<_>, _> = (0..count).map(|_| self.fabric.queue_pair(&plan)).collect();
        let mut queues = Queues { cq, srq, to: None, qps: qps? };
        self.region.put(0, &[0; REGION as usize])?;
        let played = match perftest(name) {
            Some((steps, kind)) => self.perftest(&queues, role, size, steps, kind),
            None if name.starts_with("ibv_") => self.pingpong(&mut queues, qkey.is_some(), role, size),
            None => Err(format!("expected a tool, got {name:?}").into()),
        };
        let last = self.last.replace(queues);
        last.map_or(Ok(()), |last| self.destroy(last))?;
        played
    }

    fn destroy(&self, queues: Queues) -> Result<(), Failed> {
        queues.qps.into_iter().try_for_each(|qp| self.fabric.destroy_queue_pair(qp))?;
        queues.srq.map_or(Ok(()), |srq| self.fabric.destroy_shared_receive_queue(srq))?;
        queues.to.map_or(Ok(()), |to| self.fabric.destroy_address_handle(to))?;
        Ok(self.fabric.destroy_completion_queue(queues.cq)?)
    }

    /// `ibv_*_pingpong`: an [`Endpoint`] for each queue pair.
    fn pingpong(&self, queues: &mut Queues, is_datagrams: bool, role: Role, size: Size) -> Result<Shown, Failed> {
        let nothing = || "0000:000000:000000:00000000000000000000000000000000\0".to_owned();
        let mut own = String::new();
        for qp in &queues.qps {
            own += &format!("{}\0", self.fabric.endpoint(*qp)?);
        }
        if queues.srq.is_some() {
            own.extend((queues.qps.len()..SRQ_QUEUE_PAIRS).map(|_| nothing()));
        }
        let (mut talk, theirs) = self.meeting.begin(role, own.as_bytes())?;
        let theirs = String::from_utf8(theirs)?;
        let ends: Result<Vec<Endpoint>, _> = theirs.split('\0').take(queues.qps.len()).map(str::parse).collect();
        let ends = ends?;
        let (first, end) = (queues.qps.first().copied().zip(ends.first().copied())).ok_or("expected a queue pair")?;
        let load = self.load(queues, first, size);
        let target = if is_datagrams {
            let address = self.fabric.address_handle(end.address)?;
            queues.to = Some(address);
            Some(Target { address, qp_number: end.qp_number, qkey: QKEY })
        } else {
            let mut both = queues.qps.iter().zip(&ends);
            let path = Path { mtu: size.mtu, ..self.path };
            both.try_for_each(|(qp, end)| self.fabric.connect_remote(*qp, end, &path))?;
            None
        };
        talk.answer(own.as_bytes())?;
        talk.tell(DONE)?;
        let serves = role == Role::Server;
        if let Some(srq) = queues.srq {
            let qps = queues.qps.as_slice().try_into()?;
            let (whole, took) = self.run(shared_ping_pong::with(qps, srq, load, serves))?;
            return judge(whole >= size.count, format!("{whole} came whole"), Some(took));
        }
        let ((fresh, echoed), took) = self.run(ping_pong::with(load, serves, target))?;
        // A tool sends back what came last. The first message of a client's is its own.
        let (good, all) = if serves { (echoed, size.count.saturating_sub(1)) } else { (fresh, size.count) };
        judge(good == all, format!("{good} of {all} came back as sent"), Some(took))
    }

    fn perftest(&self, queues: &Queues, role: Role, size: Size, steps: Perftest, job: Job) -> Result<Shown, Failed> {
        let qp = queues.qps.first().copied().ok_or("expected a queue pair")?;
        let load = self.load(queues, qp, size);
        let (at, endpoint) = (load.incoming(), self.fabric.endpoint(qp)?);
        let own = Keys { endpoint, memory: self.region.remote(at), reads: READS };
        let mut talk = Perftest::begin(&self.meeting, role, size.mtu)?;
        let Keys { endpoint, memory, .. } = own.trade(&mut talk)?;
        self.fabric.connect_remote(qp, &endpoint, &Path { mtu: size.mtu, ..self.path })?;
        for _ in 1..steps.before {
            own.trade(&mut talk)?;
        }
        let serves = role == Role::Server;
        let done = match job {
            Job::WritePingPong => {
                let ((), took) = self.run(write_ping_pong::with(load, memory, serves))?;
                Some((size.count, took))
            }
            Job::PingPong => {
                let (_, took) = self.run(ping_pong::with(load, serves, None))?;
                Some((size.count, took))
            }
            Job::Stream(Opcode::SEND, at_once) if serves => Some(self.run(stream::with(load, None, memory, at_once))?),
            // The adapter answers, and the device has no part in it.
            Job::Stream(..) if serves => None,
            Job::Stream(kind, at_once) => Some(self.run(stream::with(load, Some(kind.0), memory, at_once))?),
        };
        steps.end(&mut talk, &own)?;
        if let Some((good, took)) = done {
            return judge(good == size.count, format!("{good} in order"), Some(took));
        }
        match job {
            Job::Stream(Opcode::FETCH_ADD, _) => {
                let mut sum = [0; 8];
                self.region.get(at, &mut sum)?;
                let sum = u64::from_le_bytes(sum);
                judge(sum == size.count, format!("the sum is {sum}"), None)
            }
            Job::Stream(Opcode::WRITE, _) => {
                let mut bytes = vec![0; size.bytes as usize];
                self.region.get(at, &mut bytes)?;
                let written = bytes.iter().filter(|byte| **byte != 0).count();
                judge(written != 0, format!("{written} bytes are not zero"), None)
            }
            _ => judge(true, "the tool ended as it should".into(), None),
        }
    }

    fn load(&self, queues: &Queues, qp: QpId, Size { count, bytes, .. }: Size) -> Load {
        Load { qp, cq: queues.cq, region: self.region.id(), count, bytes }
    }

    /// The outcome of a handler, and its time. One that has nothing to do any more is cancelled.
    fn run<H: Handler>(&self, call: Call<H>) -> Result<(ValueOf<H>, Duration), Failed>
    where
        CallError<ErrorOf<H>>: std::error::Error + 'static,
    {
        let (pending, begin) = (self.node.offload(call)?, Instant::now());
        while !pending.is_done() {
            if begin.elapsed() > LIMIT {
                pending.cancel();
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let value = pending.wait()?;
        Ok((value, begin.elapsed()))
    }
}

fn judge(is_good: bool, said: String, took: Option<Duration>) -> Result<Shown, Failed> {
    if is_good { Ok((said, took)) } else { Err(said.into()) }
}

/// What perftest's ends do between their steps.
#[derive(Clone, Copy)]
enum Job {
    WritePingPong,
    PingPong,
    /// The client's requests, so many at once.
    Stream(Opcode, u64),
}

fn perftest(name: &str) -> Option<(Perftest, Job)> {
    let (before, behind, job) = match name {
        "ib_write_lat" => (4, Behind::Nothing, Job::WritePingPong),
        "ib_send_lat" => (4, Behind::Keys, Job::PingPong),
        "ib_read_lat" => (4, Behind::Keys, Job::Stream(Opcode::READ, 1)),
        "ib_atomic_lat" => (4, Behind::Keys, Job::Stream(Opcode::FETCH_ADD, 1)),
        "ib_send_bw" => (4, Behind::Keys, Job::Stream(Opcode::SEND, AT_ONCE)),
        "ib_write_bw" => (3, Behind::Reports, Job::Stream(Opcode::WRITE, AT_ONCE)),
        "ib_read_bw" => (3, Behind::Reports, Job::Stream(Opcode::READ, AT_ONCE)),
        _ => return None,
    };
    Some((Perftest { before, behind }, job))
}
