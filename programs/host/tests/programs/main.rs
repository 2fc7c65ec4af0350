//! The programs as users run them.

mod refused;
mod threads;
