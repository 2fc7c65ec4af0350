//! Memory of other processes that is in no segment.

mod outside;
mod put_out;
