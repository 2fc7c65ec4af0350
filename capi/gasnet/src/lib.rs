//! The C interface of GASNet over `hamr-gas`: a static and a shared library for programs written for
//! GASNet-1 and GASNet-EX (`docs/gasnet-c.md`).
//!
//! A program's `main` runs in the task of a rank (`start`), so that the serve loop stands under every
//! wait. `job` is what the process is; `handlers`, `messages` and `prepared` are active messages over
//! `hamr_gas::Rank`. Segments of all ranks are mapped in each, so puts and gets are copies in the header
//! (`segments` has the table that they use, `bind` fills it). What ranks tell each other beside messages goes through
//! `board`, memory behind each segment: `teams`, `collectives`, `barrier` and `exit` stand on it. In the mode PAR
//! one lock is around all of this (`job::lock`).
//!
//! The contract of C, stated once for all modules: pointers are valid for what the specification says,
//! objects are what this library gave and has not taken back, and strings end with a zero. Every
//! module opens `unsafe_code` for the names that it exports and for such pointers; a pointer is shed
//! in the first lines of a function. Wrong use that can be seen is one sentence and an abort.

// Contract "C interface". C programs keep the specification's contract, as stated above; buffers stay until
// their operation's end. Proofs say "contract of C", or "the caller's promise" where a function repeats it in `#
// Safety`. Further:
// - Rank and task lie below the program's `main` on the task's stack, which `main` never leaves. `job`
//   keeps pointers to both, for `main`'s thread alone; in PAR for all, one at a time (`job::lock`,
//   recursive). A reference to the rank exists during a call of it; C code runs then in handlers only,
//   and `job::check` refuses calls that would make a second, as does the `RefCell` of `job::Common`.
// - A program's memory that becomes a segment is mapped again with its own bytes, at its own address
//   (`bind`): pointers into it stay valid.
// - What other ranks state on their boards is checked before an address is made of it: a segment lies
//   in its rank's part of the world.
// - No Rust reference covers a segment, nor a medium payload that a handler reads in its chunk
//   (`Msg::payload_in_place`), which stays until the handler has returned. Other payloads are a slice
//   for the time of a call.
// - `__libc_start_main` hands on what it was given, with another `main`; the C library's own is found
//   behind it (`RTLD_NEXT`), as is that of `pthread_exit`.
// - Handlers of signals, and `gasnet_exit` in one, use words of the boards (`board::word`, mapped as
//   long as the process) and system calls, and never the task, the rank or the lock. They run on
//   threads of the program alone: the library's own block all signals.
// - An `Operation`'s flag `is_done` is apart from its work, to which a step under the lock has a
//   unique reference; after the flag's store the box is the waiting thread's.

mod attach;
mod barrier;
mod bind;
mod board;
mod collectives;
mod die;
mod errors;
mod events;
mod exit;
mod handlers;
mod job;
mod locks;
mod memory;
mod messages;
mod objects;
mod operations;
mod prepared;
mod progress;
mod ratomic;
mod reduce;
mod refused;
mod segments;
mod shared;
mod start;
mod system;
mod team;
mod teams;
mod vis;
