//! The rows of the benchmark: one table, a function each.

use super::calls::{self, call_32b, call_48b, call_64b, call_112b, call_async, call_words, one_way};
use super::floors::{Floors, Gap};
use super::stats::{Spell, median};
use super::table::{Beside, Key, Table, Unit};
use super::transfers::{Area, SIZES, SUBMITTED};
use super::ways::{self, HANDLERS, Handlers};
use super::{BoxError, Machine, PER_SAMPLE, REPETITIONS};
use hamr::{Buffer, Node, SharedStream, Stream};

/// What measures a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// [`measure_calls`], beside its floors.
    Calls,
    Other,
}

/// All rows, in the order of the table.
const ALL: [(&str, By); 102] = [
    ("start", By::Other),
    ("floor_tight", By::Calls),
    ("floor_paused", By::Calls),
    ("floor_one_line", By::Calls),
    ("floor_two_lines", By::Calls),
    ("floor_ring", By::Calls),
    ("call_empty", By::Calls),
    ("call_empty_vs_shm", By::Other),
    ("call_asleep", By::Other),
    ("call_one_processor", By::Other),
    ("call_single", By::Calls),
    ("call_32b", By::Calls),
    ("call_48b", By::Calls),
    ("call_64b", By::Calls),
    ("call_112b", By::Calls),
    ("call_512b", By::Calls),
    ("call_1k", By::Calls),
    ("call_pointers", By::Calls),
    ("call_over_handler", By::Calls),
    ("call_start_get", By::Calls),
    ("call_node", By::Calls),
    ("call_shared", By::Calls),
    ("call_await", By::Calls),
    ("call_async", By::Calls),
    ("call_window", By::Calls),
    ("call_unread", By::Calls),
    ("one_way", By::Calls),
    ("streams_64", By::Other),
    ("streams_turn", By::Other),
    ("log_line", By::Other),
    ("call_empty_logs", By::Other),
    ("put_8b", By::Other),
    ("get_8b", By::Other),
    ("put", By::Other),
    ("first_put", By::Other),
    ("heap_churn", By::Other),
    ("get", By::Other),
    ("copy_dd", By::Other),
    ("copy_within", By::Other),
    ("put_notify", By::Other),
    ("put_sync_64b", By::Other),
    ("put_sync_1k", By::Other),
    ("task_call", By::Calls),
    ("host_call", By::Calls),
    ("host_call_asleep", By::Other),
    ("host_call_nested", By::Other),
    ("host_call_send", By::Other),
    ("relay_call_asleep", By::Other),
    ("task_call_beside", By::Other),
    ("call_empty_beside", By::Other),
    ("task_switch", By::Other),
    ("world_idle", By::Other),
    ("world_call", By::Other),
    ("world_signal", By::Other),
    ("world_barrier", By::Other),
    ("world_put_8b", By::Other),
    ("world_put_64k", By::Other),
    ("world_fetch_add", By::Other),
    ("world_run", By::Other),
    ("put_async_submit", By::Other),
    ("inout_1k", By::Other),
    ("overlap", By::Other),
    ("gas_am_short", By::Other),
    ("gas_am_medium", By::Other),
    ("gas_am_long", By::Other),
    ("gas_flood", By::Other),
    ("gas_put_8b", By::Other),
    ("gas_get_8b", By::Other),
    ("gas_barrier", By::Other),
    ("chain_16", By::Other),
    ("himeno", By::Other),
    ("cg", By::Other),
    ("xacc_axpy", By::Other),
    ("xacc_dot", By::Other),
    ("xacc_barrier", By::Other),
    ("xacc_reduce", By::Other),
    ("xacc_post", By::Other),
    ("xacc_reflect", By::Other),
    ("xacc_gmove", By::Other),
    ("xacc_ranks", By::Other),
    ("xacc_run", By::Other),
    ("load_module", By::Other),
    ("load_image", By::Other),
    ("split_call_empty", By::Other),
    ("driven_call_empty", By::Other),
    ("mirror_call_empty", By::Other),
    ("tcp_ping_pong", By::Other),
    ("tcp_call", By::Other),
    ("tcp_offload", By::Other),
    ("tcp_put", By::Other),
    ("tcp_call_beside_put", By::Other),
    ("verbs_write_8", By::Other),
    ("verbs_send_8", By::Other),
    ("verbs_read_8", By::Other),
    ("verbs_fadd", By::Other),
    ("verbs_rate_8", By::Other),
    ("verbs_bw", By::Other),
    ("verbs_udp_8", By::Other),
    ("verbs_host_driven", By::Other),
    ("verbs_idle", By::Other),
    (super::verbs::FIGURE[0], By::Other),
    (super::verbs::FIGURE[1], By::Other),
];

/// The names of all rows, in the order of the table.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// The row without a device.
pub(crate) const INSTRUCTIONS: &str = "instructions_call_empty";

/// Pauses between a result and the next call, in nanoseconds.
const GAPS: [u32; 3] = [0, 50, 500];

/// Streams whose hot slots the calls use, one per repetition.
const STREAMS: usize = 32;

/// Shared streams: fewer, since the rest of the bench needs queue pairs, too.
const SHARED: usize = 8;

/// What a row may use.
struct Scene<'n> {
    node: &'n Node,
    buffers: &'n [Buffer<f32>; 2],
    stream: &'n Stream<'n>,
    shared: &'n SharedStream,
    floors: &'n Floors<'n>,
}

/// What a row is compared with.
#[derive(Clone, Copy)]
enum Against {
    Floor,
    Ring,
    Empty,
    Nothing,
}

/// A row that each repetition measures once.
struct CallRow {
    key: Key,
    against: Against,
    /// Measured in every so many repetitions.
    every: usize,
    measure: fn(&Scene<'_>) -> Result<Vec<f64>, BoxError>,
}

const fn row(key: Key, against: Against, measure: fn(&Scene<'_>) -> Result<Vec<f64>, BoxError>) -> CallRow {
    CallRow { key, against, every: 1, measure }
}

const WINDOW: Key = Key::new("call_window").unit(Unit::Rate);

const ROWS: &[CallRow] = &[
    row(Key::new("floor_ring").unit(Unit::Rate), Against::Nothing, |s| Ok(s.floors.ring()?.best().to_vec())),
    row(Key::new("call_single").unit(Unit::SingleNs), Against::Nothing, |s| ways::single(s.stream)),
    row(Key::new("call_32b").size(32), Against::Floor, |s| call_32b(s.stream)),
    row(Key::new("call_48b").size(48), Against::Floor, |s| call_48b(s.stream)),
    row(Key::new("call_64b").size(64), Against::Empty, |s| call_64b(s.stream)),
    row(Key::new("call_112b").size(112), Against::Empty, |s| call_112b(s.stream)),
    row(Key::new("call_512b").size(512), Against::Empty, |s| call_words::<64>(s.stream)),
    row(Key::new("call_1k").size(1024), Against::Empty, |s| call_words::<128>(s.stream)),
    row(Key::new("call_pointers"), Against::Empty, |s| ways::pointers_of(s.stream, s.buffers)),
    row(Key::new("call_start_get"), Against::Empty, |s| ways::in_two_halves(s.stream)),
    row(Key::new("call_node"), Against::Empty, |s| ways::by_node(s.node)),
    row(Key::new("call_shared").vary("threads", 1), Against::Empty, |s| ways::shared(s.shared, 1)),
    row(Key::new("call_shared").vary("threads", 2), Against::Empty, |s| ways::shared(s.shared, 2)),
    row(Key::new("call_await"), Against::Empty, |s| ways::awaited(s.stream)),
    row(Key::new("call_async").unit(Unit::Rate), Against::Ring, |s| call_async::<64>(s.stream)),
    row(Key::new("one_way").unit(Unit::Rate), Against::Ring, |s| one_way(s.stream)),
    row(Key::new("task_call"), Against::Floor, |s| ways::task(s.stream)),
    row(Key::new("host_call"), Against::Floor, |s| ways::from_device(s.stream)),
    CallRow { every: 2, ..row(WINDOW.vary("window", 1), Against::Ring, |s| call_async::<1>(s.stream)) },
    CallRow { every: 2, ..row(WINDOW.vary("window", 2), Against::Ring, |s| call_async::<2>(s.stream)) },
    CallRow { every: 2, ..row(WINDOW.vary("window", 4), Against::Ring, |s| call_async::<4>(s.stream)) },
    CallRow { every: 2, ..row(WINDOW.vary("window", 8), Against::Ring, |s| call_async::<8>(s.stream)) },
    CallRow { every: 2, ..row(WINDOW.vary("window", 16), Against::Ring, |s| call_async::<16>(s.stream)) },
    CallRow { every: 2, ..row(WINDOW.vary("window", 32), Against::Ring, |s| call_async::<32>(s.stream)) },
    CallRow { every: 2, ..row(WINDOW.vary("window", 64), Against::Ring, |s| call_async::<64>(s.stream)) },
    // A hundred thousand results touch much memory, so not every repetition measures them.
    CallRow { every: 8, ..row(Key::new("call_unread"), Against::Nothing, |s| calls::call_unread(s.stream)) },
];

/// Is a row wanted that [`measure_calls`] measures?
pub(crate) fn needs_floors(table: &Table) -> bool {
    ALL.iter().any(|(name, by)| *by == By::Calls && table.wants(name))
}

/// The floors, and the calls beside them.
pub(crate) fn measure_calls(node: &Node, machine: &mut Machine, table: &mut Table) -> Result<(), BoxError> {
    let floors = Floors::new(node)?;
    let gaps = GAPS.map(Gap::new);
    let buffers = [node.buffer(&[1.0; 16])?, node.buffer(&[0.0; 16])?];
    let shared = (0..SHARED).map(|_| node.shared_stream()).collect::<Result<Vec<_>, _>>()?;
    let streams = (0..STREAMS).map(|_| node.stream()).collect::<Result<Vec<_>, _>>()?;
    for stream in &streams {
        calls::call_empty(stream, Gap::NONE)?;
    }
    for repetition in 0..REPETITIONS {
        let stream = streams.get(repetition % STREAMS).ok_or("no stream")?;
        for gap in gaps {
            let one = floors.one_line(repetition, gap)?;
            let named = |name| Key::new(name).gap(gap.ns).spell(one.spell());
            if gap.ns == 0 {
                machine.note(median(one.best()));
                table.add(named("floor_tight"), &one.tight, None);
                table.add(named("floor_paused"), &one.paused, None);
            }
            table.add(named("floor_one_line"), one.best(), None);
            let beside = Beside { what: "floor", ns: one.best() };
            table.add(named("call_empty"), &calls::call_empty(stream, gap)?, Some(beside));
            if table.wants("floor_two_lines") {
                table.add(named("floor_two_lines"), floors.two_lines(repetition, gap)?.best(), Some(beside));
            }
        }
        let shared = shared.get(repetition % SHARED).ok_or("no stream")?;
        let scene = Scene { node, buffers: &buffers, stream, shared, floors: &floors };
        for row in ROWS.iter().filter(|row| repetition % row.every == 0) {
            if !table.wants(row.key.name) {
                continue;
            }
            let beside = Measured::new(row.against, &floors, stream, repetition)?;
            table.add(row.key.spell(beside.spell), &(row.measure)(&scene)?, beside.beside());
        }
        if table.wants("call_over_handler") {
            let handlers = Handlers::calibrate(stream)?;
            for ns in HANDLERS {
                let spell = floors.one_line(repetition, Gap::NONE)?.spell();
                let (turns, own) = handlers.of(ns);
                let over = |times: &[f64]| times.iter().map(|ns| ns - own).collect::<Vec<_>>();
                let floor = over(floors.around(repetition, turns)?.best());
                let key = Key::new("call_over_handler").vary("handler_ns", ns).spell(spell);
                let ours = over(&Handlers::around(stream, turns)?);
                table.add(key, &ours, Some(Beside { what: "the same, raw", ns: &floor }));
            }
        }
    }
    Ok(())
}

/// Empty calls of a device where each side polls slots of its own, beside two lines that one side writes each.
pub(crate) fn split_call_empty(node: &Node, table: &mut Table) -> Result<(), BoxError> {
    let floors = Floors::new(node)?;
    let streams = (0..STREAMS).map(|_| node.stream()).collect::<Result<Vec<_>, _>>()?;
    for (repetition, stream) in streams.iter().enumerate() {
        calls::call_empty(stream, Gap::NONE)?;
        let floor = floors.two_lines(repetition, Gap::NONE)?;
        let beside = Beside { what: "two lines", ns: floor.best() };
        let key = Key::new("split_call_empty").gap(0).spell(floor.spell());
        table.add(key, &calls::call_empty(stream, Gap::NONE)?, Some(beside));
    }
    Ok(())
}

/// What a row is compared with, measured right before it.
struct Measured {
    what: &'static str,
    ns: Vec<f64>,
    spell: Spell,
}

impl Measured {
    fn new(against: Against, floors: &Floors<'_>, stream: &Stream<'_>, repetition: usize) -> Result<Self, BoxError> {
        let floor = || floors.one_line(repetition, Gap::NONE);
        let (what, ns, spell) = match against {
            Against::Floor => {
                let floor = floor()?;
                ("floor", floor.best().to_vec(), floor.spell())
            }
            Against::Ring => ("ring of lines", floors.ring()?.best().to_vec(), floor()?.spell()),
            Against::Empty => ("call_empty", calls::call_empty(stream, Gap::NONE)?, floor()?.spell()),
            Against::Nothing => ("", Vec::new(), floor()?.spell()),
        };
        Ok(Self { what, ns, spell })
    }

    fn beside(&self) -> Option<Beside<'_>> {
        (!self.ns.is_empty()).then_some(Beside { what: self.what, ns: &self.ns })
    }
}

/// Calls among many open streams: on one of 64, and on 8 and 64 in turn.
pub(crate) fn measure_streams(node: &Node, table: &mut Table) -> Result<(), BoxError> {
    if !table.wants("streams_64") && !table.wants("streams_turn") {
        return Ok(());
    }
    let floors = Floors::new(node)?;
    let open = |count| (0..count).map(|_| node.stream()).collect::<Result<Vec<_>, _>>();
    for repetition in 0..REPETITIONS {
        let spell = floors.one_line(repetition, Gap::NONE)?.spell();
        let warm = |stream: &Stream<'_>| -> Result<Vec<f64>, BoxError> {
            // The slots of a stream that was just opened are in no cache of either side; the first
            // calls bring them in.
            for _ in 0..PER_SAMPLE {
                stream.sync(hamr_kernels::bench::empty::with())?;
            }
            calls::call_empty(stream, Gap::NONE)
        };
        let alone = warm(open(1)?.first().ok_or("no stream")?)?;
        let beside = Some(Beside { what: "call_empty", ns: &alone });
        let turn = |count| Key::new("streams_turn").vary("streams", count).spell(spell);
        let streams = open(64)?;
        if table.wants("streams_64") {
            let among = warm(streams.get(repetition * 2 % 64).ok_or("no stream")?)?;
            table.add(Key::new("streams_64").spell(spell), &among, beside);
        }
        if table.wants("streams_turn") {
            table.add(turn(64), &ways::in_turn(&streams)?, beside);
            drop(streams);
            table.add(turn(8), &ways::in_turn(&open(8)?)?, beside);
        }
    }
    Ok(())
}

/// Transfers, against plain copies and the raw hand-over.
pub(crate) fn measure_transfers(node: &Node, table: &mut Table) -> Result<(), BoxError> {
    const NAMES: [&str; 11] = [
        "put_8b",
        "get_8b",
        "put",
        "get",
        "put_notify",
        "put_sync_64b",
        "put_sync_1k",
        "put_async_submit",
        "inout_1k",
        "overlap",
        "chain_16",
    ];
    if !table.wants_any(&NAMES) {
        return Ok(());
    }
    let stream = node.stream()?;
    let floors = Floors::new(node)?;
    let mut area = Area::new(node)?;
    for (name, size) in [("put_sync_64b", 64), ("put_sync_1k", 1 << 10)] {
        if !table.wants(name) {
            continue;
        }
        for repetition in 0..REPETITIONS {
            let spell = floors.one_line(repetition, Gap::NONE)?.spell();
            let (ours, floor) = area.put_sync(&stream, &floors, size)?;
            let beside = Beside { what: "hand-over", ns: &[floor] };
            table.add(Key::new(name).size(size).spell(spell), &[ours], Some(beside));
        }
    }
    if table.wants("put_async_submit") {
        let from = area.submitted()?;
        for _ in 0..REPETITIONS {
            let (ours, put) = area.put_async_submit(&from)?;
            let beside = Beside { what: "put", ns: &[put] };
            table.add(Key::new("put_async_submit").size(SUBMITTED), &[ours], Some(beside));
        }
    }
    if table.wants("overlap") {
        let from = area.submitted()?;
        for _ in 0..REPETITIONS {
            let (ours, longer) = area.overlap(&stream, &from)?;
            let beside = Beside { what: "the longer", ns: &[longer] };
            table.add(Key::new("overlap").size(SUBMITTED), &[ours], Some(beside));
        }
    }
    if table.wants("inout_1k") {
        for repetition in 0..REPETITIONS {
            let spell = floors.one_line(repetition, Gap::NONE)?.spell();
            let (ours, by_hand) = area.in_out(1 << 10)?;
            let beside = Beside { what: "by hand", ns: &[by_hand] };
            table.add(Key::new("inout_1k").size(1 << 10).spell(spell), &[ours], Some(beside));
        }
    }
    if table.wants("chain_16") {
        for repetition in 0..REPETITIONS {
            let spell = floors.one_line(repetition, Gap::NONE)?.spell();
            let (ours, one) = area.chain_16(&stream)?;
            table.add(Key::new("chain_16").spell(spell), &[ours], Some(Beside { what: "its bytes", ns: &[one] }));
        }
    }
    for _ in 0..REPETITIONS {
        let (put, get) = area.eight()?;
        table.add(Key::new("put_8b").size(8), &[put.0], Some(copy(&[put.1])));
        table.add(Key::new("get_8b").size(8), &[get.0], Some(copy(&[get.1])));
    }
    for size in SIZES {
        // Small transfers are shown in nanoseconds, large ones as bandwidth.
        let unit = if size < 64 << 10 { Unit::Ns } else { Unit::GbS };
        for repetition in 0..REPETITIONS / 2 {
            if table.wants("put") {
                let (ours, floor) = area.put(size)?;
                table.add(Key::new("put").size(size).unit(unit), &[ours], Some(copy(&[floor])));
            }
            if table.wants("get") {
                let (ours, floor) = area.get(size)?;
                table.add(Key::new("get").size(size).unit(unit), &[ours], Some(copy(&[floor])));
            }
            if table.wants("put_notify") {
                let spell = floors.one_line(repetition, Gap::NONE)?.spell();
                let (ours, floor) = area.put_notify(&stream, &floors, size)?;
                let beside = Beside { what: "hand-over", ns: &[floor] };
                table.add(Key::new("put_notify").size(size).unit(Unit::GbS).spell(spell), &[ours], Some(beside));
            }
        }
    }
    Ok(())
}

fn copy(ns: &[f64]) -> Beside<'_> {
    Beside { what: "copy", ns }
}
