//! The lines of the tables, and the rows of `hamr-bench` that they need.

use std::collections::BTreeSet;

/// A line of a table: its text, the row's name, and the field that varies with its value.
pub(super) type Line = (&'static str, &'static str, Option<(&'static str, u32)>);

pub(super) const FLOORS: [Line; 7] = [
    ("one line, tight", "floor_tight", Some(("gap_ns", 0))),
    ("one line, paused", "floor_paused", Some(("gap_ns", 0))),
    ("one line, the faster one", "floor_one_line", Some(("gap_ns", 0))),
    ("the same, gap 50 ns", "floor_one_line", Some(("gap_ns", 50))),
    ("the same, gap 500 ns", "floor_one_line", Some(("gap_ns", 500))),
    ("two lines", "floor_two_lines", Some(("gap_ns", 0))),
    ("ring of lines", "floor_ring", None),
];

pub(super) const CALLS: [Line; 26] = [
    ("`call_empty`", "call_empty", Some(("gap_ns", 0))),
    ("`call_empty`, gap 50 ns", "call_empty", Some(("gap_ns", 50))),
    ("`call_empty`, gap 500 ns", "call_empty", Some(("gap_ns", 500))),
    ("`call_32b`", "call_32b", Some(("size", 32))),
    ("`call_48b`", "call_48b", Some(("size", 48))),
    ("`call_64b`", "call_64b", Some(("size", 64))),
    ("`call_112b`", "call_112b", Some(("size", 112))),
    ("`call_512b`", "call_512b", Some(("size", 512))),
    ("`call_1k`", "call_1k", Some(("size", 1024))),
    ("`call_pointers`", "call_pointers", None),
    ("`call_over_handler` 0.1 µs", "call_over_handler", Some(("handler_ns", 100))),
    ("`call_over_handler` 0.5 µs", "call_over_handler", Some(("handler_ns", 500))),
    ("`call_over_handler` 1 µs", "call_over_handler", Some(("handler_ns", 1000))),
    ("`call_over_handler` 2 µs", "call_over_handler", Some(("handler_ns", 2000))),
    ("`call_over_handler` 5 µs", "call_over_handler", Some(("handler_ns", 5000))),
    ("`call_start_get`", "call_start_get", None),
    ("`call_node`", "call_node", None),
    ("`call_shared`, 1 thread", "call_shared", Some(("threads", 1))),
    ("`call_shared`, 2 threads", "call_shared", Some(("threads", 2))),
    ("`call_await`", "call_await", None),
    ("`streams_64`", "streams_64", None),
    ("`streams_turn`, 8", "streams_turn", Some(("streams", 8))),
    ("`streams_turn`, 64", "streams_turn", Some(("streams", 64))),
    ("`call_empty_logs`", "call_empty_logs", Some(("gap_ns", 0))),
    ("`call_one_processor`", "call_one_processor", None),
    ("`split_call_empty`", "split_call_empty", Some(("gap_ns", 0))),
];

pub(super) const PIPELINES: [Line; 3] = [
    ("`call_async`, 64 in flight", "call_async", None),
    ("`one_way`", "one_way", None),
    ("`call_unread`, 100,000", "call_unread", None),
];

pub(super) const TRANSFERS: [Line; 27] = [
    ("`put_8b`", "put_8b", Some(("size", 8))),
    ("`get_8b`", "get_8b", Some(("size", 8))),
    ("`put` 4 KiB", "put", Some(("size", 4 << 10))),
    ("`put` 1 MiB", "put", Some(("size", 1 << 20))),
    ("`get` 4 KiB", "get", Some(("size", 4 << 10))),
    ("`get` 1 MiB", "get", Some(("size", 1 << 20))),
    ("`first_put` 1 MiB", "first_put", Some(("size", 1 << 20))),
    ("`first_put` 64 MiB", "first_put", Some(("size", 64 << 20))),
    ("`heap_churn` 10", "heap_churn", Some(("buffers", 10))),
    ("`heap_churn` 10,000", "heap_churn", Some(("buffers", 10_000))),
    ("`heap_churn` 100,000", "heap_churn", Some(("buffers", 100_000))),
    ("`copy_dd` 64 KiB", "copy_dd", Some(("size", 64 << 10))),
    ("`copy_dd` 1 MiB", "copy_dd", Some(("size", 1 << 20))),
    ("`copy_dd` 16 MiB", "copy_dd", Some(("size", 16 << 20))),
    ("`copy_within` 1 MiB", "copy_within", Some(("size", 1 << 20))),
    ("`put_notify` 64 B", "put_notify", Some(("size", 64))),
    ("`put_notify` 1 KiB", "put_notify", Some(("size", 1 << 10))),
    ("`put_notify` 1 MiB", "put_notify", Some(("size", 1 << 20))),
    ("`put_sync_64b`", "put_sync_64b", Some(("size", 64))),
    ("`put_sync_1k`", "put_sync_1k", Some(("size", 1 << 10))),
    ("`put_async_submit`", "put_async_submit", Some(("size", 16 << 20))),
    ("`overlap`", "overlap", Some(("size", 16 << 20))),
    ("`inout_1k`", "inout_1k", Some(("size", 1 << 10))),
    ("`load_module`", "load_module", None),
    ("`load_image`", "load_image", None),
    ("`log_line`", "log_line", None),
    ("`call_asleep`", "call_asleep", None),
];

pub(super) const TASKS: [Line; 20] = [
    ("`task_call`", "task_call", None),
    ("`task_switch`", "task_switch", None),
    ("`host_call`", "host_call", None),
    ("`host_call_asleep`", "host_call_asleep", None),
    ("`host_call_nested`", "host_call_nested", None),
    ("`host_call_send`", "host_call_send", None),
    ("`relay_call_asleep`", "relay_call_asleep", None),
    ("`task_call_beside`, 15", "task_call_beside", Some(("tasks", 15))),
    ("`call_empty_beside`, 16", "call_empty_beside", Some(("tasks", 16))),
    ("`chain_16`", "chain_16", None),
    ("`world_idle`, 2 ranks", "world_idle", Some(("ranks", 2))),
    ("`world_idle`, 64 ranks", "world_idle", Some(("ranks", 64))),
    ("`world_idle`, 4095 ranks", "world_idle", Some(("ranks", 4095))),
    ("`world_call`", "world_call", None),
    ("`world_signal`", "world_signal", None),
    ("`world_barrier`", "world_barrier", None),
    ("`world_put_8b`", "world_put_8b", Some(("size", 8))),
    ("`world_put_64k`", "world_put_64k", Some(("size", 64 << 10))),
    ("`world_fetch_add`", "world_fetch_add", None),
    ("`world_run`", "world_run", None),
];

pub(super) const GASNET: [Line; 13] = [
    ("`gas_am_short`", "gas_am_short", Some(("args", 0))),
    ("`gas_am_short`, 11 arguments", "gas_am_short", Some(("args", 11))),
    ("`gas_am_short`, 16 arguments", "gas_am_short", Some(("args", 16))),
    ("`gas_am_medium` 64 B", "gas_am_medium", Some(("size", 64))),
    ("`gas_am_medium` 1 KiB", "gas_am_medium", Some(("size", 1 << 10))),
    ("`gas_am_medium` 16,320 B", "gas_am_medium", Some(("size", 16320))),
    ("`gas_am_long` 64 B", "gas_am_long", Some(("size", 64))),
    ("`gas_am_long` 1 KiB", "gas_am_long", Some(("size", 1 << 10))),
    ("`gas_am_long` 16,320 B", "gas_am_long", Some(("size", 16320))),
    ("`gas_flood`", "gas_flood", None),
    ("`gas_put_8b`", "gas_put_8b", Some(("size", 8))),
    ("`gas_get_8b`", "gas_get_8b", Some(("size", 8))),
    ("`gas_barrier`", "gas_barrier", None),
];

pub(super) const PROGRAMS: [Line; 13] = [
    ("`himeno`, 1 rank", "himeno", Some(("ranks", 1))),
    ("`himeno`, 2 ranks", "himeno", Some(("ranks", 2))),
    ("`cg`", "cg", None),
    ("`xacc_axpy`", "xacc_axpy", None),
    ("`xacc_dot`", "xacc_dot", None),
    ("`xacc_barrier`", "xacc_barrier", None),
    ("`xacc_reduce`", "xacc_reduce", None),
    ("`xacc_post`", "xacc_post", None),
    ("`xacc_reflect`", "xacc_reflect", Some(("size", 128 << 10))),
    ("`xacc_gmove`", "xacc_gmove", Some(("size", 4 << 20))),
    ("`xacc_ranks`, 4", "xacc_ranks", Some(("ranks", 4))),
    ("`xacc_ranks`, 8", "xacc_ranks", Some(("ranks", 8))),
    ("`xacc_run`", "xacc_run", None),
];

pub(super) const NETWORK: [Line; 7] = [
    ("`tcp_ping_pong`", "tcp_ping_pong", None),
    ("`tcp_call`", "tcp_call", None),
    ("`tcp_offload`, 64 in flight", "tcp_offload", None),
    ("`tcp_put` 1 MiB", "tcp_put", Some(("size", 1 << 20))),
    ("`tcp_call_beside_put`", "tcp_call_beside_put", None),
    ("`mirror_call_empty`", "mirror_call_empty", None),
    ("`driven_call_empty`", "driven_call_empty", None),
];

/// Counts of instructions that the page shows; `cargo xtask instructions` prints all.
pub(super) const COUNTS: [&str; 16] = [
    "host_sync",
    "host_32b",
    "host_112b",
    "host_512b",
    "host_offload",
    "host_send",
    "host_put",
    "host_get",
    "device_serve",
    "device_32b",
    "device_112b",
    "device_512b",
    "device_task",
    "device_host_call",
    "gas_request",
    "gas_serve",
];

/// The row beside UCX's puts.
pub(super) const VERBS: &str = "verbs_rate_8";

/// The rows of `hamr-bench` that the page and the charts need, each once.
pub(super) fn rows() -> Vec<&'static str> {
    let calls = FLOORS.iter().chain(&CALLS).chain(&PIPELINES).chain(&TRANSFERS);
    let lines = calls.chain(&TASKS).chain(&GASNET).chain(&NETWORK);
    let mut names = vec!["call_single", "call_window", VERBS];
    names.extend(lines.map(|(_, name, _)| *name));
    once(names)
}

/// The rows of programs, which take as long as all others.
pub(super) fn programs() -> Vec<&'static str> {
    once(PROGRAMS.iter().map(|(_, name, _)| *name).collect())
}

/// Each name at its first place only.
fn once(names: Vec<&'static str>) -> Vec<&'static str> {
    let mut seen = BTreeSet::new();
    names.into_iter().filter(|name| seen.insert(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_asked_for_once() {
        for rows in [rows(), programs(), [rows(), programs()].concat()] {
            let unique: BTreeSet<_> = rows.iter().collect();
            assert_eq!(unique.len(), rows.len());
        }
        assert!(rows().contains(&"call_empty") && rows().contains(&"put_notify") && programs().contains(&"cg"));
    }
}
