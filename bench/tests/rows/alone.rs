//! A few rows, as text and as JSON.

use crate::common::{Run, hamr, signal, spawn, until};
use serde_json::Value;

/// The rows of a run, by name.
fn rows(run: &Run) -> Vec<Value> {
    assert_eq!(run.code, Some(0), "{run:?}");
    run.left_nothing();
    run.stdout.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

#[test]
fn rows_state_their_spell_and_what_is_beside_them() {
    let only = "floor_tight,floor_paused,floor_one_line,floor_ring,call_empty,call_64b,call_over_handler,call_single";
    let rows = rows(&hamr(&["rows", "--json", "--launches", "1", "--only", only]));
    let named = |name: &str| rows.iter().filter(|row| row["name"] == name).collect::<Vec<_>>();
    let machine = named("machine").pop().expect("the machine");
    for measured in ["pause_ns", "clock_ns"] {
        assert!(machine[measured].as_f64().is_some_and(|ns| ns > 0.0), "{measured} of {machine}");
    }
    let spells = machine["spells"].as_array().expect("a list of spells");
    let repetitions: u64 = spells.iter().filter_map(|spell| spell["repetitions"].as_u64()).sum();
    assert_eq!(repetitions, 32, "{machine}");
    for name in only.split(',') {
        let of_name = named(name);
        assert!(!of_name.is_empty(), "{name} is missing");
        for row in of_name {
            assert!(["near", "far"].iter().any(|spell| row["spell"] == *spell), "{row}");
            let is_positive = |field: &str| row[field].as_f64().is_some_and(|v| v > 0.0);
            assert!(is_positive("p50_ns") || is_positive("rate") || name == "call_over_handler", "{row}");
        }
    }
    let empty = named("call_empty").pop().expect("an empty call");
    assert!(empty["goal"]["at_most"].is_number() && empty["histogram"].is_array(), "{empty}");
    assert_eq!(empty["beside"], "floor");
    assert_eq!(named("call_64b")[0]["beside"], "call_empty");
    assert!(named("call_single").iter().all(|row| row["p9999_ns"].as_f64() >= row["p999_ns"].as_f64()));
}

/// A signal ends the server of the rows of a network, too, and takes its folder away.
#[test]
fn an_ended_run_leaves_no_server() {
    let running = spawn(&["rows", "--launches", "1", "--only", "tcp_ping_pong,tcp_call,tcp_offload,tcp_put"]);
    let folder = std::env::temp_dir().join(format!("hamr-bench-{}", running.id()));
    until("the server's key is there", || folder.join("key").is_file().then_some(()));
    signal(running.id(), "TERM");
    let run = running.wait();
    assert_eq!((run.code, folder.exists()), (None, false), "{run:?}");
    run.left_nothing();
}

/// Each row of copies, of tasks, of worlds and of programs, a barrier of GASNet's interface, and what they stand beside.
/// Without `himeno`, `cg` and `xacc_ranks`, which take long, and `xacc_run`, `load_module` and
/// `load_image`, which build further images.
#[test]
fn rows_of_copies_tasks_worlds_and_barriers_have_values() {
    const ROWS: [(&str, Option<&str>); 28] = [
        ("copy_dd", Some("memcpy")),
        ("copy_within", Some("memcpy")),
        ("task_call", Some("floor")),
        ("call_pointers", Some("call_empty")),
        ("call_one_processor", Some("asleep")),
        ("split_call_empty", Some("two lines")),
        ("heap_churn", Some("10 buffers")),
        ("first_put", Some("copy into new memory")),
        ("chain_16", Some("its bytes")),
        ("host_call", Some("floor")),
        ("host_call_send", Some("one_way")),
        ("relay_call_asleep", Some("the two apart")),
        ("task_switch", None),
        ("world_call", Some("one line")),
        ("world_signal", Some("two flags")),
        ("world_barrier", Some("two flags")),
        ("world_put_8b", None),
        ("world_put_64k", Some("memcpy")),
        ("world_fetch_add", Some("instruction")),
        ("world_run", Some("two calls")),
        ("gas_barrier", Some("two flags")),
        ("xacc_axpy", Some("loop")),
        ("xacc_dot", Some("loop")),
        ("xacc_barrier", Some("two flags")),
        ("xacc_reduce", Some("two flags")),
        ("xacc_post", Some("two flags")),
        ("xacc_reflect", Some("memcpy")),
        ("xacc_gmove", Some("memcpy")),
    ];
    have_values(&ROWS);
}

/// Each of these rows, and what it stands beside.
fn have_values(expected: &[(&str, Option<&str>)]) {
    let only: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    let rows = rows(&hamr(&["rows", "--json", "--launches", "1", "--only", &only.join(",")]));
    for (name, beside) in expected {
        let row = rows.iter().find(|row| row["name"] == *name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(row["beside"].as_str(), *beside, "{row}");
        let is_positive = |field: &str| row[field].as_f64().is_some_and(|v| v > 0.0);
        assert!(["p50_ns", "gb_s", "rate"].into_iter().any(is_positive), "{row}");
        assert_eq!(row["ratio"].is_number(), beside.is_some(), "{row}");
    }
}

/// Without `tcp_call_beside_put`, which takes memory.
#[test]
fn rows_of_a_network_have_values() {
    const ROWS: [(&str, Option<&str>); 6] = [
        ("mirror_call_empty", Some("one line")),
        ("driven_call_empty", Some("one line")),
        ("tcp_ping_pong", None),
        ("tcp_call", Some("TLS and a line")),
        ("tcp_offload", Some("TLS, batches")),
        ("tcp_put", Some("TLS")),
    ];
    have_values(&ROWS);
}

/// Without `verbs_bw`, which takes long.
#[test]
fn rows_of_verbs_have_values() {
    const ROWS: [(&str, Option<&str>); 7] = [
        ("verbs_write_8", Some("two lines + 90 ns")),
        ("verbs_send_8", Some("two lines + 90 ns")),
        ("verbs_read_8", Some("two lines + 90 ns")),
        ("verbs_fadd", Some("two lines + 90 ns")),
        ("verbs_rate_8", Some("the goal")),
        ("verbs_host_driven", Some("host-driven")),
        ("verbs_udp_8", Some("raw UDP")),
    ];
    // The adapter is beside the program that is tested.
    let adapter = std::process::Command::new(env!("CARGO")).args(["build", "--quiet", "-p", "hamr-hca"]).status();
    assert!(adapter.is_ok_and(|status| status.success()));
    have_values(&ROWS);
}

#[test]
fn text_begins_with_the_machine_and_the_columns() {
    let run = hamr(&["rows", "--launches", "1", "--only", "call_empty"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    run.left_nothing();
    assert!(!run.stderr.contains("not built yet"), "this row has no image of its own: {run:?}");
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[0].starts_with("device shm; "), "{run:?}");
    let heads = lines.iter().position(|line| line.starts_with("row ")).expect("the columns");
    let rows = &lines[heads + 1..];
    assert!(!rows.is_empty() && rows.iter().all(|row| row.starts_with("call_empty ")), "{run:?}");
}
