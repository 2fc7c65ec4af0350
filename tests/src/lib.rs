//! Tests of several crates: the conformance suite for every way to open a device, and handlers as
//! users write them.

pub mod both_ends;
pub mod broken;
pub mod cases;
pub mod conformance;
pub mod crashes;
pub mod devices;
pub mod driving;
pub mod far;
pub mod few;
pub mod foreign;
pub mod frames;
pub mod gas;
pub mod hal;
pub mod handlers;
pub mod hostile;
pub mod images;
pub mod lanes;
pub mod logs;
pub mod machines;
pub mod mirrored;
pub mod modules;
pub mod paper;
pub mod peers;
pub mod processes;
pub mod relays;
pub mod resources;
pub mod sleeping;
pub mod spy;
pub mod stepper;
pub mod streamed;
pub mod threaded;
pub mod times;
pub mod unread;
pub mod xacc;
