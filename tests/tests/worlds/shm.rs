//! Worlds of hosted images: each rank is an ordinary device, and knows its place.

use hamr::{BufferError, Error, Features, Options, World, WorldOptions};
use hamr_kernels::demo::dot_f64;
use hamr_tests::devices;
use hamr_tests_kernels::worlds::{fill, others, place};
use hamr_tests_kernels::{echo, wait_at};

fn world(ranks: usize) -> World {
    let options = WorldOptions::default();
    let rank = Options { start_deadline: devices::START_TIMEOUT, ..options.rank };
    let options = WorldOptions { rank, ..options };
    devices::runtime().world_with(&vec!["shm"; ranks], devices::image("shm"), options).expect("a world")
}

#[test]
fn each_rank_knows_its_place() {
    for ranks in [1, 2, 5] {
        let world = world(ranks);
        assert_eq!(world.size(), ranks as u32);
        for (rank, node) in world.nodes().iter().enumerate() {
            assert_eq!(node.sync(place::with()).expect("a rank"), (rank as u32, ranks as u32));
            assert_eq!(node.info().name, format!("rank {rank} (shm)"));
            assert!(node.info().features.contains(Features::WORLD));
        }
        assert_eq!(world.outcome(), None);
    }
}

#[test]
fn sixty_four_ranks_serve_and_too_many_are_refused() {
    let world = world(64);
    let asked: Vec<_> = world.nodes().iter().map(|node| node.offload(place::with()).expect("sent")).collect();
    for (rank, answer) in asked.into_iter().enumerate() {
        assert_eq!(answer.wait().expect("a rank"), (rank as u32, 64));
    }
    let error = devices::runtime().world("shm", 251, devices::image("shm")).expect_err("refused").to_string();
    assert!(error.contains("a process is sent the doorbells of at most 250 ranks, got 251"), "{error}");
    for ranks in [0, 4096, usize::MAX] {
        let error = devices::runtime().world("shm", ranks, devices::image("shm")).expect_err("refused");
        assert_eq!(error.to_string(), format!("ranks of a world: expected 1 to 4095, got {ranks}"));
    }
}

#[test]
fn a_rank_is_an_ordinary_device() {
    let world = world(2);
    for node in world.nodes() {
        let x: Vec<f64> = (0..1000).map(f64::from).collect();
        let buffer = node.buffer(&x).expect("room");
        let sum = x.iter().fold(0.0, |sum, a| sum + a * a);
        assert_eq!(node.sync(dot_f64::with(buffer.ptr(), buffer.ptr())).expect("computes"), sum);
        let calls: Vec<_> = (0..300u64).map(|n| node.offload(echo::with(n)).expect("sent")).collect();
        assert!(calls.into_iter().enumerate().all(|(n, call)| call.wait().expect("a reply") == n as u64));
        assert!(node.ping().is_ok());
        buffer.write(&[1.5]).expect("free again");
        assert_eq!(buffer.read().expect("its own")[..2], [1.5, 1.0]);
    }
    let mine = world.node(0).buffer(&[1.0f64]).expect("room");
    let error = world.node(1).sync(dot_f64::with(mine.ptr(), mine.ptr())).expect_err("another rank's").to_string();
    assert!(error.contains("node"), "{error}");
}

#[test]
fn a_device_alone_has_no_world() {
    let node = devices::open("shm", Options::default());
    let error = node.sync(place::with()).expect_err("no rank").to_string();
    assert!(error.contains("no rank"), "{error}");
    assert!(!node.info().features.contains(Features::WORLD));
}

#[test]
fn a_segment_is_a_ranks_own_and_apart_from_buffers() {
    let rank =
        Options { heap: 1 << 16, segment: 1 << 20, start_deadline: devices::START_TIMEOUT, ..Options::default() };
    let options = WorldOptions { rank, ..WorldOptions::default() };
    let world = devices::runtime().world_with(&["shm"; 3], devices::image("shm"), options).expect("a world");
    let full: Vec<_> = world.nodes().iter().map(|node| node.buffer(&[0xEEu8; 1 << 16]).expect("the heap")).collect();
    for (rank, node) in world.nodes().iter().enumerate() {
        assert!(node.allocate::<u8>(1).is_err(), "buffers end where the segment begins");
        assert_eq!(node.sync(fill::with(rank as u8 + 1)).expect("its own"), 1 << 20);
    }
    for (rank, node) in world.nodes().iter().enumerate() {
        assert_eq!(node.sync(others::with(rank as u8 + 1)).expect("its own"), 0);
        assert!(full[rank].read().expect("its own").iter().all(|byte| *byte == 0xEE));
    }
}

#[test]
fn buffers_are_copied_between_ranks() {
    let world = world(3);
    let x: Vec<u32> = (0..5000).collect();
    let from = world.node(0).buffer(&x).expect("room");
    let to: Vec<_> = world.nodes().iter().map(|node| node.buffer(&vec![0u32; 5000]).expect("room")).collect();
    for target in &to {
        world.copy(from.ptr(), target.ptr()).expect("copied");
        assert_eq!(target.read().expect("its own"), x);
    }
    let (front, back) = (to[1].slice(0..10).expect("inside"), from.slice(4990..5000).expect("inside"));
    world.copy(back, front).expect("copied");
    assert_eq!(to[1].read().expect("its own")[..11], [4990, 4991, 4992, 4993, 4994, 4995, 4996, 4997, 4998, 4999, 10]);
    // Submitted ones of one source, together.
    from.write(&[7; 5000]).expect("fits");
    let copies = to.iter().map(|target| world.copy_async(from.ptr(), target.ptr()).expect("submitted"));
    copies.collect::<Vec<_>>().into_iter().for_each(|copy| copy.wait().expect("copied"));
    assert!(to.iter().all(|target| target.read().expect("its own") == [7; 5000]));
    let short = world.copy_async(from.ptr(), to[0].slice(0..10).expect("inside")).map(drop);
    assert!(matches!(short, Err(Error::Buffer { why: BufferError::Overrun { wanted: 20_000, has: 40 }, .. })));
}

#[test]
fn a_copy_between_ranks_is_checked() {
    let world = world(2);
    let alone = devices::open("shm", Options::default());
    let [here, there] = [0, 1].map(|rank| world.node(rank).buffer(&[0u32; 32]).expect("room"));
    let why = |from, to| match world.copy(from, to) {
        Err(Error::Buffer { device, why }) => (device, why),
        other => panic!("expected a buffer's error, got {other:?}"),
    };
    let foreign = alone.buffer(&[0u32; 32]).expect("room");
    assert!(matches!(why(foreign.ptr(), there.ptr()), (_, BufferError::Foreign { .. })));
    assert!(matches!(why(here.ptr(), foreign.ptr()), (_, BufferError::Foreign { .. })));
    let half = there.slice(0..16).expect("inside");
    assert_eq!(why(here.ptr(), half), ("rank 1 (shm)".into(), BufferError::Overrun { wanted: 128, has: 64 }));
    let gone = world.node(1).buffer(&[0u32; 32]).map(|buffer| buffer.ptr()).expect("room");
    assert!(matches!(why(here.ptr(), gone), (_, BufferError::Freed { .. })));
    // A call in flight names one of them.
    let call = world.node(1).offload(wait_at::with(there.ptr(), 5)).expect("sent");
    let words = world.node(1).words(there.ptr()).expect("the words");
    while words.get(16).expect("inside").observe() == 0 {
        std::hint::spin_loop();
    }
    assert_eq!(why(here.ptr(), there.ptr()).1, BufferError::Busy);
    assert_eq!(why(there.ptr(), here.ptr()).1, BufferError::Busy);
    words.get(0).expect("inside").publish(1);
    assert_eq!(call.wait().expect("opened"), 5);
    world.copy(here.ptr(), there.ptr()).expect("free again");
}

/// Threads that copy in both directions wait for each other, and never for ever.
#[test]
fn copies_both_ways_end() {
    let world = world(2);
    let [a, b] = [0, 1].map(|rank| world.node(rank).buffer(&vec![rank; 1 << 14]).expect("room"));
    std::thread::scope(|scope| {
        for (from, to) in [(a.ptr(), b.ptr()), (b.ptr(), a.ptr())] {
            let world = &world;
            scope.spawn(move || (0..2000).for_each(|_| world.copy(from, to).expect("copied")));
        }
    });
    let last = a.read().expect("its own");
    assert!(last.iter().all(|word| *word == last[0]), "no copy saw half of another");
    assert_eq!(b.read().expect("its own"), last);
}

#[test]
fn a_kind_that_cannot_be_a_rank_is_refused_by_name() {
    for (spec, name) in [("loopback", "rank 1 (loopback)"), ("toaster", "toaster")] {
        let error =
            devices::runtime().world_of(&["shm", spec], devices::image("shm")).expect_err("refused").to_string();
        assert!(error.contains(name), "{error}");
    }
    let options = WorldOptions { rank: Options { segment: 100, ..Options::default() }, ..WorldOptions::default() };
    let error = devices::runtime().world_with(&["shm"], devices::image("shm"), options).expect_err("refused");
    assert!(error.to_string().contains("Options::segment: expected a multiple of 4096"), "{error}");
}

/// Every tool that looks at a window looks at a rank's: it is named behind the world's path.
#[test]
fn ranks_are_listed_and_inspected() {
    let world = world(3);
    let listed = hamr::inspect::windows_of(std::process::id());
    let names: Vec<_> = listed.iter().map(|window| window.name.as_str()).collect();
    assert_eq!(names, ["world rank 0", "world rank 1", "world rank 2"]);
    for (node, window) in world.nodes().iter().zip(&listed) {
        assert_eq!((window.device_pid, window.device_state), (node.info().pid, "serving"));
        let dump = hamr::inspect::dump(&window.path).expect("a window");
        assert_eq!((dump.problems.len(), dump.device.state), (0, "serving"), "{dump}");
    }
    let path = listed[0].path.display().to_string();
    let whole = path.trim_end_matches("#0");
    for (path, word) in [(whole.to_owned(), "a world of 3 ranks"), (format!("{whole}#3"), "there is no rank 3")] {
        let error = hamr::inspect::dump(std::path::Path::new(&path)).expect_err("refused").to_string();
        assert!(error.contains(word), "{error}");
    }
}
