//! Devices that are processes of their own, over shared memory.

mod ends;
mod garbage;
mod images;
mod modules;
mod plain;
mod relay;
mod relay_ends;
mod serve;
mod sleep;
mod start;
