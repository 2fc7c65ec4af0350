//! Red team, round 2, part B: what a rank says of its memory is believed. Each test fails on eabe526c.

use hamr::{Image, Runtime, WorldOptions};
use hamr_comm::world::RankId;
use hamr_comm::{Fault, Task};
use hamr_gas::firehose::{Limits, Refused, Slot};
use hamr_gas::{BarrierName, Handlers, Kinds, Msg, Rank, Token};
use hamr_gas_process::{Far, FarError, HasSide, Outside, Peer, Side, handlers};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

const AT: u8 = 100;
const LIMITS: Limits = Limits { bytes: 96 << 10, victim_bytes: 0, region_bytes: 32 << 10, page: 4096 };
/// What the processes of the first test find out from: the process that is no rank, and an address in it.
const VICTIM: &str = "HAMR_REDTEAM_VICTIM";

struct State(Side);

impl HasSide for State {
    fn side(&mut self) -> &mut Side {
        &mut self.0
    }
}

static TABLE: Handlers<State> = handlers::<State, AT>(Handlers::new());

/// The same names, and an answer to each question: yes.
static LIES: Handlers<State> = Handlers::new()
    .request(AT, Kinds::SHORT, "outside_meet", |_, _: Msg<'_>, _: Token<'_>| {})
    .request(AT + 1, Kinds::MEDIUM, "outside_move", |_, _, token| token.reply_short(AT + 4, &[1]))
    .request(AT + 2, Kinds::MEDIUM, "outside_put", |_, _, token| token.reply_short(AT + 4, &[1]))
    .request(AT + 3, Kinds::SHORT, "outside_get", |_, _, token| token.reply_short(AT + 4, &[0]))
    .reply(AT + 4, Kinds::SHORT, "outside_answer", |_, _| {})
    .reply(AT + 5, Kinds::MEDIUM, "outside_bytes", |_, _| {});

fn myself(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env_remove(VICTIM);
    command
}

/// No test: a process that is no rank. It says where a variable of it is, and at the end of its input what that is.
#[test]
fn helper_victim() {
    if std::env::var_os("HAMR_REDTEAM_IS_VICTIM").is_none() {
        return;
    }
    let secret = Box::leak(Box::new([0x5a_u8; 8]));
    println!("\nsecret {} {}", std::process::id(), secret.as_ptr().addr());
    std::io::stdin().read_to_end(&mut Vec::new()).expect("its input");
    println!("secret {:?}", std::hint::black_box(&*secret));
}

/// No test: a rank.
#[test]
fn helper_rank() {
    if !hamr::world::is_rank() {
        return;
    }
    let victim = std::env::var(VICTIM).expect("a victim");
    let (pid, at) = victim.split_once(' ').expect("two numbers");
    let (pid, at): (u32, u64) = (pid.parse().expect("a number"), at.parse().expect("a number"));
    hamr::world::main(move |task: &mut Task<'_>| rank(task, pid, at));
}

fn rank(task: &mut Task<'_>, pid: u32, at: u64) -> Result<u8, Fault> {
    Rank::run(task, State(Side::new(4096)), |rank| {
        let is_hostile = rank.me() == RankId(1);
        rank.attach(if is_hostile { &LIES } else { &TABLE })?;
        if is_hostile {
            let halves = |n: u64| [n as i32, (n >> 32) as i32];
            let ([low, high], [len, len_high]) = (halves(at & !4095), halves(4096));
            for to in 0..2 {
                rank.request_short(RankId(to), AT, &[pid as i32, low, high, len, len_high])?;
            }
        } else {
            let mut slots = [Slot::EMPTY; 12];
            let mut outside = Outside::<AT>::attach(rank, LIMITS, &mut slots)?;
            // Refused or not: it goes to rank 1, and to nobody else.
            let _ = outside.put(rank, RankId(1), at & 4095, b"hijacked");
        }
        rank.barrier(BarrierName::Anonymous)?;
        Ok(0)
    })
}

#[test]
fn p1_a_put_to_a_rank_goes_to_no_other_process() {
    let mut victim = myself("helper_victim")
        .env("HAMR_REDTEAM_IS_VICTIM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(victim.stdout.take().expect("a pipe")).lines();
    let mut line = || {
        let next = lines.find_map(|line| line.ok()?.strip_prefix("secret ").map(str::to_owned));
        next.expect("a line")
    };
    let place = line();
    // A child of its own starts the world, so that this process's environment stays.
    let program = std::env::current_exe().expect("this program");
    let arguments = ["--exact", "helper_rank", "--nocapture", "--test-threads=1"];
    let launcher = Command::new(program)
        .args(["--exact", "helper_launcher", "--nocapture", "--test-threads=1"])
        .env(VICTIM, &place)
        .env("HAMR_REDTEAM_ARGUMENTS", arguments.join(" "))
        .status()
        .expect("it starts");
    assert!(launcher.success());
    drop(victim.stdin.take());
    assert_eq!(line(), "[90, 90, 90, 90, 90, 90, 90, 90]", "a variable of a process that is no rank");
    victim.wait().expect("it ends");
}

/// No test: starts the ranks.
#[test]
fn helper_launcher() {
    let Ok(arguments) = std::env::var("HAMR_REDTEAM_ARGUMENTS") else { return };
    if hamr::world::is_rank() {
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let image = Image::program(program, arguments.split(' ')).expect("a program");
    let world = Runtime::new().expect("a runtime").world_with(&["shm"; 2], image, WorldOptions::default());
    assert_eq!(world.expect("a world").run_main("").map_err(|e| e.to_string()), Ok(0));
}

/// A put of 5000 bytes at a multiple of that, into a process whose owner refuses to pin anything.
fn put(limits: Limits) -> Result<(), FarError<()>> {
    let mut child = Command::new("sleep").arg("100").spawn().expect("it starts");
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).expect("of a child");
    let begin = maps.split('-').next().and_then(|begin| u64::from_str_radix(begin, 16).ok()).expect("an address");
    let mut slots = [Slot::EMPTY; 8];
    let put = || {
        let peer = Peer::attach(child.id(), begin).expect("a child's memory can be read");
        Far::new(limits, &mut slots).put((1, &peer), begin.next_multiple_of(5000), &[1; 5000], |_| Ok(false))
    };
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(put));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    done.expect("no panic")
}

#[test]
fn p2_limits_of_no_bytes_refuse() {
    let refused = put(Limits { bytes: 0, victim_bytes: 0, region_bytes: 0, page: 4096 });
    assert!(matches!(refused, Err(FarError::Refused(Refused::Full | Refused::Range))));
}

#[test]
fn p3_regions_of_no_whole_pages_are_used_by_pages() {
    let refused = put(Limits { bytes: 96 << 10, victim_bytes: 0, region_bytes: 5000, page: 4096 });
    assert!(matches!(refused, Err(FarError::Refused(Refused::Pin))), "a page was not asked for: {refused:?}");
}
