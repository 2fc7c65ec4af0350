//! Programs on threads of their own process (`thread`), which need no image: the same results as on processes.

use std::process::Command;

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("it runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // A machine with fewer processors than ranks says so.
    let is_quiet = stderr.lines().all(|line| line.is_empty() || line.starts_with("hamr: oversubscribed: "));
    assert!(output.status.success() && is_quiet, "{arguments:?}: {stdout}{stderr}");
    stdout.into_owned()
}

#[test]
fn threads_run_the_programs() {
    let laplace = |nodes: [&str; 2]| {
        let text = output(env!("CARGO_BIN_EXE_laplace"), &["40", nodes[0], nodes[1], "20", "thread"]);
        let change = text.lines().last().and_then(|line| line.strip_prefix("change of the last step: "));
        change.expect("the last line").parse::<f64>().expect("a number")
    };
    // Sums of other numbers of nodes may round otherwise.
    let (alone, four) = (laplace(["1", "1"]), laplace(["2", "2"]));
    assert!(alone > 0.0 && (four / alone - 1.0).abs() < 1e-12, "{alone}, {four}");
    let stream = output(env!("CARGO_BIN_EXE_stream"), &["2", "1000", "thread"]);
    assert_eq!(stream.lines().count(), 4, "{stream}");
}
