//! Ends that every side must have noticed within a second.

use super::*;
use hamr_tests::times::within;

const SOON: Duration = Duration::from_secs(1);

#[test]
fn a_kill_ends_a_call_that_is_waited_for() {
    within(SOON, || {
        let node = open();
        let gate = Gate::new(&node);
        let (error, ended) = std::thread::scope(|scope| {
            let caller = scope.spawn(|| (node.sync(wait_at::with(gate.ptr(), 1)), Instant::now()));
            gate.wait_for(1);
            let begin = Instant::now();
            signal(&node, Signal::KILL);
            let (error, end) = caller.join().expect("returns");
            (error, end - begin)
        });
        is_lost(error, wait_at::NAME);
        // The call does not use its memory any more.
        assert_eq!(node.read(gate.ptr()).expect("no call names it")[16], 1);
        comes_back(&node);
        ended
    });
}

#[test]
fn a_kill_ends_many_calls_in_flight() {
    within(SOON, || {
        let node = open();
        let (stream, other) = (node.stream().expect("free"), node.stream().expect("free"));
        let (gate, log) = (Gate::new(&node), Log::new(&node, 10));
        let early: Vec<_> = (0..500u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
        stream.flush().expect("all ran");
        let block = other.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        let plain: Vec<_> = (0..100u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
        let named: Vec<_> = (0..20).map(|n| stream.offload(append_named::with(log.ptr(), n)).expect("sent")).collect();
        let queued: Vec<_> = (0..5).map(|n| other.offload(background::with(n)).expect("sent")).collect();
        signal(&node, Signal::KILL);
        let begin = Instant::now();
        is_lost(block.wait(), wait_at::NAME);
        plain.into_iter().rev().for_each(|p| is_lost(p.wait(), echo::<u64>::NAME));
        named.into_iter().for_each(|p| is_lost(pollster::block_on(p), append_named::NAME));
        queued.into_iter().for_each(|p| is_lost(p.wait(), background::NAME));
        let took = begin.elapsed();
        for (n, early) in (0..).zip(early) {
            assert_eq!(early.wait().expect("it was answered"), n, "results outlive their device");
        }
        assert_eq!((stream.outstanding(), other.outstanding()), (0, 0));
        comes_back(&node);
        assert_eq!(log.entries(&node), [0u64; 0]);
        assert_eq!(stream.sync(append_named::with(log.ptr(), 5)).expect("the old stream goes on"), 0);
        took
    });
}

#[test]
fn a_kill_ends_calls_of_threads_that_share_a_stream() {
    within(SOON, || {
        let node = open();
        let shared = node.shared_stream().expect("a stream is free");
        let gate = Gate::new(&node);
        let took = std::thread::scope(|scope| {
            let mut waiting = vec![scope.spawn(|| is_lost(shared.sync(wait_at::with(gate.ptr(), 1)), wait_at::NAME))];
            gate.wait_for(1);
            for n in 0..4u64 {
                let mine = shared.offload(echo::with(n)).expect("sent");
                waiting.push(scope.spawn(move || is_lost(mine.wait(), echo::<u64>::NAME)));
            }
            signal(&node, Signal::KILL);
            let begin = Instant::now();
            waiting.into_iter().for_each(|w| w.join().expect("a lost device"));
            begin.elapsed()
        });
        comes_back(&node);
        assert_eq!(shared.sync(echo::with(3u64)).expect("runs"), 3);
        took
    });
}

#[test]
fn a_kill_ends_a_wait_for_a_full_ring() {
    within(SOON, || {
        let node = open_image(image(), Options { ring: 4, ..options() }).expect("a device");
        let (stream, gate) = (node.stream().expect("free"), Gate::new(&node));
        drop(stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent"));
        gate.wait_for(1);
        let pending: Vec<_> = (0..3u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
        let pid = pid_of(node.info().pid);
        let killer = std::thread::spawn(move || {
            let begin = Instant::now();
            kill_process(pid, Signal::KILL).expect("our child");
            begin
        });
        let error = stream.offload(echo::with(9u64)).err().expect("no line becomes free");
        let end = Instant::now();
        assert!(matches!(&error, SubmitError::DeviceLost { why, .. } if why.contains("signal: 9")), "{error:?}");
        assert!(error.to_string().contains("submitting"), "{error}");
        let took = end - killer.join().expect("killed");
        pending.into_iter().for_each(|p| is_lost(p.wait(), echo::<u64>::NAME));
        let error = refusal(stream.sync(echo::with(1u64)).expect_err("there is no device"));
        assert!(matches!(error, SubmitError::DeviceLost { .. }), "{error:?}");
        comes_back(&node);
        took
    });
}

#[test]
fn an_image_that_ends_at_once_is_reported_with_its_end() {
    let dir = tempfile::tempdir().expect("a folder");
    // e_entry: the process jumps to an address without memory.
    let path = altered(dir.path(), "dies", |bytes| bytes[24..32].fill(0xFF));
    within(SOON, || {
        let begin = Instant::now();
        let opened = open_image(path.clone(), options());
        let took = begin.elapsed();
        match opened {
            Err(Error::Lost { device, stage: "starting", why }) => {
                assert_eq!(device, "shm");
                assert!(why.contains("signal"), "{why}");
            }
            other => panic!("expected a device lost while starting, got {other:?}"),
        }
        took
    });
}

#[test]
fn a_killed_host_leaves_nothing() {
    let before = shared_memory();
    within(SOON, || {
        let (mut host, device) = host_in_a_call("loss::host_to_be_killed", HELPER, "1");
        assert!(!has_ended(device));
        let window = std::fs::metadata(window_of(device)).expect("the device has it open");
        host.kill().expect("our child");
        let begin = Instant::now();
        host.wait().expect("our child");
        // The device runs a handler that would wait for ever.
        until("the device has ended", || has_ended(device));
        let took = begin.elapsed();
        let same =
            |fd: &PathBuf| std::fs::metadata(fd).is_ok_and(|m| (m.dev(), m.ino()) == (window.dev(), window.ino()));
        let holders: Vec<PathBuf> = processes().flat_map(|p| windows_of(&p)).filter(same).collect();
        assert!(holders.is_empty(), "{holders:?}");
        assert_eq!(shared_memory(), before);
        took
    });
}

/// The entries of /dev/shm with this project's name.
fn shared_memory() -> Vec<std::ffi::OsString> {
    let all = std::fs::read_dir("/dev/shm").into_iter().flatten().filter_map(Result::ok).map(|e| e.file_name());
    all.filter(|name| name.to_string_lossy().contains("hamr")).collect()
}
