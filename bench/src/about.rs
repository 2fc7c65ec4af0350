//! The text of `hamr-bench rows --help`: each row, and what it stands beside.

pub(crate) const ABOUT: &str = "\
Measure calls and transfers, each beside what the machine allows

The rows of a list, and behind the colon what their ratio is to.

Calls, beside the floor, a cache line's round trip:
- call_empty, call_32b, call_48b: `Stream::sync`, with arguments in the slot's cache line
- split_call_empty, an empty call over split placement: two lines, each written by one side
- call_over_handler, the time over the handler's own, which is known: the same loop before the
  reply
- call_single: single calls, not 100 at a time

Calls, beside call_empty:
- call_64b … call_1k: arguments in two lines, 8 bytes of result; the last two are vectors of
  64 and 128 words, in a chunk
- call_pointers: a scalar and two buffers, which the call names while it runs
- call_start_get: `Stream::start`, `wait`; call_node: `Node::sync`
- call_shared: `SharedStream::sync`, per call of any thread; two threads share the host's
  processor
- call_await: `offload`, polled as a future in a loop
- streams_64: one stream of 64 open ones; streams_turn: 8 or 64 streams called in turn
- call_one_processor, an empty call of a device on the host's processor: one that sleeps at
  once
- call_empty_logs, level trace wanted, a reader, a full log ring: one without these

Pipelined:
- call_async, call_window, each result read before the next call is sent, one_way, no results:
  a ring of 128 lines, each with a number and its reply only
- call_unread: 100,000 calls are sent before the first one's result is read

Transfers:
- put, get: a plain copy into the same kind of memory
- first_put, `allocate` and a put into memory that was never used: a copy into new memory
- heap_churn, a buffer allocated and dropped beside so many, every other one freed: beside ten
- copy_dd, from a device's buffer to another device's, copy_within, to one of the same:
  `memcpy`
- put_notify, a put and a call that reads its last word, put_sync, the two as one: the raw
  hand-over (the same copy, a flag, a reply, each flag in its own line)
- put_async_submit, submitting a put of 16 MiB: the put
- overlap, that put submitted, and a handler of about its time: the longer alone
- inout_1k, a call with 1 KiB staged in and out: a buffer by hand
- load_module, load_image: from a file to its handlers
- log_line, a line with one number: one below the wanted level
- call_asleep, a call between sleeping sides: two eventfds

Tasks and calls of the host:
- task_call, an empty task: one line
- task_switch: `yield_now` and the device's round around it
- host_call, an empty call of a task to the host, whose caller waits: one line;
  host_call_asleep, when both sleep: two eventfds
- host_call_nested, an empty call of the host that a task called: task_call, host_call,
  call_empty added
- host_call_send, calls of a task to the host without results, which a worker runs: one_way
- relay_call_asleep, an empty call of another device by way of the host, where all three sleep
  (awake they would need three processors): host_call and call_empty of sides that sleep,
  added
- task_call_beside, tasks that wait, call_empty_beside, tasks that yield: the same alone
- chain_16, sixteen calls in a chain, 520 bytes: one call of 512

Worlds, two ranks, each on a processor:
- world_idle, a round of a rank with one task: that in a world of one
- world_call, an empty call to an inline handler: one line
- world_signal, there and back, world_barrier: two flags exchanged raw
- world_put_8b: a value stored in the other's segment
- world_put_64k, from segment to segment: `memcpy` in one
- world_fetch_add, an addition in the other's segment: the processor's instruction
- world_run, an empty run of ranks that sleep: two calls

Network, TLS at a loopback address, to a server of its own:
- tcp_call, an empty call: as many bytes (24 each way) over the same TLS, with a cache line's
  round trip to a third thread at the other end, waiting by polling or by sleeping, whichever
  is faster
- tcp_ping_pong: these bytes over TCP alone, for comparison
- tcp_offload, empty calls, 64 in flight: TLS that carries 64 at once, and their answers at
  once
- tcp_put: the same bytes over TLS, with an answer each
- tcp_call_beside_put, the 99th percentile of single calls while another thread puts 1 GiB
  again and again (256 MiB where memory is short): that of calls alone
- mirror_call_empty, an empty call of a device behind a mirror in this program: one line
- driven_call_empty, where the host reads and writes the device's memory: one line

Verbs (`hamr-hca perf`), requests of a device to an adapter on the host's processor, both ends of the connection there:
- verbs_write_8, verbs_send_8, verbs_read_8, verbs_fadd, from the post to the completion: two lines, each written by
  one side, and 90 ns
- verbs_rate_8, writes of 8 bytes, 64 on their way, every 16th completes: 8 million a second
- verbs_bw, writes, one at a time: `memcpy`
- verbs_udp_8, a write and its acknowledgement over a UDP socket of the adapter to itself: as many bytes each way, by
  one thread
- verbs_host_driven, verbs_write_8: the same posted by this program, on the device's processor
- verbs_figure_5_send, verbs_figure_5_write, of all sizes, both if one is asked for by name: the same posted by this
  program. With `--device qemu:…` the device is slower than its host, as that of paper 002
- verbs_idle, processor time of an adapter without work: that time

GASNet, two ranks that are threads: a message and its reply beside one line, with payload
beside the raw hand-over; gas_flood, requests one way: a ring of 16 lines; gas_put_8b,
gas_get_8b: a plain store and load; gas_barrier: two flags.

Programs over arrays, two ranks that are threads:
- himeno (size M), cg (class A): the same by hand on threads, each with its part of the arrays
- xacc_axpy, xacc_dot: the loop; xacc_barrier, xacc_reduce, xacc_post: two flags
- xacc_reflect, a plane of 128 KiB, new on both sides: `memcpy` of what the other has just
  written
- xacc_gmove, half a line of 8 MiB, shifted: `memcpy` in memory of one thread
- xacc_ranks, Himeno on 4 and 8 ranks: beside 2
- xacc_run, an empty program: two calls";
