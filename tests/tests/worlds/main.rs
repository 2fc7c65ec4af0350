//! Worlds whose ranks are processes and threads.

mod calls;
mod few_processors;
mod layout;
mod nested;
mod peers;
mod programs;
mod shm;
mod threads;

/// Worlds that must end within two seconds, and one that is larger than this machine.
mod alone {
    mod ends;
    mod kills;
    mod large;
}
