//! `cargo xtask credits`: prints the table of the simulator, and whether its goals are met.

use std::process::ExitCode;

use clap::Parser;
use hamr_gas_sim::{LogGP, Memory, Row, table};

/// Credits in a simulated network. Exit codes: 0 all goals met, 1 a goal missed.
#[derive(Parser)]
#[command(name = "cargo xtask credits")]
struct Options {
    /// Ranks of the world
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1002..))]
    ranks: u32,
    /// Messages of a run, about; without it 256 a rank, and a million at least
    #[arg(long)]
    messages: Option<u64>,
    /// Of random patterns
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Nanoseconds from the end of sending to the arrival
    #[arg(long, default_value_t = LogGP::default().latency)]
    latency: u64,
    /// Nanoseconds of processor time of sending or receiving
    #[arg(long, default_value_t = LogGP::default().overhead)]
    overhead: u64,
    /// Nanoseconds between two messages of a sender, at least
    #[arg(long, default_value_t = LogGP::default().gap)]
    gap: u64,
}

fn main() -> ExitCode {
    let Options { ranks, messages, seed, latency, overhead, gap } = Options::parse();
    let messages = messages.unwrap_or((256 * u64::from(ranks)).max(1_000_000));
    let network = LogGP { latency, overhead, gap };
    println!("{ranks} ranks, seed {seed}; rate: of that with credits without end; stalls, control: per message");
    println!("{}", Row::HEAD);
    let rows = table(ranks, messages, seed, network, |row| println!("{row}"));
    println!("{}", Memory::of(ranks));
    println!("credits were conserved in every event that moves some, and are where they belong at the end");
    let missed: Vec<String> = rows
        .iter()
        .flat_map(|row| {
            row.missed().into_iter().map(move |missed| format!("missed: {}: {missed}", row.setting.pattern))
        })
        .collect();
    if missed.is_empty() {
        println!("all goals are met");
        return ExitCode::SUCCESS;
    }
    println!("{}", missed.join("\n"));
    ExitCode::FAILURE
}
