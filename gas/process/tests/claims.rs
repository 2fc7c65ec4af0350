//! What a rank states of its process and its memory, where that is not so: another rank copies to no process that the
//! launcher has not started as this rank.

use hamr::{Image, Runtime, WorldOptions};
use hamr_comm::world::RankId;
use hamr_comm::{Fault, Task};
use hamr_gas::firehose::{Limits, Slot};
use hamr_gas::{BarrierName, Handlers, Kinds, Msg, Rank, Token};
use hamr_gas_process::{HasSide, Outside, Side, handlers};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

const AT: u8 = 100;
const LIMITS: Limits = Limits { bytes: 96 << 10, victim_bytes: 0, region_bytes: 32 << 10, page: 4096 };
/// For the launcher and the ranks: the process that is no rank, and an address in it.
const VICTIM: &str = "HAMR_TEST_VICTIM";
/// What the hostile rank states.
const LIES: [&str; 5] = ["no-rank", "launcher", "other-rank", "none", "no-address"];

struct State(Side);

impl HasSide for State {
    fn side(&mut self) -> &mut Side {
        &mut self.0
    }
}

static TABLE: Handlers<State> = handlers::<State, AT>(Handlers::new());

/// The same names, and an answer to each question: yes.
static YES: Handlers<State> = Handlers::new()
    .request(AT, Kinds::SHORT, "outside_meet", |_, _: Msg<'_>, _: Token<'_>| {})
    .request(AT + 1, Kinds::MEDIUM, "outside_move", |_, _, token| token.reply_short(AT + 4, &[1]))
    .request(AT + 2, Kinds::MEDIUM, "outside_put", |_, _, token| token.reply_short(AT + 4, &[1]))
    .request(AT + 3, Kinds::SHORT, "outside_get", |_, _, token| token.reply_short(AT + 4, &[0]))
    .reply(AT + 4, Kinds::SHORT, "outside_answer", |_, _| {})
    .reply(AT + 5, Kinds::MEDIUM, "outside_bytes", |_, _| {});

/// This program, as one of the helpers below.
fn myself(helper: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", helper, "--nocapture", "--test-threads=1"]);
    command
}

/// No test: a process that is no rank. It says where a variable of it is, and at the end of its input what that is.
#[test]
fn helper_victim() {
    if std::env::var_os("HAMR_TEST_IS_VICTIM").is_none() {
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
    let lie = LIES.into_iter().find(|lie| std::env::args().any(|arg| arg == *lie)).expect("one of them");
    hamr::world::main(move |task: &mut Task<'_>| rank(task, lie, pid, at));
}

fn rank(task: &mut Task<'_>, lie: &str, victim: u32, at: u64) -> Result<u8, Fault> {
    Rank::run(task, State(Side::new(4096)), |rank| {
        let is_hostile = rank.me() == RankId(1);
        rank.attach(if is_hostile { &YES } else { &TABLE })?;
        let mut code = 0;
        if is_hostile {
            let other = rank.task().world().and_then(|world| world.process(RankId(0)));
            let (process, start) = match lie {
                "no-rank" => (victim, at & !4095),
                "launcher" => (std::os::unix::process::parent_id(), at & !4095),
                "other-rank" => (other.ok_or(Fault::msg("the launcher says it"))?, at & !4095),
                "none" => (0, at & !4095),
                _ => (std::process::id(), u64::MAX - 4095),
            };
            let halves = |n: u64| [n as i32, (n >> 32) as i32];
            let ([low, high], [len, len_high]) =
                (halves(start), halves(if lie == "no-address" { u64::MAX } else { 4096 }));
            for to in 0..2 {
                rank.request_short(RankId(to), AT, &[process as i32, low, high, len, len_high])?;
            }
        } else {
            let mut slots = [Slot::EMPTY; 12];
            let mut outside = Outside::<AT>::attach(rank, LIMITS, &mut slots)?;
            // To rank 1 in messages, or not at all.
            let put = outside.put(rank, RankId(1), at & 4095, b"hijacked");
            code = u8::from(!outside.uses_messages(RankId(1)) || put.is_err() && lie != "no-address");
        }
        rank.barrier(BarrierName::Anonymous)?;
        Ok(code)
    })
}

#[test]
fn bytes_for_a_rank_go_to_no_other_process_whatever_it_says() {
    let mut victim = myself("helper_victim")
        .env("HAMR_TEST_IS_VICTIM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(victim.stdout.take().expect("a pipe")).lines();
    let mut line = || {
        let next = lines.find_map(|line| line.ok()?.strip_prefix("secret ").map(str::to_owned));
        next.expect("a line")
    };
    // A child of its own starts the worlds, so that this process's environment stays.
    let launcher = myself("helper_launcher").env(VICTIM, line()).env("HAMR_TEST_LAUNCHES", "1").status();
    assert!(launcher.expect("it starts").success());
    drop(victim.stdin.take());
    assert_eq!(line(), "[90, 90, 90, 90, 90, 90, 90, 90]", "a variable of a process that is no rank");
    victim.wait().expect("it ends");
}

/// No test: starts the ranks.
#[test]
fn helper_launcher() {
    if std::env::var_os("HAMR_TEST_LAUNCHES").is_none() || hamr::world::is_rank() {
        return;
    }
    for lie in LIES {
        let program = std::env::current_exe().expect("this program");
        let arguments = ["--exact", "helper_rank", "--nocapture", "--test-threads=1", lie];
        let image = Image::program(program, arguments).expect("a program");
        let world = Runtime::new().expect("a runtime").world_with(&["shm"; 2], image, WorldOptions::default());
        let code = world.expect("a world").run_main("");
        assert_eq!(code.map_err(|e| e.to_string()), Ok(0), "{lie}");
    }
}
