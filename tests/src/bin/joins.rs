//! A program that joins a world, or with `run` or `devices` as its first argument the tool that starts
//! one: `hamr-joins run -n 3 hamr-joins exit 1`; or with `bodies` the host of an image's ranks.

use hamr::cli::{NoCommands, Tool};
use hamr_comm::world::RankId;
use hamr_comm::{Fault, Task};
use hamr_gas::Rank;
use hamr_tests_kernels::gas;
use hamr_tests_kernels::host_calls::{Callback, call_back};
use hamr_tests_kernels::lanes::rank_and;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|first| first == "run") {
        return hamr::cli::main::<NoCommands>(Tool {
            name: "hamr-joins",
            about: "starts itself",
            version: "0",
            image: "hamr-checks",
            runtime: hamr::Runtime::new,
        });
    }
    if let Some(image) =
        std::env::args().nth(2).filter(|_| std::env::args().nth(1).is_some_and(|first| first == "bodies"))
    {
        return bodies(&image).map_or_else(|e| panic!("{e}"), |()| ExitCode::SUCCESS);
    }
    hamr::world::main(program)
}

/// A host of three ranks with tasks that wait for bodies of this program, for ever; says so.
fn bodies(image: &str) -> Result<(), Box<dyn std::error::Error>> {
    let (runtime, running) = (hamr::Runtime::new()?, Arc::new(AtomicU32::new(0)));
    let world = runtime.world("shm", 3, hamr::Image::file(image)?)?;
    for node in world.nodes() {
        let running = running.clone();
        let body: Callback = Box::new(move |_, kind| {
            running.fetch_add(1, Ordering::Relaxed);
            loop {
                match kind {
                    0 => std::thread::sleep(Duration::from_secs(1)),
                    _ => core::hint::spin_loop(),
                }
            }
        });
        node.provide(body);
    }
    // Of each rank one that a waiting thread serves, and one of a worker.
    let calls = world.nodes().iter().map(|node| node.offload(call_back::with(0))).collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        for (node, kind) in world.nodes().iter().zip([0, 0, 1]) {
            scope.spawn(move || node.sync(call_back::with(kind)));
        }
        while running.load(Ordering::Relaxed) < 6 {
            std::thread::sleep(Duration::from_millis(1));
        }
        println!("all bodies run");
    });
    drop(calls);
    Ok(())
}

/// The arguments are a word and the rank that does what it says; the others return 0, or with `!`
/// behind the rank never.
fn program(task: &mut Task) -> Result<u8, Fault> {
    let place = task.world().map(|world| (world.me().0, world.size()));
    let (me, size) = place.ok_or_else(|| Fault::msg("this program is no rank"))?;
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let who = arguments.next().unwrap_or_else(|| "0".into());
    let is_mine = who.trim_end_matches('!').parse() == Ok(me);
    match what.as_str() {
        "say" => {
            println!("rank {me} of {size}");
            // In one write: what three ranks write in pieces may come mixed.
            let line = format!("and rank {me} says so");
            eprint!("{line}");
            print!("without an end of line");
            Ok(0)
        }
        "stdin" => Ok(u8::from(std::io::read_to_string(std::io::stdin()).is_ok_and(|text| !text.is_empty()))),
        // A program that this one starts is a world of its own.
        "child" => {
            let this = std::env::current_exe().map_err(|_| Fault::msg("no executable"))?;
            let child = std::process::Command::new(this).arg("size").status();
            Ok(child.ok().and_then(|status| status.code()).map_or(99, |code| code as u8))
        }
        "size" => Ok(size as u8),
        "none" => Ok(0),
        "ring" => ring(task, me, size),
        // Handlers of all ranks, whatever they are.
        "calls" => {
            let answers = (0..size).map(|rank| task.sync(RankId(rank), rank_and::with(41)));
            let answers = answers.collect::<Result<Vec<_>, _>>()?;
            Ok(u8::from(!(0..size).zip(answers).all(|(rank, answer)| answer == (rank, 42))))
        }
        "gas" => messages(task, size),
        _ if !is_mine && !who.ends_with('!') => Ok(0),
        "code" if is_mine => Ok(7),
        "exit" if is_mine => match task.world() {
            Some(world) => world.exit(9),
            None => Ok(0),
        },
        "fail" if is_mine => Err(Fault::msg("as asked")),
        "panic" if is_mine => panic!("rank {me} was asked to panic"),
        "null" if is_mine => Ok(hamr_tests_kernels::crashes::read_null() as u8),
        "quit" if is_mine => std::process::exit(5),
        "thread" if is_mine => {
            let thread = std::thread::spawn(|| panic!("a thread of the program was asked to panic"));
            Ok(u8::from(thread.join().is_err()))
        }
        // The rank's own thread computes, or is in the system.
        "spin" if me % 2 == 0 => loop {
            core::hint::spin_loop();
        },
        "spin" => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        _ => loop {
            task.sleep(Duration::from_millis(1))?;
        },
    }
}

/// The programs that images run as handlers, here as a rank's own.
fn messages(task: &mut Task, size: u32) -> Result<u8, Fault> {
    let asked = Rank::run(task, gas::State::default(), gas::arities)?;
    let sum = Rank::run(task, gas::State::default(), |rank| gas::flood(rank, 1000))?;
    let rounds = Rank::run(task, gas::State::default(), |rank| gas::barriers(rank, 30))?;
    for over_messages in [false, true] {
        Rank::run(task, gas::State::default(), |rank| gas::transfers(rank, over_messages))?;
    }
    Ok(u8::from((asked, sum, rounds) != (size * 17 * 8, u64::from(size) * 500_500, 30)))
}

/// Each rank adds its number to what the rank before it had, and passes the sum on.
fn ring(task: &mut Task, me: u32, size: u32) -> Result<u8, Fault> {
    let (before, next) = (RankId((me + size - 1) % size), RankId((me + 1) % size));
    let no_rank = || Fault::msg("this program is no rank");
    let mut sum = 0;
    for round in 1..=100 {
        if me != 0 {
            task.wait_signal(before, 3, |seen| seen == round)?;
            sum = task.world().ok_or_else(no_rank)?.get_value::<u32>(RankId(me), 0)?;
        }
        let world = task.world().ok_or_else(no_rank)?;
        world.put_value(next, 0, sum + me)?;
        world.signal(next, 3, round)?;
        if me == 0 {
            task.wait_signal(before, 3, |seen| seen == round)?;
            sum = task.world().ok_or_else(no_rank)?.get_value::<u32>(RankId(0), 0)?;
        }
    }
    task.barrier()?;
    Ok(u8::from(me == 0 && sum != 100 * (0..size).sum::<u32>()))
}
