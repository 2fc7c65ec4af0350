//! Machines without an operating system whose memory the host reads and writes, and does not map.

use hamr::link::Protocol;
use hamr::{Image, Node, Options};
use hamr_tests::{devices, few};

fn open(spec: &str, options: Options) -> Node {
    devices::open(spec, Options { protocol: Some(Protocol::HostDriven), ..options })
}

mod riscv64 {
    use super::*;

    fn open(options: Options) -> Node {
        super::open("seen:qemu:riscv64", options)
    }

    hamr_tests::conformance!(smoke: open);
}

mod x86_64 {
    use super::*;

    fn open(options: Options) -> Node {
        super::open("seen:qemu:x86_64", options)
    }

    hamr_tests::conformance!(smoke: open);
}

mod aarch64 {
    use super::*;

    fn open(options: Options) -> Node {
        super::open("seen:qemu:aarch64", options)
    }

    hamr_tests::conformance!(smoke: open);
}

/// Through a debugger's stub, which stops the processor for each access: what takes few calls.
mod gdb {
    use super::*;

    fn open(options: Options) -> Node {
        devices::open("stubbed:qemu:riscv64", Options { start_deadline: devices::START_TIMEOUT, ..options })
    }

    hamr_tests::__conformance! { open;
        values { inline, of_any_length }
        outcomes { own_errors, a_panic, ping_and_info }
        order { queued_calls_keep_order, sync_after_many_offloads }
        tasks { a_deadline_ends_each_wait, a_sleep_lasts_its_time, a_restart_with_waiting_tasks }
        host_calls { every_place }
        ending { deadline_of_a_sync_call, the_device_knows_the_deadline, cancel_while_it_runs }
        memory { there_and_back, copies }
        chains { results_travel }
        one_way { sent_calls_run }
        restart { outstanding_calls_end_once, streams_and_buffers_go_on, waited_for }
    }

    /// Nothing is written into memory of another program than the host's file is of.
    #[test]
    fn another_build_is_refused() {
        let spec = "stubbed:qemu:riscv64";
        let node = few::open(spec, few::options()).expect("a device");
        let at = format!("gdb:{}", node.info().remote.as_deref().expect("a stub's address"));
        drop(node);
        let image = devices::image_of(few::IMAGE, spec);
        let target = devices::runtime().target(spec).expect("a known device").expect("it takes an image");
        let file = image.resolve(&target).expect("an image");
        let (mut bytes, id) = (std::fs::read(&file.path).expect("a file"), file.build_id.bytes());
        let place = bytes.windows(id.len()).position(|bytes| bytes == id).expect("its build id");
        bytes[place] ^= 1;
        let other = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(other.path(), bytes).expect("room");
        let open = |image| devices::runtime().open_with(&at, image, few::options());
        let error = open(Image::file(other.path()).expect("an image")).expect_err("refused").to_string();
        assert!(error.contains("in its memory, got another at 0x"), "{error}");
        let node = open(Image::file(&file.path).expect("an image")).expect("it was left as it was");
        assert_eq!(node.ping().map(|_| ()).map_err(|e| e.to_string()), Ok(()));
    }

    /// A machine without any card.
    #[test]
    fn eight_handlers_and_one_stream_take_16_kib_of_the_image() {
        few::a_small_window_does_everything("stubbed:qemu:riscv64");
    }
}
