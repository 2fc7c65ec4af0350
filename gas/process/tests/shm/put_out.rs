//! Two processes, and what one puts into memory of the other that is in no segment.

use std::process::Command;

#[test]
fn bytes_arrive_in_every_way_that_the_system_allows() {
    let output = Command::new(env!("CARGO_BIN_EXE_hamr-put-out")).arg("check").output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    // Where the system forbids something of it, the program says so once, and what is left works.
    let forbidden = text.matches("bounce alone").count();
    let ways = if forbidden == 1 { 1 } else { 3 };
    assert_eq!((output.status.code(), forbidden.min(1)), (Some(ways), forbidden), "{text}{error}");
}
