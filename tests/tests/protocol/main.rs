//! What goes through a window, without a host program: bytes, the handshake, a device's poller, and models of both.

mod bell_model;
mod bytes;
mod cases;
mod device_driven;
mod driven;
mod golden;
mod handshake;
mod host_calls;
mod host_wait_word;
mod hostile;
mod inspect;
mod last_polls;
mod migrate;
mod mirror_models;
mod mirrors;
mod nested_model;
mod split_sleep_model;
mod split_window;
mod states;
