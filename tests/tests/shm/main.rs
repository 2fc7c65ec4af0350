//! Devices that are processes of their own, over shared memory.

mod between;
mod device_driven;
mod driven;
mod ends;
mod foreign;
mod garbage;
mod images;
mod keepers;
mod mirrored;
mod modules;
mod network;
mod plain;
mod relay;
mod relay_ends;
mod serve;
mod sleep;
mod small;
mod split;
mod start;
mod stopped;
mod tcp;
