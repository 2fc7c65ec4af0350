//! Distributions, loops, sections and plans against their definitions: elements found by counting and
//! moved one by one.

mod each;
mod examples;
mod field;
mod gmove;
mod loops;
mod model;
mod owners;
mod reflect;
