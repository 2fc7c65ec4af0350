//! `hamr-mpi bench`: an empty call over MPI, beside a ping-pong of MPI with as many bytes, in turns in one job.

use crate::JOB;
use hamr::cli::{Cli, Failure, duration};
use hamr_kernels::bench::empty;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Bytes of a SLOT without payload, an empty call or its result (abi §15.2).
const SLOT: usize = 24;
/// Turns, and calls or ping-pongs of one.
const TURNS: usize = 25;
const TIMES: u32 = 500;

pub(crate) fn run(cli: &Cli) -> Result<(), Failure> {
    let device = &cli.global.device;
    let peer = device.strip_prefix("mpi:").and_then(|rank| rank.parse().ok());
    let (Some(job), Some(peer)) = (JOB.get(), peer) else {
        return Err(Failure::new(format!("bench: expected `--device mpi:RANK`, got {device}")));
    };
    let node = cli.open()?;
    let stream = node.stream()?;
    let (mut calls, mut floors) = (Vec::new(), Vec::new());
    for turn in 0..=TURNS {
        let floor = job.ping_pong(peer, SLOT, TIMES).ok_or_else(|| Failure::new("bench: the job is over"))?;
        // Behind these all that sleep are awake.
        let mut call = Duration::ZERO;
        for _ in 0..2 {
            let begin = Instant::now();
            for _ in 0..TIMES {
                stream.sync(black_box(empty::with()))?;
            }
            call = begin.elapsed();
        }
        // The first turn counts for nothing.
        if turn != 0 {
            calls.push(call / TIMES);
            floors.push(floor / TIMES);
        }
    }
    let (call, floor) = (median(&mut calls), median(&mut floors));
    let ratio = call.as_secs_f64() / floor.as_secs_f64();
    if cli.global.json {
        return cli.print(&format!(
            "{{\"row\":\"mpi_call\",\"ns\":{},\"beside\":\"ping-pong\",\"beside_ns\":{},\"ratio\":{ratio:.3}}}\n",
            call.as_nanos(),
            floor.as_nanos()
        ));
    }
    cli.print(&format!("mpi_call {}, beside a ping-pong of MPI {}: {ratio:.2}\n", duration(call), duration(floor)))
}

fn median(all: &mut [Duration]) -> Duration {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}
