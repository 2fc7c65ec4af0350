//! `hamr top`: every live device of this machine and what it does. Reads what `inspect` reads: it
//! takes no lock and writes nothing.

mod frame;
mod screen;

use super::{Cli, Failure};
use frame::Sample;
use screen::{Next, Screen};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Between the two looks of one frame without a screen.
const ONCE: Duration = Duration::from_millis(250);
/// Characters of a line without a screen.
const WIDTH: usize = 120;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print one frame and end; without a terminal the only way
    #[arg(long)]
    once: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    every: f64,
    /// So many lines of each device's log
    #[cfg(feature = "device-logs")]
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = super::number::<usize>)]
    lines: usize,
}

impl Args {
    fn lines(&self) -> usize {
        #[cfg(feature = "device-logs")]
        return self.lines;
        #[cfg(not(feature = "device-logs"))]
        return 0;
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let good = text.parse().ok().filter(|seconds| (0.05..=3600.0).contains(seconds));
    good.ok_or_else(|| "expected 0.05 to 3600 seconds".into())
}

pub(super) fn run(args: &Args, cli: &Cli) -> Result<(), Failure> {
    if args.once || cli.global.json {
        let first = Sample::take(None, args.lines(), cli);
        std::thread::sleep(ONCE);
        let second = Sample::take(Some(&first), args.lines(), cli);
        return match cli.global.json {
            true => cli.print_json(&second.to_json()),
            false => cli.print(&lines(&second.text(usize::MAX, WIDTH))),
        };
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let tool = cli.tool.name;
        return Err(Failure::new(format!("expected a terminal, got none; `{tool} top --once` prints one frame")));
    }
    let screen = Screen::open()?;
    let mut sample = Sample::take(None, args.lines(), cli);
    // The first look has no rates: the second one comes soon.
    let mut until = Instant::now() + ONCE;
    loop {
        let (rows, columns) = screen.size();
        let mut text = sample.text(rows.saturating_sub(1), columns);
        text.truncate(rows.saturating_sub(1));
        text.push("q ends".into());
        screen.show(&text)?;
        match screen.wait(until, (rows, columns)) {
            Next::End => return Ok(()),
            Next::Redraw => {}
            Next::Look => {
                sample = Sample::take(Some(&sample), args.lines(), cli);
                until = Instant::now() + Duration::from_secs_f64(args.every);
            }
        }
    }
}

fn lines(text: &[String]) -> String {
    text.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}
