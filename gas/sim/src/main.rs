//! `cargo xtask credits`: prints the table of the simulator, and whether its goals are met.

use std::io::{ErrorKind, Result, Write, stdout};
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
    match run() {
        Ok(code) => code,
        // Nothing reads the table any more.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(std::io::stderr(), "cargo xtask credits: standard output: {e}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode> {
    let Options { ranks, messages, seed, latency, overhead, gap } = Options::parse();
    let messages = messages.unwrap_or((256 * u64::from(ranks)).max(1_000_000));
    let network = LogGP { latency, overhead, gap };
    let mut out = stdout().lock();
    writeln!(out, "{ranks} ranks, seed {seed}; rate: of that with credits without end; stalls, control: per message")?;
    writeln!(out, "{}", Row::HEAD)?;
    let mut shown = Ok(());
    let rows = table(ranks, messages, seed, network, |row| {
        if shown.is_ok() {
            shown = writeln!(out, "{row}");
        }
    });
    shown?;
    writeln!(out, "{}", Memory::of(ranks))?;
    writeln!(out, "credits were conserved in every event that moves some, and are where they belong at the end")?;
    let missed: Vec<String> = rows
        .iter()
        .flat_map(|row| {
            row.missed().into_iter().map(move |missed| format!("missed: {}: {missed}", row.setting.pattern))
        })
        .collect();
    if missed.is_empty() {
        writeln!(out, "all goals are met")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{}", missed.join("\n"))?;
    Ok(ExitCode::FAILURE)
}
