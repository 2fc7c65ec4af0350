//! Programs of `hamr-xacc` on ranks that are processes and threads.

mod shm;
mod threads;
