//! GASNet's interface between ranks that are processes and threads.

mod shm;
mod soak;
mod threads;
