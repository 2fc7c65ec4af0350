//! Worlds whose ranks are processes and threads.

mod calls;
mod ends;
mod kills;
mod large;
mod layout;
mod nested;
mod peers;
mod programs;
mod shm;
mod threads;
