//! `hamr setup`: provides QEMU on a machine that has none. Nothing is installed: packages are
//! unpacked.

use super::{Cli, Failure};
use crate::io::note;
use hamr_qemu::{Machine, Reach};
use std::fmt::Write;
use std::io::IsTerminal;

pub(super) fn run(cli: &Cli) -> Result<(), Failure> {
    let name = cli.tool.name;
    // Only on a terminal, as any progress: elsewhere, a line on standard error is a failure or a
    // warning.
    let say = |what: &str| {
        if std::io::stderr().is_terminal() {
            note(format_args!("{name}: {what}"));
        }
    };
    let programs = hamr_qemu::setup(Reach::User, say).map_err(|e| Failure::new(e.to_string()))?;
    let found = || Machine::ALL.iter().zip(&programs).map(|(machine, program)| (machine.name, &program.path));
    if cli.global.json {
        let paths = found().map(|(name, path)| (format!("qemu:{name}"), path.display().to_string().into()));
        return cli.print_json(&serde_json::Value::Object(paths.collect()));
    }
    let text = found().fold(String::new(), |mut text, (name, path)| {
        let _ = writeln!(text, "{:<13} {}", format!("qemu:{name}"), path.display());
        text
    });
    cli.print(&text)
}
