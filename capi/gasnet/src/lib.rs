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
