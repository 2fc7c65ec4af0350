//! Ranks, each a process, that put into and get out of what the others expose, in no segment. With `messages` they do so in
//! messages alone. The exit code is 0 if copies between the processes were used, 7 if not.

use hamr::{Image, Runtime, WorldOptions};
use hamr_comm::world::RankId;
use hamr_comm::{Fault, Task};
use hamr_gas::firehose::{Limits, Slot};
use hamr_gas::{BarrierName, Handlers, Rank};
use hamr_gas_process::{HasSide, Outside, OutsideError, Side, handlers};
use std::process::ExitCode;

/// What each rank exposes: a part for each of the others.
const PART: usize = 192 << 10;
/// Less than a part, so that regions leave the cache.
const LIMITS: Limits = Limits { bytes: 96 << 10, victim_bytes: 0, region_bytes: 32 << 10, page: 4096 };
const AT: u8 = 100;
const ROUNDS: u64 = 120;

struct State(Side);

impl HasSide for State {
    fn side(&mut self) -> &mut Side {
        &mut self.0
    }
}

static TABLE: Handlers<State> = handlers::<State, AT>(Handlers::new());

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["rank", how] => {
            let by_messages = how == "messages";
            hamr::world::main(move |task: &mut Task<'_>| program(task, by_messages))
        }
        [ranks, how] => {
            let start = || -> Result<u8, Box<dyn std::error::Error>> {
                let image = Image::program(std::env::current_exe()?, ["rank", how])?;
                let world = Runtime::new()?.world_with(&vec!["shm"; ranks.parse()?], image, WorldOptions::default())?;
                Ok(world.run_main("")?)
            };
            start().map_or_else(
                |why| {
                    eprintln!("hamr-outside: {why}");
                    ExitCode::from(2)
                },
                ExitCode::from,
            )
        }
        _ => ExitCode::from(2),
    }
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn program(task: &mut Task<'_>, by_messages: bool) -> Result<u8, Fault> {
    let size = task.world().ok_or_else(|| Fault::msg("no rank"))?.size() as usize;
    Rank::run(task, State(Side::new(PART * size)), |rank| {
        rank.attach(&TABLE)?;
        let mut slots = [Slot::EMPTY; 12];
        let mut outside = Outside::<AT>::attach(rank, LIMITS, &mut slots)?;
        let me = rank.me().0;
        if by_messages {
            (0..size as u32).for_each(|to| outside.use_messages(RankId(to)));
        }
        // What this rank put to each, beside what is there.
        let mut mirrors = vec![vec![0; PART]; size];
        let mut seed = u64::from(me) + 1;
        for _ in 0..ROUNDS {
            let to = random(&mut seed) as usize % size;
            let begin = random(&mut seed) as usize % PART;
            let len = (random(&mut seed) as usize % 40_000).min(PART - begin);
            let bytes: Vec<u8> = (0..len).map(|_| random(&mut seed) as u8).collect();
            let base = PART * me as usize;
            outside.put(rank, RankId(to as u32), (base + begin) as u64, &bytes)?;
            mirrors[to][begin..begin + len].copy_from_slice(&bytes);
            let (begin, len) = (begin / 2, (len + begin / 3).min(PART - begin / 2));
            let mut back = vec![0; len];
            outside.get(rank, RankId(to as u32), (base + begin) as u64, &mut back)?;
            expect(back == mirrors[to][begin..begin + len], "other bytes than were put")?;
            if begin % 5 == 0 {
                outside.invalidate(rank, RankId(to as u32), (base + begin) as u64, len)?;
            }
        }
        let end = (PART * size) as u64;
        let beyond = outside.put(rank, RankId(0), end - 1, &[1, 2]);
        expect(matches!(beyond, Err(OutsideError::Reach { rank: 0, len, .. }) if len == end), "a put beyond the end")?;
        expect(outside.get(rank, RankId(size as u32), 0, &mut [0]).is_err(), "a rank that is not there")?;
        expect(outside.invalidate(rank, RankId(0), end, 1).is_err(), "a range that is not exposed")?;
        rank.barrier(BarrierName::Anonymous)?;
        // Each part is what its rank has put there, as this rank itself sees it.
        let mut own = vec![0; PART];
        expect(rank.state_mut().side().owner().exposed().read((PART * me as usize) as u64, &mut own), "its own part")?;
        expect(own == mirrors[me as usize], "its own part")?;
        rank.barrier(BarrierName::Anonymous)?;
        for of in 0..size as u32 {
            outside.invalidate(rank, RankId(of), 0, PART * size)?;
        }
        rank.barrier(BarrierName::Anonymous)?;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
        expect(locked.is_some_and(|locked| locked.trim() == "0 kB"), "nothing is locked any more")?;
        rank.barrier(BarrierName::Anonymous)?;
        let is_direct = (0..size as u32).any(|to| !outside.uses_messages(RankId(to)));
        Ok(if is_direct { 0 } else { 7 })
    })
}

fn expect(ok: bool, what: &str) -> Result<(), Fault> {
    if ok { Ok(()) } else { Err(Fault::msg(what)) }
}
