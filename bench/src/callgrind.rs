//! Runs this program under callgrind, and reads the profile that callgrind writes.

use super::BoxError;
use std::process::{Command, Stdio};

/// Is there a valgrind?
pub(crate) fn is_installed() -> bool {
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// Callgrind's profile of this program, run with an environment variable.
pub(crate) fn profile(variable: &str, value: &str) -> Result<String, BoxError> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/stdout"])
        .arg(std::env::current_exe()?)
        .env(variable, value)
        .stdin(Stdio::null())
        .output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("callgrind failed: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// Instructions of `callee` when `caller` calls it. In the caller's part of the profile, the line
/// after the callee's `calls=` has the inclusive cost after its position. A name is written with
/// its number at its first use, as `fn=(12) name`, and only the number later; instances of a
/// generic function have one name and a number each.
pub(crate) fn between(profile: &str, caller: &str, callee: &str) -> Option<u64> {
    let numbers_of = |function: &str| -> Vec<&str> {
        let path = format!("::{function}");
        let named = profile.lines().filter(|line| line.contains("fn=(") && line.ends_with(&path));
        named.filter_map(number).collect()
    };
    let (callers, callees) = (numbers_of(caller), numbers_of(callee));
    let is_one_of = |line: &str, numbers: &[&str]| number(line).is_some_and(|n| numbers.contains(&n));
    let mut is_inside = false;
    let mut lines = profile.lines();
    let mut sum = None;
    while let Some(line) = lines.next() {
        if line.starts_with("fn=(") {
            is_inside = is_one_of(line, &callers);
        } else if is_inside && line.starts_with("cfn=(") && is_one_of(line, &callees) {
            let cost = lines.by_ref().find(|line| !line.starts_with("calls="))?;
            sum = Some(sum.unwrap_or(0) + cost.split(' ').nth(1)?.parse::<u64>().ok()?);
        }
    }
    sum
}

/// The number of the function that a line names.
fn number(line: &str) -> Option<&str> {
    line.split(['(', ')']).nth(1)
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn costs_are_of_one_caller_and_of_one_callee() {
        let profile = "fn=(1) a::caller\n3 10\ncfn=(2) a::callee\ncalls=5 7\n3 100\n4 1\ncfn=(3) a::other\ncalls=1 1\n4 900\n\
                       fn=(4) a::stranger\ncfn=(2)\ncalls=1 7\n8 5000\nfn=(1)\ncfn=(2)\ncalls=2 7\n+1 40\n";
        assert_eq!(between(profile, "caller", "callee"), Some(140));
        assert_eq!(between(profile, "stranger", "callee"), Some(5000));
        assert_eq!(between(profile, "stranger", "other"), None);
        assert_eq!(between(profile, "caller", "unknown"), None);
    }

    #[test]
    fn instances_of_one_name_count_together() {
        let profile = "fn=(1) a::thunk\n3 10\nfn=(2) a::thunk\n3 1\ncfn=(3) a::sender\ncalls=4 7\n3 80\n";
        assert_eq!(between(profile, "thunk", "sender"), Some(80));
    }
}
