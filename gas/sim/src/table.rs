//! The table of all patterns, with its goals.

use std::fmt;

use crate::network::{LogGP, Outcome, Setting};
use crate::patterns::Pattern;

/// One pattern under each flow control.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was simulated.
    pub setting: Setting,
    /// Credits without end.
    pub infinite: Outcome,
    /// Lent in blocks.
    pub blocks: Outcome,
    /// The paper's algorithm.
    pub portals: Outcome,
}

/// Runs all patterns in a world of `ranks`, with about `budget` messages each.
pub fn table(ranks: u32, budget: u64, seed: u64, network: LogGP, mut each: impl FnMut(&Row)) -> Vec<Row> {
    let settings = Pattern::ALL.map(|pattern| {
        let (active, messages) = pattern.size(ranks, budget);
        Setting { pattern, ranks, active, messages, seed, network }
    });
    let rows = settings.map(|setting| {
        let [infinite, blocks, portals] = crate::compare(setting);
        let row = Row { setting, infinite, blocks, portals };
        each(&row);
        row
    });
    rows.into()
}

impl Row {
    /// Throughput over that of credits without end.
    pub fn ratio(&self) -> f64 {
        self.blocks.rate / self.infinite.rate
    }

    /// The same of the paper's algorithm.
    pub fn portals_ratio(&self) -> f64 {
        self.portals.rate / self.infinite.rate
    }

    /// Control messages per message of the program.
    pub fn control(&self) -> f64 {
        self.blocks.control as f64 / self.blocks.messages as f64
    }

    /// The goals that are missed, with their numbers.
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        let mut goal = |is_met: bool, text: String| {
            if !is_met {
                missed.push(text);
            }
        };
        let (ratio, portals) = (self.ratio(), self.portals_ratio());
        match self.setting.pattern {
            Pattern::Pairs => goal(ratio >= 0.98, format!("{ratio:.3} of the throughput, not 0.98")),
            Pattern::Incast(_) => {
                let Outcome { fairness, starvation, .. } = self.blocks;
                goal(fairness >= 0.95, format!("fairness {fairness:.3}, not 0.95"));
                goal(starvation <= 8.0, format!("longest wait {starvation:.1} times the mean, not 8"));
            }
            Pattern::Uniform => {
                let stalls = self.blocks.stalls as f64 / self.blocks.messages as f64;
                goal(stalls <= 1e-2, format!("{stalls:.4} stalls a message, not 0.01"));
            }
            _ => {
                goal(ratio >= 0.95, format!("{ratio:.3} of the throughput, not 0.95"));
                // Both come to 1; how fast is seen in the third digit.
                goal(
                    ratio >= portals - 0.005,
                    format!("{ratio:.3} of the throughput, below portals-conduit's {portals:.3}"),
                );
            }
        }
        let (control, steps) = (self.control(), self.blocks.most_steps);
        goal(control <= 0.01, format!("{control:.4} control messages a message, not 0.01"));
        goal(steps <= 64, format!("{steps} steps in an event, not 64"));
        missed
    }

    /// The names of what [`Row`]'s `Display` prints.
    pub const HEAD: &str = "\
pattern           senders  | blocks: rate  stalls  control  fair  starved  steps | portals: rate  stalls  control  fair  starved   steps";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, blocks, portals, .. } = self;
        let per_message = |count: u64, of: &Outcome| count as f64 / of.messages as f64;
        write!(f, "{:<17} {:>7}", setting.pattern, setting.active)?;
        for (of, ratio) in [(blocks, self.ratio()), (portals, self.portals_ratio())] {
            let (stalls, control) = (per_message(of.stalls, of), per_message(of.control, of));
            let Outcome { fairness, starvation, most_steps, .. } = of;
            write!(
                f,
                "  |  {ratio:>11.3}  {stalls:>6.4}  {control:>7.5}  {fairness:>4.2}  {starvation:>7.1}  {most_steps:>6}"
            )?;
        }
        Ok(())
    }
}
