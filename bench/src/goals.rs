//! The ratios that rows should reach.

use super::stats::Spell;
use super::table::Key;
use serde_json::{Value, json};

/// A limit of a row's ratio.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Goal {
    /// Of a time.
    AtMost(f64),
    /// Of a rate.
    AtLeast(f64),
}

use Goal::{AtLeast, AtMost};

impl Goal {
    /// The goal of a row, if it has one.
    pub(crate) fn of(key: &Key) -> Option<Self> {
        let by_spell = |near| match key.spell {
            Some(Spell::Near) => Some(AtMost(near)),
            Some(Spell::Far) => Some(AtMost(1.03)),
            None => None,
        };
        match (key.name, key.vary) {
            ("call_empty" | "call_32b", _) => by_spell(1.15),
            ("call_48b", _) => by_spell(1.2),
            ("call_64b" | "call_112b", _) => Some(AtMost(1.6)),
            ("call_over_handler", Some((_, ns))) if ns <= 2000 => Some(AtMost(1.2)),
            ("streams_turn", Some((_, 64))) => Some(AtMost(1.5)),
            ("call_shared", Some((_, 1))) => Some(AtMost(1.2)),
            ("call_await", _) => Some(AtMost(1.5)),
            ("call_node", _) => Some(AtMost(1.1)),
            ("call_async", _) => Some(AtLeast(0.45)),
            ("one_way", _) => Some(AtLeast(0.9)),
            ("streams_64", _) => Some(AtMost(1.15)),
            ("put_sync_64b", _) => Some(AtMost(0.91)),
            ("put_async_submit", _) => Some(AtMost(0.05)),
            ("inout_1k", _) => Some(AtMost(1.2)),
            ("overlap", _) => Some(AtMost(1.1)),
            ("chain_16", _) => Some(AtMost(1.1)),
            ("call_one_processor", _) => Some(AtMost(1.2)),
            ("put_notify" | "copy_dd" | "copy_within", _) => Some(AtLeast(0.95)),
            ("put" | "get", _) if key.size.is_some_and(|size| size >= 64 << 10) => Some(AtLeast(0.95)),
            ("task_call", _) => Some(AtMost(2.2)),
            ("host_call", _) => Some(AtMost(1.3)),
            ("host_call_nested", _) => Some(AtMost(1.1)),
            ("host_call_asleep", _) => Some(AtMost(1.15)),
            ("host_call_send", _) => Some(AtLeast(0.5)),
            ("relay_call_asleep", _) => Some(AtMost(1.3)),
            ("gas_am_short", Some((_, 16))) => Some(AtMost(2.5)),
            ("gas_am_short", _) => Some(AtMost(1.5)),
            ("gas_am_medium" | "gas_am_long", _) => Some(AtMost(1.25)),
            ("gas_flood", _) => Some(AtLeast(0.4)),
            ("world_call", _) => Some(AtMost(1.3)),
            ("world_signal" | "world_fetch_add", _) => Some(AtMost(1.2)),
            ("world_barrier" | "gas_barrier", _) => Some(AtMost(1.5)),
            ("world_put_64k", _) => Some(AtLeast(0.95)),
            ("himeno" | "cg", _) => Some(AtMost(1.02)),
            ("xacc_axpy" | "xacc_dot", _) => Some(AtMost(1.05)),
            ("xacc_barrier" | "xacc_reduce" | "xacc_post", _) => Some(AtMost(1.5)),
            ("xacc_reflect" | "xacc_gmove", _) => Some(AtLeast(0.9)),
            ("xacc_ranks", _) => Some(AtMost(1.3)),
            ("xacc_run", _) => Some(AtMost(3.0)),
            ("split_call_empty", _) => Some(AtMost(1.2)),
            ("driven_call_empty", _) => Some(AtMost(4.0)),
            ("mirror_call_empty", _) => Some(AtMost(4.0)),
            ("tcp_call", _) => Some(AtMost(1.3)),
            ("tcp_offload", _) => Some(AtLeast(0.7)),
            ("tcp_put", _) => Some(AtLeast(0.9)),
            ("tcp_call_beside_put", _) => Some(AtMost(3.0)),
            ("verbs_write_8", _) => Some(AtMost(1.0)),
            ("verbs_send_8" | "verbs_read_8" | "verbs_fadd", _) => Some(AtMost(1.25)),
            ("verbs_rate_8", _) => Some(AtLeast(1.0)),
            ("verbs_bw", _) => Some(AtLeast(0.9)),
            ("verbs_udp_8", _) => Some(AtMost(1.5)),
            ("verbs_host_driven", _) => Some(AtMost(1.1)),
            ("verbs_idle", _) => Some(AtMost(0.01)),
            ("call_empty_vs_shm", _) => Some(AtMost(3.0)),
            _ => None,
        }
    }

    /// For people, with whether `ratio` reaches it.
    pub(crate) fn text(self, ratio: f64) -> String {
        // As precise as it is printed.
        let ratio = (ratio * 100.0).round() / 100.0;
        let (text, met) = match self {
            AtMost(goal) => (format!("≤ {goal}"), ratio <= goal),
            AtLeast(goal) => (format!("≥ {goal}"), ratio >= goal),
        };
        if met { text } else { format!("{text}, missed") }
    }

    /// `{"at_most": 1.15}` or `{"at_least": 0.9}`.
    pub(crate) fn json(self) -> Value {
        match self {
            AtMost(goal) => json!({ "at_most": goal }),
            AtLeast(goal) => json!({ "at_least": goal }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_depend_on_spell_size_and_variant() {
        let call = Key::new("call_48b").size(48);
        assert_eq!(Goal::of(&call.spell(Spell::Near)), Some(AtMost(1.2)));
        assert_eq!(Goal::of(&call.spell(Spell::Far)), Some(AtMost(1.03)));
        assert_eq!(Goal::of(&Key::new("put").size(64)), None);
        assert_eq!(Goal::of(&Key::new("put").size(1 << 20)), Some(AtLeast(0.95)));
        assert_eq!(Goal::of(&Key::new("call_over_handler").vary("handler_ns", 5000)), None);
    }

    #[test]
    fn a_missed_goal_is_named_so() {
        assert_eq!((AtMost(1.15).text(1.154), AtMost(1.15).text(1.16)), ("≤ 1.15".into(), "≤ 1.15, missed".into()));
        assert_eq!((AtLeast(0.9).text(0.9), AtLeast(0.9).text(0.89)), ("≥ 0.9".into(), "≥ 0.9, missed".into()));
    }
}
