//! `hamr-hca perf`: the rows of verbs, each beside its floor. `hamr-bench` measures them, which has the floors of all rows.

use super::CommandError;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The rows.
const ROWS: &str = "verbs_write_8,verbs_send_8,verbs_read_8,verbs_fadd,verbs_rate_8,verbs_bw,verbs_udp_8,\
                    verbs_host_driven,verbs_idle";

/// Becomes that program.
pub(super) fn run(arguments: &[String]) -> Result<(), CommandError> {
    let (mut launches, mut is_json) = (3_u32, false);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => is_json = true,
            "--launches" => {
                let count = arguments.next().and_then(|count| count.parse().ok()).filter(|count| *count != 0);
                launches = count.ok_or("--launches: expected a number that is not zero")?;
            }
            _ => return Err(format!("no argument is named `{argument}` (--help)").into()),
        }
    }
    let own = std::env::current_exe()?;
    let bench = own.with_file_name("hamr-bench");
    let mut command = Command::new(&bench);
    command.args(["rows", "--only", ROWS, "--launches", &launches.to_string()]);
    command.args(is_json.then_some("--json")).env("HAMR_HCA", own);
    let why = command.exec();
    Err(format!("{}: {why}: expected the program that measures (cargo build --release -p hamr-bench)", bench.display())
        .into())
}
