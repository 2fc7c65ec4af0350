//! `cargo xtask guest --rdma`: the tools that every user of RDMA has, `ibv_*_pingpong` and perftest, over Linux'
//! adapter in software (`rdma_rxe`) in a guest. First both ends stock on `lo`, which shows that the guest is sound;
//! then, with `--own` or `--peer`, each tool against a program of this machine, which is on the guest's Ethernet: our
//! device with its adapter (`hca/examples/stock_peer`), or another. With QEMU 7.2 (`-netdev dgram`):
//!
//! - `--own`: checked are messages that came back as sent, the sum of atomics, completions in order; of reads only that
//!   the tool ends well, of writes that some came. The Ethernet has frames of 4200 bytes; its packets of messages must
//!   be as long as the path MTU, both ways.
//! - `--loss`: 2 % of what our adapter sends does not come; without `ibv_ud_pingpong`, which sends nothing again.
//! - `--beside`: both ends ours, too (`hamr-hca serve`, `ping`, optimised), over UDP on `lo`, beside `ibv_rc_pingpong`.
//!
//! A tool gives up after half a second without an answer; our side waits 8 s. Each has 30 s, a guest 60 s more.
//!
//! Nothing is installed, and no privileges are needed: see [`super::packages`].

use super::initramfs::Archive;
use super::machine::{Guest, Pc};
use super::packages::{self, Packages};
use super::peer::{self, Peer};
use super::script::{self, Script};
use super::tools::{Figure, PINGPONG, TOOLS, Tool, select, tool};
use super::{FOLDERS, libraries, programs, told, watch};
use crate::Error;
use crate::machines::can_start;
use crate::metadata::Metadata;
use crate::test::Outcome;
use hamr_qemu::Machine;
use std::fs::read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time for a guest: to boot, for each tool, and to end. A quiet machine needs 3 s, 2 s and nothing.
const BOOT: Duration = Duration::from_secs(60);
/// Seconds for one tool.
const TOOL: u64 = 30;

/// The tools of the step of `cargo xtask test`.
const SHORT: [&str; 3] = ["ibv_rc_pingpong", "ib_write_lat", "ib_atomic_lat"];

/// Modules of Linux; those that they need come with them. Nothing loads `crc32_generic` by itself, and without it no
/// adapter is made.
const MODULES: [&str; 5] = ["virtio_pci", "virtio_net", "crc32_generic", "ib_uverbs", "rdma_rxe"];

/// Files besides programs, and the library that libibverbs opens for this adapter.
const CONFIGURATION: &str = "etc/libibverbs.d/rxe.driver";
const PROVIDER: &str = "usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so";

/// What a guest's script begins with. `both` runs the two ends of a tool; the client starts when the server listens at
/// port 18515 (0x4853).
const HEAD: &str = r#"
ip link set lo up
listens() { grep -q ':4853 [0-9A-F]*:0000 0A' /proc/net/tcp /proc/net/tcp6; }
both() {
    limit=$1
    shift
    timeout $limit "$@" > /tmp/server 2>&1 &
    server=$!
    until listens || ! kill -0 $server 2> /dev/null; do usleep 10000; done
    timeout $limit "$@" 127.0.0.1
    client=$?
    wait $server
    code=$?
    [ $code = 0 ] || { echo "the server: exit code $code"; cat /tmp/server; }
    [ $client = 0 ] || return $client
    return $code
}
own() {
    export HAMR_IMAGE=/bin/hamr-verbs-image
    # It has port 4791 of all addresses, as long as it is loaded.
    rdma link delete rxe_lo
    busybox rmmod rdma_rxe
    hamr-hca serve --udp 127.0.0.3 --once > /tmp/server 2>&1 &
    until grep -q serves /tmp/server || ! kill -0 $! 2> /dev/null; do usleep 10000; done
    timeout $1 hamr-hca ping 127.0.0.3 --udp 127.0.0.2 --count $2 || { cat /tmp/server; return 1; }
}
"#;

/// Both ends ours on the guest's `lo`, as both ends of [`BESIDE`] are: what `--beside` adds.
const OWN_PAIR: Tool = tool("hamr-hca ping", "", 8, Figure::There);
/// What it stands beside, with messages as long.
const BESIDE: Tool = tool("ibv_rc_pingpong 8", PINGPONG, 8, Figure::Iteration);
/// Round trips of each.
const BESIDE_COUNT: u32 = 2000;

/// Their commands. An adapter has port 4791 of its own address.
fn beside_commands() -> [(&'static Tool, String); 2] {
    let stock = format!("both {TOOL} ibv_rc_pingpong -d rxe_lo {PINGPONG} -n {BESIDE_COUNT} -s 8");
    let own = format!("own {TOOL} {BESIDE_COUNT}");
    [(&BESIDE, stock), (&OWN_PAIR, own)]
}

/// What a guest is to do.
struct Plan {
    /// The pair of [`beside_commands`] too.
    has_beside: bool,
    tools: Vec<&'static Tool>,
    /// The program at the other end.
    other: Other,
    /// What the guest's tools are against it.
    roles: Vec<Role>,
}

/// What is at the other end of the guest's Ethernet.
#[derive(PartialEq, Eq, Debug)]
enum Other {
    Nothing,
    /// A program and its arguments.
    Program(Vec<String>),
    /// Our device with its adapter, which is built before; the packets that it loses.
    Own {
        device: String,
        loses: bool,
    },
}

/// 2 % of what our adapter sends does not come.
const LOSS: &str = "1,20,0,0,0";

/// What the guest's end of a tool is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Both ends, on `lo`.
    Both,
    /// It connects to the peer.
    Client,
    /// The peer connects to it.
    Server,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// What the peer is then.
    const fn of_peer(self) -> Option<&'static str> {
        match self {
            Self::Both => None,
            Self::Client => Some("server"),
            Self::Server => Some("client"),
        }
    }
}

/// `[--only NAME,NAME] [--own [--device DEVICE] [--loss] | --peer COMMAND] [--role client|server] [--beside]`
pub(super) fn task(arguments: &[String]) -> Result<(), Error> {
    let plan = Plan::parse(arguments)?;
    told(run(&Metadata::read()?, &plan))
}

/// The same as a step of `cargo xtask test`, with few tools.
pub(crate) fn step(metadata: &Metadata) -> Outcome {
    let tools = TOOLS.iter().filter(|tool| SHORT.contains(&tool.name)).collect();
    let other = Other::Own { device: SHM.into(), loses: false };
    run(metadata, &Plan { has_beside: false, tools, other, roles: vec![Role::Both, Role::Client, Role::Server] })
}

const SHM: &str = "shm";

impl Plan {
    fn parse(arguments: &[String]) -> Result<Self, Error> {
        let (mut tools, mut role) = (TOOLS.iter().collect(), None);
        let (mut peer, mut own, mut device, mut loses, mut has_beside) = (Vec::new(), false, None, false, false);
        let mut words = arguments.iter();
        while let Some(flag) = words.next() {
            let mut value = || words.next().ok_or_else(|| Error::Usage(format!("`{flag}` expects a value")));
            match flag.as_str() {
                "--only" => tools = select(value()?)?,
                "--peer" => peer = value()?.split_whitespace().map(str::to_owned).collect(),
                "--own" => own = true,
                "--device" => device = Some(value()?.clone()),
                "--loss" => loses = true,
                "--beside" => has_beside = true,
                "--role" => {
                    let name = value()?;
                    let known = [Role::Client, Role::Server].into_iter().find(|role| role.name() == name);
                    role = Some(known.ok_or_else(|| Error::unknown(name, "client or server"))?);
                }
                other => {
                    return Err(Error::unknown(other, "--only, --own, --device, --loss, --peer, --role or --beside"));
                }
            }
        }
        let other = match (own, peer.is_empty()) {
            (true, true) => Other::Own { device: device.take().unwrap_or_else(|| SHM.into()), loses },
            (true, false) => return Err(Error::Usage("`--own` and `--peer` do not go together".into())),
            (false, false) => Other::Program(peer),
            (false, true) => Other::Nothing,
        };
        if device.is_some() || loses && !own {
            return Err(Error::Usage("`--device` and `--loss` expect `--own`".into()));
        }
        if loses {
            tools.retain(|tool: &&Tool| !tool.is_datagrams());
        }
        let roles = match (&other, role) {
            (Other::Nothing, Some(_)) => return Err(Error::Usage("`--role` expects `--own` or `--peer`".into())),
            (Other::Nothing, None) => vec![Role::Both],
            (_, Some(role)) => vec![Role::Both, role],
            (_, None) => vec![Role::Both, Role::Client, Role::Server],
        };
        Ok(Self { has_beside, tools, other, roles })
    }
}

impl Other {
    /// The program and its arguments, built if it is ours. `None`: there is none.
    fn program(&self) -> Result<Option<(PathBuf, Vec<String>)>, Error> {
        match self {
            Self::Nothing => Ok(None),
            Self::Program(words) => {
                Ok(words.split_first().map(|(program, arguments)| (program.into(), arguments.to_vec())))
            }
            Self::Own { device, loses } => {
                let mut arguments = vec!["--device".into(), device.clone()];
                arguments.extend(loses.then(|| ["--faults".into(), LOSS.into()]).into_iter().flatten());
                Ok(Some((programs::peer()?, arguments)))
            }
        }
    }
}

fn run(metadata: &Metadata, plan: &Plan) -> Outcome {
    let needs = if plan.other == Other::Nothing { hamr_qemu::MINIMUM } else { peer::QEMU };
    if let Err(outcome) = can_start(&Machine::X86_64, needs) {
        return outcome;
    }
    let cache = metadata.target.join("guest");
    let packages = match Packages::find(&cache, &packages::RDMA) {
        Ok(packages) => packages,
        Err(outcome) => return outcome,
    };
    let folder = cache.join(format!("rdma-{}", std::process::id()));
    let result = guest(&folder, &packages, plan, &cache);
    let _ = std::fs::remove_dir_all(&folder);
    Outcome::noted(result)
}

/// Runs a guest and prints a table; `kept` is the folder for what a failed run leaves to look at.
fn guest(folder: &Path, packages: &Packages, plan: &Plan, kept: &Path) -> Result<String, Error> {
    let begin = Instant::now();
    std::fs::create_dir_all(folder).map_err(|e| Error::Failed(format!("{}: {e}", folder.display())))?;
    let kernel = packages.kernel().ok_or_else(|| Error::Failed("the kernel's package has no kernel".into()))?;
    // Before the peer, which does not wait for a build.
    let own = if plan.has_beside { programs::own_pair(folder)? } else { Vec::new() };
    let mut peer = match plan.other.program()? {
        Some((program, arguments)) => {
            let tools: Vec<String> = plan.tools.iter().map(|tool| tool.told()).collect();
            let roles: Vec<&str> = plan.roles.iter().filter_map(|role| role.of_peer()).collect();
            Some(Peer::start(&program, &arguments, folder, &tools.join(","), &roles.join(","))?)
        }
        None => None,
    };
    let modules = packages.modules(&MODULES)?;
    let initramfs = folder.join("initramfs");
    let archive = archive(packages, &modules, &own, script(plan, &modules, peer.as_ref()))?;
    std::fs::write(&initramfs, archive).map_err(|e| Error::Failed(format!("{}: {e}", initramfs.display())))?;
    let mut arguments: Vec<String> = ARGUMENTS.map(String::from).into();
    arguments.extend(peer.iter().flat_map(Peer::nics));
    let beside = if plan.has_beside { beside_commands().len() } else { 0 };
    let checks = u32::try_from(plan.tools.len() * plan.roles.len() + beside).unwrap_or(u32::MAX);
    let limit = BOOT + Duration::from_secs(TOOL) * checks;
    let mut guest = Guest::start(Pc { kernel: &kernel, initramfs: &initramfs, append: "", arguments }, limit)?;
    let mut rows: Vec<Row> = Vec::new();
    let react = |line: &str| {
        if let Some(name) = line.strip_prefix(script::CHECK) {
            rows.push(Row { name: name.to_owned(), begin: Instant::now(), end: Instant::now(), lines: Vec::new() });
        } else if let Some(row) = rows.last_mut() {
            row.end = Instant::now();
            row.lines.push(line.to_owned());
        }
        Ok(())
    };
    let watched = watch("rdma", &mut guest, react);
    drop(guest);
    print(&rows, plan, peer.as_ref());
    let ended = watched.and_then(|()| peer.as_mut().map_or(Ok(()), Peer::end));
    let judged = ended.and_then(|()| peer.as_ref().map_or(Ok(()), |peer| check_packets(plan, peer)));
    let capture = judged.is_err().then(|| peer.as_ref().and_then(|peer| peer.keep(kept))).flatten();
    if let (Err(why), Some(capture)) = (&judged, capture) {
        return Err(Error::Failed(format!("{why}; the guest's packets: {}", capture.display())));
    }
    judged.map(|()| format!("{} tools, {:.1} s", plan.tools.len(), begin.elapsed().as_secs_f64()))
}

/// Were packets as long as they were to be, both ways? No tool says so.
fn check_packets(plan: &Plan, peer: &Peer) -> Result<(), Error> {
    let Some(mtu) = plan.tools.iter().filter(|tool| tool.has_long_sends()).map(|tool| tool.mtu).max() else {
        return Ok(());
    };
    let [theirs, ours] = peer.longest_sends()?;
    println!("the longest packets of messages: {theirs} bytes from the guest, {ours} bytes from the peer");
    if [theirs, ours] == [usize::from(mtu); 2] {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "expected packets of {mtu} bytes both ways, got {theirs} from the guest, {ours} from the peer"
    )))
}

/// Two processors: a tool that polls would leave none to the adapter.
const ARGUMENTS: [&str; 8] = ["-M", "q35", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "512"];

fn script(plan: &Plan, modules: &[(String, PathBuf)], peer: Option<&Peer>) -> String {
    let mut script = Script::new();
    script.lines(HEAD);
    let names: Vec<&str> = modules.iter().map(|(name, _)| name.as_str()).collect();
    script.load(&names);
    script.check("an adapter on lo", 0, "", "rdma link add rxe_lo type rxe netdev lo");
    if let Some(peer) = peer {
        script.lines(&peer.network());
        script.check("an adapter on eth0", 0, "", "rdma link add rxe_eth0 type rxe netdev eth0");
    }
    for role in &plan.roles {
        for tool in &plan.tools {
            let command = match (role, peer) {
                (Role::Client, Some(peer)) => {
                    let (address, port) = peer.info();
                    format!("timeout {TOOL} {} -p {port} {address}", tool.command("rxe_eth0"))
                }
                (Role::Server, Some(_)) => format!("timeout {TOOL} {}", tool.command("rxe_eth0")),
                _ => format!("both {TOOL} {}", tool.command("rxe_lo")),
            };
            script.check(&tool.title(role.name()), 0, "", &command);
        }
    }
    for (tool, command) in beside_commands().into_iter().filter(|_| plan.has_beside) {
        script.check(&tool.title(Role::Both.name()), 0, "", &command);
    }
    script.finish()
}

fn archive(
    packages: &Packages,
    modules: &[(String, PathBuf)],
    own: &[(String, PathBuf)],
    init: String,
) -> Result<Vec<u8>, Error> {
    let read = |path: &Path| read(path).map_err(|e| Error::Failed(format!("{}: {e}", path.display())));
    let root = packages.root();
    let mut archive = Archive::new(&FOLDERS);
    archive.file("init", init.into());
    archive.file("bin/busybox", read(&packages.busybox())?);
    archive.file(CONFIGURATION, read(&root.join(CONFIGURATION))?);
    let tools = TOOLS.iter().map(|tool| format!("usr/bin/{}", tool.name)).chain(["usr/bin/rdma".into()]);
    let mut files = vec![root.join(PROVIDER)];
    archive.file(PROVIDER, read(&root.join(PROVIDER))?);
    for tool in tools {
        let path = root.join(&tool);
        archive.file(&format!("bin/{}", tool.rsplit('/').next().unwrap_or_default()), read(&path)?);
        files.push(path);
    }
    let mut libraries = libraries::of(&files, root)?;
    for (inside, file) in own {
        archive.file(inside, read(file)?);
        // Those of the guest's own programs are the same release's.
        libraries::of(std::slice::from_ref(file), Path::new("/"))?.into_iter().for_each(|(inside, file)| {
            libraries.entry(inside).or_insert(file);
        });
    }
    for (inside, file) in libraries {
        archive.file(&inside, read(&file)?);
    }
    for (name, file) in modules {
        archive.file(&format!("lib/{name}.ko"), read(file)?);
    }
    archive.finish().map_err(|e| Error::Failed(format!("the initramfs: {e}")))
}

/// A check of the guest: a tool in a role, among others.
struct Row {
    name: String,
    begin: Instant,
    end: Instant,
    lines: Vec<String>,
}

impl Row {
    fn result(&self) -> &'static str {
        if self.lines.iter().any(|line| line.starts_with(script::WRONG)) { "FAILED" } else { "ok" }
    }
}

fn print(rows: &[Row], plan: &Plan, peer: Option<&Peer>) {
    println!();
    println!("{:<18} {:<7} {:>6} {:<7} {:>8} {:>10}", "tool", "guest", "packet", "result", "seconds", "figure");
    let beside = beside_commands().map(|(tool, _)| (tool, Role::Both));
    let of_tools = plan.roles.iter().flat_map(|role| plan.tools.iter().map(|tool| (*tool, *role)));
    for (tool, role) in of_tools.chain(beside.into_iter().filter(|_| plan.has_beside)) {
        let row = rows.iter().find(|row| row.name == tool.title(role.name()));
        let result = row.map_or("not run", Row::result);
        let seconds = row.map_or(0.0, |row| (row.end - row.begin).as_secs_f64());
        let figure = row.and_then(|row| tool.figure.find(&row.lines));
        // A server that does nothing prints none.
        let figure = figure.or_else(|| peer.and_then(|peer| peer.figure(&tool.title(role.of_peer()?))));
        let figure = figure.unwrap_or_default();
        println!("{:<18} {:<7} {:>6} {result:<7} {seconds:>8.1} {figure}", tool.name, role.name(), tool.mtu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &[&str]) -> Result<Plan, Error> {
        Plan::parse(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_choose_tools_and_roles() {
        let all = plan(&[]).expect("no argument");
        assert_eq!((all.tools.len(), &*all.roles), (TOOLS.len(), &[Role::Both][..]));
        let some = plan(&["--only", "ib_send_bw,ibv_rc_pingpong", "--peer", "a b"]).expect("known");
        let chosen: Vec<_> = some.tools.iter().map(|tool| tool.title("both")).collect();
        assert_eq!(chosen, ["ib_send_bw 1024 both", "ibv_rc_pingpong 1024 both", "ibv_rc_pingpong 4096 both"]);
        let some_has_beside = some.has_beside;
        assert_eq!(
            (some.other, some.roles),
            (Other::Program(vec!["a".into(), "b".into()]), vec![Role::Both, Role::Client, Role::Server])
        );
        assert!(plan(&["--beside"]).expect("alone, too").has_beside && !some_has_beside);
        let own = plan(&["--own", "--device", "qemu:riscv64", "--loss", "--role", "server"]).expect("known");
        assert_eq!(own.roles, [Role::Both, Role::Server]);
        assert_eq!(own.other, Other::Own { device: "qemu:riscv64".into(), loses: true });
        // A datagram that is lost is the end of a tool that waits for it.
        assert_eq!(own.tools.len(), TOOLS.len() - 1);
        for wrong in [
            &["--only"][..],
            &["--only", "ib_toaster"],
            &["--role", "client"],
            &["--peer", "a", "--role", "judge"],
            &["--peer", "a", "--own"],
            &["--peer", "a", "--loss"],
            &["--loss"],
            &["--device", "shm"],
            &["ib_send_bw"],
        ] {
            assert!(matches!(plan(wrong), Err(Error::Usage(_))), "{wrong:?}");
        }
    }

    #[test]
    fn the_short_form_is_of_known_tools() {
        assert!(SHORT.iter().all(|name| TOOLS.iter().any(|tool| tool.name == *name)));
    }

    #[test]
    fn scripts_are_what_a_shell_reads() {
        let peer = Peer::start(Path::new("echo"), &[], Path::new("/nowhere"), "", "").expect("it says something");
        let modules = [("rdma_rxe".to_owned(), PathBuf::new())];
        let all = plan(&["--peer", "echo"]).expect("known");
        let text = script(&all, &modules, Some(&peer));
        let shell = std::process::Command::new("sh").args(["-n", "-c", &text]).status().expect("a shell");
        assert!(shell.success());
        let (_, port) = peer.info();
        let both = "both 30 ib_send_bw -d rxe_lo -F -x 1 -m 1024 -n 200 -s 65536".to_owned();
        let client = format!("timeout 30 ib_send_bw -d rxe_eth0 -F -x 1 -m 1024 -n 200 -s 65536 -p {port} 10.0.2.2");
        let server = "timeout 30 ib_send_bw -d rxe_eth0 -F -x 1 -m 1024 -n 200 -s 65536".to_owned();
        for line in [both, client, server] {
            assert!(text.lines().any(|found| found.ends_with(&format!("'' {line}"))), "{line}");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with("check 'ib")).count(), 3 * TOOLS.len());
    }
}
